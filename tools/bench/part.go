package main

// This file has what the parts with a workbench share: their options, their start and their end.

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/pprof"
	"time"
)

// common are the options of every part.
type common struct {
	Docs    string        `placeholder:"FOLDER" help:"Texts to measure with: a folder in BEIR's layout or of .txt and .md files; made ones when empty."`
	Seed    uint64        `default:"1" help:"What texts, vectors and questions are made from: the same seed makes the same."`
	Rounds  int           `default:"5" help:"How often each side is measured, in turns."`
	Profile string        `placeholder:"FILE" help:"Write a CPU profile of this process there, from when measuring begins; go tool pprof reads it."`
	JSON    string        `placeholder:"FILE" help:"Write the findings there too, as JSON."`
	Timeout time.Duration `default:"20m" help:"Longest time of a part."`

	dir string // keeps the database; empty: it is removed at the end
}

// partFunc measures one part.
type partFunc func(ctx context.Context, b *workbench, t texts, f *findings) error

// run sets up, measures and cleans up.
func (c *common) run(ctx context.Context, name string, measure partFunc) error {
	f, err := c.find(ctx, name, measure)
	if f != nil {
		err = errors.Join(report(c.JSON, f), err)
	}
	return err
}

// find returns the results, also those before an error.
func (c *common) find(ctx context.Context, name string, measure partFunc) (_ *findings, err error) {
	if c.Rounds < 1 {
		return nil, fmt.Errorf("rounds: %d: it must be at least 1", c.Rounds)
	}
	t, err := openTexts(c.Docs, c.Seed)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, c.Timeout, fmt.Errorf("not done after %s: raise --timeout", c.Timeout))
	defer cancel()
	progressf("%s: starting", name)
	begin := time.Now()
	b, err := newWorkbench(ctx, c.dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	defer pprof.StopCPUProfile()
	f := &findings{Part: name, Corpus: t.name()}
	if err := measure(ctx, b, t, f); err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = errors.Join(cause, err)
		}
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	f.note("whole part took", "%.0f s", time.Since(begin).Seconds())
	return f, f.failure()
}

// measuring is called when loading is done.
func (c *common) measuring(name string) error {
	progressf("%s: measuring", name)
	if c.Profile == "" {
		return nil
	}
	file, err := os.Create(c.Profile) // closed when the program ends, and complete then
	if err == nil {
		err = pprof.StartCPUProfile(file)
	}
	if err != nil {
		return fmt.Errorf("profile: %w", err)
	}
	return nil
}

// progressf prints progress messages; results go to standard output.
func progressf(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }
