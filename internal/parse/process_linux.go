package parse

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"
)

// isolate puts the child into its own process group and lets it die with its parent.
func isolate(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// lowered is a parser's nice value: interactive requests may need the same cores.
const lowered = 10

// yield lowers the priority of the calling thread and of the processes that it starts from now on.
// Where that is not allowed, their priority stays normal.
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

// clockTick is the unit of times in /proc.
const clockTick = time.Second / 100

// processor returns the processor time that the child has used, 0 when it has ended.
func (c *child) processor() time.Duration {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", c.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	// The second field is the program's name in parentheses, which may contain any character.
	fields := bytes.Fields(data[bytes.LastIndexByte(data, ')')+1:])
	if len(fields) < 13 {
		return 0
	}
	user, _ := strconv.ParseInt(string(fields[11]), 10, 64)
	system, _ := strconv.ParseInt(string(fields[12]), 10, 64)
	return time.Duration(user+system) * clockTick
}
