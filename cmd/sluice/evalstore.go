package main

// This file stores the results of an evaluation at the server.

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/sluice-rag/sluice/internal/apiclient"
	"github.com/sluice-rag/sluice/internal/evaluate"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
)

// resultServer returns a client of the server that stores the results: the one that other commands
// use, even if another server is started and measured. nil: results are not stored. It checks the
// key's scope before anything is measured.
func (c *evalCommand) resultServer(ctx context.Context) (*apiclient.Client, error) {
	if !c.Store {
		return nil, nil
	}
	client, err := remote{Client: c.Client}.client()
	if err != nil {
		return nil, fmt.Errorf("store the figures (--store): %w", err)
	}
	who, err := client.WhoAmI(ctx)
	if err != nil {
		return nil, fmt.Errorf("store the figures (--store): %w", err)
	}
	if !(schema.Principal{Scopes: who.Scopes}).Has(schema.ScopeIngest) {
		return nil, schema.Invalid("store", "the key %q lacks the scope ingest, which storing an evaluation needs", who.Name)
	}
	return client, nil
}

// store stores the figures.
func (c *evalCommand) store(ctx context.Context, resultServer *apiclient.Client, begun time.Time, done []*evaluate.Results, summaries []evaluate.Summary) error {
	n := api.NewEvaluation{Name: c.Name, Notes: c.Notes, RanAt: begun}
	total := 0
	var named []string
	for i, s := range summaries {
		n.Reports = append(n.Reports, schema.EvaluationReport(s))
		n.Figures = append(n.Figures, done[i].Figures())
		for _, p := range n.Figures[i].Plans {
			total += len(p.Metrics) * len(n.Figures[i].Queries)
		}
		named = append(named, s.Dataset)
	}
	if total > schema.MaxEvaluationFigures {
		fmt.Fprintf(os.Stderr, "The figures of single questions are not stored: there are %d, and at most %d can be stored. Comparisons will have no intervals.\n", total, schema.MaxEvaluationFigures)
		n.Figures = nil
	}
	if n.Name == "" {
		var plans []string
		for _, p := range summaries[0].Plans {
			plans = append(plans, p.Plan)
		}
		name := []rune(strings.Join(named, ", ") + ": " + strings.Join(plans, ", "))
		n.Name = string(name[:min(len(name), 200)])
	}
	stored, err := resultServer.StoreEvaluation(ctx, n)
	if err != nil {
		return fmt.Errorf("store the figures (--store): %w", err)
	}
	fmt.Fprintf(os.Stderr, "stored  %s  %s\n", stored.ID, printable(stored.Name))
	return nil
}
