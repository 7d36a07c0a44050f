package nice

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"syscall"
	"time"
)

func group(id int) error { return syscall.Setpriority(syscall.PRIO_PGRP, id, background) }

// session also lowers the session's share: where the kernel groups processes by session
// (sched_autogroup_enabled), a niceness counts only within the session.
func session(pid int) error {
	if err := syscall.Setpriority(syscall.PRIO_PROCESS, pid, background); err != nil {
		return err
	}
	const tries = 10
	for try := 1; ; try++ {
		err := os.WriteFile(fmt.Sprintf("/proc/%d/autogroup", pid), []byte(strconv.Itoa(background)), 0)
		switch {
		case errors.Is(err, fs.ErrNotExist): // this kernel doesn't group by session
			return nil
		case errors.Is(err, syscall.EAGAIN) && try < tries: // the kernel accepts ten writes per second
			time.Sleep(100 * time.Millisecond)
		default:
			return err
		}
	}
}
