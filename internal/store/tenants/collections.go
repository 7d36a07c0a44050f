package tenants

// This file keeps the scopes that keys and people have in single collections, by the collections'
// ids, never by names.

import (
	"context"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema"
)

const (
	namesSQL = `SELECT id, name FROM collections WHERE tenant_id = $1 AND id = ANY ($2) AND deleted_at IS NULL`
	namedSQL = `SELECT id, name FROM collections WHERE tenant_id = $1 AND name = ANY ($2) AND deleted_at IS NULL`
)

// CollectionsNamed returns the ids, by name, of a tenant's collections with the given names.
func (s *TenantStore) CollectionsNamed(ctx context.Context, tenant uuid.UUID, names []string) (map[string]uuid.UUID, error) {
	found := map[string]uuid.UUID{}
	err := s.db.AsTenant(ctx, tenant, func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, namedSQL, tenant, names)
		if err != nil {
			return err
		}
		clear(found)
		var id uuid.UUID
		var name string
		_, err = pgx.ForEachRow(rows, []any{&id, &name}, func() error { found[name] = id; return nil })
		return err
	})
	return found, store.Wrap(err, "look up collections of tenant %s by name", tenant)
}

// unnamed returns scopes of collections without names, as they are stored.
func unnamed(scopes []schema.CollectionScopes) []schema.CollectionScopes {
	out := make([]schema.CollectionScopes, len(scopes))
	for i, c := range scopes {
		out[i] = schema.CollectionScopes{Collection: c.Collection, Scopes: c.Scopes}
	}
	return out
}

// NameCollections returns scopes of collections with the collections' current names. It leaves out
// deleted collections.
func (s *TenantStore) NameCollections(ctx context.Context, tenant uuid.UUID, scopes []schema.CollectionScopes) ([]schema.CollectionScopes, error) {
	holder := schema.Key{Collections: unnamed(scopes)}
	err := s.db.AsTenant(ctx, tenant, func(ctx context.Context, tx pgx.Tx) error {
		return nameCollections(ctx, tx, tenant, []schema.Key{holder})
	})
	named := slices.DeleteFunc(holder.Collections, func(c schema.CollectionScopes) bool { return c.Name == "" })
	return named, store.Wrap(err, "look up names of collections of tenant %s", tenant)
}

// nameCollections sets the current names of the collections of keys. A deleted collection gets
// none.
func nameCollections(ctx context.Context, tx pgx.Tx, tenant uuid.UUID, keys []schema.Key) error {
	var ids []uuid.UUID
	for _, k := range keys {
		for _, c := range k.Collections {
			ids = append(ids, c.Collection)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	rows, err := tx.Query(ctx, namesSQL, tenant, ids)
	if err != nil {
		return err
	}
	names := map[uuid.UUID]string{}
	var id uuid.UUID
	var name string
	if _, err := pgx.ForEachRow(rows, []any{&id, &name}, func() error { names[id] = name; return nil }); err != nil {
		return err
	}
	for _, k := range keys {
		for i := range k.Collections {
			k.Collections[i].Name = names[k.Collections[i].Collection]
		}
	}
	return nil
}
