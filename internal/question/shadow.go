package question

// Questions that are also asked without retrieval, so that plans that may skip retrieval learn what
// the language model knows (FIT-RAG). They are asked some time after they were answered, when
// nobody waits.

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/sluice-rag/sluice/internal/lifecycle"
	"github.com/sluice-rag/sluice/internal/question/answer"
	"github.com/sluice-rag/sluice/schema/wire"
)

const (
	// shadowsAtOnce is the maximum number of questions that one round claims, and shadowTimeout the
	// longest time for each.
	shadowsAtOnce = 4
	shadowTimeout = 3 * time.Minute
)

// shadows asks such questions. Workers whose settings sample no questions do so, too: questions
// that were sampled before the setting changed are still asked.
func (j *Jobs) shadows() lifecycle.Service {
	return lifecycle.NewLoop("shadow answers", nil, func(fetch, work context.Context) error {
		ticker := time.NewTicker(j.Every)
		defer ticker.Stop()
		for {
			if err := j.shadow(fetch, work); err != nil && fetch.Err() == nil {
				slog.Warn("could not ask questions without retrieval; trying again", "error", err)
			}
			select {
			case <-fetch.Done():
				return nil
			case <-ticker.C:
			}
		}
	})
}

func (j *Jobs) shadow(fetch, work context.Context) error {
	due, err := j.Store.ClaimSampled(work, shadowsAtOnce, shadowsAtOnce*shadowTimeout)
	if err != nil {
		return err
	}
	for _, in := range due {
		if fetch.Err() != nil { // the others become due again
			return nil
		}
		err := j.learn(work, in)
		if errors.Is(err, answer.ErrNothingLearnt) {
			err = j.Store.Forget(work, in)
		}
		if err != nil {
			slog.WarnContext(work, "could not ask a question without retrieval; trying again later", "tenant", in.Tenant, "question", in.Question, "error", err)
		}
	}
	return nil
}

// learn asks one question without retrieval and stores whether the answer was right.
func (j *Jobs) learn(ctx context.Context, in wire.QuestionInput) error {
	ctx, cancel := context.WithTimeout(ctx, shadowTimeout)
	defer cancel()
	question, right, err := j.Answerer(nil).Shadow(ctx, in)
	if err != nil {
		return err
	}
	vectors, space, err := j.Models.EncodeQuery(wire.ForTenant(ctx, in.Tenant), wire.LaneBulk, question, nil)
	if err != nil {
		return fmt.Errorf("encode the question: %w", err)
	}
	return j.Store.Learn(ctx, in, space, vectors.Row(0), right)
}
