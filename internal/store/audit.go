package store

// This file writes the audit log of changes. An entry is written in the transaction of its action,
// so neither exists without the other.

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/schema"
)

const auditSQL = `INSERT INTO audit (tenant_id, id, actor, action, target, detail) VALUES ($1, $2, $3, $4, $5, $6)`

// actor names p in the audit log.
func actor(p schema.Principal) string {
	if p.Key == uuid.Nil {
		return "system"
	}
	return "key:" + p.Key.String()
}

// Audit records in tx, which must be bound to tenant, that p did action.
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

// AuditAs writes to tenant's audit log from a system transaction, which stays bound to the tenant
// afterwards.
func AuditAs(ctx context.Context, tx pgx.Tx, tenant uuid.UUID, p schema.Principal, action, target string, detail map[string]any) error {
	if _, err := tx.Exec(ctx, setRoleSQL, string(roleApp), tenant.String()); err != nil {
		return fmt.Errorf("enter as %s: %w", roleApp, err)
	}
	return Audit(ctx, tx, tenant, p, action, target, detail)
}
