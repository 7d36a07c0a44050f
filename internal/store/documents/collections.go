package documents

// This file keeps collections. Deleting one hides it and all its documents at once; these retire
// later (emptying.go), and purge removes their contents.

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

const (
	insertCollectionSQL = `
INSERT INTO collections (tenant_id, id, name, description, language, segmentation, plan) VALUES ($1, $2, $3, $4, $5, $6, $7)
ON CONFLICT (tenant_id, name) WHERE deleted_at IS NULL DO NOTHING RETURNING id`

	// The counts are the sums that curation keeps, and the changes since (migration 82).
	collectionSelect = `
SELECT c.id, c.name, c.description, c.language, c.segmentation, c.plan, coalesce(s.name, ''), c.generation, c.cluster_tokens, c.created_at,
       coalesce(t.counts, '{}'), coalesce(t.bytes, 0), coalesce(t.passages, 0), coalesce(t.uncurated, 0), t.changed_at
FROM collections c
LEFT JOIN spaces s ON s.id = c.space_id
LEFT JOIN LATERAL (
    SELECT jsonb_object_agg(state, documents) FILTER (WHERE documents <> 0) AS counts, sum(bytes)::bigint AS bytes,
           sum(passages)::bigint AS passages, sum(uncurated)::bigint AS uncurated, max(changed_at) AS changed_at
    FROM (
        SELECT state, sum(documents)::bigint AS documents, sum(bytes) AS bytes, sum(passages) AS passages, sum(uncurated) AS uncurated,
               max(changed_at) AS changed_at
        FROM (
            SELECT state, documents, bytes, passages, uncurated, changed_at FROM collection_counts
            WHERE tenant_id = c.tenant_id AND collection_id = c.id
            UNION ALL
            SELECT state, documents, bytes, passages, uncurated, changed_at FROM collection_changes
            WHERE tenant_id = c.tenant_id AND collection_id = c.id
        ) AS counted
        GROUP BY state
    ) AS by_state
) AS t ON true
WHERE c.tenant_id = $1 AND c.deleted_at IS NULL`

	collectionSQL     = collectionSelect + ` AND c.id = $2`
	collectionPageSQL = collectionSelect + ` AND ($2::uuid IS NULL OR c.id > $2) AND ($4::uuid[] IS NULL OR c.id = ANY ($4)) ORDER BY c.id LIMIT $3`

	// A name may look like an id; the id has precedence.
	resolveCollectionSQL = `
SELECT id FROM collections WHERE tenant_id = $1 AND deleted_at IS NULL AND (id = $2 OR name = $3)
ORDER BY id IS NOT DISTINCT FROM $2 DESC LIMIT 1`

	updateCollectionSQL = `
UPDATE collections SET description = coalesce($3, description), plan = coalesce($4, plan) WHERE tenant_id = $1 AND id = $2 AND deleted_at IS NULL RETURNING id`

	collectionPlanSQL = `SELECT plan FROM collections WHERE tenant_id = $1 AND id = $2 AND deleted_at IS NULL`

	deleteCollectionSQL = `
UPDATE collections SET deleted_at = now() WHERE tenant_id = $1 AND id = $2 AND deleted_at IS NULL RETURNING name`
	retireAllShardsSQL = `
UPDATE vector_shards SET retired_at = now() WHERE tenant_id = $1 AND collection_id = $2 AND retired_at IS NULL`
	// A source-worker removes the sources, as on request; their documents are deleted with the
	// collection.
	removeSourcesSQL = `
UPDATE sources SET state = 'removing', keep_documents = true, due_at = now(), attempt = attempt + 1, problem = '', problem_at = NULL
WHERE tenant_id = $1 AND collection_id = $2`
	countedSQL = `
SELECT coalesce(sum(documents), 0)::bigint FROM (
    SELECT documents FROM collection_counts WHERE tenant_id = $1 AND collection_id = $2
    UNION ALL
    SELECT documents FROM collection_changes WHERE tenant_id = $1 AND collection_id = $2) c`
)

// CreateCollection creates a collection. The error is schema.ErrConflict when the name is taken.
func (s *DocumentStore) CreateCollection(ctx context.Context, p schema.Principal, c schema.NewCollection) (schema.Collection, error) {
	var out schema.Collection
	c, err := c.Complete()
	if err != nil {
		return out, err
	}
	id := schema.NewID()
	err = s.db.AsTenant(ctx, p.Tenant, func(ctx context.Context, tx pgx.Tx) (err error) {
		err = tx.QueryRow(ctx, insertCollectionSQL, p.Tenant, id, c.Name, c.Description, c.Language, c.Segmentation, c.Plan).Scan(&id)
		if store.IsNoRows(err) {
			return fmt.Errorf("the name is taken: %w", schema.ErrConflict)
		}
		if err != nil {
			return err
		}
		if err := store.Audit(ctx, tx, p.Tenant, p, "collection.create", id.String(), map[string]any{"name": c.Name}); err != nil {
			return err
		}
		out, err = collectionRow(tx.Query(ctx, collectionSQL, p.Tenant, id))
		return err
	})
	return out, store.Wrap(err, "create collection %q", c.Name)
}

// ResolveCollection returns the id of the collection with the id or name ref.
func (s *DocumentStore) ResolveCollection(ctx context.Context, p schema.Principal, ref string) (uuid.UUID, error) {
	var id uuid.UUID
	err := s.db.AsTenant(ctx, p.Tenant, func(ctx context.Context, tx pgx.Tx) (err error) {
		id, err = resolveCollection(ctx, tx, p.Tenant, ref)
		return err
	})
	if err != nil {
		return uuid.Nil, fmt.Errorf("look up collection: %w", err)
	}
	return id, nil
}

func resolveCollection(ctx context.Context, tx pgx.Tx, tenant uuid.UUID, ref string) (uuid.UUID, error) {
	if err := schema.CheckText("collection", ref); err != nil {
		return uuid.Nil, err
	}
	var id *uuid.UUID
	if parsed, err := uuid.Parse(ref); err == nil {
		id = &parsed
	}
	var out uuid.UUID
	err := tx.QueryRow(ctx, resolveCollectionSQL, tenant, id, ref).Scan(&out)
	return out, store.Named(err, "collection", ref)
}

// Collection returns the collection with the id or name ref, with its counts.
func (s *DocumentStore) Collection(ctx context.Context, p schema.Principal, ref string) (schema.Collection, error) {
	var out schema.Collection
	err := s.db.AsTenant(ctx, p.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		id, err := resolveCollection(ctx, tx, p.Tenant, ref)
		if err != nil {
			return err
		}
		out, err = collectionRow(tx.Query(ctx, collectionSQL, p.Tenant, id))
		return store.Named(err, "collection", ref)
	})
	return out, store.Wrap(err, "read collection")
}

// Collections returns a page of the collections of p's tenant in which p has a scope, with their
// counts, oldest first, and the next cursor.
func (s *DocumentStore) Collections(ctx context.Context, p schema.Principal, q schema.PageQuery) ([]schema.Collection, string, error) {
	pg, err := store.PageOf(q)
	if err != nil {
		return nil, "", err
	}
	var out []schema.Collection
	err = s.db.AsTenant(ctx, p.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		only, _ := p.OnlyIn("") // nil: all
		rows, err := tx.Query(ctx, collectionPageSQL, p.Tenant, pg.After, pg.Limit+1, only)
		if err != nil {
			return err
		}
		out, err = pgx.CollectRows(rows, pgx.RowToStructByPos[schema.Collection])
		return err
	})
	if err != nil {
		return nil, "", fmt.Errorf("list collections: %w", err)
	}
	out, next := store.Cut(pg, out, func(c schema.Collection) uuid.UUID { return c.ID })
	return out, next, nil
}

// UpdateCollection changes the fields that c has.
func (s *DocumentStore) UpdateCollection(ctx context.Context, p schema.Principal, id uuid.UUID, c schema.CollectionChange) (schema.Collection, error) {
	var out schema.Collection
	if c.Description != nil {
		if err := schema.CheckLength("description", *c.Description, 0, schema.MaxDescription); err != nil {
			return out, err
		}
	}
	if c.Plan != nil {
		if err := schema.CheckLength("plan", *c.Plan, 0, schema.MaxPlanName); err != nil {
			return out, err
		}
	}
	err := s.db.AsTenant(ctx, p.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		if err := tx.QueryRow(ctx, updateCollectionSQL, p.Tenant, id, c.Description, c.Plan).Scan(&id); err != nil {
			return store.Named(err, "collection", id)
		}
		var detail map[string]any
		if c.Plan != nil {
			detail = map[string]any{"plan": *c.Plan}
		}
		if err := store.Audit(ctx, tx, p.Tenant, p, "collection.update", id.String(), detail); err != nil {
			return err
		}
		var err error
		out, err = collectionRow(tx.Query(ctx, collectionSQL, p.Tenant, id))
		return err
	})
	return out, store.Wrap(err, "update collection")
}

// CollectionPlan returns the plan of a collection, or the empty string if it has none of its own.
func (s *DocumentStore) CollectionPlan(ctx context.Context, tenant, id uuid.UUID) (string, error) {
	var name string
	err := s.db.AsTenant(ctx, tenant, func(ctx context.Context, tx pgx.Tx) error {
		return store.Named(tx.QueryRow(ctx, collectionPlanSQL, tenant, id).Scan(&name), "collection", id)
	})
	return name, store.Wrap(err, "read the plan of a collection")
}

// DeleteCollection hides a collection and its documents at once, however many there are;
// EmptyCollections lets them retire.
func (s *DocumentStore) DeleteCollection(ctx context.Context, p schema.Principal, id uuid.UUID) error {
	err := s.db.AsTenant(ctx, p.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		var name string
		// Waits for uploads in progress, which hold a shared lock on the row.
		if err := tx.QueryRow(ctx, deleteCollectionSQL, p.Tenant, id).Scan(&name); err != nil {
			return store.Named(err, "collection", id)
		}
		var documents int64
		if err := tx.QueryRow(ctx, countedSQL, p.Tenant, id).Scan(&documents); err != nil {
			return fmt.Errorf("read how many documents it has: %w", err)
		}
		if _, err := tx.Exec(ctx, retireAllShardsSQL, p.Tenant, id); err != nil {
			return fmt.Errorf("retire its vectors' partitions: %w", err)
		}
		if _, err := tx.Exec(ctx, removeSourcesSQL, p.Tenant, id); err != nil {
			return fmt.Errorf("remove its sources: %w", err)
		}
		var out store.Outbox
		if err := out.Event(wire.Event{Kind: "collection.deleted", Tenant: p.Tenant, Collection: id, State: schema.StateCancelled}, store.Traceparent(ctx)); err != nil {
			return err
		}
		if err := out.Write(ctx, tx); err != nil {
			return err
		}
		return store.Audit(ctx, tx, p.Tenant, p, "collection.delete", id.String(), map[string]any{"name": name, "documents": documents})
	})
	return store.Wrap(err, "delete collection")
}

func collectionRow(rows pgx.Rows, err error) (schema.Collection, error) {
	if err != nil {
		return schema.Collection{}, err
	}
	return pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[schema.Collection])
}

// What was learnt from answers of the collection's documents, and from questions that were labelled
// for it.
const (
	forgetKnownSQL = `
DELETE FROM known_questions k USING questions q
WHERE k.tenant_id = $1 AND q.tenant_id = k.tenant_id AND q.id = k.question_id AND q.collection_id = $2`
	forgetTaughtSQL      = `DELETE FROM taught_questions WHERE tenant_id = $1 AND collection_id = $2`
	forgetImportedSQL    = `DELETE FROM imported_questions WHERE tenant_id = $1 AND collection_id = $2`
	forgetLabelsSQL      = `DELETE FROM preference_labels WHERE tenant_id = $1 AND collection_id = $2`
	forgetPreferencesSQL = `DELETE FROM preferences WHERE tenant_id = $1 AND collection_id = $2`
)
