package main

// This file measures how many searches per second a whole running Sluice answers for one tenant
// through its API, by the number of concurrent callers.

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-rag/sluice/internal/apiclient"
	"github.com/sluice-rag/sluice/schema/api"
)

type callersCommand struct {
	Seed      uint64        `default:"1" help:"What documents and questions are made from."`
	Rounds    int           `default:"5" help:"How often each number of callers is measured, in turns."`
	Window    time.Duration `default:"8s" help:"How long one measurement takes."`
	Documents int           `default:"400" help:"Documents of the collection."`
	Callers   []int         `default:"8,32,64" help:"Numbers of callers; each is compared with the first."`
	Program   string        `placeholder:"FILE" help:"The sluice to measure; the one beside this program when empty."`
	JSON      string        `placeholder:"FILE" help:"Write the findings there too, as JSON."`
	Timeout   time.Duration `default:"20m" help:"Longest time of the whole measurement."`
}

func (c *callersCommand) Run(ctx context.Context) error {
	f, err := c.findings(ctx)
	if err != nil {
		return err
	}
	return report(c.JSON, f)
}

func (c *callersCommand) findings(ctx context.Context) (_ *findings, err error) {
	if c.Rounds < 1 || c.Documents < 1 || len(c.Callers) < 2 {
		return nil, errors.New("rounds and documents must be above 0, and callers two numbers or more")
	}
	ctx, cancel := context.WithTimeoutCause(ctx, c.Timeout, fmt.Errorf("not done after %s: raise --timeout", c.Timeout))
	defer cancel()
	program, err := siblingProgram(c.Program, "sluice")
	if err != nil {
		return nil, err
	}
	progressf("callers: starting")
	b, err := newInstallation(ctx, program)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	f := &findings{Part: "callers", Corpus: fmt.Sprintf("%d documents made from seed %d", c.Documents, c.Seed)}
	if err := c.measure(ctx, b, f); err != nil {
		return nil, fmt.Errorf("callers: %w", err)
	}
	return f, nil
}

// callerGroup is a number of concurrent callers, and their measurements.
type callerGroup struct {
	size    int
	refused atomic.Int64
	mu      sync.Mutex
	took    []time.Duration
}

func (c *callersCommand) measure(ctx context.Context, b *installation, f *findings) error {
	operator, err := b.client()
	if err != nil {
		return err
	}
	t, err := (&neighbourCommand{Seed: c.Seed}).newTenant(ctx, b, operator, "crowd", 0)
	if err != nil {
		return err
	}
	transport := keepAlive(slices.Max(c.Callers))
	defer transport.CloseIdleConnections()
	t.client = apiclient.Over(&http.Client{Transport: transport}, b.access.URL, t.key)
	for left := c.Documents; left > 0; left -= ownDocuments {
		if err := t.upload(ctx, min(left, ownDocuments)); err != nil {
			return err
		}
	}
	if _, err := finished(ctx, t.client, collected); err != nil {
		return err
	}
	questions := make([]string, 500)
	for i := range questions {
		questions[i] = t.question()
	}
	for _, q := range questions[:30] {
		if _, err := t.client.Search(ctx, api.Query{Collection: collected, Query: q}); err != nil {
			return fmt.Errorf("search: %w", err)
		}
	}
	progressf("callers: measuring")
	callerGroups, sides := make([]*callerGroup, len(c.Callers)), make([]side, len(c.Callers))
	for i, size := range c.Callers {
		callerGroups[i] = &callerGroup{size: size}
		sides[i] = side{fmt.Sprintf("%d callers", size), func(ctx context.Context, _ int) (float64, time.Duration, error) {
			return callerGroups[i].search(ctx, t, questions, c.Window)
		}}
	}
	rates, err := rounds(ctx, c.Rounds, sides...)
	if err != nil {
		return err
	}
	for i, callerGroup := range callerGroups {
		ms := millis(callerGroup.took)
		f.note(sides[i].name, "%.1f answers/s; p50 %.0f ms, p95 %.0f ms; %d refused after the client had come again",
			median(rates[i]), median(ms), quantile(ms, 0.95), callerGroup.refused.Load())
	}
	for i, callerGroup := range callerGroups[1:] {
		f.compare(ratio{What: fmt.Sprintf("searches answered to %d callers", callerGroup.size), Unit: "answers/s", Ours: rates[i+1], Other: rates[0],
			Against: sides[0].name, Target: 1})
	}
	return nil
}

// search makes all callers search, each again as soon as it is answered. It counts the answers of
// one window, which starts a quarter of its length after the callers.
func (c *callerGroup) search(ctx context.Context, t *tenant, questions []string, window time.Duration) (answered float64, took time.Duration, err error) {
	ctx, leave := context.WithCancel(ctx)
	defer leave()
	from := time.Now().Add(window / 4)
	until := from.Add(window)
	time.AfterFunc(time.Until(until), leave)
	var next, count atomic.Int64
	var failed error
	var wg sync.WaitGroup
	for range c.size {
		wg.Go(func() {
			for ctx.Err() == nil {
				q := questions[int(next.Add(1))%len(questions)]
				took, err := timed(func() error {
					_, err := t.client.Search(ctx, api.Query{Collection: collected, Query: q})
					return err
				})
				if now := time.Now(); now.Before(from) || !now.Before(until) {
					continue
				}
				c.mu.Lock()
				switch {
				case err == nil:
					count.Add(1)
					c.took = append(c.took, took)
				case apiclient.IsStatus(err, http.StatusTooManyRequests), apiclient.IsStatus(err, http.StatusServiceUnavailable):
					c.refused.Add(1)
				default:
					failed = err
				}
				c.mu.Unlock()
			}
		})
	}
	wg.Wait()
	return float64(count.Load()), window, failed
}
