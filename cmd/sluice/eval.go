package main

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/cmd/internal/apiclient"
	"github.com/sluice-rag/sluice/internal/config"
	"github.com/sluice-rag/sluice/internal/evaluate"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
)

// evalCommand measures plans on datasets, through the public API.
type evalCommand struct {
	config.Client
	Datasets []string `arg:"" name:"dataset" help:"BEIR folders: corpus.jsonl, queries.jsonl, qrels/."`
	Plan     []string `short:"p" sep:"," placeholder:"A,B,C" help:"Plans to compare; the default one when empty."`
	Split    string   `default:"test" help:"Which questions: those of qrels/SPLIT.tsv."`
	Limit    int      `help:"Ask only so many questions, drawn at random; 0 is all."`
	Seed     uint64   `default:"1" help:"Seed of the draw."`
	Keep     bool     `help:"Leave the collection for another run, which then need not ingest again."`
	JSON     string   `name:"json" placeholder:"FILE" help:"Write the figures as JSON; - is standard output."`
	HTML     string   `name:"html" placeholder:"FILE" help:"Write a report with plots."`
	Parallel int      `default:"2" help:"Questions at once; 1 for times that nothing else is in."`
	K        []int    `short:"k" sep:"," help:"More cutoffs k for the figures beside those always given."`
	Language string   `default:"en" help:"Language of the documents."`

	Segmentation string `placeholder:"BY[,SETTING=N]" help:"How sections become passages: segmenter (when left out), similarity or sentences, and settings."`
}

// curationStuck is after how long without progress curation is given up.
const curationStuck = 5 * time.Minute

// cleaning is how long the end may take after a Ctrl-C.
const cleaning = time.Minute

func (c *evalCommand) Run(ctx context.Context) (err error) {
	if len(c.Plan) == 0 {
		c.Plan = []string{""}
	}
	options := evaluate.Options{Plans: c.Plan, Limit: c.Limit, Seed: c.Seed, Parallel: c.Parallel, Cutoffs: c.K}
	if err := errors.Join(options.Check(), writable("json", c.JSON), writable("html", c.HTML)); err != nil {
		return err
	}
	segmentation, err := schema.ParseSegmentation(c.Segmentation)
	if err == nil {
		segmentation, err = segmentation.Complete()
	}
	if err != nil {
		return err
	}
	datasets := make([]*evaluate.Dataset, len(c.Datasets))
	for i, dir := range c.Datasets {
		if datasets[i], err = evaluate.ReadDataset(dir, c.Split); err != nil {
			return err
		}
	}
	client, stop, err := c.server(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	return c.measure(datasets, func(d *evaluate.Dataset) (*evaluate.Results, error) {
		e := &evaluation{evalCommand: c, client: client, dataset: d, options: options, segmentation: segmentation}
		return e.run(ctx)
	})
}

// measure evaluates the datasets, each with one. Files have what is done after
// every dataset; standard output, which is not written twice, at the end.
func (c *evalCommand) measure(datasets []*evaluate.Dataset, one func(*evaluate.Dataset) (*evaluate.Results, error)) (err error) {
	var done []*evaluate.Results
	var summaries []evaluate.Summary
	screen := os.Stdout
	if c.JSON == "-" {
		screen = os.Stderr
		defer func() {
			if len(summaries) > 0 {
				err = errors.Join(err, c.writeJSON(summaries))
			}
		}()
	}
	for _, d := range datasets {
		results, err := one(d)
		if err != nil {
			return fmt.Errorf("%s: %w", d.Name, err)
		}
		summary := results.Summary()
		if err := printSummary(screen, summary); err != nil {
			return err
		}
		done, summaries = append(done, results), append(summaries, summary)
		if err := c.report(done, summaries); err != nil {
			return err
		}
	}
	return nil
}

// writable reports a file that could not be written, before the work is done.
func writable(flag, path string) error {
	if path == "" || path == "-" {
		return nil
	}
	if info, err := os.Stat(filepath.Dir(path)); err != nil || !info.IsDir() {
		return schema.Invalid(flag, "%s: there is no folder %s", path, filepath.Dir(path))
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return schema.Invalid(flag, "%s is a folder", path)
	}
	return nil
}

// evaluation is one dataset's.
type evaluation struct {
	*evalCommand
	client     *apiclient.Client
	dataset    *evaluate.Dataset
	options    evaluate.Options
	collection string

	segmentation schema.Segmentation // complete
}

var unnamed = regexp.MustCompile(`[^a-zA-Z0-9._-]+`)

// run ingests the dataset, asks its questions, and removes what it made.
func (e *evaluation) run(ctx context.Context) (_ *evaluate.Results, err error) {
	made, err := e.open(ctx)
	if err != nil {
		return nil, err
	}
	if made && !e.Keep {
		defer func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleaning)
			defer cancel()
			if gone := e.client.DeleteCollection(ctx, e.collection); gone != nil {
				err = errors.Join(err, fmt.Errorf("delete collection %s: %w", e.collection, gone))
			}
		}()
	}
	if err := e.plans(ctx); err != nil {
		return nil, err
	}
	failed, err := e.ingest(ctx)
	if err != nil {
		return nil, err
	}
	if err := e.curated(ctx); err != nil {
		return nil, err
	}
	bar := newCounter(os.Stderr, e.dataset.Name+" questions")
	defer bar.end()
	e.options.Progress = bar.show
	results, err := evaluate.Run(ctx, e.dataset, e, e.options)
	if err != nil {
		return nil, err
	}
	results.Failed, results.Segmentation = failed, e.segmentation.String()
	return results, nil
}

// open finds the collection that an earlier run kept, or makes one. A kept one is
// named after the folder, its content and how it is cut; one that goes again has a
// name that no other run uses.
func (e *evaluation) open(ctx context.Context) (made bool, err error) {
	name := unnamed.ReplaceAllString(e.dataset.Name, "-")
	e.collection = fmt.Sprintf("eval-%.60s-%s-%s", name, e.Language, e.dataset.Hash[:12])
	usual, err := schema.Segmentation{}.Complete()
	if err != nil {
		return false, err
	}
	if e.segmentation != usual {
		sum := sha256.Sum256([]byte(e.segmentation.String()))
		e.collection += fmt.Sprintf("-%s-%x", e.segmentation.By, sum[:4])
	}
	have, err := e.client.Collection(ctx, e.collection)
	if err == nil && have.Segmentation != e.segmentation {
		return false, schema.Invalid("segmentation", "collection %s was rebuilt since it was kept, with %s: delete it", e.collection, have.Segmentation)
	}
	if !apiclient.IsStatus(err, http.StatusNotFound) {
		return false, err
	}
	if !e.Keep {
		e.collection += "-" + uuid.NewString()[:8]
	}
	_, err = e.client.CreateCollection(ctx, api.NewCollection{Name: e.collection, Language: e.Language, Segmentation: &e.segmentation,
		Description: "documents of " + e.dataset.Name + ", for sluice eval"})
	if e.Keep && apiclient.IsStatus(err, http.StatusConflict) {
		return false, nil // another run has just made it
	}
	return true, err
}

// plans tries every plan, so that a wrong name is told before the ingestion, and
// learns what the default one is called.
func (e *evaluation) plans(ctx context.Context) error {
	names := make([]string, len(e.options.Plans))
	for i, plan := range e.options.Plans {
		found, err := e.Search(ctx, plan, e.dataset.Queries[0].Text, 1, 0)
		if err != nil {
			return fmt.Errorf("plan %q: %w", plan, err)
		}
		names[i] = found.Plan
	}
	e.options.Plans = names
	return e.options.Check() // the default plan may have been named too
}

// ingest puts the documents in and returns how many failed.
func (e *evaluation) ingest(ctx context.Context) (failed int, err error) {
	begin := time.Now()
	run := &ingestion{ingestCommand: &ingestCommand{Paths: []string{e.dataset.Dir}, Collection: e.collection, Language: e.Language, Wait: true, Parallel: 4},
		client: e.client, sent: map[string]bool{}, progress: newProgress(os.Stderr, false)}
	err = run.upload(ctx, schema.Attributes{})
	if err == nil {
		err = run.wait(ctx)
	}
	run.progress.end()
	if err != nil {
		return 0, err
	}
	s := run.summary
	if s.Uploaded == 0 {
		fmt.Fprintf(os.Stderr, "%s: %d documents are there from an earlier run\n", e.dataset.Name, s.Unchanged)
	} else {
		fmt.Fprintf(os.Stderr, "%s: %d documents ingested in %.0f s (%.0f a second), %d there already\n", e.dataset.Name, s.Uploaded,
			time.Since(begin).Seconds(), float64(s.Uploaded)/time.Since(begin).Seconds(), s.Unchanged)
	}
	for i, f := range s.Failures {
		if i == 10 {
			fmt.Fprintf(os.Stderr, "  and %d more\n", len(s.Failures)-i)
			break
		}
		fmt.Fprintf(os.Stderr, "  failed  %s  %s: %s\n", printable(f.Document), f.Code, printable(f.Message))
	}
	return s.Failed, nil
}

// curated waits until the documents are in clusters. They are found before, each
// section as a cluster of its own, and that is not what is to be measured.
func (e *evaluation) curated(ctx context.Context) error {
	bar := newCounter(os.Stderr, e.dataset.Name+" curated")
	defer bar.end()
	least, since := int64(-1), time.Now()
	for pause := 50 * time.Millisecond; ; pause = min(pause*3/2, time.Second) {
		c, err := e.client.Collection(ctx, e.collection)
		if err != nil {
			return err
		}
		switch {
		case c.Uncurated == 0:
			return nil
		case least < 0 || c.Uncurated < least:
			least, since = c.Uncurated, time.Now()
		case time.Since(since) > curationStuck:
			return fmt.Errorf("%d documents are not clustered, and none was for %s: see the server's log", c.Uncurated, curationStuck)
		}
		bar.show(max(e.dataset.Documents-int(c.Uncurated), 0), e.dataset.Documents)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}

// Search implements evaluate.Searcher.
func (e *evaluation) Search(ctx context.Context, plan, question string, depth, passages int) (evaluate.Found, error) {
	found, err := e.client.Search(ctx, api.Query{Collection: e.collection, Query: question, Plan: plan, Documents: depth, K: passages})
	if err != nil {
		return evaluate.Found{}, err
	}
	out := evaluate.Found{Plan: found.Plan, Passages: found.Passages, Context: found.Context, Stages: found.Trace, Millis: found.Millis}
	for _, d := range found.Documents {
		out.Documents = append(out.Documents, d.Document)
	}
	return out, nil
}

// report writes the files.
func (c *evalCommand) report(done []*evaluate.Results, summaries []evaluate.Summary) error {
	if c.JSON != "" && c.JSON != "-" {
		if err := c.writeJSON(summaries); err != nil {
			return err
		}
	}
	if c.HTML == "" {
		return nil
	}
	about := fmt.Sprintf("%s, sluice %s", time.Now().Format("2 January 2006, 15:04"), version)
	return write(c.HTML, func(w io.Writer) error { return evaluate.WriteHTML(w, done, summaries, about) })
}

// writeJSON writes one object for one dataset and a list for several, however
// many of them are done.
func (c *evalCommand) writeJSON(summaries []evaluate.Summary) error {
	return write(c.JSON, func(w io.Writer) error {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		if len(c.Datasets) == 1 {
			return e.Encode(summaries[0])
		}
		return e.Encode(summaries)
	})
}

// write writes a file whole or not at all; "-" is standard output.
func write(path string, content func(io.Writer) error) error {
	if path == "-" {
		return content(os.Stdout)
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	err = content(f)
	if err == nil {
		err = f.Chmod(0o644)
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", path, err), os.Remove(f.Name()))
	}
	return nil
}
