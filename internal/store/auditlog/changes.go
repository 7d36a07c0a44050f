package auditlog

// This file reads changes. store.Audit writes them.

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema"
)

const (
	changePageSQL = `
SELECT id, at, actor, action, target, detail FROM audit a
WHERE tenant_id = $1 AND ($2::uuid IS NULL OR id < $2)
  AND ($4::timestamptz IS NULL OR at >= $4) AND ($5::timestamptz IS NULL OR at < $5) AND ($6 = '' OR action = $6)
  AND ($7 = '' OR actor IN ($7, 'key:' || $7) OR detail ->> 'person' = $7
       OR EXISTS (SELECT FROM api_keys k WHERE k.tenant_id = $1 AND k.name = $7 AND a.actor = 'key:' || k.id))
  AND ($8::uuid IS NULL OR target = $8::text) AND ($9::uuid IS NULL OR target = $9::text)
ORDER BY id DESC LIMIT $3`

	changesAfterSQL = `
SELECT l.number, l.hash, l.removed_at IS NOT NULL, a.id, a.at, a.actor, a.action, a.target, coalesce(a.detail::text, '')
FROM audit_links l LEFT JOIN audit a ON a.tenant_id = l.tenant_id AND a.id = l.entry_id
WHERE l.tenant_id = $1 AND l.number > $2 ORDER BY l.number LIMIT $3`
)

// Audit returns a page of the changes in p's tenant, newest first, and the cursor of the next page,
// which is empty on the last.
func (s *AuditStore) Audit(ctx context.Context, p schema.Principal, q schema.AuditQuery) ([]schema.AuditEntry, string, error) {
	pg, err := store.PageOf(q.PageQuery)
	if err != nil {
		return nil, "", err
	}
	var out []schema.AuditEntry
	err = s.db.AsTenant(ctx, p.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, changePageSQL, p.Tenant, pg.After, pg.Limit+1,
			zeroIsNull(q.From), zeroIsNull(q.To), q.Action, q.Actor, store.NilIsNull(q.Document), store.NilIsNull(q.Collection))
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

func scanChange(row pgx.CollectableRow) (e stored, err error) {
	var id *uuid.UUID
	var at *time.Time
	var actor, action, target *string
	var detail string
	if err := row.Scan(&e.number, &e.hash, &e.removed, &id, &at, &actor, &action, &target, &detail); err != nil || id == nil {
		return e, err
	}
	e.change = &schema.AuditChange{ID: *id, At: at.UTC(), Actor: *actor, Action: *action, Target: *target, Detail: detail}
	return e, nil
}
