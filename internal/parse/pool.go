package parse

// The parent's side: children that are reused for many files, and are killed when a file takes too
// much time or memory, or the caller cancels.

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-rag/sluice/internal/lifecycle"
	"github.com/sluice-rag/sluice/schema"
)

// ErrCrashed is returned when the child that parsed a file died by itself. The file may be the
// cause or not, so the caller counts how often it happens.
var ErrCrashed = errors.New("the parser crashed")

// ErrStopped is returned when a pool is not running, or was stopped before the file was done.
var ErrStopped = errors.New("the parser pool is stopped")

// readyLimit is how long a child may take to become ready for a file.
const readyLimit = 2 * time.Minute

// killGrace is how long after the file's time limit a child is killed: a parser that notices the
// limit itself can continue with the next file.
const killGrace = 500 * time.Millisecond

// PoolOptions are the options of a Pool. Command is required.
type PoolOptions struct {
	// Command returns the command of one child, which must call RunChild. Its Env is added to a
	// small environment of the pool's (search path, locale, temporary directory); nothing else is
	// inherited.
	Command func() *exec.Cmd
	// Workers is how many children work in parallel; 0 is one per processor.
	Workers int
	Limits  Limits
	// MemoryLimit is the most resident memory of a child in bytes; 0 is 1.5 GB. It is enforced on
	// Linux; elsewhere only Go's soft limit applies.
	MemoryLimit int64
	// NoOCR turns text recognition off. Otherwise scanned pages are recognised if tesseract is
	// installed.
	NoOCR bool
	// NoOffice turns the conversion of files in Office's old binary formats off. Otherwise they are
	// converted if LibreOffice is installed.
	NoOffice bool
	// Recycle is the number of files after which a child is replaced; 0 is 5,000, because starting
	// one takes as long as parsing a hundred small files. A child that keeps more than half of
	// MemoryLimit after a file is replaced, too.
	Recycle int
	// CacheDir stores compiled code between runs; only our user may be able to write to it. Where
	// we are root, parsers run as another user; if that user may not enter CacheDir, a directory in
	// /var/cache is used instead. Empty means a temporary directory for the life of the pool.
	CacheDir string
}

// Pool parses files in child processes. It is a lifecycle.Service.
type Pool struct {
	*lifecycle.Func
	options PoolOptions

	mu  sync.Mutex
	run *poolRun // nil while stopped
}

// NewPool returns a pool that is not started yet.
func NewPool(o PoolOptions) (*Pool, error) {
	switch {
	case o.Command == nil:
		return nil, errors.New("parser pool: command is missing")
	case o.Workers < 0:
		return nil, fmt.Errorf("parser pool: workers is %d: it must not be negative", o.Workers)
	case o.MemoryLimit < 0:
		return nil, fmt.Errorf("parser pool: memory_limit is %d: it must not be negative", o.MemoryLimit)
	case o.Recycle < 0:
		return nil, fmt.Errorf("parser pool: recycle is %d: it must not be negative", o.Recycle)
	}
	if err := o.Limits.Validate(); err != nil {
		return nil, err
	}
	o.Limits = o.Limits.withDefaults()
	if o.Workers == 0 {
		o.Workers = runtime.NumCPU()
	}
	if o.MemoryLimit == 0 {
		o.MemoryLimit = 3 << 29
	}
	if o.Recycle == 0 {
		o.Recycle = 5000
	}
	p := &Pool{options: o}
	p.Func = lifecycle.NewResource("parser pool", p.open, p.shut)
	return p, nil
}

// poolRun is the state of a pool from Start to Stop.
type poolRun struct {
	options  PoolOptions
	meters   poolMeters
	slots    chan *child   // a nil child is a slot without a process
	stopping chan struct{} // closed first: no new work
	killed   chan struct{} // closed when running work must end
	work     sync.WaitGroup
	spawn    *spawner
	tempDir  string

	user               int                    // user id for children, where we are root
	noNetworkNamespace atomic.Pointer[string] // why children can't have a network namespace
	compileOnce        sync.Once
	reportOnce         sync.Once
	findTesseractOnce  sync.Once
	reportOCROnce      sync.Once
	tesseract          *tesseract                  // nil where there is none
	tesseractProblem   string                      // why tesseract is installed but cannot be used
	confinement        atomic.Pointer[Confinement] // of the first child

	ocrConfinement atomic.Pointer[Confinement] // of the first tesseract

	findOfficeOnce, reportOfficeOnce sync.Once
	office                           *office                     // nil where there is none
	officeConfinement                atomic.Pointer[Confinement] // of the first conversion
}

func (p *Pool) open(context.Context) error {
	r := &poolRun{
		options:  p.options,
		meters:   newPoolMeters(),
		slots:    make(chan *child, p.options.Workers),
		stopping: make(chan struct{}),
		killed:   make(chan struct{}),
	}
	r.user = parserUser()
	if r.user != 0 && r.options.CacheDir != "" && !enterableByAll(r.options.CacheDir) {
		r.options.CacheDir = rootCache()
	}
	if r.options.CacheDir == "" {
		dir, err := os.MkdirTemp("", "sluice-parse-")
		if err != nil {
			return fmt.Errorf("making a directory for compiled code: %w", err)
		}
		r.options.CacheDir, r.tempDir = dir, dir
	}
	dir, err := filepath.Abs(r.options.CacheDir)
	if err != nil {
		return fmt.Errorf("the directory for compiled code: %w", err)
	}
	r.options.CacheDir = dir
	r.spawn = newSpawner()
	for range p.options.Workers {
		r.slots <- nil
	}
	p.mu.Lock()
	p.run = r
	p.mu.Unlock()
	return nil
}

func (p *Pool) shut(ctx context.Context) error {
	p.mu.Lock()
	r := p.run
	p.run = nil
	close(r.stopping)
	p.mu.Unlock()

	done := make(chan struct{})
	go func() {
		r.work.Wait()
		close(done)
	}()
	var err error
	select {
	case <-done:
	case <-ctx.Done():
		err = ctx.Err()
		close(r.killed)
		<-done
	}
	for range p.options.Workers {
		if c := <-r.slots; c != nil {
			c.end()
		}
	}
	r.spawn.stop()
	if r.tempDir != "" {
		if e := os.RemoveAll(r.tempDir); e != nil && err == nil {
			err = fmt.Errorf("removing compiled code: %w", e)
		}
	}
	return err
}

// enter registers the start of one parse with the running pool; it returns nil when stopped.
func (p *Pool) enter() *poolRun {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.run != nil {
		p.run.work.Add(1)
	}
	return p.run
}

// NamedFile is a file to parse. Name is its path or URL, MediaType the sender's media type; neither
// is trusted. Language is the BCP 47 tag of the language for recognition; empty is English.
type NamedFile struct {
	Name, MediaType, Language string
	Data                      []byte
}

// Parse parses one file like ParseFile, without a language.
func (p *Pool) Parse(ctx context.Context, name, mediaHint string, data []byte) (schema.Parsed, error) {
	return p.ParseFile(ctx, NamedFile{Name: name, MediaType: mediaHint, Data: data})
}

// ParseFile parses one file like the function Parse, in a child, and recognises the text of scanned
// pages. It waits for a free child. A file that cannot be parsed gives an *Error, with the reason
// timeout if the child was killed for its time, and too_large if for its memory. The error is
// ErrCrashed if the child died, ErrStopped if the pool is not running, and ctx's error if ctx ends,
// in which case the child is killed.
func (p *Pool) ParseFile(ctx context.Context, f NamedFile) (schema.Parsed, error) {
	if int64(len(f.Data)) > p.options.Limits.Bytes {
		return schema.Parsed{}, tooLarge(int64(len(f.Data)), p.options.Limits)
	}
	r := p.enter()
	if r == nil {
		return schema.Parsed{}, fmt.Errorf("parsing %s: %w", f.Name, ErrStopped)
	}
	defer r.work.Done()
	parsed, err := r.parse(ctx, f)
	var e *Error
	if err != nil && !errors.As(err, &e) {
		err = fmt.Errorf("parsing %s: %w", f.Name, err)
	}
	return parsed, err
}

func (r *poolRun) parse(ctx context.Context, f NamedFile) (schema.Parsed, error) {
	c, err := r.acquire(ctx)
	if err != nil {
		return schema.Parsed{}, err
	}
	defer func() { r.slots <- c }()
	r.meters.busy.Add(ctx, 1)
	defer r.meters.busy.Add(ctx, -1)

	if isPDF(f.Data) {
		r.compile()
	}
	req := request{Name: f.Name, MediaHint: f.MediaType, data: f.Data,
		Settings: &settings{Limits: r.options.Limits, OCR: r.ocrOptionsFor(ctx, f.Language), Office: r.officeOptions(ctx)}}
	for fresh := c == nil; ; fresh = true {
		if c == nil {
			var err error
			if c, err = r.start(); err != nil {
				return schema.Parsed{}, err
			}
		}
		parsed, keep, err := r.parseInChild(ctx, c, req)
		if !keep {
			c = nil
		}
		// If a child died while it was idle, the file is not the cause.
		if errors.Is(err, errRequestNotRead) && !fresh {
			continue
		}
		return parsed, err
	}
}

func (r *poolRun) tooMuchMemory() error {
	return fail(schema.ReasonTooLarge, "Parsing needed more than %s of memory. Simplify or split the file, or raise the limit.",
		schema.FormatBytes(r.options.MemoryLimit))
}

// acquire waits for a free slot.
func (r *poolRun) acquire(ctx context.Context) (*child, error) {
	r.meters.waiting.Add(ctx, 1)
	defer r.meters.waiting.Add(ctx, -1)
	select {
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-r.stopping:
		return nil, ErrStopped
	case c := <-r.slots:
		return c, nil
	}
}

// errRequestNotRead means that a child died before it had read the request.
var errRequestNotRead = fmt.Errorf("%w before it read the file", ErrCrashed)

// parseInChild lets c parse one file. keep is false when c has ended.
func (r *poolRun) parseInChild(ctx context.Context, c *child, req request) (parsed schema.Parsed, keep bool, err error) {
	type outcome struct {
		reply reply
		err   error
	}
	done, started, paused := make(chan outcome, 1), make(chan struct{}), make(chan bool)
	working, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		ocr := &recogniser{run: r, options: req.Settings.OCR, limits: req.Settings.Limits, paused: paused}
		rep, err := c.exchange(working, req, started, r.reportConfinement, ocr)
		done <- outcome{rep, err}
	}()
	// The file's time starts when the child is ready.
	limit := time.NewTimer(readyLimit)
	defer limit.Stop()
	var timing bool
	var cpuBefore time.Duration // processor time of the child before this file
	startTimer := func() {
		timing, cpuBefore = true, c.processor()
		limit.Reset(clockFactor*r.options.Limits.Time + killGrace)
	}
	ready := (<-chan struct{})(started)
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	// kill ends the child and waits for the exchange to notice.
	kill := func(cause string, err error) (schema.Parsed, bool, error) {
		r.meters.kill(ctx, cause)
		stop()
		c.kill()
		<-done
		return schema.Parsed{}, false, err
	}
	for {
		select {
		case out := <-done:
			if out.err != nil {
				crashErr := c.crash(out.err)
				if c.outOfMemory() {
					r.meters.kill(ctx, "memory")
					return schema.Parsed{}, false, r.tooMuchMemory()
				}
				r.meters.kill(ctx, "crash")
				return schema.Parsed{}, false, crashErr
			}
			c.served++
			if c.served >= r.options.Recycle || c.memory() > r.options.MemoryLimit/2 {
				c.end()
				c = nil
			}
			parsed, err := out.reply.result()
			return parsed, c != nil, err
		case <-ticker.C:
			if c.memory() > r.options.MemoryLimit {
				return kill("memory", r.tooMuchMemory())
			}
			if timing && c.processor()-cpuBefore > r.options.Limits.Time+killGrace {
				return kill("time", timedOut(r.options.Limits.Time))
			}
		case <-ready:
			ready = nil
			startTimer()
		case pause := <-paused:
			// Text recognition has limits of its own; after it, the file's time restarts from zero.
			ready = nil
			if pause {
				timing = false
				limit.Stop()
			} else {
				startTimer()
			}
		case <-limit.C:
			if ready != nil {
				return kill("time", fmt.Errorf("%w: it was not ready after %s", errRequestNotRead, readyLimit))
			}
			return kill("time", hung(r.options.Limits.Time))
		case <-ctx.Done():
			return kill("cancelled", context.Cause(ctx))
		case <-r.killed:
			return kill("cancelled", ErrStopped)
		}
	}
}
