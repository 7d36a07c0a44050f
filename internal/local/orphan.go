// This file locks a directory for this process, and ends what an earlier, killed process left
// running on it.

package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// dirLock is the lock of a directory.
type dirLock struct{ file *os.File }

// lockDir locks the lock file in dir. The kernel releases the lock when this process dies.
func lockDir(dir string) (dirLock, error) {
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return dirLock{}, fmt.Errorf("locking %s: %w", dir, err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return dirLock{}, fmt.Errorf("%s is %w", dir, ErrInUse)
		}
		return dirLock{}, fmt.Errorf("locking %s: %w", dir, err)
	}
	return dirLock{file: f}, nil
}

// release unlocks the directory. To close the file is not enough: a process that is being started
// has a copy of its descriptor until it runs its program, and a copy keeps the lock.
func (l dirLock) release() error {
	err := syscall.Flock(int(l.file.Fd()), syscall.LOCK_UN)
	if err = errors.Join(err, l.file.Close()); err != nil {
		return fmt.Errorf("unlocking %s: %w", l.file.Name(), err)
	}
	return nil
}

// endOrphan ends the process named in pidFile, if it is running and its command line contains mark,
// and removes the file. The caller holds the directory's lock, so no live server uses it. Another
// process that has the pid by now is not touched.
func endOrphan(ctx context.Context, pidFile, mark string, signals ...syscall.Signal) error {
	text, err := os.ReadFile(pidFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading %s: %w", pidFile, err)
	}
	first, _, _ := strings.Cut(string(text), "\n")
	pid, err := strconv.Atoi(strings.TrimSpace(first))
	if err == nil && pid > 1 {
		for _, sig := range signals {
			if !isRunning(pid, mark) {
				break
			}
			if err := syscall.Kill(pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
				return fmt.Errorf("ending process %d, left over from an earlier run: %w", pid, err)
			}
			if err := waitGone(ctx, pid, mark); err != nil {
				return err
			}
		}
		if isRunning(pid, mark) {
			return fmt.Errorf("process %d, left over from an earlier run, doesn't end", pid)
		}
	}
	if err := os.Remove(pidFile); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing %s: %w", pidFile, err)
	}
	return nil
}

// waitGone waits for the end of a process. It polls, because the process is not our child.
func waitGone(ctx context.Context, pid int, mark string) error {
	timeout := time.NewTimer(2 * killDelay)
	defer timeout.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for isRunning(pid, mark) {
		select {
		case <-tick.C:
		case <-timeout.C:
			return nil // time for the next signal
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// isRunning reports whether process pid is running and has mark in its command line.
func isRunning(pid int, mark string) bool {
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		if _, noProc := os.Stat("/proc/self"); noProc == nil {
			return false
		}
		if line, err = exec.Command("ps", "-ww", "-o", "command=", "-p", strconv.Itoa(pid)).Output(); err != nil {
			return false
		}
	}
	return strings.Contains(string(line), mark)
}
