package corpus

// This file is what the second encoder reads and writes: it implements ingest.Unencoded. A version
// of its collections is first written with zero vectors and marked as unencoded; the transaction
// that writes the real vectors removes the mark.

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
)

const (
	secondRecipeSQL = `SELECT generation, space_id FROM collections WHERE tenant_id = $1 AND id = $2 AND encoder = 'second' AND deleted_at IS NULL`
	// The live generation has all its vectors.
	forgetUnencodedSQL = `
UPDATE versions SET unencoded = false WHERE tenant_id = $1 AND collection_id = $2 AND unencoded AND state = 'ready'
AND NOT EXISTS (SELECT FROM collections WHERE tenant_id = $1 AND id = $2 AND encoder = 'second')`
	// The first versions with $3 passages together, and at least one version.
	unencodedSQL = `
SELECT id, title FROM (
    SELECT v.id, v.title, sum(v.passage_count) OVER (ORDER BY v.id) - v.passage_count AS before
    FROM (SELECT * FROM versions WHERE tenant_id = $1 AND collection_id = $2 AND unencoded AND state = 'ready' ORDER BY id LIMIT $3) v) v
WHERE before < $3 ORDER BY id`
	writtenSQL = `
SELECT s.version_id, s.id, s.ordinal, s.heading_path, s.body, p.id, p.ordinal, p.start_byte, p.end_byte, p.tokens
FROM sections s JOIN passages p ON p.tenant_id = s.tenant_id AND p.section_id = s.id AND p.generation = $3
WHERE s.tenant_id = $1 AND s.version_id = ANY ($2)
ORDER BY s.version_id, s.ordinal, p.ordinal`
	lockUnencodedSQL = `
SELECT id FROM versions WHERE tenant_id = $1 AND id = ANY ($2) AND (unencoded AND state = 'ready') IS TRUE ORDER BY id FOR NO KEY UPDATE`
	encodedSQL = `UPDATE versions SET unencoded = false WHERE tenant_id = $1 AND id = ANY ($2)`

	// Collections without a generation of the second encoder, while none is being built anywhere,
	// and for which none has failed or was cancelled since the live generation.
	toEncodeSQL = `
SELECT c.tenant_id, c.id FROM collections c
WHERE c.encoder = 'auto' AND c.deleted_at IS NULL
  AND NOT EXISTS (SELECT FROM generations g WHERE g.state = 'building' AND g.encoder = 'second')
  AND NOT EXISTS (SELECT FROM generations g WHERE g.tenant_id = c.tenant_id AND g.collection_id = c.id
                  AND (g.state = 'building' OR g.encoder = 'second' AND g.state IN ('failed', 'cancelled') AND g.number > c.generation))
  AND EXISTS (SELECT FROM versions v WHERE v.tenant_id = c.tenant_id AND v.collection_id = c.id AND v.state = 'ready')
ORDER BY c.id LIMIT 1`
)

// Unencoded implements ingest.Unencoded.
func (s *CorpusStore) Unencoded(ctx context.Context, tenant, collection uuid.UUID, passages int) (generation int, docs []batch.Written, err error) {
	err = s.db.AsTenant(ctx, tenant, func(ctx context.Context, tx pgx.Tx) error {
		docs = nil
		var space *int
		err := tx.QueryRow(ctx, secondRecipeSQL, tenant, collection).Scan(&generation, &space)
		if store.IsNoRows(err) {
			_, err = tx.Exec(ctx, forgetUnencodedSQL, tenant, collection)
			return err
		}
		if err != nil {
			return err
		}
		rows, err := tx.Query(ctx, unencodedSQL, tenant, collection, passages)
		if err != nil {
			return err
		}
		var d batch.Written
		if _, err := pgx.ForEachRow(rows, []any{&d.Version, &d.Title}, func() error {
			docs = append(docs, d)
			return nil
		}); err != nil || len(docs) == 0 {
			return err
		}
		return readWritten(ctx, tx, tenant, generation, docs)
	})
	return generation, docs, store.Wrap(err, "find versions of collection %s that were not encoded", collection)
}

// readWritten reads the sections and passages of versions into docs, which are ordered by id.
func readWritten(ctx context.Context, tx pgx.Tx, tenant uuid.UUID, generation int, docs []batch.Written) error {
	versions := make([]uuid.UUID, len(docs))
	place := make(map[uuid.UUID]*batch.Written, len(docs))
	for i := range docs {
		versions[i], place[docs[i].Version] = docs[i].Version, &docs[i]
	}
	rows, err := tx.Query(ctx, writtenSQL, tenant, versions, generation)
	if err != nil {
		return err
	}
	var version uuid.UUID
	var sec schema.Section
	var p schema.Passage
	_, err = pgx.ForEachRow(rows, []any{&version, &sec.ID, &sec.Ordinal, &sec.HeadingPath, &sec.Text, &p.ID, &p.Ordinal, &p.Start, &p.End, &p.Tokens}, func() error {
		d := place[version]
		if n := len(d.Sections); n == 0 || d.Sections[n-1].ID != sec.ID {
			d.Sections = append(d.Sections, batch.Section{Section: sec})
		}
		p.SectionID = sec.ID
		last := &d.Sections[len(d.Sections)-1]
		last.Passages = append(last.Passages, p)
		sec.HeadingPath = nil // the next row gets a slice of its own
		return nil
	})
	return err
}

// WriteVectors implements ingest.Unencoded.
func (s *CorpusStore) WriteVectors(ctx context.Context, tenant, collection uuid.UUID, generation int, docs []batch.Recut) (done int, err error) {
	err = s.db.AsTenant(ctx, tenant, func(ctx context.Context, tx pgx.Tx) error {
		done = 0
		var live int
		var have *int
		// Locked against a flip, as in ingestion.
		err := tx.QueryRow(ctx, secondRecipeSQL+` FOR SHARE`, tenant, collection).Scan(&live, &have)
		if store.IsNoRows(err) || err == nil && live != generation {
			return nil // another generation went live
		}
		if err != nil {
			return err
		}
		w := writer{tx: tx, tenant: tenant, collection: collection, generation: generation}
		space, why, err := w.spaceOf(ctx, &pgx.Batch{}, docs[0].Vectors)
		if err != nil {
			return err
		}
		if why == "" && (have == nil || *have != space) {
			why = fmt.Sprintf("the second encoder serves space %s, which is not the collection's: "+
				"load the pack of before, or rebuild the collection with `--encoder second`",
				docs[0].Vectors.Space)
		}
		if why != "" {
			return &batch.RefusedError{Reason: why}
		}
		w.space = space
		locked, err := store.IDs(tx.Query(ctx, lockUnencodedSQL, tenant, recutVersions(docs)))
		if err != nil || len(locked) == 0 {
			return err
		}
		done = len(locked)
		return w.replaceVectors(ctx, docs, locked)
	})
	return done, err
}

func recutVersions(docs []batch.Recut) []uuid.UUID {
	out := make([]uuid.UUID, len(docs))
	for i, d := range docs {
		out[i] = d.Version
	}
	return out
}

// replaceVectors replaces the vectors and links of the locked versions.
func (w *writer) replaceVectors(ctx context.Context, docs []batch.Recut, locked []uuid.UUID) error {
	dimension := docs[0].Vectors.Dimension
	b := &pgx.Batch{}
	b.Queue(bulkSQL)
	b.Queue(`DELETE FROM `+store.VectorTable(dimension)+` WHERE `+vectorsOfVersionsSQL+` AND generation = $3`, w.tenant, locked, w.generation)
	b.Queue(removePassageLinksSQL, w.tenant, locked, w.generation)
	var links passageLinkRows
	for _, d := range docs {
		if !slices.Contains(locked, d.Version) {
			continue
		}
		var passages, versions []uuid.UUID
		var vectors []store.HalfRow
		for _, sec := range d.Sections {
			for _, p := range sec.Passages {
				vectors = append(vectors, store.HalfRow(d.Vectors.Bits(len(passages))))
				passages, versions = append(passages, p.ID), append(versions, d.Version)
			}
		}
		b.Queue(fmt.Sprintf(insertVectorsSQL, store.VectorTable(dimension)), w.tenant, w.collection, w.space, w.generation, passages, versions, vectors)
		links.add(d.Version, d.Sections, d.Links)
	}
	links.queue(b, generationKey{w.tenant, w.collection, w.generation})
	b.Queue(encodedSQL, w.tenant, locked)
	return store.Wrap(w.tx.SendBatch(ctx, b).Close(), "replace the vectors of %d versions", len(locked))
}

// BeginSecond implements ingest.Unencoded.
func (s *CorpusStore) BeginSecond(ctx context.Context) (tenant, collection uuid.UUID, began bool, err error) {
	err = s.db.AsSystem(ctx, func(ctx context.Context, tx pgx.Tx) error {
		began = false
		err := tx.QueryRow(ctx, toEncodeSQL).Scan(&tenant, &collection)
		if store.IsNoRows(err) {
			return nil
		}
		began = err == nil
		return err
	})
	if err != nil || !began {
		return tenant, collection, false, store.Wrap(err, "find a collection for the second encoder")
	}
	_, err = s.StartRebuild(ctx, schema.Principal{Tenant: tenant}, collection, schema.NewRebuild{Encoder: schema.EncoderSecond})
	if errors.Is(err, schema.ErrConflict) || errors.Is(err, schema.ErrNotFound) {
		return tenant, collection, false, nil // someone started another rebuild or deleted the collection
	}
	return tenant, collection, err == nil, err
}
