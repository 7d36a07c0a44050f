package main

// This file measures the latency of one tenant's searches while another tenant with a hundred times
// the load ingests and searches, in a whole running Sluice and through its API.

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-rag/sluice/internal/apiclient"
	"github.com/sluice-rag/sluice/schema/api"
)

type neighbourCommand struct {
	Examples string        `default:"examples/documents" help:"Folder of examples: their PDF and DOCX files are among the documents that are made."`
	Seed     uint64        `default:"1" help:"What documents and questions are made from."`
	Rounds   int           `default:"5" help:"How often the tenant is measured alone and beside the other, in turns."`
	Window   time.Duration `default:"12s" help:"How long one measurement takes."`
	Rate     float64       `default:"4" help:"Searches per second of the tenant that is measured."`
	Noise    float64       `default:"100" help:"How many times as often the other one searches, and uploads documents."`
	Open     int           `default:"64" help:"How many of the other's searches are under way at most."`
	Program  string        `placeholder:"FILE" help:"The sluice to measure; the one beside this program when empty."`
	JSON     string        `placeholder:"FILE" help:"Write the findings there too, as JSON."`
	Timeout  time.Duration `default:"20m" help:"Longest time of the whole measurement."`
}

const (
	// uploadRate is the number of documents per second that the noisy tenant uploads, per search
	// per second of its load.
	uploadRate   = 0.1
	ownDocuments = 40
	collected    = "documents"
)

func (c *neighbourCommand) Run(ctx context.Context) (err error) {
	f, err := c.find(ctx)
	if err != nil {
		return err
	}
	return report(c.JSON, f)
}

func (c *neighbourCommand) find(ctx context.Context) (_ *findings, err error) {
	if c.Rounds < 1 || c.Rate <= 0 || c.Noise <= 0 || c.Open < 1 {
		return nil, errors.New("rounds, rate, noise and open must be above 0")
	}
	ctx, cancel := context.WithTimeoutCause(ctx, c.Timeout, fmt.Errorf("not done after %s: raise --timeout", c.Timeout))
	defer cancel()
	program, err := siblingProgram(c.Program, "sluice")
	if err != nil {
		return nil, err
	}
	progressf("neighbour: starting")
	begin := time.Now()
	b, err := newInstallation(ctx, program)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	f := &findings{Part: "neighbour", Corpus: fmt.Sprintf("made from seed %d", c.Seed)}
	if err := c.measure(ctx, b, f); err != nil {
		return nil, fmt.Errorf("neighbour: %w", err)
	}
	f.note("whole part took", "%.0f s", time.Since(begin).Seconds())
	return f, nil
}

// siblingProgram returns the path of a program: the given one, or the one beside this program.
func siblingProgram(program, name string) (string, error) {
	if program == "" {
		self, err := os.Executable()
		if err != nil {
			return "", fmt.Errorf("find %s: %w", name, err)
		}
		program = filepath.Join(filepath.Dir(self), name)
	}
	program, err := filepath.Abs(program)
	if err != nil {
		return "", fmt.Errorf("find %s: %w", name, err)
	}
	return program, nil
}

// tenant is a tenant with documents.
type tenant struct {
	client *apiclient.Client
	key    string
	random *rand.Rand
	writer *writer
	serial int
}

// newTenant creates a tenant with a collection.
func (c *neighbourCommand) newTenant(ctx context.Context, b *installation, operator *apiclient.Client, name string, n int) (*tenant, error) {
	created, err := operator.CreateTenant(ctx, api.NewTenant{Name: name})
	if err != nil {
		return nil, fmt.Errorf("make tenant %s: %w", name, err)
	}
	client, err := apiclient.New(b.access.URL, created.APIKey)
	if err != nil {
		return nil, err
	}
	if _, err := client.CreateCollection(ctx, api.NewCollection{Name: collected}); err != nil {
		return nil, fmt.Errorf("make a collection of tenant %s: %w", name, err)
	}
	random := rand.New(rand.NewPCG(c.Seed, uint64(n)))
	return &tenant{client: client, key: created.APIKey, random: random, writer: &writer{random: random, topic: topics()[n]}}, nil
}

// upload uploads new documents.
func (t *tenant) upload(ctx context.Context, count int) error {
	docs := make([]api.NewDocument, count)
	for i := range docs {
		t.serial++
		t.writer.turn()
		docs[i] = api.NewDocument{ExternalID: fmt.Sprintf("document-%d", t.serial), MediaType: "text/markdown", Content: t.writer.markdown()}
	}
	_, err := t.client.Upload(ctx, collected, docs)
	return err
}

// question returns the words of a heading: a few things of the topic.
func (t *tenant) question() string {
	t.writer.turn()
	return strings.TrimSuffix(t.writer.sentence(), ".")
}

func (c *neighbourCommand) measure(ctx context.Context, b *installation, f *findings) error {
	operator, err := b.client()
	if err != nil {
		return err
	}
	quiet, err := c.newTenant(ctx, b, operator, "quiet", 0)
	if err != nil {
		return err
	}
	noisy, err := c.newTenant(ctx, b, operator, "noisy", 1)
	if err != nil {
		return err
	}
	for _, t := range []*tenant{quiet, noisy} {
		if err := t.upload(ctx, ownDocuments); err != nil {
			return err
		}
		if _, err := finished(ctx, t.client, collected); err != nil {
			return err
		}
	}
	warm := []string{}
	for range 30 {
		warm = append(warm, quiet.question())
	}
	for _, q := range warm {
		if _, err := quiet.client.Search(ctx, api.Query{Collection: collected, Query: q}); err != nil {
			return fmt.Errorf("search: %w", err)
		}
	}
	progressf("neighbour: measuring")
	var alone, with []float64
	refused := 0 // searches of the quiet tenant
	var noise noiseCount
	for round := range c.Rounds {
		measureAlone := func() error {
			ms, failed, err := c.window(ctx, quiet)
			if failed > 0 {
				err = fmt.Errorf("%d searches of a tenant that is alone failed, such as: %w", failed, err)
			}
			alone = append(alone, quantile(ms, 0.95))
			return err
		}
		measureWith := func() error {
			stop := c.makeNoise(ctx, noisy, &noise)
			ms, failed, err := c.window(ctx, quiet)
			stop()
			if failed < c.count() {
				err = nil
			}
			refused += failed
			with = append(with, quantile(ms, 0.95))
			if err != nil {
				return err
			}
			// Finish the noisy tenant's work, so that it does not affect the next window.
			_, err = finished(ctx, noisy.client, collected)
			return err
		}
		order := []func() error{measureAlone, measureWith}
		if round%2 == 1 {
			order[0], order[1] = order[1], order[0]
		}
		for _, f := range order {
			if err := f(); err != nil {
				return err
			}
		}
	}
	spent := c.Window.Seconds() * float64(c.Rounds)
	f.note("tenant that is measured", "%g searches/s in %d documents; %d of %d were refused beside the other, however often they were tried",
		c.Rate, ownDocuments, refused, c.Rounds*c.count())
	f.note("noise", "%.1f searches/s were answered (%.0f were offered), %.1f refused/s; %.1f documents/s were uploaded",
		float64(noise.answered.Load())/spent, c.Rate*c.Noise, float64(noise.refused.Load())/spent, float64(noise.uploaded.Load())/spent)
	f.compare(ratio{What: "p95 of a search, beside a noisy tenant", Unit: "ms", Ours: with, Other: alone, Against: "alone", Target: 2, AtMost: true})
	return nil
}

// count returns the number of searches of one window.
func (c *neighbourCommand) count() int { return max(1, int(c.Window.Seconds()*c.Rate)) }

// window searches at the tenant's rate and returns how long each search took, in milliseconds, and
// how many failed, with the last error. A failed search counts with the time until it failed. Each
// search starts when it is due, regardless of earlier ones.
func (c *neighbourCommand) window(ctx context.Context, t *tenant) (ms []float64, failed int, err error) {
	took, errs := make([]time.Duration, c.count()), make([]error, c.count())
	tick := time.NewTicker(time.Duration(float64(time.Second) / c.Rate))
	defer tick.Stop()
	var wg sync.WaitGroup
	defer wg.Wait()
	for i := range took {
		q := t.question()
		wg.Go(func() {
			took[i], errs[i] = timed(func() error {
				_, err := t.client.Search(ctx, api.Query{Collection: collected, Query: q})
				return err
			})
		})
		select {
		case <-tick.C:
		case <-ctx.Done():
			return []float64{0}, 0, context.Cause(ctx)
		}
	}
	wg.Wait()
	for _, e := range errs {
		if e != nil {
			failed, err = failed+1, e
		}
	}
	return millis(took), failed, err
}

// noiseCount counts the operations of the noisy tenant.
type noiseCount struct{ answered, refused, uploaded atomic.Int64 }

// makeNoise searches and uploads at a high rate until the returned function is called.
func (c *neighbourCommand) makeNoise(ctx context.Context, t *tenant, count *noiseCount) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var questions []string
	for range 200 {
		questions = append(questions, t.question())
	}
	var wg sync.WaitGroup
	due := make(chan string)
	wg.Go(func() {
		defer close(due)
		tick := time.NewTicker(time.Duration(float64(time.Second) / (c.Rate * c.Noise)))
		defer tick.Stop()
		for i := 0; ; i++ {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
			select {
			case due <- questions[i%len(questions)]:
			default: // the maximum number of requests is running
			}
		}
	})
	for range c.Open {
		wg.Go(func() {
			for q := range due {
				if _, err := t.client.Search(ctx, api.Query{Collection: collected, Query: q}); err == nil {
					count.answered.Add(1)
				} else if ctx.Err() == nil {
					count.refused.Add(1)
				}
			}
		})
	}
	wg.Go(func() {
		const atOnce = 10
		tick := time.NewTicker(time.Duration(float64(atOnce) * float64(time.Second) / (c.Rate * c.Noise * uploadRate)))
		defer tick.Stop()
		for {
			if err := t.upload(ctx, atOnce); err == nil {
				count.uploaded.Add(atOnce)
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	})
	return func() {
		cancel()
		wg.Wait()
	}
}
