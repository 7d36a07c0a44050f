package corpus

// This file builds generations: it implements ingest.Generations. Each transaction updates the
// generation's row last, to count what it wrote, and fails if the generation was cancelled
// meanwhile. A version is in a generation when its entry in the lexical index is.

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/ingest/batch"
	"github.com/sluice-rag/sluice/internal/lexical"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

const (
	// $1 tenant, $2 collection, $3 generation.
	missingIDsSQL = `
SELECT v.id FROM documents d
CROSS JOIN LATERAL (SELECT id FROM versions WHERE tenant_id = $1 AND id = d.live_version_id LIMIT 1) v
WHERE d.tenant_id = $1 AND d.collection_id = $2 AND d.deleted_at IS NULL AND NOT EXISTS (
    SELECT FROM lexical_entries e WHERE e.tenant_id = $1 AND e.version_id = v.id AND e.generation = $3 AND NOT e.dead)
ORDER BY v.id LIMIT $4`
	// $4 documents after $5, of which those with a missing version have it. Whatever the planner
	// takes for the size of the tables, it reads no more documents.
	missingPageSQL = `
SELECT d.id, v.id, coalesce((SELECT sum(s.tokens) FROM sections s WHERE s.tenant_id = $1 AND s.version_id = v.id), 0)
FROM (SELECT id, live_version_id FROM documents
      WHERE tenant_id = $1 AND collection_id = $2 AND deleted_at IS NULL AND id > $5 ORDER BY id LIMIT $4) d
LEFT JOIN LATERAL (
    SELECT id FROM versions WHERE tenant_id = $1 AND id = d.live_version_id AND NOT EXISTS (
        SELECT FROM lexical_entries e WHERE e.tenant_id = $1 AND e.version_id = d.live_version_id AND e.generation = $3 AND NOT e.dead)
    LIMIT 1) v ON true
ORDER BY d.id`

	storedTextsSQL = `
SELECT v.id, d.external_id, v.title, s.id, s.ordinal, s.heading_path, s.body, s.tokens
FROM unnest($2::uuid[]) AS w(id)
CROSS JOIN LATERAL (
    SELECT id, document_id, title FROM versions
    WHERE tenant_id = $1 AND id = w.id AND (collection_id = $3 AND state = 'ready') IS TRUE LIMIT 1) v
CROSS JOIN LATERAL (SELECT external_id FROM documents WHERE tenant_id = $1 AND id = v.document_id LIMIT 1) d
CROSS JOIN LATERAL (SELECT id, ordinal, heading_path, body, tokens FROM sections WHERE tenant_id = $1 AND version_id = v.id OFFSET 0) s
ORDER BY v.id, s.ordinal`

	countWrittenSQL = `
UPDATE generations SET versions = versions + $4, passages = passages + $5, space_id = coalesce(space_id, $6)
WHERE tenant_id = $1 AND collection_id = $2 AND number = $3 AND state = 'building' RETURNING space_id`

	holdSQL = `
UPDATE generations SET closing_until = now() + $4 WHERE tenant_id = $1 AND collection_id = $2 AND number = $3`
	retireGenerationSQL = `
UPDATE generations SET state = 'retired', finished_at = now() WHERE tenant_id = $1 AND collection_id = $2 AND state = 'live'`
	goLiveGenerationSQL = `
UPDATE generations SET state = 'live', finished_at = now(), closing_until = NULL
WHERE tenant_id = $1 AND collection_id = $2 AND number = $3 AND state = 'building'`
	lockBuildingSQL = `
SELECT FROM generations WHERE tenant_id = $1 AND collection_id = $2 AND number = $3 AND state = 'building' FOR UPDATE`
	flipSQL = `
UPDATE collections c SET generation = g.number, language = g.language, segmentation = g.segmentation,
       space_id = coalesce(g.space_id, c.space_id),
       -- Where nothing was encoded the second encoder has given no space yet.
       encoder = CASE WHEN g.encoder = 'second' AND g.space_id IS NULL THEN 'auto' ELSE g.encoder END
FROM generations g
WHERE c.tenant_id = $1 AND c.id = $2 AND g.tenant_id = c.tenant_id AND g.collection_id = c.id AND g.number = $3`
	failGenerationSQL = `
UPDATE generations SET state = 'failed', reason = $4, finished_at = now()
WHERE tenant_id = $1 AND collection_id = $2 AND number = $3 AND state = 'building'`

	lockRefusedSQL = `
SELECT d.id FROM documents d
CROSS JOIN LATERAL (
    SELECT FROM versions WHERE tenant_id = $1 AND id = d.last_version_id AND (state = 'failed' AND reason_code = $5) IS TRUE LIMIT 1) v
WHERE d.tenant_id = $1 AND d.collection_id = $2 AND d.deleted_at IS NULL AND d.id > $4
ORDER BY d.id LIMIT $3 FOR UPDATE OF d`
)

// building runs fn while the generation is being built; otherwise it returns batch.ErrOver. It
// cancels the generation of a deleted collection.
func (s *CorpusStore) building(ctx context.Context, in wire.Rebuild, fn func(ctx context.Context, tx pgx.Tx) error) error {
	over := false
	err := s.db.AsTenant(ctx, in.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		over = false
		var state schema.GenerationState
		var deleted bool
		err := tx.QueryRow(ctx, `
			SELECT g.state, c.deleted_at IS NOT NULL FROM generations g JOIN collections c ON c.tenant_id = g.tenant_id AND c.id = g.collection_id
			WHERE g.tenant_id = $1 AND g.collection_id = $2 AND g.number = $3`, in.Tenant, in.Collection, in.Generation).Scan(&state, &deleted)
		switch {
		case store.IsNoRows(err):
			over = true
			return nil
		case err != nil:
			return fmt.Errorf("look at generation %d: %w", in.Generation, err)
		case state != schema.GenerationBuilding:
			over = true
			return nil
		case deleted:
			over = true
			_, err := tx.Exec(ctx, cancelGenerationSQL, in.Tenant, in.Collection)
			return err
		}
		return fn(ctx, tx)
	})
	if err == nil && over {
		return fmt.Errorf("generation %d of collection %s: %w", in.Generation, in.Collection, batch.ErrOver)
	}
	return err
}

// MissingVersions implements ingest.Generations.
func (s *CorpusStore) MissingVersions(ctx context.Context, in wire.Rebuild, limit int) (
	missing []batch.MissingVersion, last uuid.UUID, err error,
) {
	err = s.building(ctx, in, func(ctx context.Context, tx pgx.Tx) error {
		missing, last = nil, uuid.Nil
		rows, err := tx.Query(ctx, missingPageSQL, in.Tenant, in.Collection, in.Generation, limit, in.After)
		if err != nil {
			return err
		}
		var document uuid.UUID
		var version *uuid.UUID
		var tokens int64
		found, err := pgx.ForEachRow(rows, []any{&document, &version, &tokens}, func() error {
			if version != nil {
				missing = append(missing, batch.MissingVersion{Version: *version, Tokens: tokens})
			}
			return nil
		})
		if found.RowsAffected() == int64(limit) {
			last = document
		}
		return err
	})
	return missing, last, err
}

// Segmentation implements ingest.Generations.
func (s *CorpusStore) Segmentation(ctx context.Context, in wire.Rebuild) (schema.Segmentation, error) {
	var out schema.Segmentation
	err := s.building(ctx, in, func(ctx context.Context, tx pgx.Tx) error {
		return tx.QueryRow(ctx, `SELECT segmentation FROM generations WHERE tenant_id = $1 AND collection_id = $2 AND number = $3`,
			in.Tenant, in.Collection, in.Generation).Scan(&out)
	})
	return out, err
}

// StoredTexts implements ingest.Generations.
func (s *CorpusStore) StoredTexts(ctx context.Context, in wire.Rebuild, versions []uuid.UUID) ([]batch.Stored, error) {
	var out []batch.Stored
	err := s.building(ctx, in, func(ctx context.Context, tx pgx.Tx) error {
		out = nil
		rows, err := tx.Query(ctx, storedTextsSQL, in.Tenant, versions, in.Collection)
		if err != nil {
			return err
		}
		var v batch.Stored
		var sec schema.Section
		_, err = pgx.ForEachRow(rows, []any{&v.Version, &v.ExternalID, &v.Title, &sec.ID, &sec.Ordinal, &sec.HeadingPath, &sec.Text, &sec.Tokens}, func() error {
			if n := len(out); n == 0 || out[n-1].Version != v.Version {
				out = append(out, v)
			}
			last := &out[len(out)-1]
			last.Sections = append(last.Sections, sec)
			sec = schema.Section{}
			return nil
		})
		return err
	})
	return out, err
}

// WriteGeneration implements ingest.Generations.
func (s *CorpusStore) WriteGeneration(ctx context.Context, in wire.Rebuild, docs []batch.Recut) (int, error) {
	if len(docs) == 0 {
		return 0, nil
	}
	analyzer, err := s.analyzerOf(ctx, in)
	if err != nil {
		return 0, err
	}
	written := 0
	err = s.building(ctx, in, func(ctx context.Context, tx pgx.Tx) error {
		written = 0
		w := writer{tx: tx, tenant: in.Tenant, collection: in.Collection, generation: in.Generation}
		space, why, err := w.spaceOf(ctx, &pgx.Batch{}, docs[0].Vectors)
		if err != nil {
			return err
		}
		if why != "" {
			return &batch.RefusedError{Reason: why}
		}
		w.space = space
		// Locked against deletion, and against changes of labels.
		locked, err := store.IDs(tx.Query(ctx, lockReadySQL, in.Tenant, recutVersions(docs)))
		if err == nil {
			locked, err = store.IDs(tx.Query(ctx, stillUnindexedSQL, in.Tenant, in.Collection, in.Generation, locked))
		}
		if err != nil {
			return fmt.Errorf("lock versions: %w", err)
		}
		passages, err := w.regenerate(ctx, docs, locked, analyzer)
		if err != nil {
			return err
		}
		written = len(locked)
		var first int
		err = tx.QueryRow(ctx, countWrittenSQL, in.Tenant, in.Collection, in.Generation, written, passages, space).Scan(&first)
		switch {
		case store.IsNoRows(err):
			return batch.ErrOver // cancelled meanwhile: the transaction is rolled back
		case err != nil:
			return fmt.Errorf("count what was written: %w", err)
		case first != space:
			return &batch.RefusedError{Reason: "the model server changed its model during the rebuild; begin another"}
		}
		return nil
	})
	return written, err
}

// analyzerOf returns the analyser for a generation's language.
func (s *CorpusStore) analyzerOf(ctx context.Context, in wire.Rebuild) (*lexical.Analyzer, error) {
	var language string
	err := s.building(ctx, in, func(ctx context.Context, tx pgx.Tx) error {
		return tx.QueryRow(ctx, `SELECT language FROM generations WHERE tenant_id = $1 AND collection_id = $2 AND number = $3`,
			in.Tenant, in.Collection, in.Generation).Scan(&language)
	})
	if err != nil {
		return nil, err
	}
	return lexical.NewAnalyzer(language)
}

// regenerate writes the passages, vectors and postings of the locked versions, and returns the
// number of passages. Versions that were relabelled since they were first written already have
// passages, which it replaces.
func (w *writer) regenerate(ctx context.Context, docs []batch.Recut, locked []uuid.UUID, analyzer *lexical.Analyzer) (int, error) {
	if len(locked) == 0 {
		return 0, nil
	}
	dimension := docs[0].Vectors.Dimension
	again, err := w.tx.Exec(ctx, removePassagesSQL, w.tenant, locked, w.generation)
	if err == nil && again.RowsAffected() > 0 {
		_, err = w.tx.Exec(ctx, `DELETE FROM `+store.VectorTable(dimension)+` WHERE `+vectorsOfVersionsSQL+` AND generation = $3`,
			w.tenant, locked, w.generation)
	}
	if err == nil {
		_, err = w.tx.Exec(ctx, removePassageLinksSQL, w.tenant, locked, w.generation)
	}
	if err != nil {
		return 0, fmt.Errorf("remove what was written before: %w", err)
	}
	passages := 0
	var links passageLinkRows
	f := rowBatcher{w: w, dimension: dimension}
	texts := make(map[uuid.UUID]storedText, len(locked))
	for _, d := range docs {
		if !slices.Contains(locked, d.Version) {
			continue
		}
		row := 0
		sections := make([][][]string, len(d.Sections))
		for i, sec := range d.Sections {
			f.addPassages(d.Version, &sec, d.Vectors, &row)
			for _, p := range sec.Passages {
				sections[i] = append(sections[i], analyzer.Terms(sec.Text[p.Start:p.End]))
			}
		}
		texts[d.Version] = storedText{terms: sections, head: d.Sections}
		links.add(d.Version, d.Sections, d.Links)
		passages += row
		if err := f.flush(ctx, maxFillBytes); err != nil {
			return 0, err
		}
	}
	if err := f.flush(ctx, 0); err != nil {
		return 0, err
	}
	b, at := &pgx.Batch{}, generationKey{w.tenant, w.collection, w.generation}
	links.queue(b, at)
	if err := w.tx.SendBatch(ctx, b).Close(); err != nil {
		return 0, fmt.Errorf("write what passages are linked to: %w", err)
	}
	return passages, indexStored(ctx, w.tx, at, locked, texts, analyzer)
}

// FlipGeneration implements ingest.Generations.
func (s *CorpusStore) FlipGeneration(ctx context.Context, in wire.Rebuild, hold time.Duration, limit int) (live bool, left []uuid.UUID, err error) {
	err = s.building(ctx, in, func(ctx context.Context, tx pgx.Tx) error {
		live, left = false, nil
		// Waits for writes in progress; later ones see the decision made here.
		var language string
		var segmentation schema.Segmentation
		var generation int
		var space *int
		var encoder schema.Encoder
		if err := tx.QueryRow(ctx, lockCollectionSQL, in.Tenant, in.Collection).Scan(&language, &segmentation, &generation, &space, &encoder); err != nil {
			return store.Named(err, "collection", in.Collection)
		}
		// It may have been cancelled during the wait; from here on it cannot be.
		err := tx.QueryRow(ctx, lockBuildingSQL, in.Tenant, in.Collection, in.Generation).Scan()
		if store.IsNoRows(err) {
			return batch.ErrOver
		}
		if err != nil {
			return fmt.Errorf("lock generation %d: %w", in.Generation, err)
		}
		if left, err = store.IDs(tx.Query(ctx, missingIDsSQL, in.Tenant, in.Collection, in.Generation, limit)); err != nil {
			return fmt.Errorf("find versions without it: %w", err)
		}
		if len(left) > 0 {
			if len(left) < limit {
				_, err = tx.Exec(ctx, holdSQL, in.Tenant, in.Collection, in.Generation, hold)
			}
			return err
		}
		commands := &pgx.Batch{}
		commands.Queue(noteLiveSQL, in.Tenant, in.Collection, generation, language, segmentation, space, encoder)
		commands.Queue(retireGenerationSQL, in.Tenant, in.Collection)
		commands.Queue(goLiveGenerationSQL, in.Tenant, in.Collection, in.Generation)
		commands.Queue(flipSQL, in.Tenant, in.Collection, in.Generation)
		var out store.Outbox
		if err := out.Event(wire.Event{Kind: "collection.rebuilt", Tenant: in.Tenant, Collection: in.Collection, State: schema.StateReady}, store.Traceparent(ctx)); err != nil {
			return err
		}
		out.Queue(ctx, commands)
		live = true
		return tx.SendBatch(ctx, commands).Close()
	})
	if errors.Is(err, batch.ErrOver) {
		// An earlier attempt of the same step may have made it live.
		if now, problem := s.LiveRecipe(ctx, in.Tenant, in.Collection); problem == nil && now.Generation == in.Generation {
			return true, nil, nil
		}
	}
	return live, left, err
}

// RetryRefused implements ingest.Generations.
func (s *CorpusStore) RetryRefused(ctx context.Context, in wire.Rebuild) (int, error) {
	var after uuid.UUID
	for total := 0; ; {
		var documents []uuid.UUID
		n := 0
		err := s.db.AsTenant(ctx, in.Tenant, func(ctx context.Context, tx pgx.Tx) (err error) {
			n = 0
			documents, err = store.IDs(tx.Query(ctx, lockRefusedSQL, in.Tenant, in.Collection, RetryBatch, after, schema.ReasonModel))
			if err != nil || len(documents) == 0 {
				return err
			}
			n, err = Requeue(ctx, tx, in.Tenant, documents)
			return err
		})
		if err != nil {
			return total, err
		}
		total += n
		if len(documents) < RetryBatch {
			return total, nil
		}
		after = documents[len(documents)-1]
	}
}

// FailRebuild implements ingest.Generations.
func (s *CorpusStore) FailRebuild(ctx context.Context, in wire.Rebuild, reason string) error {
	return s.db.AsTenant(ctx, in.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, failGenerationSQL, in.Tenant, in.Collection, in.Generation, reason)
		if err != nil || tag.RowsAffected() == 0 {
			return err
		}
		var out store.Outbox
		if err := out.Event(wire.Event{Kind: "collection.rebuild-failed", Tenant: in.Tenant, Collection: in.Collection, State: schema.StateFailed,
			Reason: &schema.Reason{Code: schema.ReasonRejected, Message: reason}}, store.Traceparent(ctx)); err != nil {
			return err
		}
		return out.Write(ctx, tx)
	})
}
