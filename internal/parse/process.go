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
	sent   *settings    // those of the last request; nil before the first
	statm  *os.File     // where its memory is read, once it was
	wait   func() error // cmd.Wait, once
}

// environment names the variables that children inherit. None of them is a secret.
var environment = []string{"PATH", "HOME", "TMPDIR", "TMP", "TEMP", "LANG", "LC_ALL", "TZ", "SystemRoot", "GOCOVERDIR"}

// start starts a child in a sandbox.
func (r *poolRun) start() (*child, error) {
	files := int64(r.options.Recycle) * int64(r.options.Limits.Time/time.Second+1) * int64(runtime.NumCPU())
	return r.startIn(sandbox{CacheDir: r.options.CacheDir, User: r.user, Memory: r.options.MemoryLimit, CPU: files + int64(readyLimit/time.Second)})
}

// startIn starts a child in this sandbox, in a network namespace of its own if that is allowed.
func (r *poolRun) startIn(in sandbox) (*child, error) {
	in.NetworkNamespace = true
	if reason := r.noNetworkNamespace.Load(); reason != nil {
		in.NetworkNamespace, in.NoNamespaceReason = false, *reason
	}
	c, err := r.launch(in, in.NetworkNamespace)
	if err == nil || !in.NetworkNamespace {
		return c, err
	}
	// The reason may be that namespaces are not allowed here: try without.
	in.NetworkNamespace, in.NoNamespaceReason = false, err.Error()
	if c, err = r.launch(in, false); err == nil {
		r.noNetworkNamespace.Store(&in.NoNamespaceReason)
	}
	return c, err
}

// launch starts a child and passes its sandbox to it.
func (r *poolRun) launch(in sandbox, namespace bool) (*child, error) {
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
	if namespace {
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
	c.wait = sync.OnceValue(func() error {
		if c.statm != nil {
			_ = c.statm.Close()
		}
		return cmd.Wait()
	})
	return c, nil
}

// exchange sends a file and reads its outcome. It closes started when the child has read the file
// and begins to parse it; report receives the child's report of its confinement; ocr answers the
// child's requests for recognition and conversion.
func (c *child) exchange(ctx context.Context, req request, started chan<- struct{}, report func([]byte), ocr *recogniser) (reply, error) {
	limits, sent := req.Settings.Limits, req.Settings
	if c.sent != nil && c.sent.equal(*sent) {
		req.Settings = nil
	}
	if err := writeRequest(c.in, req); err != nil {
		return reply{}, errors.Join(errRequestNotRead, err)
	}
	c.sent = sent
	confinement, err := readFrame(c.out)
	if err != nil {
		return reply{}, errors.Join(errRequestNotRead, err)
	}
	if len(confinement) > 0 {
		report(confinement)
	}
	close(started)
	for {
		rep, err := readReply(c.out)
		if err == nil && rep.Convert != nil {
			if err := c.convert(ctx, rep.Convert, limits, ocr); err != nil {
				return reply{}, err
			}
			continue
		}
		if err != nil || rep.Recognise == nil {
			return rep, err
		}
		pixels, err := readFrameOf(c.out, uint64(maxRequestPixels(limits)))
		if err != nil {
			return reply{}, noEOF(err)
		}
		ocrReply, err := ocr.handle(ctx, *rep.Recognise, pixels)
		if err == nil {
			err = writeJSON(c.in, ocrReply)
		}
		if err != nil {
			return reply{}, err
		}
	}
}

// convert answers a request to convert a file to another format.
func (c *child) convert(ctx context.Context, request *convertRequest, limits Limits, ocr *recogniser) error {
	data, err := readFrameOf(c.out, uint64(limits.Bytes))
	if err != nil {
		return noEOF(err)
	}
	result, converted, err := ocr.handleConversion(ctx, *request, data)
	if err == nil {
		err = writeJSON(c.in, result)
	}
	if err == nil && result == (convertReply{}) {
		err = writeFrame(c.in, converted)
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

// outOfMemory reports whether a child that has ended could not allocate memory.
func (c *child) outOfMemory() bool {
	output := c.stderr.String()
	return strings.Contains(output, "runtime: out of memory") || strings.Contains(output, "runtime: cannot allocate memory") ||
		strings.Contains(output, "std::bad_alloc")
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
	status := "exit status 0"
	if waitErr != nil {
		status = waitErr.Error()
	}
	if s := c.stderr.String(); s != "" {
		status += ": " + s
	}
	return fmt.Errorf("%w (%s)", cause, status)
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
	if free := t.limit/2 - len(t.head); free > 0 {
		free = min(free, len(p))
		t.head = append(t.head, p[:free]...)
		p = p[free:]
	}
	t.rest = append(t.rest, p...)
	if excess := len(t.rest) - t.limit/2; excess > 0 {
		t.rest = bytes.Clone(t.rest[excess:])
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
