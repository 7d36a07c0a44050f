package store

// This file keeps the audit log: who did what to what. An entry is written in
// the transaction of its action, so neither exists without the other.

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/schema"
)

const (
	auditSQL = `INSERT INTO audit (tenant_id, id, actor, action, target, detail) VALUES ($1, $2, $3, $4, $5, $6)`

	auditPageSQL = `
SELECT id, at, actor, action, target, detail FROM audit
WHERE tenant_id = $1 AND ($2::uuid IS NULL OR id < $2)
ORDER BY id DESC LIMIT $3`
)

// actor names p in the audit log.
func actor(p schema.Principal) string {
	if p.Key == uuid.Nil {
		return "system"
	}
	return "key:" + p.Key.String()
}

// Audit notes in tx, which must be bound to tenant, that p did action.
func Audit(ctx context.Context, tx pgx.Tx, tenant uuid.UUID, p schema.Principal, action, target string, detail map[string]any) error {
	var encoded []byte
	if p.Person != "" {
		detail = maps.Clone(detail)
		if detail == nil {
			detail = map[string]any{}
		}
		detail["person"] = p.Person
	}
	if detail != nil {
		var err error
		if encoded, err = json.Marshal(detail); err != nil {
			return fmt.Errorf("encode the audit detail of %s: %w", action, err)
		}
	}
	if _, err := tx.Exec(ctx, auditSQL, tenant, schema.NewID(), actor(p), action, target, encoded); err != nil {
		return fmt.Errorf("audit %s of %s: %w", action, target, err)
	}
	return nil
}

// Audit returns a page of p's tenant's audit log, newest first, and the cursor
// of the next page, empty on the last.
func (s *Store) Audit(ctx context.Context, p schema.Principal, q schema.PageQuery) ([]schema.AuditEntry, string, error) {
	pg, err := PageOf(q)
	if err != nil {
		return nil, "", err
	}
	var out []schema.AuditEntry
	err = s.AsTenant(ctx, p.Tenant, func(ctx context.Context, tx pgx.Tx) error {
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
	out, next := Cut(pg, out, func(e schema.AuditEntry) uuid.UUID { return e.ID })
	return out, next, nil
}

// AuditAs writes to tenant's audit log from a system transaction, which is
// bound to the tenant from then on.
func AuditAs(ctx context.Context, tx pgx.Tx, tenant uuid.UUID, p schema.Principal, action, target string, detail map[string]any) error {
	if _, err := tx.Exec(ctx, enterSQL, string(roleApp), tenant.String()); err != nil {
		return fmt.Errorf("enter as %s: %w", roleApp, err)
	}
	return Audit(ctx, tx, tenant, p, action, target, detail)
}
