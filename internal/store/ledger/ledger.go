// Package ledger stores the calls of language models: a reply is committed under its step before
// its caller gets it, so that each step is paid for once. It also accounts for the tenants' costs,
// enforces their limits, and caches replies.
package ledger

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/llm"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// LedgerStore implements llm.Ledger and llm.Accounts. It holds no connection while a provider works
// on a call.
type LedgerStore struct {
	db     *store.Store
	leases *leases
}

// New returns the ledger of a database.
func New(db *store.Store) *LedgerStore { return &LedgerStore{db: db, leases: newLeases(db)} }

var (
	_ llm.Ledger   = (*LedgerStore)(nil)
	_ llm.Accounts = (*LedgerStore)(nil)
)

// commitTimeout is how long storing a paid reply is retried, whether or not its caller still waits.
const commitTimeout = 15 * time.Second

// Once implements llm.Ledger. A lease on the step excludes other calls; it expires when its process
// is gone, and another call may be made then. Of two replies to a step the one that is committed
// first counts.
func (l *LedgerStore) Once(ctx context.Context, call llm.Call, complete func(context.Context) (wire.LLMReply, error)) (wire.LLMReply, error) {
	failed := func(err error) (wire.LLMReply, error) {
		return wire.LLMReply{}, fmt.Errorf("keep a completion of question %s: %w", call.Step.Question, err)
	}
	reply, stored, err := l.claim(ctx, call)
	switch {
	case ctx.Err() != nil && !stored:
		l.leases.release(ctx, call)
		return wire.LLMReply{}, fmt.Errorf("wait for the ledger: %w", context.Cause(ctx))
	case err != nil:
		return failed(err)
	case stored:
		return reply, nil
	}
	defer l.leases.hold(call.ID)()
	if reply, err = complete(ctx); err != nil {
		l.leases.release(ctx, call)
		return wire.LLMReply{}, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitTimeout)
	defer cancel()
	mayBeKept := false
	for pause := 100 * time.Millisecond; ; pause *= 2 {
		kept, err := l.keep(ctx, call, reply, mayBeKept)
		if err == nil {
			return kept, nil
		}
		mayBeKept = mayBeKept || store.IsUnknown(err)
		if errors.Is(err, schema.ErrNotFound) || errors.Is(err, schema.ErrConflict) {
			return failed(err)
		}
		select {
		case <-ctx.Done():
			return failed(err)
		case <-time.After(pause):
		}
	}
}

// claim waits until the call has the lease of its step, or until the step has a reply, which it
// returns.
func (l *LedgerStore) claim(ctx context.Context, call llm.Call) (reply wire.LLMReply, stored bool, err error) {
	for pause := minPoll; ; pause = min(2*pause, maxPoll) {
		leased := false
		err := l.db.AsTenant(ctx, call.Tenant, func(ctx context.Context, tx pgx.Tx) error {
			stored = false
			var err error
			if leased, err = l.leases.take(ctx, tx, call); err != nil {
				return fmt.Errorf("lease the step: %w", err)
			}
			// After the lease is taken: its previous holder has stored its reply, if there is one.
			found, hash, err := loadReply(ctx, tx, call.Tenant, call.Step)
			switch {
			case errors.Is(err, pgx.ErrNoRows):
				return nil
			case err != nil:
				return fmt.Errorf("look for a stored reply: %w", err)
			case !bytes.Equal(hash, call.RequestHash[:]):
				return fmt.Errorf("step %s of round %d was asked before with other text: %w", call.Step.Step, call.Step.Round, schema.ErrConflict)
			}
			reply, stored = found, true
			return drop(ctx, tx, call)
		})
		if err != nil || leased || stored {
			return reply, stored, err
		}
		select {
		case <-ctx.Done():
			return reply, false, context.Cause(ctx)
		case <-time.After(pause):
		}
	}
}

// keep commits a call's reply and its cost, and ends its lease and its reservation. If another call
// took the expired lease and was faster, keep returns that call's reply. If an earlier keep of the
// call may have been committed, a stored reply is taken for the call's own, whose cost is counted.
func (l *LedgerStore) keep(ctx context.Context, call llm.Call, reply wire.LLMReply, mayBeKept bool) (wire.LLMReply, error) {
	encoded, err := json.Marshal(reply)
	if err != nil {
		return reply, fmt.Errorf("encode a reply: %w", err)
	}
	out := reply
	err = l.db.AsTenant(ctx, call.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		out = reply
		if err := drop(ctx, tx, call); err != nil {
			return err
		}
		kept, err := keepCall(ctx, tx, call, reply.Usage, answeredCallSQL, encoded)
		if err != nil {
			return err
		}
		if !kept {
			if out, _, err = loadReply(ctx, tx, call.Tenant, call.Step); err != nil {
				return fmt.Errorf("read the reply that was stored before: %w", err)
			}
			if mayBeKept {
				return nil
			}
		}
		return settle(ctx, tx, call.Tenant, call.ID, reply.Usage)
	})
	return out, err
}

const (
	// keepCallSQL stores a call. If its step has a row already, either that row or this call is of
	// a cancelled call, and the row gets the sum of what was used for the step.
	keepCallSQL = `
INSERT INTO llm_calls AS c (tenant_id, question_id, round, step, item, task, provider, model, input_tokens, output_tokens, millis, request_hash, reply, nanos, cached,
    own_input_tokens, own_output_tokens, own_nanos, outcome)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19)
ON CONFLICT (tenant_id, question_id, round, step, item) DO UPDATE SET
    input_tokens = c.input_tokens + excluded.input_tokens, output_tokens = c.output_tokens + excluded.output_tokens, millis = c.millis + excluded.millis,
    nanos = c.nanos + excluded.nanos, own_input_tokens = c.own_input_tokens + excluded.own_input_tokens,
    own_output_tokens = c.own_output_tokens + excluded.own_output_tokens, own_nanos = c.own_nanos + excluded.own_nanos`

	// answeredCallSQL also gives the row the values of the reply.
	answeredCallSQL = keepCallSQL + `,
    task = excluded.task, provider = excluded.provider, model = excluded.model, request_hash = excluded.request_hash, reply = excluded.reply,
    cached = excluded.cached, outcome = excluded.outcome, created_at = excluded.created_at
WHERE c.outcome = 'cancelled'`
)

// Outcomes of calls in the ledger.
const (
	outcomeAnswered  = "answered"
	outcomeCancelled = "cancelled"
)

// keepCall writes the row of a question's call by one of the statements above, and reports whether
// it did. A call without a reply was cancelled.
func keepCall(ctx context.Context, tx pgx.Tx, call llm.Call, u schema.Usage, sql string, reply []byte) (kept bool, err error) {
	outcome, step := outcomeAnswered, call.Step
	if reply == nil {
		outcome, reply = outcomeCancelled, []byte("{}")
	}
	tag, err := tx.Exec(ctx, sql, call.Tenant, step.Question, step.Round, step.Step, step.Item, call.Task, u.Provider, u.Model,
		u.InputTokens, u.OutputTokens, u.Millis, call.RequestHash[:], reply, llm.NanosOf(u.Cost), u.Cached,
		u.Own.InputTokens, u.Own.OutputTokens, llm.NanosOf(u.Own.Cost), outcome)
	return err == nil && tag.RowsAffected() > 0, err
}

// loadReply reads the stored reply of a step, and the hash of its request. The error is
// pgx.ErrNoRows when there is none.
func loadReply(ctx context.Context, tx pgx.Tx, tenant uuid.UUID, step wire.Step) (reply wire.LLMReply, hash []byte, err error) {
	err = tx.QueryRow(ctx, `
		SELECT reply, request_hash FROM llm_calls
		WHERE tenant_id = $1 AND question_id = $2 AND round = $3 AND step = $4 AND item = $5 AND outcome = 'answered'`,
		tenant, step.Question, step.Round, step.Step, step.Item).Scan(&reply, &hash)
	reply.Repeated = err == nil
	return reply, hash, err
}
