package corpus

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
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

const (
	shareRecipeSQL = `SELECT generation, language FROM collections WHERE tenant_id = $1 AND id = $2 FOR SHARE`
	// The dimensions that have a table, and the space of a name.
	knownSpaceSQL = `
SELECT ARRAY(SELECT substring(relname from 9)::int FROM pg_class
             WHERE relname ~ '^vectors_[0-9]+$' AND relkind = 'p' AND relnamespace = current_schema()::regnamespace ORDER BY 1),
       (SELECT id FROM spaces WHERE name = $1), (SELECT dimension FROM spaces WHERE name = $1)`
	makeSpaceSQL       = `INSERT INTO spaces (name, dimension) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING RETURNING id`
	collectionSpaceSQL = `SELECT space_id FROM collections WHERE id = $1`
	giveSpaceSQL       = `UPDATE collections SET space_id = coalesce(space_id, $2) WHERE id = $1`
	recipeSQL          = `
SELECT c.space_id, s.name, EXISTS (
    SELECT FROM generations g WHERE g.collection_id = c.id AND g.state = 'building' AND g.closing_until > now())
FROM collections c JOIN spaces s ON s.id = c.space_id WHERE c.id = $1`
)

// sharedRecipe is what a collection's text is made with, under lock.
type sharedRecipe struct {
	language   string
	generation int
	space      int
	name       string // of the space
	closing    bool   // another generation is about to go live
}

// queueRecipe locks the collection against a change of its recipe, and reads it.
func (w *writer) queueRecipe(b *pgx.Batch, r *sharedRecipe) {
	b.Queue(shareRecipeSQL, w.tenant, w.collection).QueryRow(func(row pgx.Row) error {
		return store.Wrap(row.Scan(&r.generation, &r.language), "lock collection %s", w.collection)
	})
	b.Queue(recipeSQL, w.collection).QueryRow(func(row pgx.Row) error {
		return store.Wrap(row.Scan(&r.space, &r.name, &r.closing), "read the space of collection %s", w.collection)
	})
}

// checkRecipe reports false when the vectors are not of the collection's space,
// and refuses the versions; text of another generation is an error.
func (w *writer) checkRecipe(r sharedRecipe) (bool, error) {
	for _, v := range w.versions {
		if cut := max(v.Text.Generation, 1); cut != r.generation {
			return false, &batch.StaleError{Version: v.Version, Cut: cut, Live: r.generation}
		}
	}
	if r.closing {
		return false, fmt.Errorf("another generation of collection %s is about to go live: %w", w.collection, schema.ErrConflict)
	}
	if r.space != w.space {
		w.refuse(fmt.Sprintf("the collection's vectors are of space %s, the model server serves %s: load the model pack of %s, or rebuild the collection, which queues this document again when it is done",
			r.name, w.versions[0].Vectors.Space, r.name))
		return false, nil
	}
	w.generation = r.generation
	if r.language != w.language { // it was changed since the terms were made
		return true, w.analyse(r.language)
	}
	return true, nil
}

// giveSpace gives the collection its space on the first write, or says why the
// vectors cannot be kept. Once a collection has one, its preparation knows it.
func (w *writer) giveSpace(ctx context.Context, v batch.Vectors) (why string, err error) {
	var have *int
	b := &pgx.Batch{}
	b.Queue(collectionSpaceSQL, w.collection).QueryRow(func(row pgx.Row) error {
		return store.Wrap(row.Scan(&have), "read the space of collection %s", w.collection)
	})
	w.space, why, err = w.spaceOf(ctx, b, v)
	if err != nil || why != "" || have != nil {
		return why, err
	}
	// Before the lock that writers share: two that share it could not both go on
	// to change the row.
	_, err = w.tx.Exec(ctx, giveSpaceSQL, w.collection, w.space)
	return "", store.Wrap(err, "give collection %s its space", w.collection)
}

// forgetStale forgets what stages left of text that was cut for another
// generation than the live one, but for what they parsed.
func (s *CorpusStore) forgetStale(ctx context.Context, tenant uuid.UUID, docs []batch.Document, live int) error {
	var items []wire.Attempt
	for _, d := range docs {
		if max(d.Text.Generation, 1) != live {
			items = append(items, d.Attempt)
		}
	}
	ids, attempts := split(items)
	return s.db.AsTenant(ctx, tenant, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `
			DELETE FROM artifacts a USING unnest($1::uuid[], $2::int[]) AS i(id, attempt)
			WHERE a.version_id = i.id AND a.attempt = i.attempt AND a.stage IN ('segmented', 'encoded')`, ids, attempts)
		return store.Wrap(err, "forget what was cut for another generation")
	})
}

// spaceOf does what is in b, and returns the id of the vectors' space, or why they cannot be kept.
func (w *writer) spaceOf(ctx context.Context, b *pgx.Batch, v batch.Vectors) (id int, why string, err error) {
	var known []int
	var found, have *int
	b.Queue(knownSpaceSQL, v.Space).QueryRow(func(row pgx.Row) error {
		return store.Wrap(row.Scan(&known, &found, &have), "look up space %s", v.Space)
	})
	if err := w.tx.SendBatch(ctx, b).Close(); err != nil {
		return 0, "", err
	}
	switch {
	case !slices.Contains(known, v.Dimension):
		return 0, fmt.Sprintf("the model's vectors have dimension %d; the store keeps %v: load a model pack with one of these", v.Dimension, known), nil
	case found == nil:
		err := w.tx.QueryRow(ctx, makeSpaceSQL, v.Space, v.Dimension).Scan(&id)
		if errors.Is(err, pgx.ErrNoRows) {
			return 0, "", fmt.Errorf("space %s was made by another batch just now: %w", v.Space, store.ErrRepeat)
		}
		return id, "", store.Wrap(err, "make space %s", v.Space)
	case *have != v.Dimension:
		return 0, fmt.Sprintf("space %s has dimension %d, the model server sent %d: give the changed model pack another name", v.Space, *have, v.Dimension), nil
	}
	return *found, "", nil
}

// refuse says of all versions why they are not written.
func (w *writer) refuse(why string) {
	for _, v := range w.versions {
		w.outcomes = append(w.outcomes, wire.Outcome{Version: v.Version, Reason: &schema.Reason{Code: schema.ReasonModel, Message: why}})
	}
}
