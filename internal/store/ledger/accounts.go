package ledger

// This file accounts for the cost of language models per tenant, and enforces the tenants' limits:
// the possible cost of a call is reserved before it, and the actual cost is settled after it, each
// in one short transaction.

import (
	"context"
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

const (
	limitColumns = `llm_day_tokens, llm_month_tokens, llm_day_nanos, llm_month_nanos, llm_per_minute, llm_at_once`

	// Serializes the reservations of a tenant. Statements after the lock see what earlier ones
	// committed; now() is the time before the wait.
	lockAccountSQL = `SELECT pg_advisory_xact_lock(1936484717, hashtext($1))`

	pruneReservationsSQL = `
DELETE FROM llm_reservations WHERE tenant_id = $1 AND until < clock_timestamp() AND began_at < clock_timestamp() - interval '1 minute'`

	accountSQL = `
WITH today AS (SELECT clock_timestamp() AS at, (clock_timestamp() AT TIME ZONE 'UTC')::date AS day)
SELECT at, ` + limitColumns + `,
    d.calls, d.cached, d.input, d.output, d.nanos, m.calls, m.cached, m.input, m.output, m.nanos,
    r.open, r.tokens, r.nanos, r.began,
    (SELECT began_at FROM llm_reservations WHERE tenant_id = $1 AND began_at > at - interval '1 minute'
     AND own = $2 AND counted ORDER BY began_at DESC OFFSET greatest(t.llm_per_minute - 1, 0) LIMIT 1)
FROM today, tenants t,
LATERAL (SELECT coalesce(sum(calls), 0)::bigint AS calls, coalesce(sum(cached), 0)::bigint AS cached, coalesce(sum(input_tokens), 0)::bigint AS input,
                coalesce(sum(output_tokens), 0)::bigint AS output, coalesce(sum(nanos), 0)::bigint AS nanos
         FROM llm_days WHERE tenant_id = $1 AND day = today.day) AS d,
LATERAL (SELECT coalesce(sum(calls), 0)::bigint AS calls, coalesce(sum(cached), 0)::bigint AS cached, coalesce(sum(input_tokens), 0)::bigint AS input,
                coalesce(sum(output_tokens), 0)::bigint AS output, coalesce(sum(nanos), 0)::bigint AS nanos
         FROM llm_days WHERE tenant_id = $1 AND day BETWEEN date_trunc('month', today.day)::date AND today.day) AS m,
LATERAL (SELECT count(*) FILTER (WHERE until > at AND own = $2 AND counted) AS open, coalesce(sum(tokens) FILTER (WHERE until > at), 0)::bigint AS tokens,
                coalesce(sum(nanos) FILTER (WHERE until > at), 0)::bigint AS nanos, count(*) FILTER (WHERE began_at > at - interval '1 minute' AND own = $2 AND counted) AS began
         FROM llm_reservations WHERE tenant_id = $1) AS r
WHERE t.id = $1`

	reserveSQL = `
INSERT INTO llm_reservations (tenant_id, id, began_at, until, tokens, nanos, own, counted) VALUES ($1, $2, clock_timestamp(), clock_timestamp() + $3::interval, $4, $5, $6, $7)
ON CONFLICT (tenant_id, id) DO UPDATE SET until = excluded.until, tokens = llm_reservations.tokens + excluded.tokens,
    nanos = llm_reservations.nanos + excluded.nanos`

	endReservationSQL = `UPDATE llm_reservations SET until = clock_timestamp(), tokens = 0, nanos = 0 WHERE tenant_id = $1 AND id = $2`

	spendSQL = `
INSERT INTO llm_days AS d (tenant_id, day, calls, cached, input_tokens, output_tokens, nanos)
VALUES ($1, (clock_timestamp() AT TIME ZONE 'UTC')::date, $2, $3, $4, $5, $6)
ON CONFLICT (tenant_id, day) DO UPDATE SET calls = d.calls + excluded.calls, cached = d.cached + excluded.cached,
    input_tokens = d.input_tokens + excluded.input_tokens, output_tokens = d.output_tokens + excluded.output_tokens, nanos = d.nanos + excluded.nanos`

	setLimitsSQL = `
UPDATE tenants SET llm_day_tokens = $2, llm_month_tokens = $3, llm_day_nanos = $4, llm_month_nanos = $5, llm_per_minute = $6, llm_at_once = $7
WHERE id = $1 RETURNING id`
)

// loadAccount reads a tenant's account. If own, the calls in it are those to Sluice's own models,
// otherwise all others.
func loadAccount(ctx context.Context, tx pgx.Tx, tenant uuid.UUID, own bool) (a llm.Account, err error) {
	l := &a.Limits
	err = tx.QueryRow(ctx, accountSQL, tenant, own).Scan(&a.At, &l.DayTokens, &l.MonthTokens, &l.DayNanos, &l.MonthNanos, &l.PerMinute, &l.AtOnce,
		&a.Day.Calls, &a.Day.Cached, &a.Day.Input, &a.Day.Output, &a.Day.Nanos,
		&a.Month.Calls, &a.Month.Cached, &a.Month.Input, &a.Month.Output, &a.Month.Nanos,
		&a.Open, &a.ReservedTokens, &a.ReservedNanos, &a.Began, &a.First)
	return a, err
}

// Reserve implements llm.Accounts.
func (l *LedgerStore) Reserve(ctx context.Context, r llm.Reservation) (again time.Duration, err error) {
	err = l.db.AsTenant(ctx, r.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		again = 0
		if _, err := tx.Exec(ctx, lockAccountSQL, r.Tenant.String()); err != nil {
			return fmt.Errorf("lock the account: %w", err)
		}
		if !r.More {
			if _, err := tx.Exec(ctx, pruneReservationsSQL, r.Tenant); err != nil {
				return fmt.Errorf("drop old reservations: %w", err)
			}
		}
		a, err := loadAccount(ctx, tx, r.Tenant, r.Own)
		if err != nil {
			return fmt.Errorf("read the account: %w", err)
		}
		if again, err = a.Admit(r); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, reserveSQL, r.Tenant, r.ID, r.TTL, r.Tokens, r.Nanos, r.Own, !r.Uncounted)
		return err
	})
	if limit := (*schema.RemoteError)(nil); err != nil && again == 0 && !errors.As(err, &limit) {
		err = fmt.Errorf("reserve the cost of a language model call of tenant %s: %w", r.Tenant, err)
	}
	return again, err
}

// Settle implements llm.Accounts.
func (l *LedgerStore) Settle(ctx context.Context, tenant, id uuid.UUID, u schema.Usage) error {
	err := l.db.AsTenant(ctx, tenant, func(ctx context.Context, tx pgx.Tx) error { return settle(ctx, tx, tenant, id, u) })
	return store.Wrap(err, "settle a language model call of tenant %s", tenant)
}

// Record implements llm.Accounts.
func (l *LedgerStore) Record(ctx context.Context, call llm.Call, reply wire.LLMReply) error {
	err := l.db.AsTenant(ctx, call.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		if err := keepSearchCall(ctx, tx, call, reply.Usage, outcomeAnswered); err != nil {
			return err
		}
		return settle(ctx, tx, call.Tenant, call.ID, reply.Usage)
	})
	return store.Wrap(err, "keep what a search's call cost tenant %s", call.Tenant)
}

// RecordCancelled implements llm.Accounts.
func (l *LedgerStore) RecordCancelled(ctx context.Context, call llm.Call, u schema.Usage) error {
	err := l.db.AsTenant(ctx, call.Tenant, func(ctx context.Context, tx pgx.Tx) (err error) {
		if call.Step.Question == uuid.Nil {
			err = keepSearchCall(ctx, tx, call, u, outcomeCancelled)
		} else {
			_, err = keepCall(ctx, tx, call, u, keepCallSQL, nil)
		}
		if err != nil {
			return err
		}
		return settle(ctx, tx, call.Tenant, call.ID, u)
	})
	return store.Wrap(err, "keep what a cancelled call cost tenant %s", call.Tenant)
}

func keepSearchCall(ctx context.Context, tx pgx.Tx, call llm.Call, u schema.Usage, outcome string) error {
	_, err := tx.Exec(ctx, `
		INSERT INTO llm_search_calls (tenant_id, id, step, task, provider, model, input_tokens, output_tokens, nanos, own_input_tokens, own_output_tokens, own_nanos, cached, millis, outcome)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)`,
		call.Tenant, call.ID, call.Step.Step, call.Task, u.Provider, u.Model, u.InputTokens, u.OutputTokens, llm.NanosOf(u.Cost),
		u.Own.InputTokens, u.Own.OutputTokens, llm.NanosOf(u.Own.Cost), u.Cached, u.Millis, outcome)
	return err
}

// settle ends the reservation, if there is one, and counts the call and its cost.
func settle(ctx context.Context, tx pgx.Tx, tenant, id uuid.UUID, u schema.Usage) error {
	cached := 0
	u = u.Paid()
	if u.Cached {
		cached, u.InputTokens, u.OutputTokens, u.Cost = 1, 0, 0, 0
	}
	b := &pgx.Batch{}
	b.Queue(endReservationSQL, tenant, id)
	b.Queue(spendSQL, tenant, 1, cached, u.InputTokens, u.OutputTokens, llm.NanosOf(u.Cost))
	return tx.SendBatch(ctx, b).Close()
}

// LLMUsage returns a tenant's use of language models, and its limits.
func (s *LedgerStore) LLMUsage(ctx context.Context, tenant uuid.UUID) (schema.LLMUsage, error) {
	var a llm.Account
	err := s.db.AsTenant(ctx, tenant, func(ctx context.Context, tx pgx.Tx) (err error) {
		a, err = loadAccount(ctx, tx, tenant, false)
		return err
	})
	if err != nil {
		return schema.LLMUsage{}, fmt.Errorf("read the account of tenant %s: %w", tenant, store.Named(err, "tenant", tenant))
	}
	return a.Usage(), nil
}

// SetLLMLimits replaces all of a tenant's limits of language models. A limit below the current use
// only prevents further use.
func (s *LedgerStore) SetLLMLimits(ctx context.Context, p schema.Principal, tenant uuid.UUID, l schema.LLMLimits) (schema.LLMUsage, error) {
	limits, err := llm.LimitsOf(l)
	if err != nil {
		return schema.LLMUsage{}, err
	}
	err = s.db.AsSystem(ctx, func(ctx context.Context, tx pgx.Tx) error {
		var id uuid.UUID
		if err := tx.QueryRow(ctx, setLimitsSQL, tenant, limits.DayTokens, limits.MonthTokens, limits.DayNanos, limits.MonthNanos,
			limits.PerMinute, limits.AtOnce).Scan(&id); err != nil {
			return err
		}
		return store.AuditAs(ctx, tx, tenant, p, "tenant.limits", tenant.String(), map[string]any{"limits": l})
	})
	if err != nil {
		return schema.LLMUsage{}, fmt.Errorf("set limits of tenant %s: %w", tenant, store.Named(err, "tenant", tenant))
	}
	return s.LLMUsage(ctx, tenant)
}
