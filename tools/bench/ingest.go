package main

// This file measures ingestion: how long a folder takes, what each part costs, and how far the time
// is from what the machine could reach if nothing ever waited.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/sluice-rag/sluice/internal/apiclient"
	"github.com/sluice-rag/sluice/schema"
)

type ingestCommand struct {
	Docs      string        `placeholder:"FOLDER" help:"What to ingest: a folder, or one in BEIR's layout; documents made for the purpose when empty."`
	Examples  string        `default:"examples/documents" help:"Folder of examples: their PDF and DOCX files are among the documents that are made."`
	Documents int           `default:"400" help:"How many documents are made."`
	Seed      uint64        `default:"1" help:"What they are made from: the same seed makes the same documents."`
	Program   string        `placeholder:"FILE" help:"The sluice to measure; the one beside this program when empty."`
	JSON      string        `placeholder:"FILE" help:"Write the result there too, as JSON."`
	Timeout   time.Duration `default:"30m" help:"Longest time of the whole measurement."`
}

// Names of the collections.
const (
	warmCollection     = "warm-up"
	measuredCollection = "measured"
)

const (
	warmDocuments = 24
	// pollInterval is the interval at which it is checked whether the last document is ready: the
	// precision of the wall time.
	pollInterval = 100 * time.Millisecond
)

func (c *ingestCommand) Run(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.Timeout, fmt.Errorf("not done after %s: raise --timeout", c.Timeout))
	defer cancel()
	if c.Program == "" {
		self, err := os.Executable()
		if err != nil {
			return fmt.Errorf("find sluice: %w", err)
		}
		c.Program = filepath.Join(filepath.Dir(self), "sluice")
	}
	if c.Program, err = filepath.Abs(c.Program); err != nil {
		return fmt.Errorf("find sluice: %w", err)
	}
	fmt.Fprintln(os.Stderr, "starting")
	b, err := newInstallation(ctx, c.Program)
	if err != nil {
		return err
	}
	result, err := c.measure(ctx, b)
	err = errors.Join(err, b.close())
	if err != nil {
		return err
	}
	if err := result.check(); err != nil {
		return err
	}
	if c.JSON != "" {
		data, err := json.MarshalIndent(result, "", "  ")
		if err != nil {
			return fmt.Errorf("write the result: %w", err)
		}
		if err := os.WriteFile(c.JSON, append(data, '\n'), 0o644); err != nil {
			return fmt.Errorf("write the result: %w", err)
		}
	}
	return result.print(os.Stdout)
}

// measure warms up and ingests.
func (c *ingestCommand) measure(ctx context.Context, b *installation) (*ingestResult, error) {
	folder, name := c.Docs, c.Docs
	var err error
	if folder == "" {
		folder, name = filepath.Join(b.dir, "corpus"), fmt.Sprintf("made from seed %d", c.Seed)
		if err = makeCorpus(folder, c.Examples, c.Documents, c.Seed); err != nil {
			return nil, err
		}
	} else if folder, err = filepath.Abs(folder); err != nil {
		return nil, fmt.Errorf("documents: %w", err)
	}
	warm := filepath.Join(b.dir, "warm")
	if err := makeCorpus(warm, c.Examples, warmDocuments, c.Seed+1); err != nil {
		return nil, err
	}
	client, err := b.client()
	if err != nil {
		return nil, err
	}
	fmt.Fprintln(os.Stderr, "warming up")
	if _, err := b.ingest(ctx, client, warm, warmCollection); err != nil {
		return nil, err
	}
	if _, err := b.idle(ctx); err != nil {
		return nil, err
	}
	fmt.Fprintln(os.Stderr, "measuring")
	m, err := b.ingest(ctx, client, folder, measuredCollection)
	if err != nil {
		return nil, err
	}
	m.Corpus = name
	return m, nil
}

// ingest ingests a folder and measures from the start of `sluice ingest` until the last document is
// ready.
func (b *installation) ingest(ctx context.Context, client *apiclient.Client, folder, collection string) (*ingestResult, error) {
	before, err := b.readCost(ctx)
	if err != nil {
		return nil, err
	}
	begin := time.Now()
	output, clientSeconds, err := b.run(ctx, "ingest", folder, "--collection", collection, "--json")
	var sent struct{ Found, Uploaded, Failed int }
	if parsing := json.Unmarshal(output, &sent); err != nil && (parsing != nil || sent.Uploaded == 0) {
		return nil, err
	}
	if sent.Uploaded == 0 {
		return nil, fmt.Errorf("there is nothing to ingest in %s", folder)
	}
	done, err := finished(ctx, client, collection)
	if err != nil {
		return nil, err
	}
	wall := time.Since(begin).Seconds()
	after, err := b.readCost(ctx)
	if err != nil {
		return nil, err
	}
	used, err := after.usage.since(before.usage)
	if err != nil {
		return nil, err
	}
	used[partClient] = clientSeconds
	// The last batch ends a moment after its documents are ready.
	last, err := b.idle(ctx)
	if err != nil {
		return nil, err
	}
	r := &ingestResult{
		Documents: int(done.Counts[schema.StateReady]), Failed: int(done.Counts[schema.StateFailed]) + sent.Failed,
		Bytes: done.Bytes, Passages: done.Passages,
		Cores: runtime.GOMAXPROCS(0), Wall: wall, CPU: used, SystemBusy: after.busy - before.busy,
	}
	r.add(last.since(before.progress))
	return r, nil
}

// reading has all counters at one moment.
type reading struct {
	usage    usage
	busy     float64
	progress progress
}

func (b *installation) readCost(ctx context.Context) (reading, error) {
	used, err := account(b.sluice.cmd.Process.Pid, b.nats.cmd.Process.Pid)
	if err != nil {
		return reading{}, err
	}
	busy, err := systemBusy()
	if err != nil {
		return reading{}, err
	}
	samples, err := scrape(ctx, b.metrics)
	if err != nil {
		return reading{}, err
	}
	return reading{used, busy, ingestion(samples)}, nil
}

// finished waits until all documents of a collection have been processed.
func finished(ctx context.Context, client *apiclient.Client, collection string) (schema.Collection, error) {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		c, err := client.Collection(ctx, collection)
		if err != nil {
			return c, err
		}
		if c.Counts[schema.StateReceived]+c.Counts[schema.StateQueued]+c.Counts[schema.StateProcessing] == 0 {
			return c, nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return c, fmt.Errorf("wait for the documents: %w", context.Cause(ctx))
		}
	}
}

// idle waits until no batch runs, and returns the progress up to then.
func (b *installation) idle(ctx context.Context) (progress, error) {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		samples, err := scrape(ctx, b.metrics)
		if err != nil {
			return progress{}, err
		}
		if p := ingestion(samples); p.open == 0 {
			return p, nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return progress{}, fmt.Errorf("wait for the batches: %w", context.Cause(ctx))
		}
	}
}
