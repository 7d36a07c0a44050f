package store

// This file holds what a write has to do with its collection's recipe: the
// generation and the space that it must be of.

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/ingest/batch"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// checkRecipe locks the collection against a change of its recipe, and gives it
// its space on the first write. It reports false when the vectors are of another
// space, and refuses the versions; text of another generation is an error.
func (w *writer) checkRecipe(ctx context.Context, docs []batch.Document) (bool, error) {
	id, why, err := w.spaceOf(ctx, docs[0].Vectors)
	if err != nil {
		return false, err
	}
	if why != "" {
		return w.refuse(docs, why)
	}
	// Before the lock that writers share: two that share it could not both go on
	// to change the row.
	var space *int
	err = w.tx.QueryRow(ctx, `SELECT space_id FROM collections WHERE id = $1`, w.collection).Scan(&space)
	if err == nil && space == nil {
		err = w.tx.QueryRow(ctx, `UPDATE collections SET space_id = coalesce(space_id, $2) WHERE id = $1 RETURNING space_id`, w.collection, id).Scan(&space)
	}
	if err == nil {
		err = w.lockCollection(ctx, docs)
	}
	if err != nil {
		return false, fmt.Errorf("read the recipe of collection %s: %w", w.collection, err)
	}
	for _, d := range docs {
		if cut := max(d.Text.Generation, 1); cut != w.generation {
			return false, &batch.StaleError{Version: d.Version, Cut: cut, Live: w.generation}
		}
	}
	var closing bool
	var name string
	if err := w.tx.QueryRow(ctx, `
		SELECT c.space_id, s.name, EXISTS (
		    SELECT FROM generations g WHERE g.collection_id = c.id AND g.state = 'building' AND g.closing_until > now())
		FROM collections c JOIN spaces s ON s.id = c.space_id WHERE c.id = $1`, w.collection).Scan(&w.space, &name, &closing); err != nil {
		return false, fmt.Errorf("read the space of collection %s: %w", w.collection, err)
	}
	if closing {
		return false, fmt.Errorf("another generation of collection %s is about to go live: %w", w.collection, schema.ErrConflict)
	}
	if w.space != id {
		return w.refuse(docs, fmt.Sprintf("the collection's vectors are of space %s, the model server serves %s: load the model pack of %s, or rebuild the collection, which queues this document again when it is done",
			name, docs[0].Vectors.Space, name))
	}
	return true, nil
}

// forgetStale forgets what stages left of text that was cut for another
// generation than the live one, but for what they parsed.
func (s *Store) forgetStale(ctx context.Context, tenant uuid.UUID, docs []batch.Document, live int) error {
	var items []wire.Attempt
	for _, d := range docs {
		if max(d.Text.Generation, 1) != live {
			items = append(items, d.Attempt)
		}
	}
	ids, attempts := split(items)
	return s.AsTenant(ctx, tenant, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `
			DELETE FROM artifacts a USING unnest($1::uuid[], $2::int[]) AS i(id, attempt)
			WHERE a.version_id = i.id AND a.attempt = i.attempt AND a.stage IN ('segmented', 'encoded')`, ids, attempts)
		return wrap(err, "forget what was cut for another generation")
	})
}

// spaceOf returns the id of the vectors' space, or why they cannot be kept.
func (w *writer) spaceOf(ctx context.Context, v batch.Vectors) (id int, why string, err error) {
	known, err := w.dimensions(ctx)
	if err != nil {
		return 0, "", err
	}
	if !slices.Contains(known, v.Dimension) {
		return 0, fmt.Sprintf("the model's vectors have dimension %d; the store keeps %v: load a model pack with one of these", v.Dimension, known), nil
	}
	var have int
	err = w.tx.QueryRow(ctx, `
		WITH new AS (INSERT INTO spaces (name, dimension) SELECT $1, $2
		             WHERE NOT EXISTS (SELECT FROM spaces WHERE name = $1)
		             ON CONFLICT (name) DO NOTHING RETURNING id, dimension)
		SELECT id, dimension FROM new UNION ALL SELECT id, dimension FROM spaces WHERE name = $1`, v.Space, v.Dimension).Scan(&id, &have)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, "", fmt.Errorf("space %s was made by another batch just now: %w", v.Space, errRepeat)
	}
	if err != nil {
		return 0, "", err
	}
	if have != v.Dimension {
		return 0, fmt.Sprintf("space %s has dimension %d, the model server sent %d: give the changed model pack another name", v.Space, have, v.Dimension), nil
	}
	return id, "", nil
}

// dimensions lists the dimensions that have a table.
func (w *writer) dimensions(ctx context.Context) ([]int, error) {
	rows, err := w.tx.Query(ctx, `
		SELECT substring(relname from 9)::int FROM pg_class
		WHERE relname ~ '^vectors_[0-9]+$' AND relkind = 'p' AND relnamespace = current_schema()::regnamespace ORDER BY 1`)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[int])
}

func (w *writer) refuse(docs []batch.Document, why string) (bool, error) {
	for _, d := range docs {
		w.outcomes = append(w.outcomes, wire.Outcome{Version: d.Version, Reason: &schema.Reason{Code: schema.ReasonModel, Message: why}})
	}
	return false, nil
}
