package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
	"golang.org/x/term"
)

// progress shows the progress of an ingestion: as bars on a terminal, as lines at intervals
// elsewhere, and not at all with --json.
type progress struct {
	out   io.Writer
	bars  *mpb.Progress
	up    *mpb.Bar
	ready *mpb.Bar

	mu                  sync.Mutex
	quiet               bool
	total, sent         int
	last                time.Time
	lastDone, lastTotal int
}

// lineInterval is the interval between lines without a terminal.
const lineInterval = 2 * time.Second

func newProgress(out *os.File, quiet bool) *progress {
	p := &progress{out: out, quiet: quiet}
	if quiet || !terminal(out) {
		return p
	}
	p.bars = mpb.New(mpb.WithOutput(out), mpb.WithRefreshRate(100*time.Millisecond))
	bar := func(name string) *mpb.Bar {
		return p.bars.AddBar(0,
			mpb.PrependDecorators(decor.Name(name, decor.WCSyncSpaceR), decor.CountersNoUnit("%d / %d", decor.WCSyncSpace)),
			mpb.AppendDecorators(decor.Percentage(decor.WC{W: 5}), decor.Elapsed(decor.ET_STYLE_GO, decor.WC{W: 6})))
	}
	p.up, p.ready = bar("uploaded"), bar("ready")
	return p
}

func terminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

func (p *progress) found(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.total += n
	if p.bars != nil {
		p.up.SetTotal(int64(p.total), false)
		p.ready.SetTotal(int64(p.total), false)
	}
}

func (p *progress) uploaded(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sent += n
	if p.bars != nil {
		p.up.SetCurrent(int64(p.sent))
		return
	}
	p.line("uploaded", p.sent, p.total)
}

func (p *progress) processed(done, total int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bars != nil {
		p.ready.SetTotal(int64(total), false)
		p.ready.SetCurrent(int64(done))
		return
	}
	p.line("processed", done, total)
}

func (p *progress) line(what string, done, total int) {
	if p.quiet || done == p.lastDone && total == p.lastTotal || done < total && time.Since(p.last) < lineInterval {
		return
	}
	p.last, p.lastDone, p.lastTotal = time.Now(), done, total
	fmt.Fprintf(p.out, "%s %d of %d\n", what, done, total)
}

// end leaves the last state on the screen.
func (p *progress) end() {
	if p.bars == nil {
		return
	}
	p.up.Abort(false)
	p.ready.Abort(false)
	p.bars.Wait()
}

// counter shows the progress of one task.
type counter struct {
	out  io.Writer
	name string
	bars *mpb.Progress
	bar  *mpb.Bar
	last time.Time
}

func newCounter(out *os.File, name string) *counter {
	c := &counter{out: out, name: name}
	if terminal(out) {
		c.bars = mpb.New(mpb.WithOutput(out), mpb.WithRefreshRate(100*time.Millisecond))
		c.bar = c.bars.AddBar(0,
			mpb.PrependDecorators(decor.Name(name+" "), decor.CountersNoUnit("%d / %d")),
			mpb.AppendDecorators(decor.Percentage(decor.WC{W: 5}), decor.Elapsed(decor.ET_STYLE_GO, decor.WC{W: 6}), decor.AverageETA(decor.ET_STYLE_GO, decor.WC{W: 8})))
	}
	return c
}

// show shows that done of total are done. Calls must not overlap.
func (c *counter) show(done, total int) {
	if c.bar != nil {
		c.bar.SetTotal(int64(total), false)
		c.bar.SetCurrent(int64(done))
		return
	}
	if done == total || time.Since(c.last) >= counterInterval {
		c.last = time.Now()
		fmt.Fprintf(c.out, "%s: %d of %d\n", c.name, done, total)
	}
}

// counterInterval is the interval between lines without a terminal.
const counterInterval = 10 * time.Second

// end leaves the last state on the screen.
func (c *counter) end() {
	if c.bar != nil {
		c.bar.Abort(false)
		c.bars.Wait()
	}
}
