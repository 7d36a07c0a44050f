package main

// This file measures whether the stages scale: how much more four workers of a stage do than one.
// Expensive work is simulated by waiting (workers_waiting.go), so that a few cores suffice. The
// stages are in workers_rows.go.

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

type workersCommand struct {
	Seed      uint64        `default:"1" help:"What documents and questions are made from."`
	Rounds    int           `default:"2" help:"How often each number of workers is measured, in turns."`
	Only      []string      `placeholder:"ROW" enum:"searches,one-collection,completions,documents,models" help:"Measure these rows alone, of ${enum}; all when empty."`
	Window    time.Duration `default:"4s" help:"How long one measurement takes, after as long to warm up; of documents four times as long."`
	Search    time.Duration `default:"300ms" help:"How long the waiting model server takes for a question."`
	Documents time.Duration `default:"1s" help:"How long it takes for texts of documents."`
	LLM       time.Duration `name:"llm" default:"400ms" help:"How long the waiting language model takes."`
	Programs  string        `placeholder:"FOLDER" help:"Where the programs are; beside this one when empty."`
	JSON      string        `placeholder:"FILE" help:"Write the findings there too, as JSON."`
	Timeout   time.Duration `default:"20m" help:"Longest time of the whole measurement."`
}

// workerCounts are the numbers of workers that are measured.
var workerCounts = []int{1, 2, 4}

// efficiency is the share of linear scaling that several workers must reach.
const efficiency = 0.9

func (c *workersCommand) Run(ctx context.Context) error {
	f, err := c.findings(ctx)
	if f != nil {
		err = errors.Join(report(c.JSON, f), err)
	}
	return err
}

func (c *workersCommand) findings(ctx context.Context) (_ *findings, err error) {
	if c.Rounds < 1 || c.Window <= 0 || c.Search <= 0 || c.Documents <= 0 || c.LLM <= 0 {
		return nil, errors.New("rounds and times must be above 0")
	}
	ctx, cancel := context.WithTimeoutCause(ctx, c.Timeout, fmt.Errorf("not done after %s: raise --timeout", c.Timeout))
	defer cancel()
	programs, err := siblingProgram(c.Programs, "")
	if err != nil {
		return nil, err
	}
	progressf("workers: starting")
	begin := time.Now()
	b, err := newWorkersInstallation(ctx, programs)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	f := &findings{Part: "workers", Corpus: fmt.Sprintf("waiting models: %s for a question, %s for documents, a language model %s; seed %d",
		c.Search, c.Documents, c.LLM, c.Seed)}
	rows, err := c.rows(ctx, b)
	if err != nil {
		return nil, fmt.Errorf("workers: %w", err)
	}
	for _, r := range rows {
		if len(c.Only) == 0 || slices.Contains(c.Only, r.name) {
			f.row(r.what, func() error { return c.measure(ctx, f, r) })
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("workers: %w", context.Cause(ctx))
	}
	f.note("whole part took", "%.0f s", time.Since(begin).Seconds())
	return f, f.failure()
}

// stageRow is a stage that is measured.
type stageRow struct {
	name, what, unit string
	// prepare prepares all measurements of the stage; nil: nothing to do.
	prepare func(ctx context.Context) error
	// scale starts or stops workers until count run.
	scale func(ctx context.Context, count int) error
	// work measures one window with these workers.
	work func(ctx context.Context) (workResult, error)
}

// workResult is the work done in a window of time.
type workResult struct {
	items   float64
	took    time.Duration
	refused int64
	cpu     float64 // seconds of processor time of all started processes
	busy    float64 // seconds of processor time of the whole machine
}

func (c *workersCommand) measure(ctx context.Context, f *findings, r stageRow) (err error) {
	progressf("workers: %s", r.what)
	defer func() { err = errors.Join(err, r.scale(context.WithoutCancel(ctx), 0)) }()
	if r.prepare != nil {
		if err := r.prepare(ctx); err != nil {
			return err
		}
	}
	seen := make([][]workResult, len(workerCounts))
	var sides []side
	for i, count := range workerCounts {
		sides = append(sides, side{fmt.Sprintf("%d workers", count), func(ctx context.Context, _ int) (float64, time.Duration, error) {
			if err := r.scale(ctx, count); err != nil {
				return 0, 0, err
			}
			w, err := r.work(ctx)
			seen[i] = append(seen[i], w)
			progressf("workers: %s: %d: %.1f %s", r.what, count, w.items/w.took.Seconds(), r.unit)
			return w.items, w.took, err
		}})
	}
	rates, err := rounds(ctx, c.Rounds, sides...)
	if err != nil {
		return err
	}
	for i, count := range workerCounts {
		f.note(fmt.Sprintf("%s, %d", r.what, count), "%s", sum(seen[i]).describe(r.unit, runtime.NumCPU()))
	}
	for i, count := range workerCounts[1:] {
		f.compare(ratio{What: fmt.Sprintf("%s: %d", r.what, count), Unit: r.unit, Ours: rates[i+1], Other: times(float64(count), rates[0]),
			Against: fmt.Sprintf("%d times one", count), Target: efficiency})
	}
	return nil
}

// times multiplies each value.
func times(by float64, values []float64) []float64 {
	out := make([]float64, len(values))
	for i, v := range values {
		out[i] = by * v
	}
	return out
}

// sum adds up several windows.
func sum(all []workResult) (out workResult) {
	for _, w := range all {
		out.items, out.took, out.refused = out.items+w.items, out.took+w.took, out.refused+w.refused
		out.cpu, out.busy = out.cpu+w.cpu, out.busy+w.busy
	}
	return out
}

// describe describes the work on a machine with a number of cores.
func (w workResult) describe(unit string, cores int) string {
	capacity := w.took.Seconds() * float64(cores)
	out := fmt.Sprintf("%.1f %s; %.1f ms of processor each, %.0f %% of the machine, of which others took %.0f %%", w.items/w.took.Seconds(), unit,
		1000*w.cpu/w.items, 100*w.cpu/capacity, 100*max(0, w.busy-w.cpu)/capacity)
	if w.refused > 0 {
		out += fmt.Sprintf("; %d refused", w.refused)
	}
	return out
}

// runCallers makes callers ask, each again as soon as it is answered, and counts the answers in a
// window. The callers start one window earlier, because a new worker's caches are empty. At the end
// all calls are cancelled. refused reports whether an error means that the caller should try again.
func (b *workersInstallation) runCallers(ctx context.Context, callers int, window time.Duration, refused func(error) bool, ask func(ctx context.Context, caller, n int) error) (out workResult, err error) {
	var count, rejected, next atomic.Int64
	var counting, over atomic.Bool
	var failed error
	var once sync.Once
	var all sync.WaitGroup
	callCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	for caller := range callers {
		all.Go(func() {
			for !over.Load() && callCtx.Err() == nil {
				err := ask(callCtx, caller, int(next.Add(1)))
				switch {
				case over.Load():
				case err == nil && counting.Load():
					count.Add(1)
				case err != nil && refused(err):
					rejected.Add(1)
				case err != nil:
					once.Do(func() { failed = err })
					cancel()
				}
			}
		})
	}
	err = pauseFor(callCtx, window)
	if err == nil {
		out, err = b.during(callCtx, window, func(context.Context) (float64, error) {
			counting.Store(true) // the first reading starts the count, the second one returns it
			return float64(count.Load()), nil
		})
	}
	over.Store(true)
	cancel()
	all.Wait()
	out.refused = rejected.Load()
	if failed != nil {
		return out, failed
	}
	return out, err
}

// during reads a counter and the processor time at the beginning and at the end of a window.
func (b *workersInstallation) during(ctx context.Context, window time.Duration, counter func(ctx context.Context) (float64, error)) (out workResult, err error) {
	type reading struct {
		items, cpu, busy float64
		at               time.Time
	}
	read := func() (r reading, err error) {
		if r.cpu, err = b.spent(); err != nil {
			return r, err
		}
		if r.busy, err = systemBusy(); err != nil {
			return r, err
		}
		r.items, err = counter(ctx)
		r.at = time.Now()
		return r, err
	}
	before, err := read()
	if err != nil {
		return out, err
	}
	if err := pauseFor(ctx, window); err != nil {
		return out, err
	}
	after, err := read()
	return workResult{items: after.items - before.items, took: after.at.Sub(before.at), cpu: after.cpu - before.cpu, busy: after.busy - before.busy}, err
}
