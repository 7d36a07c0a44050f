package ledger

// This file deletes old calls of language models. The daily sums (llm_days), which budgets count,
// are stored apart from the calls, and are kept.

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/schema"
)

// Retention is how many days the ledger keeps its rows, by kind. 0 keeps them for ever.
type Retention struct {
	Calls       int // of questions, with their replies
	SearchCalls int
	Days        int // the daily sums
}

// minDailyDays is the least retention of daily sums: this month's, for budgets, and last month's,
// for comparison.
const minDailyDays = 62

// Check returns a FieldError if a value is out of bounds.
func (r Retention) Check() error {
	for _, s := range []struct {
		name          string
		days, minimum int
	}{{"SLUICE_KEEP_LLM_CALLS", r.Calls, 1}, {"SLUICE_KEEP_LLM_SEARCH_CALLS", r.SearchCalls, 1}, {"SLUICE_KEEP_LLM_DAYS", r.Days, minDailyDays}} {
		switch {
		case s.days < 0 || s.days > schema.MaxKeepDays:
			return schema.Invalid(s.name, "%d: needs a number of days, at most %d; 0 for ever", s.days, schema.MaxKeepDays)
		case s.days > 0 && s.days < s.minimum:
			return schema.Invalid(s.name, "%d: needs at least %d days, for the budgets of a month count them; 0 for ever", s.days, s.minimum)
		}
	}
	return nil
}

const (
	// Keeps the calls of unfinished questions, whose repeated steps read the replies.
	forgetCallsSQL = `
DELETE FROM llm_calls WHERE (tenant_id, question_id, round, step, item) IN (
    SELECT c.tenant_id, c.question_id, c.round, c.step, c.item FROM llm_calls c
    WHERE c.created_at < now() - make_interval(days => $1) AND NOT EXISTS (
        SELECT FROM questions q WHERE q.tenant_id = c.tenant_id AND q.id = c.question_id AND q.state IN ('queued', 'running'))
    ORDER BY c.created_at LIMIT $2)`

	forgetSearchCallsSQL = `
DELETE FROM llm_search_calls WHERE (tenant_id, id) IN (
    SELECT tenant_id, id FROM llm_search_calls WHERE created_at < now() - make_interval(days => $1) ORDER BY created_at LIMIT $2)`

	forgetDaysSQL = `
DELETE FROM llm_days WHERE (tenant_id, day) IN (
    SELECT tenant_id, day FROM llm_days WHERE day < (now() AT TIME ZONE 'UTC')::date - $1::int ORDER BY day LIMIT $2)`

	// Leases of killed gateways, for steps that nobody requested again.
	forgetLeasesSQL = `DELETE FROM llm_leases WHERE expires_at < now() - interval '1 hour'`
)

// ForgetCalls removes up to limit rows of each kind, of all tenants, that are older than they are
// kept. It returns how many it removed, 0 when nothing is left to do now. Several processes may
// call it at once.
func (s *LedgerStore) ForgetCalls(ctx context.Context, r Retention, limit int) (int, error) {
	if err := r.Check(); err != nil {
		return 0, err
	}
	err := s.db.AsSystem(ctx, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, forgetLeasesSQL)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("forget leases of calls: %w", err)
	}
	total := 0
	for _, f := range []struct {
		what, sql string
		days      int
	}{{"calls of questions", forgetCallsSQL, r.Calls}, {"calls of searches", forgetSearchCallsSQL, r.SearchCalls}, {"sums of days", forgetDaysSQL, r.Days}} {
		if f.days == 0 {
			continue
		}
		var n int64
		err := s.db.AsSystem(ctx, func(ctx context.Context, tx pgx.Tx) error {
			tag, err := tx.Exec(ctx, f.sql, f.days, limit)
			n = tag.RowsAffected()
			return err
		})
		if total += int(n); err != nil {
			return total, fmt.Errorf("forget %s older than %d days: %w", f.what, f.days, err)
		}
	}
	return total, nil
}
