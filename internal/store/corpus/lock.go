package corpus

// This file locks what a write changes, and decides what becomes of each version.

import (
	"cmp"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

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
	titlesLabelsSQL = `
SELECT v.id, v.title, ARRAY(SELECT l.label FROM version_labels l WHERE l.tenant_id = $1 AND l.version_id = v.id ORDER BY l.label)
FROM versions v WHERE v.tenant_id = $1 AND v.id = ANY ($2)`
)

// lockedRows are the locked documents, and the locked versions in the order of ids.
type lockedRows struct {
	documents map[uuid.UUID]*heldDocument
	versions  []heldVersion
	titles    map[uuid.UUID]string // that versions were given
	labels    map[uuid.UUID][]string
	links     map[uuid.UUID][]byte // that their metadata names
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

// queue locks the documents and then the versions, each in id order, and reads what they are found by behind the locks.
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
	l.titles, l.labels = make(map[uuid.UUID]string, len(versions)), make(map[uuid.UUID][]string, len(versions))
	b.Queue(titlesLabelsSQL, tenant, versions).Query(func(rows pgx.Rows) error {
		var id uuid.UUID
		var title string
		var labels []string
		_, err := pgx.ForEachRow(rows, []any{&id, &title, &labels}, func() error {
			l.titles[id], l.labels[id], labels = title, labels, nil
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
	givenLinks []byte // that its metadata names
}

// decide decides what becomes of every version.
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
		prepared, asked := byID[v.Version]
		if !asked {
			continue
		}
		seen[v.Version] = true
		mine := v.attempt == prepared.Attempt.Attempt
		switch {
		case mine && v.State == schema.StateProcessing && !d.gone && v.Collection == w.collection:
			e := v.change
			e.ExternalID = d.externalID
			prepared.title = cmp.Or(l.titles[v.Version], prepared.title)
			found = append(found, &target{preparedVersion: prepared, document: v.Document, number: v.number, event: e,
				labels: l.labels[v.Version], givenLinks: l.links[v.Version]})
		case mine && (v.State == schema.StateReady || v.State == schema.StateSuperseded): // written before
		default:
			w.lost(v.Version)
		}
	}
	for _, v := range w.versions {
		if !seen[v.Version] {
			w.lost(v.Version)
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
