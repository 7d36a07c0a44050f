// Package workercomponent replaces the worker of go.temporal.io/auto-scaled-workers by nothing.
package workercomponent

import "go.uber.org/fx"

// Module has nothing to run.
var Module = fx.Options()
