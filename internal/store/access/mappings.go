package access

// This file maps principals of sources to subjects here. An admin sets each mapping; none is
// derived from names.

import (
	"cmp"
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema"
)

const (
	mapSQL = `
INSERT INTO access_mappings (tenant_id, source_id, principal, kind, value) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (tenant_id, source_id, principal, kind, value) DO UPDATE SET value = excluded.value RETURNING created_at`
	unmapSQL = `DELETE FROM access_mappings WHERE tenant_id = $1 AND source_id = $2 AND principal = $3 AND kind = $4 AND value = $5`
	// A page begins after a principal, in the order of ids.
	principalsSQL = `
SELECT a.principal, a.is_group, a.name, a.email,
       (SELECT count(*) FROM access_members m WHERE m.tenant_id = $1 AND m.source_id = $2 AND m.in_group = a.principal),
       coalesce((SELECT jsonb_agg(jsonb_build_object('source', m.source_id, 'principal', m.principal, 'kind', m.kind, 'value', m.value, 'created_at', m.created_at)
                                  ORDER BY m.kind, m.value)
                 FROM access_mappings m WHERE m.tenant_id = $1 AND m.source_id = $2 AND m.principal = a.principal), '[]')
FROM access_principals a
WHERE a.tenant_id = $1 AND a.source_id = $2 AND a.principal > $3
  AND (NOT $5 OR EXISTS (SELECT FROM access_mappings m WHERE m.tenant_id = $1 AND m.source_id = $2 AND m.principal = a.principal))
ORDER BY a.principal LIMIT $4`
)

// The default and the largest number of principals in a page.
const (
	somePrincipals = 50
	maxPrincipals  = 500
)

// SourcePrincipals lists a page of a source's users and groups by their ids: all of them, or only
// those that are mapped. A cursor is the last id.
func (s *AccessStore) SourcePrincipals(ctx context.Context, p schema.Principal, of uuid.UUID, mapped bool, q schema.PageQuery) (out []schema.SourcePrincipal, next string, err error) {
	if err := schema.CheckText("cursor", q.Cursor); err != nil {
		return nil, "", err
	}
	limit := min(cmp.Or(q.Limit, somePrincipals), maxPrincipals)
	err = s.db.AsTenant(ctx, p.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		if err := isFollowed(ctx, tx, p.Tenant, of); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, principalsSQL, p.Tenant, of, q.Cursor, limit+1, mapped)
		if err != nil {
			return err
		}
		out, err = pgx.CollectRows(rows, pgx.RowToStructByPos[schema.SourcePrincipal])
		return err
	})
	if len(out) > limit {
		out = out[:limit]
		next = out[limit-1].ID
	}
	return out, next, store.Wrap(err, "list the principals of source %s", of)
}

// MapPrincipal maps a principal of a source to a subject here.
func (s *AccessStore) MapPrincipal(ctx context.Context, p schema.Principal, of uuid.UUID, principal string, subject schema.AccessSubject) (schema.AccessMapping, error) {
	out := schema.AccessMapping{Source: of, Principal: principal, AccessSubject: subject}
	err := s.db.AsTenant(ctx, p.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		if err := isFollowed(ctx, tx, p.Tenant, of); err != nil {
			return err
		}
		have, err := knownPrincipals(ctx, tx, p.Tenant, of, []string{principal})
		if err != nil {
			return err
		}
		if !have(principal) {
			return fmt.Errorf("the source has no principal %q: %w", principal, schema.ErrNotFound)
		}
		if subject.Kind == schema.AccessKey {
			id, err := uuid.Parse(subject.Value)
			if err != nil {
				return schema.Invalid("value", "%q is not the id of a key", subject.Value)
			}
			out.Value = id.String()
			if err := tx.QueryRow(ctx, `SELECT true FROM api_keys WHERE tenant_id = $1 AND id = $2`, p.Tenant, id).Scan(nil); err != nil {
				return store.Named(err, "key", id)
			}
		}
		if subject.Kind == schema.AccessGroup && schema.Reserved(subject.Value) {
			return schema.Invalid("value", "%q is reserved by the system", subject.Value)
		}
		if err := tx.QueryRow(ctx, mapSQL, p.Tenant, of, principal, string(subject.Kind), out.Value).Scan(&out.CreatedAt); err != nil {
			return err
		}
		if err := raise(ctx, tx, p.Tenant); err != nil {
			return err
		}
		return store.Audit(ctx, tx, p.Tenant, p, "source.map", of.String(), map[string]any{"principal": principal, "kind": subject.Kind, "value": out.Value})
	})
	return out, store.Wrap(err, "map a principal")
}

// UnmapPrincipal removes a mapping that MapPrincipal made.
func (s *AccessStore) UnmapPrincipal(ctx context.Context, p schema.Principal, of uuid.UUID, principal string, subject schema.AccessSubject) error {
	if id, err := uuid.Parse(subject.Value); err == nil && subject.Kind == schema.AccessKey {
		subject.Value = id.String()
	}
	err := s.db.AsTenant(ctx, p.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		if err := isFollowed(ctx, tx, p.Tenant, of); err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, unmapSQL, p.Tenant, of, principal, string(subject.Kind), subject.Value)
		if err != nil {
			return err
		}
		if tag.RowsAffected() == 0 {
			return fmt.Errorf("%s %q is not %q in the source: %w", subject.Kind, subject.Value, principal, schema.ErrNotFound)
		}
		if err := raise(ctx, tx, p.Tenant); err != nil {
			return err
		}
		return store.Audit(ctx, tx, p.Tenant, p, "source.unmap", of.String(), map[string]any{"principal": principal, "kind": subject.Kind, "value": subject.Value})
	})
	return store.Wrap(err, "unmap a principal")
}
