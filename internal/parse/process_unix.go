//go:build unix && !linux

package parse

import (
	"os/exec"
	"syscall"
	"time"
)

// isolate puts the child into its own process group. If the parent dies, the child ends when its
// stdin does.
func isolate(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// yield does nothing: a thread has no priority of its own here.
func yield() {}

func killGroup(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }

// memory is not watched here.
func (c *child) memory() int64 { return 0 }

// processor is not watched here; the child checks its own time.
func (c *child) processor() time.Duration { return 0 }
