package main

// This file counts the tokens that models read for a question.

import (
	"context"

	"github.com/sluice-rag/sluice/internal/modelclient"
	"github.com/sluice-rag/sluice/internal/text"
	"github.com/sluice-rag/sluice/schema/wire"
)

// funnelReaders is a model client that records the texts that it gets with a question. One question
// is asked at a time.
type funnelReaders struct {
	*modelclient.Client
	texts [][]string
}

// Score implements retrieval.Readers.
func (r *funnelReaders) Score(ctx context.Context, lane wire.Lane, question string, texts []string, answers bool) ([]wire.PairScore, string, error) {
	r.texts = append(r.texts, texts)
	return r.Client.Score(ctx, lane, question, texts, answers)
}

// Rerank implements retrieval.Readers.
func (r *funnelReaders) Rerank(ctx context.Context, lane wire.Lane, question string, texts []string, answers bool) ([]wire.PairScore, string, error) {
	r.texts = append(r.texts, texts)
	return r.Client.Rerank(ctx, lane, question, texts, answers)
}

// Fuse implements retrieval.Readers.
func (r *funnelReaders) Fuse(ctx context.Context, lane wire.Lane, question string, texts []string, tokens int, withQuestion bool) ([]float32, string, error) {
	r.texts = append(r.texts, texts)
	return r.Client.Fuse(ctx, lane, question, texts, tokens, withQuestion)
}

// read counts the tokens of the texts, without the question.
func (r *funnelReaders) read() int {
	n := 0
	for _, texts := range r.texts {
		for _, t := range texts {
			n += text.CountTokens(t)
		}
	}
	return n
}
