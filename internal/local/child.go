// This file manages child processes: they are started so that they die with us, and are stopped in
// two steps.

package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

// killDelay is how long a child has to react to each harder signal after the time for stopping is
// over.
const killDelay = 5 * time.Second

// logLimit is the size in bytes above which a child's log file is renamed at the next start.
const logLimit = 8 << 20

// command says how a child is started and stopped.
type command struct {
	path string
	args []string
	env  []string
	user *account // nil: our own user
	log  string   // file that gets the output

	stop  syscall.Signal // asks for a clean end
	cut   syscall.Signal // asks for an end at once
	death syscall.Signal // sent to the child when this process dies, on systems that support it

	// holdStdin keeps the child's standard input open while we live. The child ends when it closes.
	holdStdin bool
}

// child is a started child process.
type child struct {
	command
	process *os.Process
	done    chan struct{}
	ended   error // valid after done
	logFrom int64 // offset of this run's part of the log
}

// start runs the command. The child has a process group of its own, so that a Ctrl-C in the
// terminal reaches only us and we determine the order of stopping.
func (c command) start() (*child, error) {
	if info, err := os.Stat(c.log); err == nil && info.Size() > logLimit {
		if err := os.Rename(c.log, c.log+".old"); err != nil {
			return nil, fmt.Errorf("putting the log aside: %w", err)
		}
	}
	log, err := os.OpenFile(c.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the log: %w", err)
	}
	defer func() { _ = log.Close() }()
	from, err := log.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, fmt.Errorf("opening the log: %w", err)
	}

	cmd := exec.Command(c.path, c.args...)
	cmd.Env = append(withoutSettings(os.Environ()), c.env...)
	cmd.Dir = "/"
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if c.user != nil {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: c.user.uid, Gid: c.user.gid}
	}
	dieWithParent(cmd.SysProcAttr, c.death)
	if c.holdStdin {
		// Closed by cmd.Wait, or by the kernel when we die.
		if _, err := cmd.StdinPipe(); err != nil {
			return nil, fmt.Errorf("opening the child's input: %w", err)
		}
	}

	ch := &child{command: c, done: make(chan struct{}), logFrom: from}
	started := make(chan error, 1)
	go func() {
		defer close(ch.done)
		// The death signal is tied to the thread that started the child, so that thread must live
		// as long.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if err := cmd.Start(); err != nil {
			started <- err
			return
		}
		ch.process = cmd.Process
		started <- nil
		ch.ended = cmd.Wait()
	}()
	if err := <-started; err != nil {
		<-ch.done
		return nil, fmt.Errorf("starting %s: %w", c.path, err)
	}
	return ch, nil
}

// failure returns the error of a child that ended although it was not stopped, with the last lines
// of its log.
func (c *child) failure() error {
	ended := c.ended
	if ended == nil {
		ended = errors.New("exit status 0")
	}
	return fmt.Errorf("%s ended: %w\n%s", c.path, ended, c.tail())
}

// tail returns the last lines of this run's log. Long lines are cut.
func (c *child) tail() string {
	const most, longest = 64 << 10, 1 << 10
	f, err := os.Open(c.log)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = f.Close() }()
	from := c.logFrom
	if info, err := f.Stat(); err == nil {
		from = max(from, info.Size()-most)
	}
	text, err := io.ReadAll(io.NewSectionReader(f, from, most))
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	lines = lines[max(0, len(lines)-20):]
	for i, line := range lines {
		if len(line) > longest {
			lines[i] = strings.ToValidUTF8(line[:longest], "") + " ..."
		}
	}
	return strings.Join(lines, "\n")
}

// portTaken reports whether the child ended because another process took its port first.
func (c *child) portTaken() bool {
	return strings.Contains(strings.ToLower(c.tail()), "address already in use")
}

// end stops the child and waits for its end. If ctx ends first, harder signals follow, and the
// error wraps ctx's cause.
func (c *child) end(ctx context.Context) error {
	c.signal(c.stop)
	select {
	case <-c.done:
		return nil
	case <-ctx.Done():
	}
	for _, sig := range []syscall.Signal{c.cut, syscall.SIGKILL} {
		c.signal(sig)
		timer := time.NewTimer(killDelay)
		select {
		case <-c.done:
			timer.Stop()
			return fmt.Errorf("cut short: %w", context.Cause(ctx))
		case <-timer.C:
		}
	}
	<-c.done
	return fmt.Errorf("cut short: %w", context.Cause(ctx))
}

// kill ends the child like a crash, and waits for its end.
func (c *child) kill() {
	c.signal(syscall.SIGKILL)
	<-c.done
}

// signal is best effort: the child may have ended already.
func (c *child) signal(sig syscall.Signal) { _ = c.process.Signal(sig) }

// withoutSettings removes Sluice's own settings, which may contain keys that other programs must
// not see.
func withoutSettings(env []string) []string {
	return slices.DeleteFunc(env, func(kv string) bool { return strings.HasPrefix(kv, "SLUICE_") })
}
