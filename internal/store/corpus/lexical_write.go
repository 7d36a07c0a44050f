package corpus

// This file writes postings: one segment for the versions of a batch, in the
// transaction that makes them ready.

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/ingest/batch"
	"github.com/sluice-rag/sluice/internal/lexical"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/internal/text"
	"github.com/sluice-rag/sluice/schema"
)

const (
	// With the space of a name, where the collection's vectors may be of it.
	languageSQL = `
SELECT c.language, CASE WHEN c.space_id IS NOT NULL AND s.dimension = $4 AND to_regclass('vectors_' || s.dimension) IS NOT NULL THEN s.id ELSE 0 END
FROM collections c LEFT JOIN spaces s ON s.name = $3 WHERE c.tenant_id = $1 AND c.id = $2`
	shareRecipeSQL  = `SELECT generation, language FROM collections WHERE tenant_id = $1 AND id = $2 FOR SHARE`
	titlesLabelsSQL = `
SELECT v.id, v.title, ARRAY(SELECT l.label FROM version_labels l WHERE l.tenant_id = $1 AND l.version_id = v.id ORDER BY l.label)
FROM versions v WHERE v.tenant_id = $1 AND v.id = ANY ($2)`

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

// analysed are the terms of versions by section and passage, in a language.
type analysed struct {
	language string
	space    int // of the vectors; 0: it is not known that they can be kept
	sections map[uuid.UUID][][][]string
}

// analyse makes the terms of a batch, before its transaction: nobody is to wait
// for that.
func (s *CorpusStore) analyse(ctx context.Context, tenant, collection uuid.UUID, docs []batch.Document) (analysed, error) {
	var language string
	var space int
	vectors := docs[0].Vectors
	err := s.db.AskTenant(ctx, tenant, languageSQL, []any{tenant, collection, vectors.Space, vectors.Dimension}, func(rows pgx.Rows) error {
		_, err := pgx.CollectExactlyOneRow(rows, func(row pgx.CollectableRow) (struct{}, error) {
			return struct{}{}, row.Scan(&language, &space)
		})
		return store.Named(err, "collection", collection)
	})
	if err != nil {
		return analysed{}, fmt.Errorf("read the language of collection %s: %w", collection, err)
	}
	out, err := analyseIn(language, docs)
	out.space = space
	return out, err
}

func analyseIn(language string, docs []batch.Document) (analysed, error) {
	analyzer, err := lexical.NewAnalyzer(language)
	if err != nil {
		return analysed{}, err
	}
	var texts []string
	for _, d := range docs {
		for i, sec := range d.Text.Sections {
			for _, p := range sec.Passages {
				if err := checkBounds(d.Version, i, p.Start, p.End, sec.Text); err != nil {
					return analysed{}, err
				}
				texts = append(texts, sec.Text[p.Start:p.End])
			}
		}
	}
	terms := analyzer.TermsOfAll(texts)
	out := analysed{language: language, sections: make(map[uuid.UUID][][][]string, len(docs))}
	for _, d := range docs {
		sections := make([][][]string, len(d.Text.Sections))
		for i, sec := range d.Text.Sections {
			sections[i], terms = terms[:len(sec.Passages):len(sec.Passages)], terms[len(sec.Passages):]
		}
		out.sections[d.Version] = sections
	}
	return out, nil
}

// titled is what a version is found by besides its text.
type titled struct {
	title  string // "": the parser's is taken
	labels []string
}

// queueTitles reads the titles and the labels of versions.
func (w *writer) queueTitles(b *pgx.Batch, versions []uuid.UUID) {
	w.titles = make(map[uuid.UUID]titled, len(versions))
	b.Queue(titlesLabelsSQL, w.tenant, versions).Query(func(rows pgx.Rows) error {
		var id uuid.UUID
		var t titled
		_, err := pgx.ForEachRow(rows, []any{&id, &t.title, &t.labels}, func() error {
			w.titles[id] = t
			t = titled{}
			return nil
		})
		return store.Wrap(err, "read titles and labels")
	})
}

// documents are locked versions as the index holds them, under the titles that
// they are about to have and the labels that they have now.
func (w *writer) documents(targets []*target) ([]lexical.VersionText, error) {
	analyzer, err := lexical.NewAnalyzer(w.words.language)
	if err != nil {
		return nil, err
	}
	docs := make([]lexical.VersionText, len(targets))
	for i, t := range targets {
		version := t.doc.Version
		found := w.titles[version]
		docs[i] = lexical.VersionText{
			Entry: schema.NewID(), Version: version, Labels: found.labels,
			Title: analyzer.Terms(cmp.Or(found.title, parsedTitle(t.doc))), Sections: w.words.sections[version],
		}
	}
	return docs, nil
}

// parsedTitle is the title that a version gets unless it was given one.
func parsedTitle(d *batch.Document) string { return strings.TrimSpace(text.Clean(d.Text.Title)) }

// generationKey is a generation of a collection.
type generationKey struct {
	tenant, collection uuid.UUID
	generation         int
}

// writeSegment writes a segment of new documents with their entries.
func writeSegment(ctx context.Context, tx pgx.Tx, at generationKey, docs []lexical.VersionText) error {
	built, err := buildSegment(docs)
	if err != nil {
		return err
	}
	b := &pgx.Batch{}
	queueSegment(b, at, built)
	queueEntries(b, at, docs)
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return fmt.Errorf("write a lexical segment of %d documents: %w", len(docs), err)
	}
	return nil
}

// buildSegment makes a segment of new documents.
func buildSegment(docs []lexical.VersionText) (lexical.Built, error) {
	built, err := lexical.Build(schema.NewID(), docs)
	return built, store.Wrap(err, "build a lexical segment of %d documents", len(docs))
}

// buildAside makes a segment while the caller goes on. What it returns waits for
// that; it may be called again.
func buildAside(docs []lexical.VersionText) func() (lexical.Built, error) {
	var built lexical.Built
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		built, err = buildSegment(docs)
	}()
	return func() (lexical.Built, error) {
		<-done
		return built, err
	}
}

// queueEntries writes the entries of new documents.
func queueEntries(b *pgx.Batch, at generationKey, docs []lexical.VersionText) {
	entries, versions := make([]uuid.UUID, len(docs)), make([]uuid.UUID, len(docs))
	for i, d := range docs {
		entries[i], versions[i] = d.Entry, d.Version
	}
	b.Queue(insertEntriesSQL, at.tenant, at.collection, at.generation, entries, versions)
}

// segmentStatements are those of queueSegment.
var segmentStatements = []string{insertSegmentSQL, insertPagesSQL}

// queueSegment writes a segment with its pages.
func queueSegment(b *pgx.Batch, at generationKey, s lexical.Built) {
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
		var a, z []byte // null: of the directory
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
