// Package tenants keeps tenants, their quotas, API keys and sessions, and shows the activity in
// them.
package tenants

// This file keeps tenants and their quotas. Its callers hold the operator scope; tenants cannot
// call it for themselves.

import (
	"context"
	"fmt"
	"regexp"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema"
)

// TenantStore keeps tenants and their keys.
type TenantStore struct{ db *store.Store }

// New returns the TenantStore of a database.
func New(db *store.Store) *TenantStore { return &TenantStore{db} }

const (
	tenantColumns = `id, name, max_documents, max_bytes, created_at`

	insertTenantSQL = `INSERT INTO tenants (id, name, max_documents, max_bytes) VALUES ($1, $2, $3, $4)
ON CONFLICT (name) DO NOTHING RETURNING ` + tenantColumns
	tenantSQL       = `SELECT ` + tenantColumns + ` FROM tenants WHERE id = $1`
	tenantByNameSQL = `SELECT ` + tenantColumns + ` FROM tenants WHERE name = $1`
	tenantPageSQL   = `SELECT ` + tenantColumns + ` FROM tenants WHERE ($1::uuid IS NULL OR id > $1) ORDER BY id LIMIT $2`
	setQuotasSQL    = `UPDATE tenants SET max_documents = $2, max_bytes = $3 WHERE id = $1 RETURNING ` + tenantColumns
)

var tenantName = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,62}$`)

// CreateTenant creates a tenant with its first key. The error is schema.ErrConflict when the name
// is taken.
func (s *TenantStore) CreateTenant(ctx context.Context, p schema.Principal, t schema.NewTenant, first schema.SealedKey) (schema.Tenant, error) {
	var out schema.Tenant
	if !tenantName.MatchString(t.Name) {
		return out, schema.Invalid("name", "%q: 1 to 63 of a-z, 0-9, dot, underscore and dash, beginning with a letter or digit", t.Name)
	}
	if err := checkQuotas(t.MaxDocuments, t.MaxBytes); err != nil {
		return out, err
	}
	id := schema.NewID()
	err := s.db.AsSystem(ctx, func(ctx context.Context, tx pgx.Tx) (err error) {
		out, err = tenantRow(tx.Query(ctx, insertTenantSQL, id, t.Name, t.MaxDocuments, t.MaxBytes))
		if err != nil {
			return err
		}
		if err := store.AuditAs(ctx, tx, id, p, "tenant.create", id.String(), map[string]any{"name": t.Name}); err != nil {
			return err
		}
		_, err = insertKey(ctx, tx, p, id, first)
		return err
	})
	if store.IsNoRows(err) {
		return out, fmt.Errorf("create tenant: %q exists: %w", t.Name, schema.ErrConflict)
	}
	return out, store.Wrap(err, "create tenant %q", t.Name)
}

// Tenant returns a tenant by id.
func (s *TenantStore) Tenant(ctx context.Context, id uuid.UUID) (schema.Tenant, error) {
	return s.oneTenant(ctx, tenantSQL, id)
}

// TenantNamed returns a tenant by name.
func (s *TenantStore) TenantNamed(ctx context.Context, name string) (schema.Tenant, error) {
	return s.oneTenant(ctx, tenantByNameSQL, name)
}

func (s *TenantStore) oneTenant(ctx context.Context, sql string, key any) (schema.Tenant, error) {
	var out schema.Tenant
	err := s.db.AsSystem(ctx, func(ctx context.Context, tx pgx.Tx) (err error) {
		out, err = tenantRow(tx.Query(ctx, sql, key))
		return err
	})
	if err != nil {
		return out, fmt.Errorf("read tenant %v: %w", key, store.Named(err, "tenant", key))
	}
	return out, nil
}

// Tenants returns a page of all tenants, oldest first, and the next cursor.
func (s *TenantStore) Tenants(ctx context.Context, q schema.PageQuery) ([]schema.Tenant, string, error) {
	pg, err := store.PageOf(q)
	if err != nil {
		return nil, "", err
	}
	var out []schema.Tenant
	err = s.db.AsSystem(ctx, func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, tenantPageSQL, pg.After, pg.Limit+1)
		if err != nil {
			return err
		}
		out, err = pgx.CollectRows(rows, pgx.RowToStructByPos[schema.Tenant])
		return err
	})
	if err != nil {
		return nil, "", fmt.Errorf("list tenants: %w", err)
	}
	out, next := store.Cut(pg, out, func(t schema.Tenant) uuid.UUID { return t.ID })
	return out, next, nil
}

// SetQuotas replaces a tenant's quotas; nil means no limit. A quota below what the tenant has only
// prevents it from adding more.
func (s *TenantStore) SetQuotas(ctx context.Context, p schema.Principal, tenant uuid.UUID, maxDocuments, maxBytes *int64) (schema.Tenant, error) {
	var out schema.Tenant
	if err := checkQuotas(maxDocuments, maxBytes); err != nil {
		return out, err
	}
	err := s.db.AsSystem(ctx, func(ctx context.Context, tx pgx.Tx) (err error) {
		out, err = tenantRow(tx.Query(ctx, setQuotasSQL, tenant, maxDocuments, maxBytes))
		if err != nil {
			return err
		}
		return store.AuditAs(ctx, tx, tenant, p, "tenant.quotas", tenant.String(), map[string]any{"max_documents": maxDocuments, "max_bytes": maxBytes})
	})
	if err != nil {
		return out, fmt.Errorf("set quotas of tenant %s: %w", tenant, store.Named(err, "tenant", tenant))
	}
	return out, nil
}

// Storage returns what a tenant has stored, counted as for its quotas.
func (s *TenantStore) Storage(ctx context.Context, tenant uuid.UUID) (schema.Storage, error) {
	t, err := s.Tenant(ctx, tenant)
	if err != nil {
		return schema.Storage{}, err
	}
	out := schema.Storage{MaxDocuments: t.MaxDocuments, MaxBytes: t.MaxBytes}
	err = s.db.AsTenant(ctx, tenant, func(ctx context.Context, tx pgx.Tx) error {
		var counted bool
		out.Documents, out.Bytes, counted, err = store.Stored(ctx, tx, tenant)
		if err != nil || counted {
			return err
		}
		out.Documents, out.Bytes, _, err = store.Recount(ctx, tx, tenant)
		return err
	})
	return out, store.Wrap(err, "count what tenant %s has stored", tenant)
}

func checkQuotas(maxDocuments, maxBytes *int64) error {
	if maxDocuments != nil && *maxDocuments < 0 {
		return schema.Invalid("max_documents", "%d is negative", *maxDocuments)
	}
	if maxBytes != nil && *maxBytes < 0 {
		return schema.Invalid("max_bytes", "%d is negative", *maxBytes)
	}
	return nil
}

func tenantRow(rows pgx.Rows, err error) (schema.Tenant, error) {
	if err != nil {
		return schema.Tenant{}, err
	}
	return pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[schema.Tenant])
}
