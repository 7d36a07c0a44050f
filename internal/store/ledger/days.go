package ledger

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/llm"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema"
)

const usageDaysSQL = `
SELECT g.day, coalesce(d.calls, 0), coalesce(d.cached, 0), coalesce(d.input_tokens, 0), coalesce(d.output_tokens, 0), coalesce(d.nanos, 0)
FROM generate_series(0, $2::int - 1) AS n
CROSS JOIN LATERAL (SELECT (now() AT TIME ZONE 'UTC')::date - n AS day) AS g
LEFT JOIN llm_days d ON d.tenant_id = $1 AND d.day = g.day
ORDER BY g.day`

// LLMDays returns what a tenant paid for language models on each of the last days days (UTC), today
// last. Days without calls are included.
func (s *LedgerStore) LLMDays(ctx context.Context, tenant uuid.UUID, days int) ([]schema.UsageDay, error) {
	var out []schema.UsageDay
	err := s.db.AsTenant(ctx, tenant, func(ctx context.Context, tx pgx.Tx) error {
		var known bool // an unknown tenant has no days
		if err := tx.QueryRow(ctx, `SELECT true FROM tenants WHERE id = $1`, tenant).Scan(&known); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, usageDaysSQL, tenant, days)
		if err != nil {
			return err
		}
		out, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (schema.UsageDay, error) {
			var d schema.UsageDay
			var day time.Time
			var nanos int64
			err := row.Scan(&day, &d.Calls, &d.Cached, &d.InputTokens, &d.OutputTokens, &nanos)
			d.Day, d.Dollars = day.UTC(), llm.Dollars(nanos)
			return d, err
		})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list what tenant %s used by day: %w", tenant, store.Named(err, "tenant", tenant))
	}
	return out, nil
}
