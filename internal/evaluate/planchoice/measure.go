package planchoice

// This file asks one question under one plan and measures the result.

import (
	"context"
	"slices"
	"time"

	"github.com/sluice-rag/sluice/internal/evaluate"
	"github.com/sluice-rag/sluice/internal/text"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// rankedDocuments is the length of the measured ranking of documents.
const rankedDocuments = 10

// measure asks a question under a plan.
func (c *Chooser) measure(ctx context.Context, t Task, p PlanText, q schema.ChoiceQuestion) (Figure, error) {
	out := Figure{Number: q.Number, Plan: p.Name}
	query := wire.SearchQuery{Principal: t.Principal, Query: schema.Query{Collection: t.CollectionID, Text: q.Question, Plan: p.Name, PlanText: p.Text, Documents: rankedDocuments}}
	begin := time.Now()
	found, err := c.Searcher.Search(ctx, query)
	if err != nil {
		return out, err
	}
	took := float64(time.Since(begin).Microseconds()) / 1000
	if len(q.Documents) > 0 {
		ranked := make([]string, len(found.Documents))
		for i, d := range found.Documents {
			ranked[i] = d.Document
		}
		ndcg := evaluate.NDCG(ranked, q.Documents, rankedDocuments)
		out.NDCG = &ndcg
	}
	context := make([]schema.Candidate, 0, len(found.Context))
	for _, i := range found.Context {
		context = append(context, found.Candidates[i])
		out.Tokens += float64(text.CountTokens(found.Candidates[i].Text))
	}
	out.Millis, out.Quality = took, contextQuality(q, context, out.NDCG)
	return out, nil
}

// parts returns what a right answer must have: each part is a list of alternatives.
func parts(q schema.ChoiceQuestion) [][]string {
	var out [][]string
	if len(q.Answers) > 0 {
		out = append(out, q.Answers)
	}
	for _, c := range q.Contains {
		out = append(out, []string{c})
	}
	return out
}

// contextQuality returns the answer recall of the context: the share of the answer's parts that
// occur in one of its passages, from a right document if these are known. For a question without an
// answer it returns the nDCG of the documents.
func contextQuality(q schema.ChoiceQuestion, context []schema.Candidate, ndcg *float64) float64 {
	wanted := parts(q)
	if len(wanted) == 0 {
		if ndcg == nil {
			return 0
		}
		return *ndcg
	}
	found := 0
	for _, part := range wanted {
		answers := evaluate.NewAnswers(part)
		if slices.ContainsFunc(context, func(c schema.Candidate) bool {
			return (len(q.Documents) == 0 || slices.Contains(q.Documents, c.ExternalID)) && answers.In(c.Text)
		}) {
			found++
		}
	}
	return float64(found) / float64(len(wanted))
}
