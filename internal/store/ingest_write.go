package store

// This file writes finished versions: text, vectors, postings, states and
// events in one transaction, guarded so that doing it twice does nothing.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sluice-rag/sluice/internal/ingest/batch"
	"github.com/sluice-rag/sluice/internal/text"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// WriteVersions makes versions of one collection ready. One that is newer than
// its document's live version goes live and supersedes that; an older one is
// superseded at once. It returns an outcome per version that did not become
// ready or superseded, now or in an earlier call: lost to another attempt, or
// refused with its reason. When the rows of one make the transaction fail, each
// is written in a transaction of its own. A *batch.StaleError says that none was
// written, because some were cut for another generation than the live one; what
// their stages left is forgotten, so that they are cut anew.
func (s *Store) WriteVersions(ctx context.Context, tenant, collection uuid.UUID, docs []batch.Document) ([]wire.Outcome, error) {
	out, err := s.writeVersions(ctx, tenant, collection, docs)
	var stale *batch.StaleError
	if errors.As(err, &stale) {
		if problem := s.forgetStale(ctx, tenant, docs, stale.Live); problem != nil {
			return nil, problem
		}
		return nil, err
	}
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
		one, err := s.WriteVersions(ctx, tenant, collection, []batch.Document{d})
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
	// Data exceptions, broken constraints, program limits, raised exceptions.
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
UPDATE versions v
SET state = 'ready', finished_at = now(), media_type = w.media, pages = w.pages,
    title = CASE WHEN v.title = '' THEN w.title ELSE v.title END,
    section_count = w.sections, passage_count = w.passages,
    warnings = ARRAY(SELECT jsonb_array_elements_text(w.warnings::jsonb))
FROM unnest($1::uuid[], $2::text[], $3::text[], $4::int[], $5::int[], $6::int[], $7::text[])
     AS w(id, title, media, pages, sections, passages, warnings)
WHERE v.id = w.id`
	supersedeSQL     = `UPDATE versions SET state = 'superseded', finished_at = now() WHERE id = ANY($1) AND state = 'ready'`
	moveDocumentsSQL = `
UPDATE documents d SET live_version_id = w.version, updated_at = now()
FROM unnest($1::uuid[], $2::uuid[]) AS w(id, version) WHERE d.id = w.id`
)

// target is a version about to be written, under lock.
type target struct {
	doc      *batch.Document
	document uuid.UUID
	number   int
	old      *uuid.UUID // the version it supersedes
	event    change
}

func (s *Store) writeVersions(ctx context.Context, tenant, collection uuid.UUID, docs []batch.Document) ([]wire.Outcome, error) {
	var out []wire.Outcome
	words, err := s.analyse(ctx, tenant, collection, docs)
	if err != nil {
		return nil, err
	}
	err = s.AsTenant(ctx, tenant, func(ctx context.Context, tx pgx.Tx) error {
		w := writer{tx: tx, tenant: tenant, collection: collection, words: words}
		err := w.write(ctx, docs)
		out = w.outcomes
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

type writer struct {
	tx                 pgx.Tx
	tenant, collection uuid.UUID
	generation         int // that is written: the live one, but for rebuilds
	space              int // of its vectors
	words              analysed
	outcomes           []wire.Outcome
}

func (w *writer) write(ctx context.Context, docs []batch.Document) error {
	// Locks are taken in one order by everyone: collection, documents, versions.
	fits, err := w.checkRecipe(ctx, docs)
	if err != nil || !fits {
		return err
	}
	ready, superseded, err := w.lock(ctx, docs)
	if err != nil {
		return err
	}
	if len(ready) > 0 {
		if err := w.writeReady(ctx, ready); err != nil {
			return err
		}
	}
	return w.finish(ctx, ready, superseded)
}

// writeReady writes all of the versions and makes them ready. Their segment is
// built while Postgres writes their text.
func (w *writer) writeReady(ctx context.Context, ready []*target) error {
	docs, err := w.documents(ctx, ready)
	if err != nil {
		return err
	}
	if err := w.writeLinks(ctx, ready); err != nil {
		return err
	}
	sent, err := w.fill(ctx, ready)
	if err != nil {
		return err
	}
	built, problem := buildSegment(docs)
	if err := filled(sent.Close()); err != nil {
		return err
	}
	if problem != nil {
		return problem
	}
	b, at := &pgx.Batch{}, place{w.tenant, w.collection, w.generation}
	queueSegment(b, at, built)
	queueEntries(b, at, docs)
	var links passageLinkRows
	for _, t := range ready {
		links.add(t.doc.Version, t.doc.Text.Sections, t.doc.Links)
	}
	links.queue(b, at)
	if err := queueLive(b, ready); err != nil {
		return err
	}
	return wrap(w.tx.SendBatch(ctx, b).Close(), "write the postings of %d versions and make them ready", len(ready))
}

// lock locks the documents and then the versions, each in id order, and decides
// what becomes of every version.
func (w *writer) lock(ctx context.Context, docs []batch.Document) (ready, superseded []*target, err error) {
	ids := make([]uuid.UUID, len(docs))
	byID := make(map[uuid.UUID]*batch.Document, len(docs))
	for i := range docs {
		ids[i] = docs[i].Version
		byID[docs[i].Version] = &docs[i]
	}
	type document struct {
		externalID string
		live       *uuid.UUID
		gone       bool
		liveNumber int
	}
	documents := map[uuid.UUID]*document{}
	rows, err := w.tx.Query(ctx, `
		SELECT id, external_id, live_version_id, deleted_at IS NOT NULL FROM documents
		WHERE id IN (SELECT document_id FROM versions WHERE id = ANY($1)) ORDER BY id FOR UPDATE`, ids)
	if err != nil {
		return nil, nil, err
	}
	locks := slices.Clone(ids)
	for rows.Next() {
		var id uuid.UUID
		d := &document{}
		if err := rows.Scan(&id, &d.externalID, &d.live, &d.gone); err != nil {
			rows.Close()
			return nil, nil, err
		}
		documents[id] = d
		if d.live != nil {
			locks = append(locks, *d.live)
		}
	}
	if err := rows.Err(); err != nil {
		return nil, nil, err
	}

	rows, err = w.tx.Query(ctx, `
		SELECT id, document_id, collection_id, number, attempt, state, coalesce(trace, '') FROM versions
		WHERE id = ANY($1) ORDER BY id FOR UPDATE`, locks)
	if err != nil {
		return nil, nil, err
	}
	var found []*target
	seen := map[uuid.UUID]bool{}
	var e change
	var number int
	_, err = pgx.ForEachRow(rows, []any{&e.Version, &e.Document, &e.Collection, &number, &e.attempt, &e.State, &e.trace}, func() error {
		d := documents[e.Document]
		if d.live != nil && *d.live == e.Version {
			d.liveNumber = number
		}
		doc := byID[e.Version]
		if doc == nil {
			return nil
		}
		seen[e.Version] = true
		mine := e.attempt == doc.Attempt.Attempt
		switch {
		case mine && e.State == schema.StateProcessing && !d.gone && e.Collection == w.collection:
			e.ExternalID = d.externalID
			found = append(found, &target{doc: doc, document: e.Document, number: number, event: e})
		case mine && (e.State == schema.StateReady || e.State == schema.StateSuperseded): // written before
		default:
			w.lost(e.Version)
		}
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	for _, id := range ids {
		if !seen[id] {
			w.lost(id)
		}
	}

	// Newest first, so that of two versions of a document in one batch the newer wins.
	slices.SortStableFunc(found, func(a, b *target) int { return b.number - a.number })
	taken := map[uuid.UUID]bool{}
	for _, t := range found {
		d := documents[t.document]
		if taken[t.document] || d.liveNumber > t.number {
			superseded = append(superseded, t)
			continue
		}
		taken[t.document] = true
		t.old = d.live
		ready = append(ready, t)
	}
	return ready, superseded, nil
}

func (w *writer) lost(version uuid.UUID) {
	w.outcomes = append(w.outcomes, wire.Outcome{Version: version, Lost: true})
}

// queueLive makes the versions ready and the ones they follow superseded.
func queueLive(b *pgx.Batch, targets []*target) error {
	var ids, documents, old []uuid.UUID
	var titles, media, warnings []string
	var pages, sections, passages []int
	for _, t := range targets {
		list := make([]string, len(t.doc.Text.Warnings))
		for i, warning := range t.doc.Text.Warnings {
			list[i] = text.Clean(warning)
		}
		encoded, err := json.Marshal(list)
		if err != nil {
			return fmt.Errorf("encode warnings: %w", err)
		}
		ids, documents = append(ids, t.doc.Version), append(documents, t.document)
		titles = append(titles, parsedTitle(t.doc))
		media = append(media, text.Clean(t.doc.Text.MediaType))
		warnings = append(warnings, string(encoded))
		pages = append(pages, t.doc.Text.Pages)
		sections = append(sections, len(t.doc.Text.Sections))
		passages = append(passages, t.doc.Text.Passages())
		if t.old != nil {
			old = append(old, *t.old)
		}
	}
	b.Queue(readySQL, ids, titles, media, pages, sections, passages, warnings)
	if len(old) > 0 {
		b.Queue(supersedeSQL, old)
	}
	b.Queue(moveDocumentsSQL, documents, ids)
	return nil
}

// finish ends the work on the versions and tells of the changes.
func (w *writer) finish(ctx context.Context, ready, superseded []*target) error {
	var events []change
	var ended, late []uuid.UUID
	for _, t := range ready {
		ended = append(ended, t.doc.Version)
		e := t.event
		e.State = schema.StateReady
		events = append(events, e)
		if t.old != nil {
			e.Version, e.State = *t.old, schema.StateSuperseded
			events = append(events, e)
		}
	}
	for _, t := range superseded {
		ended, late = append(ended, t.doc.Version), append(late, t.doc.Version)
		e := t.event
		e.State = schema.StateSuperseded
		events = append(events, e)
	}
	if len(late) > 0 {
		if _, err := w.tx.Exec(ctx, `UPDATE versions SET state = 'superseded', finished_at = now() WHERE id = ANY($1)`, late); err != nil {
			return fmt.Errorf("supersede late versions: %w", err)
		}
	}
	if len(ended) == 0 {
		return nil
	}
	if err := forgetWork(ctx, w.tx, ended); err != nil {
		return err
	}
	return insertChanges(ctx, w.tx, w.tenant, events)
}
