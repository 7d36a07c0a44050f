package main

import (
	"context"
	"fmt"
	"time"

	"github.com/sluice-rag/sluice/schema"
)

// unfinished are the states of documents that a worker still has to process.
var unfinished = []schema.State{schema.StateReceived, schema.StateQueued, schema.StateProcessing}

// While a collection has many unfinished documents, they are listed only to see whether those of
// this run are done and others have come. Two listings are at least listInterval apart, and
// listShare times as long as the last one took.
const (
	listInterval = 10 * time.Second
	listShare    = 20
)

// wait polls until every document of this run has an outcome.
func (r *ingestion) wait(ctx context.Context) error {
	pause := 50 * time.Millisecond
	nextList := time.Now().Add(listInterval)
	total := len(r.sent)
	for {
		c, err := r.client.Collection(ctx, r.Collection)
		if err != nil {
			return err
		}
		var count int64
		for _, s := range unfinished {
			count += c.Counts[s]
		}
		open := int(min(count, int64(total)))
		if began := time.Now(); count > 0 && (count <= 500 || began.After(nextList)) {
			if open, err = r.countUnfinished(ctx); err != nil {
				return err
			}
			nextList = time.Now().Add(max(listInterval, listShare*time.Since(began)))
		}
		r.progress.processed(total-open, total)
		if open == 0 {
			return r.outcomes(ctx)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("stopped waiting; the server goes on: %w", context.Cause(ctx))
		case <-time.After(pause):
		}
		pause = min(pause*3/2, time.Second)
	}
}

// countUnfinished counts this run's unfinished documents.
func (r *ingestion) countUnfinished(ctx context.Context) (int, error) {
	open := map[string]bool{}
	for _, state := range unfinished {
		for d, err := range r.client.Documents(ctx, r.Collection, state, "") {
			if err != nil {
				return 0, err
			}
			if r.sent[d.ExternalID] {
				open[d.ExternalID] = true // a set, because a document may change its state during the listing
			}
		}
	}
	return len(open), nil
}

// outcomes collects the failures.
func (r *ingestion) outcomes(ctx context.Context) error {
	failed := map[string]failure{}
	for d, err := range r.client.Documents(ctx, r.Collection, schema.StateFailed, "") {
		if err != nil {
			return err
		}
		if r.sent[d.ExternalID] {
			f := failure{Document: d.ExternalID, Code: "failed"}
			if d.Reason != nil {
				f.Code, f.Message = d.Reason.Code, d.Reason.Message
			}
			failed[d.ExternalID] = f
		}
	}
	refused := 0
	for _, f := range r.summary.Failures {
		if r.sent[f.Document] {
			refused++
		}
	}
	r.summary.Ready = len(r.sent) - len(failed) - refused
	for _, id := range sorted(failed) {
		r.fail(failed[id])
	}
	return nil
}
