package corpus

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
	"github.com/sluice-rag/sluice/internal/store"
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
func (s *CorpusStore) WriteVersions(ctx context.Context, tenant, collection uuid.UUID, docs []batch.Document) ([]wire.Outcome, error) {
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
	supersedeLateSQL = `UPDATE versions SET state = 'superseded', finished_at = now() WHERE id = ANY($1)`
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

func (s *CorpusStore) writeVersions(ctx context.Context, tenant, collection uuid.UUID, docs []batch.Document) ([]wire.Outcome, error) {
	var out []wire.Outcome
	words, err := s.analyse(ctx, tenant, collection, docs)
	if err != nil {
		return nil, err
	}
	err = s.db.AsTenant(ctx, tenant, func(ctx context.Context, tx pgx.Tx) error {
		w := writer{tx: tx, tenant: tenant, collection: collection, words: words}
		err := w.write(ctx, docs)
		out = w.outcomes
		return err
	})
	if err != nil {
		return nil, err
	}
	s.db.Wrote(ctx, len(docs))
	return out, nil
}

type writer struct {
	tx                 pgx.Tx
	tenant, collection uuid.UUID
	generation         int // that is written: the live one, but for rebuilds
	space              int // of its vectors
	words              analysed
	titles             map[uuid.UUID]titled
	given              map[uuid.UUID][]byte // links that metadata names
	outcomes           []wire.Outcome
}

func (w *writer) write(ctx context.Context, docs []batch.Document) error {
	space := w.words.space
	if space == 0 {
		var why string
		var err error
		if space, why, err = w.giveSpace(ctx, docs[0].Vectors); err != nil {
			return err
		}
		if why != "" {
			_, err = w.refuse(docs, why)
			return err
		}
	}
	ids := make([]uuid.UUID, len(docs))
	for i := range docs {
		ids[i] = docs[i].Version
	}
	// Locks are taken in one order by everyone: collection, documents, versions.
	// What is read of them is read behind their locks.
	var under sharedRecipe
	var found lockedRows
	b := &pgx.Batch{}
	b.Queue(bulkSQL) // for all that this transaction does
	w.queueRecipe(b, &under)
	found.queue(b, w.tenant, ids)
	w.queueTitles(b, ids)
	w.queueGiven(b, ids)
	if err := w.tx.SendBatch(ctx, b).Close(); err != nil {
		return fmt.Errorf("lock collection %s and %d versions: %w", w.collection, len(docs), err)
	}
	fits, err := w.checkRecipe(docs, under, space)
	if err != nil || !fits {
		return err
	}
	ready, superseded := w.decide(docs, found)
	if len(ready)+len(superseded) == 0 {
		return nil
	}
	if len(ready) == 0 {
		b := &pgx.Batch{}
		if err := w.queueEnd(b, nil, superseded); err != nil {
			return err
		}
		return store.Wrap(w.tx.SendBatch(ctx, b).Close(), "supersede %d late versions", len(superseded))
	}
	return w.writeReady(ctx, ready, superseded)
}

// writeReady writes all of the versions and makes them ready, and ends the work
// on these and on superseded ones. Postgres writes their text while the rest is
// encoded and their segment is built.
func (w *writer) writeReady(ctx context.Context, ready, superseded []*target) error {
	docs, err := w.documents(ready)
	if err != nil {
		return err
	}
	segment := buildAside(docs)
	defer segment() //nolint:errcheck // read below; here it only waits when something else failed
	b, at := &pgx.Batch{}, generationKey{w.tenant, w.collection, w.generation}
	w.queueLinks(b, ready)
	queueEntries(b, at, docs)
	var links passageLinkRows
	for _, t := range ready {
		links.add(t.doc.Version, t.doc.Text.Sections, t.doc.Links)
	}
	links.queue(b, at)
	if err := queueLive(b, ready); err != nil {
		return err
	}
	if err := w.queueEnd(b, ready, superseded); err != nil {
		return err
	}
	f := filling{w: w, dimension: ready[0].doc.Vectors.Dimension}
	statements := append(f.statements(), segmentStatements...)
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
		err = sending.Send(b)
	}
	if problem := sending.Close(); err == nil {
		err = problem
	}
	return store.Wrap(err, "write %d versions and make them ready", len(ready))
}

const (
	// Both find rows by primary key alone, through arrays: a join may be planned as
	// a walk through all of a tenant's documents when statistics are old.
	holdDocumentsSQL = `
SELECT id, external_id, live_version_id, deleted_at IS NOT NULL FROM documents
WHERE tenant_id = $2 AND id = ANY (ARRAY(SELECT document_id FROM versions WHERE tenant_id = $2 AND id = ANY ($1))) ORDER BY id FOR UPDATE`
	// The live versions of the documents too.
	holdVersionsSQL = `
SELECT id, document_id, collection_id, number, attempt, state, coalesce(trace, '') FROM versions
WHERE tenant_id = $2 AND id = ANY (ARRAY(
    SELECT unnest($1::uuid[]) UNION ALL
    SELECT live_version_id FROM documents
    WHERE tenant_id = $2 AND id = ANY (ARRAY(SELECT document_id FROM versions WHERE tenant_id = $2 AND id = ANY ($1)))))
ORDER BY id FOR UPDATE`
)

// lockedRows are the locked documents, and the locked versions in the order of ids.
type lockedRows struct {
	documents map[uuid.UUID]*heldDocument
	versions  []heldVersion
}

type heldDocument struct {
	externalID string
	live       *uuid.UUID
	gone       bool
	liveNumber int
}

type heldVersion struct {
	change
	number int
}

// queue locks the documents and then the versions, each in id order.
func (l *lockedRows) queue(b *pgx.Batch, tenant uuid.UUID, versions []uuid.UUID) {
	l.documents = make(map[uuid.UUID]*heldDocument, len(versions))
	b.Queue(holdDocumentsSQL, versions, tenant).Query(func(rows pgx.Rows) error {
		var id uuid.UUID
		var d heldDocument
		_, err := pgx.ForEachRow(rows, []any{&id, &d.externalID, &d.live, &d.gone}, func() error {
			l.documents[id] = &heldDocument{d.externalID, d.live, d.gone, 0}
			return nil
		})
		return store.Wrap(err, "lock documents")
	})
	b.Queue(holdVersionsSQL, versions, tenant).Query(func(rows pgx.Rows) error {
		var v heldVersion
		_, err := pgx.ForEachRow(rows, []any{&v.Version, &v.Document, &v.Collection, &v.number, &v.attempt, &v.State, &v.trace}, func() error {
			l.versions = append(l.versions, v)
			return nil
		})
		return store.Wrap(err, "lock versions")
	})
}

// decide decides what becomes of every version.
func (w *writer) decide(docs []batch.Document, l lockedRows) (ready, superseded []*target) {
	byID := make(map[uuid.UUID]*batch.Document, len(docs))
	for i := range docs {
		byID[docs[i].Version] = &docs[i]
	}
	var found []*target
	seen := map[uuid.UUID]bool{}
	for _, v := range l.versions {
		d := l.documents[v.Document]
		if d.live != nil && *d.live == v.Version {
			d.liveNumber = v.number
		}
		doc := byID[v.Version]
		if doc == nil {
			continue
		}
		seen[v.Version] = true
		mine := v.attempt == doc.Attempt.Attempt
		switch {
		case mine && v.State == schema.StateProcessing && !d.gone && v.Collection == w.collection:
			e := v.change
			e.ExternalID = d.externalID
			found = append(found, &target{doc: doc, document: v.Document, number: v.number, event: e})
		case mine && (v.State == schema.StateReady || v.State == schema.StateSuperseded): // written before
		default:
			w.lost(v.Version)
		}
	}
	for _, d := range docs {
		if !seen[d.Version] {
			w.lost(d.Version)
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

// queueEnd ends the work on the versions and tells of the changes.
func (w *writer) queueEnd(b *pgx.Batch, ready, superseded []*target) error {
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
		b.Queue(supersedeLateSQL, late)
	}
	queueForgetWork(b, ended)
	rows, err := changeRows(w.tenant, events)
	rows.Queue(b)
	return err
}
