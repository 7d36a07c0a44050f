//go:build !unix

package parse

import (
	"os/exec"
	"time"
)

// isolate does nothing. If the parent dies, the child ends when its stdin does.
func isolate(*exec.Cmd) {}

// yield does nothing: a thread has no priority of its own here.
func yield() {}

func killGroup(cmd *exec.Cmd) { _ = cmd.Process.Kill() }

// memory is not watched here.
func (c *child) memory() int64 { return 0 }

// processor is not watched here; the child checks its own time.
func (c *child) processor() time.Duration { return 0 }
