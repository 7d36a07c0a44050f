package main

// This file evaluates one dataset: it ingests the dataset once for each segmentation that the plans
// need, asks its questions, and deletes the collections that it created.

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/apiclient"
	"github.com/sluice-rag/sluice/internal/evaluate"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
)

// curationStuck is how long curation may make no progress.
const curationStuck = 5 * time.Minute

// evaluation is the evaluation of one dataset.
type evaluation struct {
	*evalCommand
	client  *apiclient.Client
	dataset *evaluate.Dataset
	options evaluate.Options

	segmentation schema.Segmentation        // for all plans, complete; zero: each plan's own
	collections  map[string]*evalCollection // by plan

	matrix *matrixRows // nil: plans of the server are compared
}

// evalCollection is a collection with the dataset's documents in one segmentation.
type evalCollection struct {
	segmentation schema.Segmentation // complete
	collection   string
}

var notInNames = regexp.MustCompile(`[^a-zA-Z0-9._-]+`)

// run runs the evaluation.
func (e *evaluation) run(ctx context.Context) (_ *evaluate.Results, err error) {
	collections, err := e.plans(ctx)
	if err != nil {
		return nil, err
	}
	failed := 0
	for _, g := range collections {
		var created bool
		if created, err = e.open(ctx, g); err != nil {
			return nil, err
		}
		if created && !e.Keep {
			defer func() {
				if e.matrix != nil && (err != nil || e.matrix.later(g)) {
					return // a later server or run uses the documents
				}
				ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleaning)
				defer cancel()
				if deleteErr := e.client.DeleteCollection(ctx, g.collection); deleteErr != nil {
					err = errors.Join(err, fmt.Errorf("delete collection %s: %w", g.collection, deleteErr))
				}
			}()
		}
		var f int
		if f, err = e.ingest(ctx, g); err == nil {
			err = e.waitForCuration(ctx, g)
		}
		if err != nil {
			return nil, err
		}
		failed = max(failed, f)
	}
	if e.matrix != nil {
		e.matrix.ingested(failed)
	} else {
		bar := newCounter(os.Stderr, e.dataset.Name+" questions")
		defer bar.end()
		e.options.Progress = bar.show
	}
	var results *evaluate.Results
	if results, err = evaluate.Run(ctx, e.dataset, e, e.options); err != nil {
		return nil, err
	}
	results.Failed, results.Segmentations = failed, map[string]string{}
	for plan, g := range e.collections {
		results.Segmentations[plan] = g.segmentation.String()
	}
	return results, nil
}

// plans resolves the plans and their segmentations, and the name of the default plan. An unknown
// name is reported before anything is ingested.
func (e *evaluation) plans(ctx context.Context) (collections []*evalCollection, err error) {
	if e.matrix != nil {
		return e.cut(e.matrix.plans)
	}
	known, err := e.client.Plans(ctx)
	if err != nil {
		return nil, fmt.Errorf("ask for the plans: %w", err)
	}
	var all []string
	byName := map[string]schema.Plan{}
	for _, p := range known {
		all = append(all, p.Name)
		byName[p.Name] = p
		if p.Default {
			byName[""] = p
		}
	}
	chosen := make([]schema.Plan, len(e.options.Plans))
	for i, name := range e.options.Plans {
		found := false
		if chosen[i], found = byName[name]; !found {
			return nil, schema.Invalid("plan", "the server has no plan %q; it has: %s", name, strings.Join(all, ", "))
		}
	}
	return e.cut(chosen)
}

// cut determines the collection that each plan searches.
func (e *evaluation) cut(plans []schema.Plan) (collections []*evalCollection, err error) {
	names := make([]string, len(plans))
	e.collections = map[string]*evalCollection{}
	bySegmentation := map[schema.Segmentation]*evalCollection{}
	for i, plan := range plans {
		cut := e.segmentation
		if cut == (schema.Segmentation{}) && plan.Segmentation != nil {
			cut = *plan.Segmentation
		}
		if cut, err = cut.Complete(); err != nil {
			return nil, fmt.Errorf("plan %s: %w", plan.Name, err)
		}
		if bySegmentation[cut] == nil {
			bySegmentation[cut] = &evalCollection{segmentation: cut}
			collections = append(collections, bySegmentation[cut])
		}
		names[i], e.collections[plan.Name] = plan.Name, bySegmentation[cut]
	}
	e.options.Plans = names
	return collections, e.options.Check() // checks again for duplicates, now that the default plan's name is known
}

// open finds the collection that an earlier run kept, or creates one. The name of a kept collection
// is made of the folder, a hash of the content and the segmentation. A collection that is deleted
// at the end gets a unique name.
func (e *evaluation) open(ctx context.Context, g *evalCollection) (created bool, err error) {
	name := notInNames.ReplaceAllString(e.dataset.Name, "-")
	g.collection = fmt.Sprintf("eval-%.60s-%s-%s", name, e.Language, e.dataset.Hash[:12])
	usual, err := schema.Segmentation{}.Complete()
	if err != nil {
		return false, err
	}
	if g.segmentation != usual {
		sum := sha256.Sum256([]byte(g.segmentation.String()))
		g.collection += fmt.Sprintf("-%s-%x", g.segmentation.By, sum[:4])
	}
	if e.matrix != nil {
		g.collection = "eval-" + e.matrix.namePart + strings.TrimPrefix(g.collection, "eval")
	}
	have, err := e.client.Collection(ctx, g.collection)
	if err == nil && have.Segmentation != g.segmentation {
		return false, schema.Invalid("segmentation", "collection %s, kept by an earlier run, has been rebuilt with segmentation %s: delete it", g.collection, have.Segmentation)
	}
	if !apiclient.IsStatus(err, http.StatusNotFound) {
		return e.matrix != nil && err == nil, err // created by an earlier run of the matrix
	}
	if !e.Keep && e.matrix == nil {
		g.collection += "-" + uuid.NewString()[:8]
	}
	_, err = e.client.CreateCollection(ctx, api.NewCollection{Name: g.collection, Language: e.Language, Segmentation: &g.segmentation,
		Description: "documents of " + e.dataset.Name + ", for sluice eval"})
	if (e.Keep || e.matrix != nil) && apiclient.IsStatus(err, http.StatusConflict) {
		return false, nil // another run has just created it
	}
	return true, err
}

// ingest ingests the documents and returns how many failed.
func (e *evaluation) ingest(ctx context.Context, g *evalCollection) (failed int, err error) {
	if e.dataset.Documents == 0 {
		fmt.Fprintf(os.Stderr, "%s: there is no corpus.jsonl: plans find nothing, and the language model answers without documents\n", e.dataset.Name)
		return 0, nil
	}
	begin := time.Now()
	run := &ingestion{ingestCommand: &ingestCommand{Paths: []string{e.dataset.Dir}, Collection: g.collection, Language: e.Language, Wait: true, Parallel: 4},
		client: e.client, sent: map[string]bool{}, progress: newProgress(os.Stderr, false)}
	err = run.upload(ctx, schema.Attributes{})
	if err == nil {
		err = run.wait(ctx)
	}
	run.progress.end()
	if err != nil {
		return 0, err
	}
	s, what := run.summary, e.dataset.Name+", cut by "+g.segmentation.By
	if s.Uploaded == 0 {
		fmt.Fprintf(os.Stderr, "%s: %d documents are there from an earlier run\n", what, s.Unchanged)
	} else {
		fmt.Fprintf(os.Stderr, "%s: %d documents ingested in %.0f s (%.0f a second), %d already ingested\n", what, s.Uploaded,
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

// waitForCuration waits until the documents are clustered. Before that, searches find each section
// as a cluster of its own, which is not to be measured.
func (e *evaluation) waitForCuration(ctx context.Context, g *evalCollection) error {
	bar := newCounter(os.Stderr, e.dataset.Name+" curated")
	defer bar.end()
	fewest, lastProgress := int64(-1), time.Now()
	for pause := 50 * time.Millisecond; ; pause = min(pause*3/2, time.Second) {
		c, err := e.client.Collection(ctx, g.collection)
		if err != nil {
			return err
		}
		switch {
		case c.Uncurated == 0:
			return nil
		case fewest < 0 || c.Uncurated < fewest:
			fewest, lastProgress = c.Uncurated, time.Now()
		case time.Since(lastProgress) > curationStuck:
			return fmt.Errorf("%d documents are not clustered, and none has been in the last %s: see the server's log", c.Uncurated, curationStuck)
		}
		bar.show(max(e.dataset.Documents-int(c.Uncurated), 0), e.dataset.Documents)
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(pause):
		}
	}
}

// Search implements evaluate.Searcher.
func (e *evaluation) Search(ctx context.Context, plan string, q evaluate.Topic, depth, passages int) (evaluate.Found, error) {
	query := api.Query{Collection: e.collections[plan].collection, Query: q.Text, Documents: depth, K: passages, Filter: q.Scope}
	query.Plan, query.PlanText = e.plan(plan)
	found, err := e.client.Search(ctx, query)
	if err != nil {
		return evaluate.Found{}, err
	}
	out := evaluate.Found{Plan: found.Plan, Passages: found.Passages, Context: found.Context, Stages: found.Trace, Millis: found.Millis}
	for _, d := range found.Documents {
		out.Documents = append(out.Documents, d.Document)
	}
	return out, nil
}

// Ask implements evaluate.Answerer.
func (e *evaluation) Ask(ctx context.Context, plan string, q evaluate.Topic) (evaluate.Answered, error) {
	query := api.Query{Collection: e.collections[plan].collection, Query: q.Text, Choices: q.Choices, Risk: e.Risk, Filter: q.Scope}
	query.Plan, query.PlanText = e.plan(plan)
	begin := time.Now()
	a, err := e.client.Ask(ctx, query)
	return evaluate.Answered{Answer: a, Millis: float64(time.Since(begin).Microseconds()) / 1000}, err
}

// plan returns the name of a plan at the server, or its text.
func (e *evaluation) plan(name string) (known, text string) {
	if e.matrix != nil {
		return e.matrix.plan(name)
	}
	return name, ""
}
