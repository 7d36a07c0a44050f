//go:build unix && !linux

package parse

import (
	"os/exec"
	"syscall"
	"time"
)

// isolate gives the child a process group of its own. It ends when its stdin
// does, should we die.
func isolate(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// yield does nothing: a thread has no priority of its own here.
func yield() {}

func killGroup(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }

// memory is not watched here.
func (c *child) memory() int64 { return 0 }

// processor is not watched here; the child looks at its own.
func (c *child) processor() time.Duration { return 0 }
