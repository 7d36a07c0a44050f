package ledger

// This file keeps what language models cost tenants, and tenants within their
// limits: what a call may cost is set aside before, what it did cost is settled
// after, each in one short transaction.

import (
	"context"
	"fmt"
	"strconv"
	"strings"
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

	// Reservations of a tenant come one after the other. The statements after it
	// see what was committed before; now() is from before the wait.
	lockAccountSQL = `SELECT pg_advisory_xact_lock(1936484717, hashtext($1))`

	pruneReservationsSQL = `
DELETE FROM llm_reservations WHERE tenant_id = $1 AND until < clock_timestamp() AND began_at < clock_timestamp() - interval '1 minute'`

	accountSQL = `
WITH today AS (SELECT clock_timestamp() AS at, (clock_timestamp() AT TIME ZONE 'UTC')::date AS day)
SELECT at, ` + limitColumns + `,
    d.calls, d.cached, d.input, d.output, d.nanos, m.calls, m.cached, m.input, m.output, m.nanos,
    r.open, r.tokens, r.nanos, r.began,
    (SELECT began_at FROM llm_reservations WHERE tenant_id = $1 AND began_at > at - interval '1 minute'
     AND own = $2 ORDER BY began_at DESC OFFSET greatest(t.llm_per_minute - 1, 0) LIMIT 1)
FROM today, tenants t,
LATERAL (SELECT coalesce(sum(calls), 0)::bigint AS calls, coalesce(sum(cached), 0)::bigint AS cached, coalesce(sum(input_tokens), 0)::bigint AS input,
                coalesce(sum(output_tokens), 0)::bigint AS output, coalesce(sum(nanos), 0)::bigint AS nanos
         FROM llm_days WHERE tenant_id = $1 AND day = today.day) AS d,
LATERAL (SELECT coalesce(sum(calls), 0)::bigint AS calls, coalesce(sum(cached), 0)::bigint AS cached, coalesce(sum(input_tokens), 0)::bigint AS input,
                coalesce(sum(output_tokens), 0)::bigint AS output, coalesce(sum(nanos), 0)::bigint AS nanos
         FROM llm_days WHERE tenant_id = $1 AND day BETWEEN date_trunc('month', today.day)::date AND today.day) AS m,
LATERAL (SELECT count(*) FILTER (WHERE until > at AND own = $2) AS open, coalesce(sum(tokens) FILTER (WHERE until > at), 0)::bigint AS tokens,
                coalesce(sum(nanos) FILTER (WHERE until > at), 0)::bigint AS nanos, count(*) FILTER (WHERE began_at > at - interval '1 minute' AND own = $2) AS began
         FROM llm_reservations WHERE tenant_id = $1) AS r
WHERE t.id = $1`

	reserveSQL = `
INSERT INTO llm_reservations (tenant_id, id, began_at, until, tokens, nanos, own) VALUES ($1, $2, clock_timestamp(), $3, $4, $5, $6)
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

	// heldFor is after how long a place that calls in progress hold may be free.
	heldFor = 100 * time.Millisecond
)

// account is what is known of a tenant at a moment.
type account struct {
	at                                           time.Time
	dayTokens, monthTokens, dayNanos, monthNanos *int64
	perMinute, atOnce                            *int
	day, month                                   sums
	open                                         int
	reservedTokens, reservedNanos                int64
	began                                        int        // calls within the last minute
	first                                        *time.Time // the one of them that must be a minute old for another to begin
}

type sums struct{ calls, cached, input, output, nanos int64 }

func (s sums) tokens() int64 { return s.input + s.output }

// loadAccount reads a tenant's account; its calls are those to Sluice's own models,
// or all others.
func loadAccount(ctx context.Context, tx pgx.Tx, tenant uuid.UUID, own bool) (a account, err error) {
	err = tx.QueryRow(ctx, accountSQL, tenant, own).Scan(&a.at, &a.dayTokens, &a.monthTokens, &a.dayNanos, &a.monthNanos, &a.perMinute, &a.atOnce,
		&a.day.calls, &a.day.cached, &a.day.input, &a.day.output, &a.day.nanos,
		&a.month.calls, &a.month.cached, &a.month.input, &a.month.output, &a.month.nanos,
		&a.open, &a.reservedTokens, &a.reservedNanos, &a.began, &a.first)
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
		if !r.More {
			if again, err = a.hold(); err != nil {
				return err
			}
		}
		if !r.Own { // it costs nothing
			if again, err = a.fit(r); err != nil {
				return err
			}
		}
		_, err = tx.Exec(ctx, reserveSQL, r.Tenant, r.ID, r.Until, r.Tokens, r.Nanos, r.Own)
		return err
	})
	if err != nil && again == 0 && !isLimit(err) {
		err = fmt.Errorf("reserve the cost of a language model call of tenant %s: %w", r.Tenant, err)
	}
	return again, err
}

func isLimit(err error) bool {
	_, ok := err.(*schema.RemoteError) //nolint:errorlint // it is made here
	return ok
}

func limitReached(code schema.Code, format string, args ...any) error {
	return &schema.RemoteError{Code: code, Message: fmt.Sprintf(format, args...), OfTenant: code == schema.CodeOverloaded}
}

// hold reports that a call may not begin now, and when it may.
func (a account) hold() (again time.Duration, err error) {
	if n := a.atOnce; n != nil && a.open >= *n {
		err = limitReached(schema.CodeOverloaded, "the tenant's limit of %d language model calls at once is reached: try again when one has ended", *n)
		if *n > 0 {
			again = heldFor
		}
		return again, err
	}
	if n := a.perMinute; n != nil && a.began >= *n {
		if *n == 0 || a.first == nil {
			return 0, limitReached(schema.CodeOverloaded, "the tenant's limit is %d language model calls a minute", *n)
		}
		again = max(a.first.Add(time.Minute).Sub(a.at), time.Millisecond)
		err = limitReached(schema.CodeOverloaded, "the tenant's limit of %d language model calls a minute is reached: there is room again in %s", *n,
			again.Round(time.Second))
		return again, err
	}
	return 0, nil
}

// fit reports which budget a reservation does not fit in; with a time, that it
// may fit when calls in progress cost less than they may.
func (a account) fit(r llm.Reservation) (again time.Duration, err error) {
	at := a.at.UTC()
	tomorrow := time.Date(at.Year(), at.Month(), at.Day()+1, 0, 0, 0, 0, time.UTC)
	nextMonth := time.Date(at.Year(), at.Month()+1, 1, 0, 0, 0, 0, time.UTC)
	for _, b := range []struct {
		limit                *int64
		used, reserved, more int64
		per                  string
		resets               time.Time
		text                 func(int64) string
	}{
		{a.dayTokens, a.day.tokens(), a.reservedTokens, r.Tokens, "a day", tomorrow, tokensText},
		{a.monthTokens, a.month.tokens(), a.reservedTokens, r.Tokens, "a month", nextMonth, tokensText},
		{a.dayNanos, a.day.nanos, a.reservedNanos, r.Nanos, "a day", tomorrow, dollarsText},
		{a.monthNanos, a.month.nanos, a.reservedNanos, r.Nanos, "a month", nextMonth, dollarsText},
	} {
		if b.limit == nil || b.used+b.reserved+b.more <= *b.limit {
			continue
		}
		err = limitReached(schema.CodeQuota, "the tenant's budget for language models of %s %s has no room for this call: %s used, "+
			"up to %s more by calls in progress, and up to %s by this one; it resets at %s", b.text(*b.limit), b.per, b.text(b.used), b.text(b.reserved),
			b.text(b.more), b.resets.Format(time.RFC3339))
		if b.used+b.more > *b.limit {
			return 0, err
		}
		again = heldFor
	}
	return again, err
}

func tokensText(n int64) string { return strconv.FormatInt(n, 10) + " tokens" }

func dollarsText(nanos int64) string {
	s := strings.TrimRight(strconv.FormatFloat(llm.Dollars(nanos), 'f', 9, 64), "0")
	if point := strings.IndexByte(s, '.'); len(s) < point+3 {
		s += strings.Repeat("0", point+3-len(s))
	}
	return "$" + s
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
			err = keepCall(ctx, tx, call, u, keepCallSQL, nil)
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

// settle ends a reservation, if there is one, and counts the call and what was paid.
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

// LLMUsage returns a tenant's use of language models beside its limits.
func (s *LedgerStore) LLMUsage(ctx context.Context, tenant uuid.UUID) (schema.LLMUsage, error) {
	var a account
	err := s.db.AsTenant(ctx, tenant, func(ctx context.Context, tx pgx.Tx) (err error) {
		a, err = loadAccount(ctx, tx, tenant, false)
		return err
	})
	if err != nil {
		return schema.LLMUsage{}, fmt.Errorf("read the account of tenant %s: %w", tenant, store.Named(err, "tenant", tenant))
	}
	at := a.at.UTC()
	day := time.Date(at.Year(), at.Month(), at.Day(), 0, 0, 0, 0, time.UTC)
	month := time.Date(at.Year(), at.Month(), 1, 0, 0, 0, 0, time.UTC)
	return schema.LLMUsage{
		Limits: schema.LLMLimits{TokensPerDay: a.dayTokens, TokensPerMonth: a.monthTokens, DollarsPerDay: dollarsOf(a.dayNanos),
			DollarsPerMonth: dollarsOf(a.monthNanos), CallsPerMinute: a.perMinute, CallsAtOnce: a.atOnce},
		Day: a.day.spent(day, day.AddDate(0, 0, 1)), Month: a.month.spent(month, month.AddDate(0, 1, 0)),
		InProgress: a.open, ReservedTokens: a.reservedTokens, ReservedDollars: llm.Dollars(a.reservedNanos),
	}, nil
}

func (s sums) spent(since, resets time.Time) schema.LLMSpent {
	return schema.LLMSpent{Since: since, Resets: resets, Calls: s.calls, Cached: s.cached, InputTokens: s.input, OutputTokens: s.output, Dollars: llm.Dollars(s.nanos)}
}

func dollarsOf(nanos *int64) *float64 {
	if nanos == nil {
		return nil
	}
	d := llm.Dollars(*nanos)
	return &d
}

// SetLLMLimits replaces all of a tenant's limits of language models. One under
// what is used already keeps the tenant from using more.
func (s *LedgerStore) SetLLMLimits(ctx context.Context, p schema.Principal, tenant uuid.UUID, l schema.LLMLimits) (schema.LLMUsage, error) {
	nanos := map[string]*int64{}
	for field, dollars := range map[string]*float64{"dollars_per_day": l.DollarsPerDay, "dollars_per_month": l.DollarsPerMonth} {
		if dollars == nil {
			continue
		}
		if !(*dollars >= 0 && *dollars <= 1e9) {
			return schema.LLMUsage{}, schema.Invalid(field, "%g: needs a number of US dollars from 0 to a billion", *dollars)
		}
		n := llm.NanosOf(*dollars)
		nanos[field] = &n
	}
	for field, n := range map[string]*int64{"tokens_per_day": l.TokensPerDay, "tokens_per_month": l.TokensPerMonth, "calls_per_minute": wide(l.CallsPerMinute), "calls_at_once": wide(l.CallsAtOnce)} {
		if n != nil && *n < 0 {
			return schema.LLMUsage{}, schema.Invalid(field, "%d is negative", *n)
		}
	}
	err := s.db.AsSystem(ctx, func(ctx context.Context, tx pgx.Tx) error {
		var id uuid.UUID
		if err := tx.QueryRow(ctx, setLimitsSQL, tenant, l.TokensPerDay, l.TokensPerMonth, nanos["dollars_per_day"], nanos["dollars_per_month"],
			l.CallsPerMinute, l.CallsAtOnce).Scan(&id); err != nil {
			return err
		}
		return store.AuditAs(ctx, tx, tenant, p, "tenant.limits", tenant.String(), map[string]any{"limits": l})
	})
	if err != nil {
		return schema.LLMUsage{}, fmt.Errorf("set limits of tenant %s: %w", tenant, store.Named(err, "tenant", tenant))
	}
	return s.LLMUsage(ctx, tenant)
}

func wide(n *int) *int64 {
	if n == nil {
		return nil
	}
	w := int64(*n)
	return &w
}
