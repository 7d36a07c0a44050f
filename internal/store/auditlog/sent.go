package auditlog

// This file keeps how far each chain was sent to another system.

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema"
)

const (
	unsentSQL = `
SELECT c.tenant_id, c.chain, coalesce(s.number, 0) FROM (
    SELECT tenant_id, 'changes' AS chain, number FROM audit_chains UNION ALL SELECT tenant_id, 'reads', number FROM audit_read_chains) c
LEFT JOIN audit_sent s ON s.tenant_id = c.tenant_id AND s.chain = c.chain
WHERE c.number > coalesce(s.number, 0) ORDER BY 1, 2`

	sentSQL = `
INSERT INTO audit_sent AS s (tenant_id, chain, number) VALUES ($1, $2, $3)
ON CONFLICT (tenant_id, chain) DO UPDATE SET number = excluded.number WHERE s.number < excluded.number`
)

// UnsentAudit lists the chains of all tenants with entries that were not sent yet.
func (s *AuditStore) UnsentAudit(ctx context.Context) ([]schema.AuditBacklog, error) {
	var out []schema.AuditBacklog
	err := s.db.AsSystem(ctx, func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, unsentSQL)
		if err != nil {
			return err
		}
		out, err = pgx.CollectRows(rows, pgx.RowToStructByPos[schema.AuditBacklog])
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list what of the audit log was not sent: %w", err)
	}
	return out, nil
}

// AuditSent records that a chain was sent up to the entry with number.
func (s *AuditStore) AuditSent(ctx context.Context, tenant uuid.UUID, chain schema.AuditChain, number int64) error {
	err := s.db.AsTenant(ctx, tenant, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, sentSQL, tenant, chain, number)
		return err
	})
	return store.Wrap(err, "note how far the audit log was sent")
}
