// Package ledger keeps the calls of language models: a reply is committed under its
// step before its caller gets it, so that a step is paid for once. It keeps what they
// cost tenants, tenants within their limits, and a cache of replies.
package ledger

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/llm"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// LedgerStore implements llm.Ledger and llm.Accounts. A call in progress holds one
// connection.
type LedgerStore struct {
	db *store.Store
	// completing has a place for each connection that completions in progress may
	// hold: half of them, for each asks for another one on its way.
	completing chan struct{}
}

// New returns the ledger of a database. Completions that share its connections share
// one LedgerStore.
func New(db *store.Store) *LedgerStore {
	return &LedgerStore{db: db, completing: make(chan struct{}, max(db.MaxConns()/2, 1))}
}

var (
	_ llm.Ledger   = (*LedgerStore)(nil)
	_ llm.Accounts = (*LedgerStore)(nil)
)

// commitFor is how long a reply that is paid for is tried to be stored, whether
// or not its caller still waits.
const commitFor = 15 * time.Second

// Once implements llm.Ledger. An advisory lock on the step keeps every other
// process out; it ends with the transaction, and so with the process.
func (l *LedgerStore) Once(ctx context.Context, call llm.Call, complete func(context.Context) (wire.LLMReply, error)) (wire.LLMReply, error) {
	select {
	case l.completing <- struct{}{}:
		defer func() { <-l.completing }()
	case <-ctx.Done():
		return wire.LLMReply{}, fmt.Errorf("wait for a connection to the ledger: %w", context.Cause(ctx))
	}
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	var decided atomic.Bool // by the first of: the provider is called, the caller left
	stop := context.AfterFunc(ctx, func() {
		if decided.CompareAndSwap(false, true) {
			cancel()
		}
	})
	defer stop()
	var made *wire.LLMReply
	var failed error
	var late *time.Timer
	defer func() {
		if late != nil {
			late.Stop()
		}
	}()
	once := func() (wire.LLMReply, error) {
		if made != nil {
			return *made, nil
		}
		if !decided.CompareAndSwap(false, true) {
			return wire.LLMReply{}, context.Cause(ctx)
		}
		reply, err := complete(ctx)
		if err != nil {
			failed = err
			return wire.LLMReply{}, err
		}
		made = &reply
		late = time.AfterFunc(commitFor, cancel)
		return reply, nil
	}
	for pause := 100 * time.Millisecond; ; pause *= 2 {
		reply, err := l.once(work, call, once)
		switch {
		case err == nil:
			return reply, nil
		case failed != nil:
			return wire.LLMReply{}, failed
		case ctx.Err() != nil && made == nil:
			return wire.LLMReply{}, fmt.Errorf("wait for the ledger: %w", context.Cause(ctx))
		case made == nil || errors.Is(err, schema.ErrNotFound) || errors.Is(err, schema.ErrConflict):
			return wire.LLMReply{}, fmt.Errorf("keep a completion of question %s: %w", call.Step.Question, err)
		}
		select {
		case <-work.Done():
			return wire.LLMReply{}, fmt.Errorf("keep a completion of question %s: %w", call.Step.Question, err)
		case <-time.After(pause):
		}
	}
}

func (l *LedgerStore) once(ctx context.Context, call llm.Call, complete func() (wire.LLMReply, error)) (wire.LLMReply, error) {
	var reply wire.LLMReply
	step := call.Step
	err := l.db.AsTenant(ctx, call.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		name := fmt.Sprintf("llm %s %s %d %s %d", call.Tenant, step.Question, step.Round, step.Step, step.Item)
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtextextended($1, 0))`, name); err != nil {
			return fmt.Errorf("lock the step: %w", err)
		}
		stored, hash, err := loadReply(ctx, tx, call.Tenant, step)
		switch {
		case err == nil && !bytes.Equal(hash, call.RequestHash[:]):
			return fmt.Errorf("step %s of round %d was asked before with other text: %w", step.Step, step.Round, schema.ErrConflict)
		case err == nil:
			reply = stored
			return nil
		case !errors.Is(err, pgx.ErrNoRows):
			return fmt.Errorf("look for a stored reply: %w", err)
		}
		if reply, err = complete(); err != nil {
			return err
		}
		encoded, err := json.Marshal(reply)
		if err != nil {
			return fmt.Errorf("encode a reply: %w", err)
		}
		if err := keepCall(ctx, tx, call, reply.Usage, answeredCallSQL, encoded); err != nil {
			return err
		}
		return settle(ctx, tx, call.Tenant, call.ID, reply.Usage)
	})
	return reply, err
}

const (
	// keepCallSQL keeps a call. A row of its step that is there already is of calls that
	// were cancelled, or this call is: the row has what was used for the step in all.
	keepCallSQL = `
INSERT INTO llm_calls AS c (tenant_id, question_id, round, step, item, task, provider, model, input_tokens, output_tokens, millis, request_hash, reply, nanos, cached,
    own_input_tokens, own_output_tokens, own_nanos, outcome)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19)
ON CONFLICT (tenant_id, question_id, round, step, item) DO UPDATE SET
    input_tokens = c.input_tokens + excluded.input_tokens, output_tokens = c.output_tokens + excluded.output_tokens, millis = c.millis + excluded.millis,
    nanos = c.nanos + excluded.nanos, own_input_tokens = c.own_input_tokens + excluded.own_input_tokens,
    own_output_tokens = c.own_output_tokens + excluded.own_output_tokens, own_nanos = c.own_nanos + excluded.own_nanos`

	// answeredCallSQL has the row become the reply's.
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

// keepCall writes the row of a question's call by one of the statements above; one
// without a reply was cancelled.
func keepCall(ctx context.Context, tx pgx.Tx, call llm.Call, u schema.Usage, sql string, reply []byte) error {
	outcome, step := outcomeAnswered, call.Step
	if reply == nil {
		outcome, reply = outcomeCancelled, []byte("{}")
	}
	_, err := tx.Exec(ctx, sql, call.Tenant, step.Question, step.Round, step.Step, step.Item, call.Task, u.Provider, u.Model,
		u.InputTokens, u.OutputTokens, u.Millis, call.RequestHash[:], reply, llm.NanosOf(u.Cost), u.Cached,
		u.Own.InputTokens, u.Own.OutputTokens, llm.NanosOf(u.Own.Cost), outcome)
	return err
}

// loadReply reads the stored reply of a step, with the hash of its request; pgx.ErrNoRows without one.
func loadReply(ctx context.Context, tx pgx.Tx, tenant uuid.UUID, step wire.Step) (reply wire.LLMReply, hash []byte, err error) {
	err = tx.QueryRow(ctx, `
		SELECT reply, request_hash FROM llm_calls
		WHERE tenant_id = $1 AND question_id = $2 AND round = $3 AND step = $4 AND item = $5 AND outcome = 'answered'`,
		tenant, step.Question, step.Round, step.Step, step.Item).Scan(&reply, &hash)
	reply.Repeated = err == nil
	return reply, hash, err
}
