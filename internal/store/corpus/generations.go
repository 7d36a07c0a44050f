package corpus

// This file implements what users do with generations: start, inspect and cancel a rebuild. Workers
// build a generation because its row has the state building; there is no other signal.

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/ingest/batch"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

const (
	lockCollectionSQL = `
SELECT language, segmentation, generation, space_id, encoder FROM collections
WHERE tenant_id = $1 AND id = $2 AND deleted_at IS NULL FOR UPDATE`
	// The first generation of a collection has no row until there is another.
	noteLiveSQL = `
INSERT INTO generations (tenant_id, collection_id, number, language, segmentation, space_id, encoder, state)
VALUES ($1, $2, $3, $4, $5, $6, $7, 'live') ON CONFLICT DO NOTHING`
	nextGenerationSQL   = `SELECT max(number) + 1 FROM generations WHERE tenant_id = $1 AND collection_id = $2`
	insertGenerationSQL = `
INSERT INTO generations (tenant_id, collection_id, number, language, segmentation, encoder, state) VALUES ($1, $2, $3, $4, $5, $6, 'building')`

	rebuildSelect = `
SELECT g.collection_id, g.number, g.language, g.segmentation, g.encoder, coalesce(s.name, ''), g.state, coalesce(g.reason, ''), g.versions,
       (SELECT count(*)::int FROM documents d
        WHERE d.tenant_id = g.tenant_id AND d.collection_id = g.collection_id AND d.deleted_at IS NULL AND d.live_version_id IS NOT NULL),
       g.passages, g.created_at, g.finished_at
FROM generations g LEFT JOIN spaces s ON s.id = g.space_id
WHERE g.tenant_id = $1 AND g.collection_id = $2`
	buildingSQL = rebuildSelect + ` AND g.state = 'building'`
	rebuildSQL  = rebuildSelect + ` AND g.number > 1 ORDER BY g.number DESC LIMIT 1`

	liveRecipesSQL = `
SELECT c.id, c.generation, c.segmentation, c.language, c.encoder = 'second', coalesce(s.id, 0), coalesce(s.name, ''), coalesce(s.dimension, 0)
FROM collections c LEFT JOIN spaces s ON s.id = c.space_id AND to_regclass('vectors_' || s.dimension) IS NOT NULL
WHERE c.tenant_id = $1 AND c.id = ANY ($2)`

	cancelGenerationSQL = `
UPDATE generations SET state = 'cancelled', finished_at = now()
WHERE tenant_id = $1 AND collection_id = $2 AND state = 'building' RETURNING number`
)

// StartRebuild starts a new generation of a collection. If a generation with the same recipe is
// being built already, StartRebuild returns that one. If one with another recipe is, the error is
// schema.ErrConflict, unless it is the automatic one for the second encoder, which is cancelled and
// started again later.
func (s *CorpusStore) StartRebuild(ctx context.Context, p schema.Principal, collection uuid.UUID, n schema.NewRebuild) (schema.Rebuild, error) {
	var out schema.Rebuild
	if n.Language != "" {
		if err := schema.CheckLanguage("language", n.Language); err != nil {
			return out, err
		}
	}
	if n.Segmentation != (schema.Segmentation{}) {
		var err error
		if n.Segmentation, err = n.Segmentation.Complete(); err != nil {
			return out, err
		}
	}
	if n.Encoder != "" {
		if err := schema.CheckEncoder("encoder", n.Encoder); err != nil {
			return out, err
		}
	}
	err := s.db.AsTenant(ctx, p.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		var live int
		var encoder schema.Encoder
		var space *int
		var language string
		var segmentation schema.Segmentation
		if err := tx.QueryRow(ctx, lockCollectionSQL, p.Tenant, collection).Scan(&language, &segmentation, &live, &space, &encoder); err != nil {
			return store.Named(err, "collection", collection)
		}
		want := n
		if want.Language == "" {
			want.Language = language
		}
		if want.Segmentation == (schema.Segmentation{}) {
			want.Segmentation = segmentation
		}
		if want.Encoder == "" {
			want.Encoder = encoder
		}
		building, found, err := oneRebuild(ctx, tx, buildingSQL, p.Tenant, collection)
		if err != nil {
			return err
		}
		if found && encoder == schema.EncoderAuto && building.Encoder == schema.EncoderSecond && n.Encoder == "" {
			found = false
			var cancelled int
			if err := tx.QueryRow(ctx, cancelGenerationSQL, p.Tenant, collection).Scan(&cancelled); err != nil {
				return fmt.Errorf("cancel generation %d: %w", building.Generation, err)
			}
		}
		if found {
			if building.Language != want.Language || building.Segmentation != want.Segmentation || building.Encoder != want.Encoder {
				return fmt.Errorf("generation %d is being built with language %s, segmentation %s and encoder %s; wait for it or cancel it: %w",
					building.Generation, building.Language, building.Segmentation, building.Encoder, schema.ErrConflict)
			}
			out = building
			return nil
		}
		if _, err := tx.Exec(ctx, noteLiveSQL, p.Tenant, collection, live, language, segmentation, space, encoder); err != nil {
			return fmt.Errorf("note the live generation: %w", err)
		}
		var number int
		if err := tx.QueryRow(ctx, nextGenerationSQL, p.Tenant, collection).Scan(&number); err != nil {
			return fmt.Errorf("number the generation: %w", err)
		}
		if _, err := tx.Exec(ctx, insertGenerationSQL, p.Tenant, collection, number, want.Language, want.Segmentation, want.Encoder); err != nil {
			return fmt.Errorf("note generation %d: %w", number, err)
		}
		if err := store.Audit(ctx, tx, p.Tenant, p, "collection.rebuild", collection.String(),
			map[string]any{"generation": number, "language": want.Language, "segmentation": want.Segmentation, "encoder": want.Encoder}); err != nil {
			return err
		}
		out, _, err = oneRebuild(ctx, tx, buildingSQL, p.Tenant, collection)
		return err
	})
	return out, store.Wrap(err, "rebuild collection")
}

// Rebuild returns the newest rebuild of a collection, whatever its state. The error is
// schema.ErrNotFound when there never was one.
func (s *CorpusStore) Rebuild(ctx context.Context, p schema.Principal, collection uuid.UUID) (schema.Rebuild, error) {
	var out schema.Rebuild
	err := s.db.AsTenant(ctx, p.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		if err := store.CollectionExists(ctx, tx, p.Tenant, collection); err != nil {
			return err
		}
		var found bool
		var err error
		out, found, err = oneRebuild(ctx, tx, rebuildSQL, p.Tenant, collection)
		if err == nil && !found {
			return fmt.Errorf("the collection was never rebuilt: %w", schema.ErrNotFound)
		}
		return err
	})
	return out, store.Wrap(err, "read the rebuild")
}

// CancelRebuild cancels the rebuild in progress; what it wrote is removed later. The error is
// schema.ErrConflict when there is none.
func (s *CorpusStore) CancelRebuild(ctx context.Context, p schema.Principal, collection uuid.UUID) (schema.Rebuild, error) {
	var out schema.Rebuild
	err := s.db.AsTenant(ctx, p.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		if err := store.CollectionExists(ctx, tx, p.Tenant, collection); err != nil {
			return err
		}
		var number int
		err := tx.QueryRow(ctx, cancelGenerationSQL, p.Tenant, collection).Scan(&number)
		if store.IsNoRows(err) {
			return fmt.Errorf("no rebuild is under way: %w", schema.ErrConflict)
		}
		if err != nil {
			return err
		}
		if err := store.Audit(ctx, tx, p.Tenant, p, "collection.rebuild.cancel", collection.String(), map[string]any{"generation": number}); err != nil {
			return err
		}
		out, _, err = oneRebuild(ctx, tx, rebuildSQL, p.Tenant, collection)
		return err
	})
	return out, store.Wrap(err, "cancel the rebuild")
}

func oneRebuild(ctx context.Context, tx pgx.Tx, sql string, args ...any) (out schema.Rebuild, found bool, err error) {
	rows, err := tx.Query(ctx, sql, args...)
	if err != nil {
		return out, false, fmt.Errorf("read a generation: %w", err)
	}
	out, err = pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[schema.Rebuild])
	if store.IsNoRows(err) {
		return out, false, nil
	}
	if err != nil {
		return out, false, fmt.Errorf("read a generation: %w", err)
	}
	return out, true, nil
}

// LiveRecipe returns the live recipe of one collection.
func (s *CorpusStore) LiveRecipe(ctx context.Context, tenant, collection uuid.UUID) (batch.Recipe, error) {
	all, err := s.LiveRecipes(ctx, tenant, []uuid.UUID{collection})
	out, found := all[collection]
	if err == nil && !found {
		err = store.Named(pgx.ErrNoRows, "collection", collection)
	}
	return out, err
}

// LiveRecipes implements ingest.Store.
func (s *CorpusStore) LiveRecipes(ctx context.Context, tenant uuid.UUID, collections []uuid.UUID) (map[uuid.UUID]batch.Recipe, error) {
	var out map[uuid.UUID]batch.Recipe
	err := s.db.AskTenant(ctx, tenant, liveRecipesSQL, []any{tenant, collections}, func(rows pgx.Rows) error {
		defer rows.Close()
		out = make(map[uuid.UUID]batch.Recipe, len(collections))
		for rows.Next() {
			var id uuid.UUID
			var r batch.Recipe
			var second bool
			if err := rows.Scan(&id, &r.Generation, &r.Segmentation, &r.Language, &second, &r.KeptID, &r.Kept.Name, &r.Kept.Dimension); err != nil {
				return err
			}
			if second && r.KeptID != 0 {
				r.Later = &batch.Space{Name: r.Kept.Name, Dimension: r.Kept.Dimension}
			}
			out[id] = r
		}
		return rows.Err()
	})
	return out, err
}

// Rebuilds lists up to limit generations that are being built, of all tenants.
func (s *CorpusStore) Rebuilds(ctx context.Context, limit int) ([]wire.Rebuild, error) {
	var out []wire.Rebuild
	err := s.db.AsSystem(ctx, func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, `
			SELECT tenant_id, collection_id, number, encoder = 'second' FROM generations WHERE state = 'building' ORDER BY created_at LIMIT $1`, limit)
		if err != nil {
			return err
		}
		out, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (r wire.Rebuild, err error) {
			err = row.Scan(&r.Tenant, &r.Collection, &r.Generation, &r.Second)
			return r, err
		})
		return err
	})
	return out, store.Wrap(err, "list rebuilds")
}
