package corpus

// This file writes postings: one segment for the versions of a batch, in the
// transaction that makes them ready.

import (
	"context"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/identity"
	"github.com/sluice-rag/sluice/internal/ingest/batch"
	"github.com/sluice-rag/sluice/internal/lexical"
	"github.com/sluice-rag/sluice/internal/lexical/segment"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema"
)

const (
	insertSegmentSQL = `
INSERT INTO lexical_segments (tenant_id, id, collection_id, generation, header, documents, passages, bytes)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`
	insertPagesSQL = `
INSERT INTO lexical_pages (tenant_id, segment_id, page, first_term, last_term, data)
SELECT $1, $2, * FROM unnest($3::int[], $4::bytea[], $5::bytea[], $6::bytea[])`
	insertEntriesSQL = `
INSERT INTO lexical_entries (tenant_id, collection_id, generation, id, version_id)
SELECT $1, $2, $3, * FROM unnest($4::uuid[], $5::uuid[])`

	maxPagesBytes = 8 << 20 // of one statement, about
)

// generationKey is a generation of a collection.
type generationKey struct {
	tenant, collection uuid.UUID
	generation         int
}

// writeSegment writes a segment of new documents with their entries.
func writeSegment(ctx context.Context, tx pgx.Tx, at generationKey, docs []segment.VersionText) error {
	built, err := buildSegment(docs)
	if err != nil {
		return err
	}
	b := &pgx.Batch{}
	queueSegment(b, at, built)
	queueEntries(b, at, docs)
	return store.Wrap(tx.SendBatch(ctx, b).Close(), "write a lexical segment of %d documents", len(docs))
}

// buildSegment builds a segment of new documents.
func buildSegment(docs []segment.VersionText) (segment.Built, error) {
	built, err := segment.Build(schema.NewID(), docs)
	return built, store.Wrap(err, "build a lexical segment of %d documents", len(docs))
}

// buildAside builds a segment in the background. The function that it returns waits for the result,
// and may be called several times.
func buildAside(docs []segment.VersionText) func() (segment.Built, error) {
	var built segment.Built
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		built, err = buildSegment(docs)
	}()
	return func() (segment.Built, error) {
		<-done
		return built, err
	}
}

// queueEntries writes the entries of new documents.
func queueEntries(b *pgx.Batch, at generationKey, docs []segment.VersionText) {
	entries, versions := make([]uuid.UUID, len(docs)), make([]uuid.UUID, len(docs))
	for i, d := range docs {
		entries[i], versions[i] = d.Entry, d.Version
	}
	b.Queue(insertEntriesSQL, at.tenant, at.collection, at.generation, entries, versions)
}

// segmentStatements are the statements that queueSegment queues.
var segmentStatements = []string{insertSegmentSQL, insertPagesSQL}

// queueSegment writes a segment with its pages.
func queueSegment(b *pgx.Batch, at generationKey, s segment.Built) {
	b.Queue(insertSegmentSQL, at.tenant, s.ID, at.collection, at.generation, s.Header, s.Documents, s.Passages, s.Bytes)
	var numbers []int
	var first, last, data [][]byte
	bytes := 0
	flush := func() {
		if len(numbers) > 0 {
			b.Queue(insertPagesSQL, at.tenant, s.ID, numbers, first, last, data)
			numbers, first, last, data, bytes = nil, nil, nil, nil, 0
		}
	}
	for n, p := range s.Pages {
		var a, z []byte // null: the page belongs to the directory
		if p.First != "" || p.Last != "" {
			a, z = []byte(p.First), []byte(p.Last)
		}
		numbers, first, last, data = append(numbers, n), append(first, a), append(last, z), append(data, p.Data)
		if bytes += len(p.Data); bytes > maxPagesBytes {
			flush()
		}
	}
	flush()
}

// indexed returns locked versions in the form that is indexed, with the titles that they are about
// to have and their current labels.
func (p *preparation) indexed(targets []*target) []segment.VersionText {
	docs := make([]segment.VersionText, len(targets))
	for i, t := range targets {
		docs[i] = segment.VersionText{Entry: schema.NewID(), Version: t.Version, Labels: t.labels, Title: p.analyzer.Terms(t.title), Sections: t.terms,
			Identity: identityOf(t.title, t.called, t.Text.Sections, p.analyzer)}
	}
	return docs
}

// headSections is the number of sections in which a document's head is searched.
const headSections = 16

// identityOf returns the terms of a document's title, names, metadata and head.
func identityOf(title string, called documentNames, sections []batch.Section, analyzer *lexical.Analyzer) []string {
	d := identity.Naming{Title: title, Names: called.names, Metadata: called.metadata}
	length := 0
	for _, s := range sections[:min(len(sections), headSections)] {
		if len(d.Head) < identity.HeadBytes {
			d.Head += strings.Join(s.HeadingPath, "\n") + "\n" + s.Text[:min(len(s.Text), identity.HeadBytes)] + "\n"
		}
		if length += len(s.Text); length >= identity.LeastBytes {
			return d.Terms(analyzer.Terms)
		}
	}
	d.Head = ""
	return d.Terms(analyzer.Terms)
}
