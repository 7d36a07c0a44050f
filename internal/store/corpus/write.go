package corpus

// This file writes finished versions: text, vectors, postings, states and events in one
// transaction, with checks that make it idempotent.

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sluice-rag/sluice/internal/ingest/batch"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// WriteVersions makes versions of one collection ready. A version that is newer than its document's
// live version goes live and supersedes that; an older one is superseded at once. WriteVersions
// returns an outcome for each version that did not become ready or superseded, now or in an earlier
// call: lost to another attempt, or refused with a reason. When the rows of one version make the
// transaction fail, each version is written in a transaction of its own. A *batch.StaleError means
// that none was written, because some were segmented for another generation than the live one.
func (s *CorpusStore) WriteVersions(ctx context.Context, tenant, collection uuid.UUID, docs []batch.Document) ([]wire.Outcome, error) {
	recipe, err := s.LiveRecipe(ctx, tenant, collection)
	if err != nil {
		return nil, fmt.Errorf("read the recipe of collection %s: %w", collection, err)
	}
	return s.WriteCut(ctx, tenant, collection, recipe, docs)
}

// WriteCut is WriteVersions for a collection whose recipe was read before. It saves a transaction,
// which matters when each collection has few versions.
func (s *CorpusStore) WriteCut(ctx context.Context, tenant, collection uuid.UUID, recipe batch.Recipe, docs []batch.Document) ([]wire.Outcome, error) {
	out, err := s.writeVersions(ctx, tenant, collection, recipe, docs)
	if err == nil || !refusesData(err) {
		return out, err
	}
	if len(docs) == 1 {
		return []wire.Outcome{{Version: docs[0].Version, Reason: &schema.Reason{
			Code: schema.ReasonRejected, Message: "the store refused its rows: " + cause(err),
		}}}, nil
	}
	out = nil
	for _, d := range docs {
		one, err := s.WriteCut(ctx, tenant, collection, recipe, []batch.Document{d})
		if err != nil {
			return nil, err
		}
		out = append(out, one...)
	}
	return out, nil
}

// refusesData reports whether Postgres refused the rows themselves.
func refusesData(err error) bool {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || pg.Code == "23503" && pg.TableName == "collections" {
		return false
	}
	// Data exceptions, violated constraints, program limits, raised exceptions.
	return slices.Contains([]string{"22", "23", "54", "P0"}, pg.Code[:2])
}

func cause(err error) string {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Message
	}
	return err.Error()
}

const (
	readySQL = `
UPDATE versions
SET state = 'ready', finished_at = now(),
    (title, media_type, pages, section_count, passage_count, warnings, unencoded) = (
        SELECT CASE WHEN title = '' THEN ($2::text[])[n] ELSE title END, ($3::text[])[n], ($4::int[])[n], ($5::int[])[n], ($6::int[])[n],
               ARRAY(SELECT jsonb_array_elements_text(($7::text[])[n]::jsonb)), ($8::bool[])[n]
        FROM array_position($1::uuid[], id) AS n)
WHERE id = ANY ($1)`
	supersedeSQL     = `UPDATE versions SET state = 'superseded', finished_at = now() WHERE id = ANY($1) AND (state = 'ready') IS TRUE`
	supersedeLateSQL = `UPDATE versions SET state = 'superseded', finished_at = now() WHERE id = ANY($1)`
	moveDocumentsSQL = `
UPDATE documents SET live_version_id = ($2::uuid[])[array_position($1::uuid[], id)], updated_at = now() WHERE id = ANY ($1)`
)

func (s *CorpusStore) writeVersions(ctx context.Context, tenant, collection uuid.UUID, recipe batch.Recipe, docs []batch.Document) ([]wire.Outcome, error) {
	return s.writeAll(ctx, tenant, []batch.Cut{{Collection: collection, Recipe: recipe, Documents: docs}})
}

// WriteCuts is WriteCut for several collections in one transaction: when each has few versions,
// commits would take longer than writing. When it fails nothing is written, and the caller must
// write each collection separately.
func (s *CorpusStore) WriteCuts(ctx context.Context, tenant uuid.UUID, cuts []batch.Cut) ([]wire.Outcome, error) {
	// All transactions lock several collections in the order of their ids.
	ordered := slices.SortedFunc(slices.Values(cuts), func(a, b batch.Cut) int { return bytes.Compare(a.Collection[:], b.Collection[:]) })
	return s.writeAll(ctx, tenant, ordered)
}

func (s *CorpusStore) writeAll(ctx context.Context, tenant uuid.UUID, cuts []batch.Cut) ([]wire.Outcome, error) {
	all := make([]preparation, len(cuts))
	written := 0
	for i, c := range cuts {
		var err error
		if all[i], err = prepare(c.Recipe, c.Documents); err != nil {
			return nil, err
		}
		written += len(c.Documents)
	}
	var out []wire.Outcome
	err := s.db.AsTenant(ctx, tenant, func(ctx context.Context, tx pgx.Tx) error {
		out = nil
		for i, c := range cuts {
			w := writer{preparation: all[i], tx: tx, tenant: tenant, collection: c.Collection}
			if err := w.write(ctx); err != nil {
				return err
			}
			out = append(out, w.outcomes...)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	s.db.CountWritten(ctx, written)
	return out, nil
}

type writer struct {
	preparation
	tx                 pgx.Tx
	tenant, collection uuid.UUID
	generation         int // the one that is written: the live one, except for rebuilds
	outcomes           []wire.Outcome
}

func (w *writer) write(ctx context.Context) error {
	if w.space == 0 {
		why, err := w.giveSpace(ctx, w.versions[0].Vectors)
		if err != nil {
			return err
		}
		if why != "" {
			return w.refuse(ctx, why)
		}
	}
	ids := make([]uuid.UUID, len(w.versions))
	for i, v := range w.versions {
		ids[i] = v.Version
	}
	// All transactions lock in this order: collection, documents, versions. Their data is read
	// after they are locked.
	var recipe sharedRecipe
	var found lockedRows
	b := &pgx.Batch{}
	b.Queue(bulkSQL) // applies to the whole transaction
	w.queueRecipe(b, &recipe)
	found.queue(b, w.tenant, ids)
	if err := w.tx.SendBatch(ctx, b).Close(); err != nil {
		return fmt.Errorf("lock collection %s and %d versions: %w", w.collection, len(ids), err)
	}
	fits, err := w.checkRecipe(ctx, recipe)
	if err != nil || !fits {
		return err
	}
	ready, superseded := w.decide(found)
	if len(ready) > 0 {
		return w.writeReady(ctx, ready, superseded)
	}
	if len(superseded) == 0 {
		return nil
	}
	b = &pgx.Batch{}
	if err := w.queueEnd(ctx, b, nil, superseded); err != nil {
		return err
	}
	return store.Wrap(w.tx.SendBatch(ctx, b).Close(), "supersede %d late versions", len(superseded))
}

// writeReady writes the ready versions, makes them ready, and ends the work on them and on the
// superseded ones. Postgres writes their text while the rest is encoded and their segment is built.
func (w *writer) writeReady(ctx context.Context, ready, superseded []*target) error {
	docs := w.indexed(ready)
	segment := buildAside(docs)
	defer segment() //nolint:errcheck // read below; here it only waits when something else failed
	b, at := &pgx.Batch{}, generationKey{w.tenant, w.collection, w.generation}
	queueEntries(b, at, docs)
	var links linkRows
	var passageLinks passageLinkRows
	for _, t := range ready {
		links.addVersion(t)
		passageLinks.add(t.Version, t.Text.Sections, t.Links)
	}
	links.queue(b, w.tenant, w.collection)
	passageLinks.queue(b, at)
	queueLive(b, ready)
	if err := w.queueEnd(ctx, b, ready, superseded); err != nil {
		return err
	}
	f := rowBatcher{w: w, dimension: ready[0].Vectors.Dimension}
	statements := slices.Concat(f.statements(), segmentStatements, signatureStatements)
	for _, q := range b.QueuedQueries {
		statements = append(statements, q.SQL)
	}
	sending, err := store.OpenStream(ctx, w.tx, statements...)
	if err != nil {
		return fmt.Errorf("prepare to write %d versions: %w", len(ready), err)
	}
	err = f.send(sending, ready)
	if err == nil {
		err = sending.Send(b)
	}
	built, problem := segment()
	if err == nil {
		err = problem
	}
	if err == nil {
		b = &pgx.Batch{}
		queueSegment(b, at, built)
		queueSignatures(b, w.tenant, w.collection, ready)
		err = sending.Send(b)
	}
	if problem := sending.Close(); err == nil {
		err = problem
	}
	return store.Wrap(err, "write %d versions and make them ready", len(ready))
}

// queueLive makes the versions ready and live, and the ones that they replace superseded.
func queueLive(b *pgx.Batch, targets []*target) {
	var ids, documents, old []uuid.UUID
	var titles, media, warnings []string
	var pages, sections, passages []int
	var unencoded []bool
	for _, t := range targets {
		unencoded = append(unencoded, t.Text.Later != nil)
		ids, documents = append(ids, t.Version), append(documents, t.document)
		titles, media, warnings = append(titles, t.title), append(media, t.media), append(warnings, t.warnings)
		pages = append(pages, t.Text.Pages)
		sections = append(sections, len(t.Text.Sections))
		passages = append(passages, t.Text.Passages())
		if t.old != nil {
			old = append(old, *t.old)
		}
	}
	b.Queue(readySQL, ids, titles, media, pages, sections, passages, warnings, unencoded)
	if len(old) > 0 {
		b.Queue(supersedeSQL, old)
	}
	b.Queue(moveDocumentsSQL, documents, ids)
}

// queueEnd ends the work on the versions, and writes events for the changes.
func (w *writer) queueEnd(ctx context.Context, b *pgx.Batch, ready, superseded []*target) error {
	var events []change
	var ended, late []uuid.UUID
	for _, t := range ready {
		ended = append(ended, t.Version)
		e := t.event
		e.State = schema.StateReady
		events = append(events, e)
		if t.old != nil {
			e.Version, e.State = *t.old, schema.StateSuperseded
			events = append(events, e)
		}
	}
	for _, t := range superseded {
		ended, late = append(ended, t.Version), append(late, t.Version)
		e := t.event
		e.State = schema.StateSuperseded
		events = append(events, e)
	}
	if len(late) > 0 {
		b.Queue(supersedeLateSQL, late)
	}
	queueForgetWork(b, ended)
	rows, err := changeRows(w.tenant, events)
	rows.Queue(ctx, b)
	return err
}
