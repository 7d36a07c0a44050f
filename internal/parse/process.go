package parse

// One child process as its parent holds it.

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"time"
)

// child is a running child process.
type child struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	stderr *tail
	served int
	wait   func() error // cmd.Wait, once
}

// environment is what children inherit: nothing that could be a secret.
var environment = []string{"PATH", "HOME", "TMPDIR", "TMP", "TEMP", "LANG", "LC_ALL", "TZ", "SystemRoot", "GOCOVERDIR"}

// start starts a child.
func (r *poolRun) start() (*child, error) {
	cmd := r.options.Command()
	env := []string{fmt.Sprintf("GOMEMLIMIT=%d", r.options.MemoryLimit/10*9)}
	for _, name := range environment {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	cmd.Env = append(env, cmd.Env...)
	cmd.WaitDelay = 2 * time.Second
	c := &child{cmd: cmd, stderr: &tail{limit: 4096}}
	cmd.Stderr = c.stderr
	isolate(cmd)
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("starting a parser: %w", err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("starting a parser: %w", err), in.Close())
	}
	if err := r.spawn.start(cmd); err != nil {
		return nil, errors.Join(fmt.Errorf("starting a parser: %w", err), in.Close(), out.Close())
	}
	c.in, c.out = in, bufio.NewReaderSize(out, 64<<10)
	c.wait = sync.OnceValue(cmd.Wait)
	return c, nil
}

// exchange sends a file and reads its outcome. It closes taken when the child
// has the file and begins with it.
func (c *child) exchange(req request, taken chan<- struct{}) (reply, error) {
	if err := writeRequest(c.in, req); err != nil {
		return reply{}, errors.Join(errNotTaken, err)
	}
	if _, err := readFrame(c.out); err != nil {
		return reply{}, errors.Join(errNotTaken, err)
	}
	close(taken)
	return readReply(c.out)
}

// kill ends the child and what it may have started, at once.
func (c *child) kill() {
	killGroup(c.cmd)
	_ = c.wait()
}

// end lets an idle child end by itself, and kills it when it doesn't.
func (c *child) end() {
	_ = c.in.Close()
	timer := time.AfterFunc(2*time.Second, func() { killGroup(c.cmd) })
	_ = c.wait()
	timer.Stop()
}

// crash cleans up after a child whose pipe broke and says how it ended.
func (c *child) crash(cause error) error {
	// It may be alive with a broken pipe.
	timer := time.AfterFunc(200*time.Millisecond, func() { killGroup(c.cmd) })
	waitErr := c.wait()
	timer.Stop()
	if !errors.Is(cause, ErrCrashed) {
		cause = errors.Join(ErrCrashed, cause)
	}
	how := "exit status 0"
	if waitErr != nil {
		how = waitErr.Error()
	}
	if s := c.stderr.String(); s != "" {
		how += ": " + s
	}
	return fmt.Errorf("%w (%s)", cause, how)
}

// spawner starts processes from one thread that lives as long as they do: Linux
// kills a child whose parent *thread* ends. Children begin with that thread's
// priority, which is low.
type spawner struct {
	jobs chan func()
	done chan struct{}
}

func newSpawner() *spawner {
	s := &spawner{jobs: make(chan func()), done: make(chan struct{})}
	go func() {
		defer close(s.done)
		runtime.LockOSThread()
		yield()
		for job := range s.jobs {
			job()
		}
	}()
	return s
}

func (s *spawner) start(cmd *exec.Cmd) error {
	result := make(chan error, 1)
	s.jobs <- func() { result <- cmd.Start() }
	return <-result
}

// stop ends the thread; all children must have ended.
func (s *spawner) stop() {
	close(s.jobs)
	<-s.done
}

// tail keeps the beginning and the end of what is written to it.
type tail struct {
	mu    sync.Mutex
	limit int
	head  []byte
	rest  []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := len(p)
	if room := t.limit/2 - len(t.head); room > 0 {
		room = min(room, len(p))
		t.head = append(t.head, p[:room]...)
		p = p[room:]
	}
	t.rest = append(t.rest, p...)
	if over := len(t.rest) - t.limit/2; over > 0 {
		t.rest = bytes.Clone(t.rest[over:])
	}
	return n, nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := string(t.head)
	if len(t.rest) > 0 {
		s += "..." + string(t.rest)
	}
	return strings.TrimSpace(s)
}
