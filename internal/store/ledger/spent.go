package ledger

// This file reads the calls of language models that a question has made.

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/llm"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// Reply returns a step's reply from the ledger, or schema.ErrNotFound.
func (s *LedgerStore) Reply(ctx context.Context, tenant uuid.UUID, step wire.Step) (wire.LLMReply, error) {
	var reply wire.LLMReply
	err := s.db.AsTenant(ctx, tenant, func(ctx context.Context, tx pgx.Tx) (err error) {
		reply, _, err = loadReply(ctx, tx, tenant, step)
		return err
	})
	return reply, store.Wrap(err, "load the reply of step %s of question %s", step.Step, step.Question)
}

// Spent implements answer.Store. A reply from the cache counts with the tokens that were once paid
// for, and without cost.
func (s *LedgerStore) Spent(ctx context.Context, in wire.QuestionInput) (schema.Usage, error) {
	var u schema.Usage
	err := s.db.AsTenant(ctx, in.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		var nanos, own int64
		if err := tx.QueryRow(ctx, `
			SELECT coalesce(sum(input_tokens), 0)::bigint, coalesce(sum(output_tokens), 0)::bigint, coalesce(sum(nanos), 0)::bigint, coalesce(sum(millis), 0),
			       coalesce(sum(own_input_tokens), 0)::bigint, coalesce(sum(own_output_tokens), 0)::bigint, coalesce(sum(own_nanos), 0)::bigint,
			       coalesce(bool_and(cached) FILTER (WHERE cached OR input_tokens > own_input_tokens), false)
			FROM llm_calls WHERE tenant_id = $1 AND question_id = $2`, in.Tenant, in.Question).
			Scan(&u.InputTokens, &u.OutputTokens, &nanos, &u.Millis, &u.Own.InputTokens, &u.Own.OutputTokens, &own, &u.Cached); err != nil {
			return err
		}
		u.Cost, u.Own.Cost = llm.Dollars(nanos), llm.Dollars(own)
		return nil
	})
	return u, store.Wrap(err, "add up the calls of question %s", in.Question)
}
