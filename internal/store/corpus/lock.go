package corpus

// This file locks the rows that a write changes, and decides what happens to each version. Of the
// collection it locks the recipe: the generation and the space that the versions must match.

import (
	"cmp"
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
	// The dimensions for which a table exists, and the id and dimension of the space with a name.
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

// sharedRecipe is a collection's recipe, read under a shared lock.
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

// checkRecipe refuses the versions, and reports false, when the vectors are not of the collection's
// space. Text of another generation is an error.
func (w *writer) checkRecipe(ctx context.Context, r sharedRecipe) (bool, error) {
	for _, v := range w.versions {
		if cut := max(v.Text.Generation, 1); cut != r.generation {
			return false, &batch.StaleError{Version: v.Version, Cut: cut, Live: r.generation}
		}
	}
	if r.closing {
		return false, fmt.Errorf("another generation of collection %s is about to go live: %w", w.collection, schema.ErrConflict)
	}
	if r.space != w.space {
		return false, w.refuse(ctx, fmt.Sprintf("the collection's vectors are of space %s, the model server serves %s: "+
			"load the model pack of %s, or rebuild the collection, which queues this document again when it is done",
			r.name, w.versions[0].Vectors.Space, r.name))
	}
	w.generation = r.generation
	if r.language != w.language { // changed since the terms were made
		return true, w.analyse(r.language)
	}
	return true, nil
}

// giveSpace sets the collection's space on the first write, or returns why the vectors cannot be
// kept. Once a collection has a space, its preparation knows it.
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
	// This comes before the lock that writers share: of two transactions that share it neither
	// could update the row.
	_, err = w.tx.Exec(ctx, giveSpaceSQL, w.collection, w.space)
	return "", store.Wrap(err, "give collection %s its space", w.collection)
}

// spaceOf runs b, and returns the id of the vectors' space, or why they cannot be kept.
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

// refuse marks the versions as failed, because the model server serves another space. It does so
// in this transaction, which has locked the collection: a rebuild that then makes a generation of
// that space live finds them, and queues them again.
func (w *writer) refuse(ctx context.Context, why string) error {
	reason := schema.Reason{Code: schema.ReasonModel, Message: why}
	failures := make([]batch.Failure, len(w.versions))
	for i, v := range w.versions {
		failures[i] = batch.Failure{Attempt: v.Attempt, Reason: reason}
		w.outcomes = append(w.outcomes, wire.Outcome{Version: v.Version, Reason: &reason})
	}
	return store.Wrap(failVersions(ctx, w.tx, w.tenant, failures), "fail %d versions", len(failures))
}

const (
	// Both find rows by primary key only, through arrays: with old statistics, a join may be
	// planned as a scan of all of a tenant's documents.
	holdDocumentsSQL = `
SELECT id, external_id, live_version_id, deleted_at IS NOT NULL OR EXISTS (
    SELECT FROM collections c WHERE c.tenant_id = $2 AND c.id = d.collection_id AND c.deleted_at IS NOT NULL)
FROM documents d
WHERE tenant_id = $2 AND id = ANY (ARRAY(SELECT document_id FROM versions WHERE tenant_id = $2 AND id = ANY ($1))) ORDER BY id FOR UPDATE`
	// Includes the live versions of the documents.
	holdVersionsSQL = `
SELECT id, document_id, collection_id, number, attempt, state, coalesce(trace, '') FROM versions
WHERE tenant_id = $2 AND id = ANY (ARRAY(
    SELECT unnest($1::uuid[]) UNION ALL
    SELECT live_version_id FROM documents
    WHERE tenant_id = $2 AND id = ANY (ARRAY(SELECT document_id FROM versions WHERE tenant_id = $2 AND id = ANY ($1)))))
ORDER BY id FOR UPDATE`
	// Includes the names of a document beside its title. Links are not names.
	titlesLabelsSQL = `
SELECT v.id, v.title, ARRAY(SELECT l.label FROM version_labels l WHERE l.tenant_id = $1 AND l.version_id = v.id ORDER BY l.label),
       ARRAY(SELECT d.external_id FROM documents d WHERE d.tenant_id = $1 AND d.id = v.document_id) || coalesce(v.file_name, ''),
       ARRAY(SELECT left(m.text_value, 200) FROM version_metadata m WHERE m.tenant_id = $1 AND m.version_id = v.id AND m.key <> 'links'
             ORDER BY m.key, m.text_value LIMIT 50)
FROM versions v WHERE v.tenant_id = $1 AND v.id = ANY ($2)`
)

// lockedRows are the locked documents, and the locked versions in the order of ids.
type lockedRows struct {
	documents map[uuid.UUID]*lockedDocument
	versions  []lockedVersion
	titles    map[uuid.UUID]string // that uploads gave to versions
	labels    map[uuid.UUID][]string
	called    map[uuid.UUID]documentNames
	links     map[uuid.UUID][]byte // links in the metadata
}

// documentNames are the names of a document beside its title, and the values of its metadata.
type documentNames struct{ names, metadata []string }

type lockedDocument struct {
	externalID string
	live       *uuid.UUID
	gone       bool
	liveNumber int
}

type lockedVersion struct {
	change
	number int
}

// queue locks the documents and then the versions, each in id order, and then reads the data by
// which the versions are found.
func (l *lockedRows) queue(b *pgx.Batch, tenant uuid.UUID, versions []uuid.UUID) {
	l.documents = make(map[uuid.UUID]*lockedDocument, len(versions))
	b.Queue(holdDocumentsSQL, versions, tenant).Query(func(rows pgx.Rows) error {
		var id uuid.UUID
		var d lockedDocument
		_, err := pgx.ForEachRow(rows, []any{&id, &d.externalID, &d.live, &d.gone}, func() error {
			l.documents[id] = &lockedDocument{d.externalID, d.live, d.gone, 0}
			return nil
		})
		return store.Wrap(err, "lock documents")
	})
	b.Queue(holdVersionsSQL, versions, tenant).Query(func(rows pgx.Rows) error {
		var v lockedVersion
		_, err := pgx.ForEachRow(rows, []any{&v.Version, &v.Document, &v.Collection, &v.number, &v.attempt, &v.State, &v.trace}, func() error {
			l.versions = append(l.versions, v)
			return nil
		})
		return store.Wrap(err, "lock versions")
	})
	l.titles, l.labels = make(map[uuid.UUID]string, len(versions)), make(map[uuid.UUID][]string, len(versions))
	l.called = make(map[uuid.UUID]documentNames, len(versions))
	b.Queue(titlesLabelsSQL, tenant, versions).Query(func(rows pgx.Rows) error {
		var id uuid.UUID
		var title string
		var labels []string
		var called documentNames
		_, err := pgx.ForEachRow(rows, []any{&id, &title, &labels, &called.names, &called.metadata}, func() error {
			l.titles[id], l.labels[id], l.called[id] = title, labels, called
			labels, called = nil, documentNames{} // the next row gets memory of its own
			return nil
		})
		return store.Wrap(err, "read titles and labels")
	})
	l.links = map[uuid.UUID][]byte{}
	b.Queue(givenLinksSQL, tenant, versions).Query(func(rows pgx.Rows) error {
		var id uuid.UUID
		var links []byte
		_, err := pgx.ForEachRow(rows, []any{&id, &links}, func() error {
			l.links[id] = slices.Clone(links)
			return nil
		})
		return store.Wrap(err, "read links of metadata")
	})
}

// target is a version about to be written, under lock.
type target struct {
	preparedVersion
	document   uuid.UUID
	number     int
	old        *uuid.UUID // the version it supersedes
	event      change
	labels     []string
	called     documentNames
	givenLinks []byte // links in the metadata
}

// decide determines which versions become ready and which are superseded at once. It records as
// lost those that this attempt no longer owns.
func (w *writer) decide(l lockedRows) (ready, superseded []*target) {
	byID := make(map[uuid.UUID]preparedVersion, len(w.versions))
	for _, v := range w.versions {
		byID[v.Version] = v
	}
	var found []*target
	seen := map[uuid.UUID]bool{}
	for _, v := range l.versions {
		d := l.documents[v.Document]
		if d.live != nil && *d.live == v.Version {
			d.liveNumber = v.number
		}
		prepared, ok := byID[v.Version]
		if !ok {
			continue
		}
		seen[v.Version] = true
		owned := v.attempt == prepared.Attempt.Attempt
		switch {
		case owned && v.State == schema.StateProcessing && !d.gone && v.Collection == w.collection:
			e := v.change
			e.ExternalID = d.externalID
			prepared.title = cmp.Or(l.titles[v.Version], prepared.title)
			found = append(found, &target{preparedVersion: prepared, document: v.Document, number: v.number, event: e,
				labels: l.labels[v.Version], called: l.called[v.Version], givenLinks: l.links[v.Version]})
		case owned && (v.State == schema.StateReady || v.State == schema.StateSuperseded): // an earlier run wrote it
		default:
			w.recordLost(v.Version)
		}
	}
	for _, v := range w.versions {
		if !seen[v.Version] {
			w.recordLost(v.Version)
		}
	}

	// Newest first, so that of two versions of a document in one batch the newer wins.
	slices.SortStableFunc(found, func(a, b *target) int { return b.number - a.number })
	taken := map[uuid.UUID]bool{}
	for _, t := range found {
		d := l.documents[t.document]
		if taken[t.document] || d.liveNumber > t.number {
			superseded = append(superseded, t)
			continue
		}
		taken[t.document] = true
		t.old = d.live
		ready = append(ready, t)
	}
	return ready, superseded
}

func (w *writer) recordLost(version uuid.UUID) {
	w.outcomes = append(w.outcomes, wire.Outcome{Version: version, Lost: true})
}
