package parse

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"
)

// isolate gives the child a process group of its own, and its death with ours.
func isolate(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// lowered is a parser's priority, in steps of the scheduler: somebody may wait for an answer on the same cores.
const lowered = 10

// yield lowers the priority of the calling thread and of the processes that it starts from now on. Where that is not
// allowed they compete.
func yield() { _ = syscall.Setpriority(syscall.PRIO_PROCESS, 0, lowered) }

func killGroup(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }

// memory returns the child's resident memory in bytes, 0 when it has ended.
func (c *child) memory() int64 {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", c.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	fields := bytes.Fields(data)
	if len(fields) < 2 {
		return 0
	}
	pages, err := strconv.ParseInt(string(fields[1]), 10, 64)
	if err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}
