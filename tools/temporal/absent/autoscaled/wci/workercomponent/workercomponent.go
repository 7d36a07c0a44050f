// Package workercomponent stands in for the worker of go.temporal.io/auto-scaled-workers: there is
// none.
package workercomponent

import "go.uber.org/fx"

// Module has nothing to run.
var Module = fx.Options()
