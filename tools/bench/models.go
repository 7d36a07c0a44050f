package main

// This file measures the model server: its throughput, what batching saves, the share of padding,
// the latency of interactive requests while it works on a backlog, and how it compares with another
// program on the same ONNX Runtime.

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-rag/sluice/schema/wire"
)

type modelsCommand struct {
	Pack    string        `placeholder:"FOLDER" help:"The model pack to measure; the one that comes with Sluice when empty."`
	Seed    uint64        `default:"1" help:"What texts and questions are made from: the same seed makes the same."`
	Rounds  int           `default:"5" help:"How often each side is measured, in turns."`
	Window  time.Duration `default:"4s" help:"How long one measurement takes."`
	Program string        `placeholder:"FILE" help:"The gpu-segmenter to measure; the one beside this program when empty."`
	Node    string        `default:"/tmp/sluice-onnxruntime" help:"Folder whose node_modules have onnxruntime-node; npm puts it there when it is missing."`
	Only    []string      `placeholder:"ROW" enum:"segmentation,batching,padding,lanes,onnxruntime-node" help:"Measure these rows alone, of ${enum}; all when empty."`
	JSON    string        `placeholder:"FILE" help:"Write the findings there too, as JSON."`
	Timeout time.Duration `default:"20m" help:"Longest time of the whole measurement."`
}

const (
	// sageRate is the throughput of SAGE's segmentation in tokens per second (its table VIII).
	sageRate = 725
	// reranked is the number of passages of an interactive scoring request. callers is the number
	// of concurrent callers where there are many.
	reranked = 50
	callers  = 64
)

func (c *modelsCommand) Run(ctx context.Context) error {
	f, err := c.findings(ctx)
	if f != nil {
		err = errors.Join(report(c.JSON, f), err)
	}
	return err
}

// findings returns the results of every row that could be measured. The error names the other rows.
func (c *modelsCommand) findings(ctx context.Context) (_ *findings, err error) {
	if c.Rounds < 1 || c.Window <= 0 {
		return nil, errors.New("rounds and window must be above 0")
	}
	ctx, cancel := context.WithTimeoutCause(ctx, c.Timeout, fmt.Errorf("not done after %s: raise --timeout", c.Timeout))
	defer cancel()
	progressf("models: starting")
	begin := time.Now()
	b, err := newModelInstallation(ctx, c.Program, c.Pack)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	f := &findings{Part: "models", Corpus: fmt.Sprintf("made from seed %d", c.Seed)}
	c.measure(ctx, b, f)
	f.note("whole part took", "%.0f s", time.Since(begin).Seconds())
	return f, f.failure()
}

// measure measures all rows, even if some fail.
func (c *modelsCommand) measure(ctx context.Context, b *modelInstallation, f *findings) {
	f.note("model pack", "%s %s on %s", b.info.Pack, b.info.Version, b.info.Provider)
	t := newModelTexts(c.Seed)
	progressf("models: measuring")
	row := func(what string, measure func() error) {
		f.row(what, func() error {
			err := context.Cause(ctx)
			if err == nil {
				if err = measure(); err != nil {
					err = errors.Join(context.Cause(ctx), err)
				}
			}
			return err
		})
	}
	wanted := func(what string, measure func() error) {
		if len(c.Only) == 0 || slices.Contains(c.Only, what) {
			row(what, measure)
		}
	}
	wanted("segmentation", func() error { return c.segmentation(ctx, b, t, f) })
	wanted("batching", func() error { return c.batching(ctx, b, t, f, row) })
	wanted("padding", func() error { return c.padding(ctx, b, t, f) })
	if b.can(wire.OpScore) {
		wanted("lanes", func() error { return c.lanes(ctx, b, t, f) })
	} else {
		f.note("score", "not measured: the pack has no graph pair")
	}
	wanted("onnxruntime-node", func() error { return c.compareNode(ctx, b, t, f, row) })
}

// segmentation measures tokens per second from sentences to scores, by the clock and by the
// server's processor time.
func (c *modelsCommand) segmentation(ctx context.Context, b *modelInstallation, t *modelTexts, f *findings) error {
	var pace, busy, sage, share []float64
	for range c.Rounds {
		before, err := b.snapshot(ctx)
		if err != nil {
			return err
		}
		begin := time.Now()
		if err := together(ctx, 2, c.Window, func(ctx context.Context, i int) error {
			_, _, err := b.client.Segment(ctx, wire.LaneBulk, t.runs(i))
			return err
		}); err != nil {
			return err
		}
		took := time.Since(begin).Seconds()
		now, err := b.snapshot(ctx)
		if err != nil {
			return err
		}
		tokens := now.text["encoder"] - before.text["encoder"]
		pace, busy, sage = append(pace, tokens/took), append(busy, tokens/(now.cpu-before.cpu)), append(sage, sageRate)
		share = append(share, now.tokenisingSince(before))
	}
	f.compare(ratio{What: "segmentation", Unit: "tokens/s", Ours: pace, Other: sage, Against: "SAGE's", Target: 5})
	f.compare(ratio{What: "segmentation, by the server's CPU time", Unit: "tokens/s", Ours: busy, Other: sage, Against: "SAGE's", Target: 0})
	f.note("segmentation: share of time spent tokenising", "%.0f %% of tokenising and running graphs", 100*median(share))
	return nil
}

// padding measures the share of padding among the tokens that are run, with texts of all lengths.
func (c *modelsCommand) padding(ctx context.Context, b *modelInstallation, t *modelTexts, f *findings) error {
	var shares, tokenising []float64
	for range c.Rounds {
		before, err := b.snapshot(ctx)
		if err != nil {
			return err
		}
		if err := together(ctx, 4, c.Window/2, func(ctx context.Context, i int) error {
			var err error
			switch i % 3 {
			case 0:
				_, _, err = b.client.Encode(ctx, wire.LaneBulk, t.mixed(i, 400))
			case 1:
				_, _, err = b.client.Segment(ctx, wire.LaneBulk, t.runs(i)[:10])
			case 2:
				if b.can(wire.OpScore) {
					_, _, err = b.client.Score(ctx, wire.LaneBulk, t.questions[i%len(t.questions)], t.mixed(i, 100), false)
				}
			}
			return err
		}); err != nil {
			return err
		}
		now, err := b.snapshot(ctx)
		if err != nil {
			return err
		}
		text, padded := 0.0, 0.0
		for graph := range now.text {
			text, padded = text+now.text[graph]-before.text[graph], padded+now.padding[graph]-before.padding[graph]
		}
		shares = append(shares, padded/(text+padded))
		tokenising = append(tokenising, now.tokenisingSince(before))
	}
	f.compare(ratio{What: "padding", Unit: "of tokens", Ours: shares, Target: 0.05, AtMost: true})
	f.note("mixed load: share of time spent tokenising", "%.0f %% of tokenising and running graphs", 100*median(tokenising))
	return nil
}

// lanes measures how long an interactive scoring request takes: alone, and while bulk requests of
// every kind keep the server busy.
func (c *modelsCommand) lanes(ctx context.Context, b *modelInstallation, t *modelTexts, f *findings) error {
	askAll := func(ctx context.Context) (float64, error) {
		var times []time.Duration
		err := together(ctx, 1, c.Window, func(ctx context.Context, i int) error {
			begin := time.Now()
			_, _, err := b.client.Score(ctx, wire.LaneInteractive, t.questions[i%len(t.questions)], t.some(i, reranked), false)
			times = append(times, time.Since(begin))
			return err
		})
		if err != nil {
			return 0, err
		}
		return quantile(millis(times), 0.95), nil
	}
	var alone, beside []float64
	for range c.Rounds {
		p95, err := askAll(ctx)
		if err != nil {
			return err
		}
		alone = append(alone, p95)
		loaded, stop := context.WithCancel(ctx)
		bulk := make(chan error, 1)
		go func() {
			// Calls in progress are not cancelled: the server would finish accepted work anyway.
			bulk <- together(loaded, 6, c.Timeout, func(_ context.Context, i int) error {
				var err error
				switch i % 3 {
				case 0:
					_, _, err = b.client.Encode(ctx, wire.LaneBulk, t.mixed(i, 400))
				case 1:
					_, _, err = b.client.Segment(ctx, wire.LaneBulk, t.runs(i))
				case 2:
					_, _, err = b.client.Score(ctx, wire.LaneBulk, t.questions[i%len(t.questions)], t.some(i, 400), false)
				}
				return err
			})
		}()
		p95, err = askAll(ctx)
		stop()
		if err = errors.Join(err, <-bulk); err != nil {
			return err
		}
		beside = append(beside, p95)
	}
	f.compare(ratio{What: fmt.Sprintf("p95 of scoring %d passages under full bulk load", reranked), Unit: "ms", Ours: beside, Other: alone, Against: "alone", Target: 2, AtMost: true})
	return nil
}

// together makes callers repeat do for a while, each call with a number of its own, and waits for
// them.
func together(ctx context.Context, callers int, window time.Duration, do func(ctx context.Context, i int) error) error {
	var group sync.WaitGroup
	var next atomic.Int64
	errs := make([]error, callers)
	end := time.Now().Add(window)
	for caller := range callers {
		group.Go(func() {
			for time.Now().Before(end) && errs[caller] == nil && ctx.Err() == nil {
				errs[caller] = do(ctx, int(next.Add(1)-1))
			}
		})
	}
	group.Wait()
	return errors.Join(errs...)
}
