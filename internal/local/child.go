// This file owns child processes: they are started so that they die with us, stopped in two steps,
// and waited for.

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

// unwind is how long a child gets to react to each harder signal when the time for stopping is
// over.
const unwind = 5 * time.Second

// logLimit is the size in bytes above which a child's log file is put aside at the next start.
const logLimit = 8 << 20

// command says what to start and how it is stopped.
type command struct {
	path string
	args []string
	env  []string
	user *account // nil: as we are
	log  string   // file that gets the output

	stop  syscall.Signal // asks for a clean end
	cut   syscall.Signal // asks for an end at once
	death syscall.Signal // what the child gets when this process dies, where the system can do that

	// stdin is kept open while the child should live: the child ends when it closes.
	holdStdin bool
}

// child is a process of ours that has been started.
type child struct {
	command
	process *os.Process
	done    chan struct{}
	ended   error // valid after done
	logFrom int64 // where this run's part of the log begins
}

// start runs the command. The child is in a process group of its own, so that a Ctrl-C in the
// terminal reaches us alone and the order of stopping stays ours.
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
	cmd.Env = append(withoutOurs(os.Environ()), c.env...)
	cmd.Dir = "/"
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if c.user != nil {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: c.user.uid, Gid: c.user.gid}
	}
	dieWithParent(cmd.SysProcAttr, c.death)
	if c.holdStdin {
		// Closed by cmd.Wait, or by the kernel with us.
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

// failure says why a child is over that nobody stopped, with the last lines that it printed.
func (c *child) failure() error {
	ended := c.ended
	if ended == nil {
		ended = errors.New("exit status 0")
	}
	return fmt.Errorf("%s ended: %w\n%s", c.path, ended, c.tail())
}

// tail returns the last lines of this run's log, each without the stack trace that may end it.
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

// portTaken reports whether the child ended because somebody else was faster to take a port that
// was free.
func (c *child) portTaken() bool {
	return strings.Contains(strings.ToLower(c.tail()), "address already in use")
}

// end stops the child and waits for its end. When ctx is over first, harder signals follow, and the
// error wraps ctx's.
func (c *child) end(ctx context.Context) error {
	c.signal(c.stop)
	select {
	case <-c.done:
		return nil
	case <-ctx.Done():
	}
	for _, sig := range []syscall.Signal{c.cut, syscall.SIGKILL} {
		c.signal(sig)
		timer := time.NewTimer(unwind)
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

// kill ends the child as a crash would and waits until it is gone.
func (c *child) kill() {
	c.signal(syscall.SIGKILL)
	<-c.done
}

// signal is best effort: the child may be over already, which done tells.
func (c *child) signal(sig syscall.Signal) { _ = c.process.Signal(sig) }

// withoutOurs leaves out Sluice's own settings: keys among them are nothing for other programs to
// see.
func withoutOurs(env []string) []string {
	return slices.DeleteFunc(env, func(kv string) bool { return strings.HasPrefix(kv, "SLUICE_") })
}
