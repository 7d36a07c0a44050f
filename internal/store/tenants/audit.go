package tenants

// This file lists the audit log. Who did something writes it: store.Audit.

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema"
)

const auditPageSQL = `
SELECT id, at, actor, action, target, detail FROM audit
WHERE tenant_id = $1 AND ($2::uuid IS NULL OR id < $2)
ORDER BY id DESC LIMIT $3`

// Audit returns a page of p's tenant's audit log, newest first, and the cursor
// of the next page, empty on the last.
func (s *TenantStore) Audit(ctx context.Context, p schema.Principal, q schema.PageQuery) ([]schema.AuditEntry, string, error) {
	pg, err := store.PageOf(q)
	if err != nil {
		return nil, "", err
	}
	var out []schema.AuditEntry
	err = s.db.AsTenant(ctx, p.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, auditPageSQL, p.Tenant, pg.After, pg.Limit+1)
		if err != nil {
			return err
		}
		out, err = pgx.CollectRows(rows, pgx.RowToStructByPos[schema.AuditEntry])
		return err
	})
	if err != nil {
		return nil, "", fmt.Errorf("list the audit log: %w", err)
	}
	out, next := store.Cut(pg, out, func(e schema.AuditEntry) uuid.UUID { return e.ID })
	return out, next, nil
}
