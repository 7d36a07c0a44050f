//go:build !unix

package parse

import "time"

var began = time.Now()

// processorTime returns the time since the process began: what it used of the processor is not
// known here.
func processorTime() time.Duration { return time.Since(began) }
