package parse

// One child process, from the parent's side.

import (
	"bufio"
	"bytes"
	"context"
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

// environment names the variables that children inherit. None of them is a secret.
var environment = []string{"PATH", "HOME", "TMPDIR", "TMP", "TEMP", "LANG", "LC_ALL", "TZ", "SystemRoot", "GOCOVERDIR"}

// start starts a child in a cell.
func (r *poolRun) start() (*child, error) {
	files := int64(r.options.Recycle) * int64(r.options.Limits.Time/time.Second+1) * int64(runtime.NumCPU())
	return r.startIn(cell{CacheDir: r.options.CacheDir, User: r.user, Memory: r.options.MemoryLimit, CPU: files + int64(readyLimit/time.Second)})
}

// startIn starts a child in this cell, in a network namespace of its own if that is allowed.
func (r *poolRun) startIn(in cell) (*child, error) {
	in.Apart = true
	if why := r.notApart.Load(); why != nil {
		in.Apart, in.Why = false, *why
	}
	c, err := r.launch(in, in.Apart)
	if err == nil || !in.Apart {
		return c, err
	}
	// The reason may be that namespaces are not allowed here: try without.
	in.Apart, in.Why = false, err.Error()
	if c, err = r.launch(in, false); err == nil {
		r.notApart.Store(&in.Why)
	}
	return c, err
}

// launch starts a child and passes its cell to it.
func (r *poolRun) launch(in cell, apart bool) (*child, error) {
	cmd := r.options.Command()
	env := []string{fmt.Sprintf("GOMEMLIMIT=%d", r.options.MemoryLimit/10*9)}
	for _, name := range environment {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	cmd.Env = append(append(env, cmd.Env...), in.environment())
	if cmd.Dir == "" {
		cmd.Dir = "/"
	}
	cmd.WaitDelay = 2 * time.Second
	c := &child{cmd: cmd, stderr: &tail{limit: 4096}}
	cmd.Stderr = c.stderr
	isolate(cmd)
	if apart {
		isolateNetwork(cmd)
	}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("starting a parser: %w", err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("starting a parser: %w", err), stdin.Close())
	}
	if err := r.spawn.start(cmd); err != nil {
		// os/exec has closed the pipes.
		return nil, fmt.Errorf("starting a parser: %w", err)
	}
	c.in, c.out = stdin, bufio.NewReaderSize(out, 64<<10)
	c.wait = sync.OnceValue(cmd.Wait)
	return c, nil
}

// exchange sends a file and reads its outcome. It closes taken when the child has read the file and
// begins to parse it; told receives the child's report of its confinement; ocr answers the child's
// requests for recognition and conversion.
func (c *child) exchange(ctx context.Context, req request, taken chan<- struct{}, told func([]byte), ocr *recogniser) (reply, error) {
	if err := writeRequest(c.in, req); err != nil {
		return reply{}, errors.Join(errNotTaken, err)
	}
	words, err := readFrame(c.out)
	if err != nil {
		return reply{}, errors.Join(errNotTaken, err)
	}
	if len(words) > 0 {
		told(words)
	}
	close(taken)
	for {
		rep, err := readReply(c.out)
		if err == nil && rep.Convert != nil {
			if err := c.convert(ctx, rep.Convert, req.Limits, ocr); err != nil {
				return reply{}, err
			}
			continue
		}
		if err != nil || rep.Recognise == nil {
			return rep, err
		}
		pixels, err := readFrameOf(c.out, uint64(askedPixels(req.Limits)))
		if err != nil {
			return reply{}, noEOF(err)
		}
		answer, err := ocr.answer(ctx, *rep.Recognise, pixels)
		if err == nil {
			err = writeJSON(c.in, answer)
		}
		if err != nil {
			return reply{}, err
		}
	}
}

// convert answers a request to convert a file to another format.
func (c *child) convert(ctx context.Context, wish *conversion, limits Limits, ocr *recogniser) error {
	data, err := readFrameOf(c.out, uint64(limits.Bytes))
	if err != nil {
		return noEOF(err)
	}
	answer, made, err := ocr.answerConversion(ctx, *wish, data)
	if err == nil {
		err = writeJSON(c.in, answer)
	}
	if err == nil && answer == (conversionAnswer{}) {
		err = writeFrame(c.in, made)
	}
	return err
}

// kill kills the child and the processes that it may have started.
func (c *child) kill() {
	killGroup(c.cmd)
	_ = c.wait()
}

// end lets an idle child end by itself, and kills it if it does not.
func (c *child) end() {
	_ = c.in.Close()
	timer := time.AfterFunc(2*time.Second, func() { killGroup(c.cmd) })
	_ = c.wait()
	timer.Stop()
}

// starved reports whether a child that has ended could not allocate memory.
func (c *child) starved() bool {
	said := c.stderr.String()
	return strings.Contains(said, "runtime: out of memory") || strings.Contains(said, "runtime: cannot allocate memory") ||
		strings.Contains(said, "std::bad_alloc")
}

// crash cleans up after a child whose pipe broke and returns an error that says how it ended.
func (c *child) crash(cause error) error {
	// The child may still be alive.
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

// spawner starts processes from one thread that lives as long as they do, because Linux kills a
// child when its parent *thread* ends. Children inherit that thread's low priority.
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

// tail is a writer that keeps the beginning and the end of what is written.
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
