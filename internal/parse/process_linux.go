package parse

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
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
	if c.statm == nil {
		var err error
		if c.statm, err = os.Open(fmt.Sprintf("/proc/%d/statm", c.cmd.Process.Pid)); err != nil {
			return 0
		}
	}
	var data [128]byte
	n, _ := c.statm.ReadAt(data[:], 0) // io.EOF, or that the process has ended
	fields := bytes.Fields(data[:n])
	if len(fields) < 2 {
		return 0
	}
	pages, err := strconv.ParseInt(string(fields[1]), 10, 64)
	if err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}

// processor returns the processor time that the child has used, 0 when it has ended.
func (c *child) processor() time.Duration {
	// The clock of a process's processor time, as clock_getcpuclockid(3) gives it.
	clock := int32(^uint32(c.cmd.Process.Pid)<<3 | 2)
	var used unix.Timespec
	if err := unix.ClockGettime(clock, &used); err != nil {
		return 0
	}
	return time.Duration(used.Nano())
}
