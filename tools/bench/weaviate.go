package main

// This file compares BM25 searches of a whole Sluice with those of a Weaviate server: the same
// texts and questions, each server through its own HTTP API.

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/procfs"

	"github.com/sluice-rag/sluice/internal/apiclient"
	"github.com/sluice-rag/sluice/schema/api"
)

type weaviateCommand struct {
	common
	Passages int    `default:"20000" help:"How many documents of one paragraph there are."`
	K        int    `default:"10" help:"How many documents a search returns."`
	Queries  int    `default:"400" help:"Searches of a round, for each number of callers."`
	Callers  []int  `default:"1,16" help:"Numbers of callers at a time."`
	Program  string `placeholder:"FILE" help:"The sluice to measure; the one beside this program when empty."`
	Weaviate string `placeholder:"FILE" help:"The Weaviate server; the one that tools/setup built when empty."`
}

func (c *weaviateCommand) Run(ctx context.Context) error {
	f, err := c.findings(ctx)
	if err != nil {
		return err
	}
	return report(c.JSON, f)
}

func (c *weaviateCommand) findings(ctx context.Context) (_ *findings, err error) {
	if c.Rounds < 1 || c.Passages < 1 || c.Queries < 1 || len(c.Callers) < 1 || c.K < 1 || c.K > 100 {
		return nil, errors.New("rounds, passages, queries and callers must be above 0, and k from 1 to 100")
	}
	t, err := openTexts(c.Docs, c.Seed)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, c.Timeout, fmt.Errorf("not done after %s: raise --timeout", c.Timeout))
	defer cancel()
	program, err := siblingProgram(c.Program, "sluice")
	if err != nil {
		return nil, err
	}
	other, err := findWeaviate(c.Weaviate)
	if err != nil {
		return nil, err
	}
	progressf("weaviate: starting")
	b, err := newInstallation(ctx, program)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	w, err := startWeaviate(ctx, other, b.dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.stop()) }()
	f := &findings{Part: "weaviate", Corpus: t.name()}
	if err := c.measure(ctx, b, w, t, f); err != nil {
		return nil, fmt.Errorf("weaviate: %w", err)
	}
	return f, nil
}

func (c *weaviateCommand) measure(ctx context.Context, b *installation, w *weaviate, t texts, f *findings) error {
	docs := first(t, c.Passages)
	all := flat(docs)
	all = all[:min(len(all), c.Passages)]
	f.note("corpus", "%d documents of one paragraph", len(all))
	client, err := c.fill(ctx, b, all)
	if err != nil {
		return err
	}
	progressf("weaviate: loading it")
	if err := w.fill(ctx, all); err != nil {
		return err
	}
	// The restart writes its memtables to disk, as on a server that has been running for a while.
	if err := w.restart(ctx); err != nil {
		return err
	}
	ours := func(ctx context.Context, q string) ([]string, error) {
		r, err := client.Search(ctx, api.Query{Collection: collected, Query: q, Plan: "bm25", K: c.K})
		if err != nil {
			return nil, err
		}
		out := make([]string, len(r.Passages))
		for i, p := range r.Passages {
			out[i] = p.Text
		}
		return out, nil
	}
	theirs := func(ctx context.Context, q string) ([]string, error) { return w.search(ctx, q, c.K) }
	queries := questions(docs, c.Queries, c.Seed)
	if err := c.compare(ctx, queries, ours, theirs, f); err != nil {
		return err
	}
	progressf("weaviate: measuring")
	for _, callers := range c.Callers {
		spent := [2]float64{}
		counted := func(i int, s side, seconds func() (float64, error)) side {
			return side{s.name, func(ctx context.Context, round int) (float64, time.Duration, error) {
				before, err := seconds()
				if err != nil {
					return 0, 0, err
				}
				amount, took, err := s.measure(ctx, round)
				if err != nil {
					return 0, 0, err
				}
				after, err := seconds()
				spent[i] += (after - before) / amount / float64(c.Rounds)
				return amount, took, err
			}}
		}
		rates, err := rounds(ctx, c.Rounds,
			counted(0, queryRounds("Sluice", queries, callers, c.Timeout, searchAlone(ours)), b.seconds),
			counted(1, queryRounds("Weaviate", queries, callers, c.Timeout, searchAlone(theirs)), w.seconds))
		if err != nil {
			return err
		}
		f.compare(ratio{What: fmt.Sprintf("searches, %d callers", callers), Unit: "answers/s", Ours: rates[0], Other: rates[1], Against: "Weaviate"})
		f.note(fmt.Sprintf("processor time of a search, %d callers", callers), "Sluice %.2f ms, all of its programs and PostgreSQL; Weaviate %.2f ms", spent[0]*1000, spent[1]*1000)
	}
	return nil
}

// searchAlone discards the results of a search.
func searchAlone(search func(context.Context, string) ([]string, error)) func(context.Context, string) error {
	return func(ctx context.Context, q string) error {
		_, err := search(ctx, q)
		return err
	}
}

// fill uploads the texts to a new tenant, and waits until ingestion and curation are done.
func (c *weaviateCommand) fill(ctx context.Context, b *installation, all []string) (*apiclient.Client, error) {
	operator, err := b.client()
	if err != nil {
		return nil, err
	}
	created, err := operator.CreateTenant(ctx, api.NewTenant{Name: "searched"})
	if err != nil {
		return nil, fmt.Errorf("make a tenant: %w", err)
	}
	transport := keepAlive(slices.Max(c.Callers))
	client := apiclient.Over(&http.Client{Transport: transport}, b.access.URL, created.APIKey)
	if _, err := client.CreateCollection(ctx, api.NewCollection{Name: collected}); err != nil {
		return nil, fmt.Errorf("make a collection: %w", err)
	}
	progressf("weaviate: loading Sluice")
	number := 0
	for part := range slices.Chunk(all, 250) {
		docs := make([]api.NewDocument, len(part))
		for i, text := range part {
			docs[i] = api.NewDocument{ExternalID: fmt.Sprintf("paragraph-%d", number), MediaType: "text/plain", Text: text}
			number++
		}
		if _, err := client.Upload(ctx, collected, docs); err != nil {
			return nil, fmt.Errorf("upload: %w", err)
		}
	}
	db, err := b.database(ctx)
	if err != nil {
		return nil, err
	}
	defer db.Close(context.WithoutCancel(ctx)) //nolint:errcheck // a connection that only read
	if _, err := finished(ctx, client, collected); err != nil {
		return nil, err
	}
	_, err = waitUntilZero(ctx, db, uncurated, []uuid.UUID{created.ID})
	return client, err
}

// compare notes the overlap of both sides' results. Text analysis and lengths differ; the overlap
// shows that neither side searches fewer texts.
func (c *weaviateCommand) compare(ctx context.Context, queries []string, ours, theirs func(context.Context, string) ([]string, error), f *findings) error {
	var results [2]int
	same := 0
	for _, q := range queries {
		a, err := ours(ctx, q)
		if err != nil {
			return err
		}
		b, err := theirs(ctx, q)
		if err != nil {
			return err
		}
		results[0] += len(a)
		results[1] += len(b)
		for _, text := range b {
			if slices.ContainsFunc(a, func(passage string) bool { return overlap(passage, text) }) {
				same++
			}
		}
	}
	if results[0] == 0 || results[1] == 0 {
		return fmt.Errorf("of %d questions Sluice found %d texts and Weaviate %d: nothing to compare", len(queries), results[0], results[1])
	}
	f.note("results", "%.1f of %d a search from Sluice, %.1f from Weaviate; %.0f %% of these are among Sluice's",
		float64(results[0])/float64(len(queries)), c.K, float64(results[1])/float64(len(queries)), 100*float64(same)/float64(results[1]))
	return nil
}

// seconds returns the processor seconds of all programs of Sluice so far.
func (b *installation) seconds() (float64, error) {
	used, err := account(b.sluice.cmd.Process.Pid, b.nats.cmd.Process.Pid)
	if err != nil {
		return 0, err
	}
	sum := 0.0
	for _, seconds := range used.seconds {
		sum += seconds
	}
	return sum, nil
}

// seconds returns the processor seconds of the server so far.
func (w *weaviate) seconds() (float64, error) {
	proc, err := procfs.NewProc(w.server.cmd.Process.Pid)
	if err != nil {
		return 0, fmt.Errorf("read the time of Weaviate: %w", err)
	}
	stat, err := proc.Stat()
	if err != nil {
		return 0, fmt.Errorf("read the time of Weaviate: %w", err)
	}
	return stat.CPUTime(), nil
}

// overlap reports whether a passage is part of a paragraph or contains it.
func overlap(passage, paragraph string) bool {
	passage, paragraph = strings.TrimSpace(passage), strings.TrimSpace(paragraph)
	return strings.Contains(paragraph, passage) || strings.Contains(passage, paragraph)
}
