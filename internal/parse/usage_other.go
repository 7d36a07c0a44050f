//go:build !unix

package parse

import "time"

var began = time.Now()

// processorTime returns the elapsed time since the process began, since its processor time is not
// available here.
func processorTime() time.Duration { return time.Since(began) }
