package corpus

// This file writes the contents of finished versions: sections, passages and vectors. COPY refuses
// tables with row-level security, so rows are sent as one array per column and inserted directly
// into their tables.

import (
	"context"
	"fmt"
	"strconv"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/ingest/batch"
	"github.com/sluice-rag/sluice/internal/store"
)

const (
	// Array-valued columns are sent as array literals, because an array of arrays cannot have
	// elements of different lengths.
	insertSectionsSQL = `
INSERT INTO sections (tenant_id, collection_id, id, version_id, document_id, ordinal, heading_path, tokens, page_starts, page_numbers, layout, body)
SELECT $1, $2, unnest($3::uuid[]), unnest($4::uuid[]), unnest($5::uuid[]), unnest($6::int[]), unnest($7::text[])::text[],
       unnest($8::int[]), unnest($9::text[])::int[], unnest($10::text[])::int[], unnest($11::bytea[]), unnest($12::text[])` // the longest column last
	insertPassagesSQL = `
INSERT INTO passages (tenant_id, collection_id, generation, id, section_id, version_id, ordinal, start_byte, end_byte, tokens)
SELECT $1, $2, $3, unnest($4::uuid[]), unnest($5::uuid[]), unnest($6::uuid[]), unnest($7::int[]), unnest($8::int[]), unnest($9::int[]), unnest($10::int[])`
	insertVectorsSQL = `
INSERT INTO %s (tenant_id, collection_id, space_id, generation, passage_id, version_id, embedding)
SELECT $1, $2, $3, $4, unnest($5::uuid[]), unnest($6::uuid[]), unnest($7::halfvec[])`

	// bulkSQL is for a transaction that writes many rows. The store otherwise plans each statement
	// again, including the check of a foreign key for each row (poolConfig); with bulkSQL a plan is
	// made once, and uses indexes, whatever the statistics are.
	bulkSQL = `SELECT ` + store.OnePlanSQL

	maxFillBytes = 8 << 20 // approximate size of rows that are sent together
)

// rowBatcher collects rows and sends them in batches.
type rowBatcher struct {
	w         *writer
	dimension int
	sections  sectionRows
	passages  passageRows
	bytes     int
}

// sectionRows are sections, one slice per column.
type sectionRows struct {
	ids, versions, documents     []uuid.UUID
	ordinals, tokens             []int
	paths, bodies, starts, pages []string
	layouts                      [][]byte
}

// passageRows are passages with their vectors, one slice per column.
type passageRows struct {
	ids, sections, versions        []uuid.UUID
	ordinals, starts, ends, tokens []int
	vectors                        []store.HalfRow
}

// statements returns the statements that write the rows.
func (f *rowBatcher) statements() []string {
	return []string{insertSectionsSQL, insertPassagesSQL, fmt.Sprintf(insertVectorsSQL, store.VectorTable(f.dimension))}
}

// send sends sections, passages and vectors of versions.
func (f *rowBatcher) send(s *store.Stream, targets []*target) error {
	for _, t := range targets {
		row := 0
		for i := range t.Text.Sections {
			sec := &t.Text.Sections[i]
			f.addSection(t.Version, t.document, sec, t.headings[i])
			f.addPassages(t.Version, sec, t.Vectors, &row)
			if f.bytes > maxFillBytes {
				if err := f.sendRows(s); err != nil {
					return err
				}
			}
		}
	}
	return f.sendRows(s)
}

// sendRows sends the collected rows, and empties f.
func (f *rowBatcher) sendRows(s *store.Stream) error {
	b := &pgx.Batch{}
	f.queue(b)
	return s.Send(b)
}

// addSection adds the row of a section; headings is its heading path as an array literal.
func (f *rowBatcher) addSection(version, document uuid.UUID, sec *batch.Section, headings string) {
	starts, pages := make([]string, len(sec.Pages)), make([]string, len(sec.Pages))
	for i, m := range sec.Pages {
		starts[i], pages[i] = strconv.Itoa(m.Start), strconv.Itoa(m.Page)
	}
	r := &f.sections
	r.ids, r.versions, r.documents = append(r.ids, sec.ID), append(r.versions, version), append(r.documents, document)
	r.ordinals, r.tokens = append(r.ordinals, sec.Ordinal), append(r.tokens, sec.Tokens)
	r.paths, r.bodies = append(r.paths, headings), append(r.bodies, sec.Text)
	r.starts, r.pages = append(r.starts, arrayLiteral(starts)), append(r.pages, arrayLiteral(pages))
	r.layouts = append(r.layouts, sec.Layout)
	f.bytes += len(sec.Text) + len(sec.Layout) + 100
}

// addPassages adds the rows of a section's passages, and advances row, the row of v with the vector
// of the first one.
func (f *rowBatcher) addPassages(version uuid.UUID, sec *batch.Section, v batch.Vectors, row *int) {
	r := &f.passages
	for _, p := range sec.Passages {
		r.ids, r.sections, r.versions = append(r.ids, p.ID), append(r.sections, sec.ID), append(r.versions, version)
		r.ordinals, r.starts = append(r.ordinals, p.Ordinal), append(r.starts, p.Start)
		r.ends, r.tokens = append(r.ends, p.End), append(r.tokens, p.Tokens)
		r.vectors = append(r.vectors, store.HalfRow(v.Bits(*row)))
		f.bytes += 150 + 2*f.dimension
		*row++
	}
}

// flush sends the collected rows if they have more than above bytes, and waits until they are
// written.
func (f *rowBatcher) flush(ctx context.Context, above int) error {
	if f.bytes <= above {
		return nil
	}
	b := &pgx.Batch{}
	b.Queue(bulkSQL)
	f.queue(b)
	return store.Wrap(f.w.tx.SendBatch(ctx, b).Close(), "write sections, passages and vectors")
}

// queue adds the statements for the collected rows to b, and empties f. They must run after
// bulkSQL.
func (f *rowBatcher) queue(b *pgx.Batch) {
	w := f.w
	if r := &f.sections; len(r.ids) > 0 {
		b.Queue(insertSectionsSQL, w.tenant, w.collection, r.ids, r.versions, r.documents, r.ordinals, r.paths, r.tokens, r.starts, r.pages, r.layouts, r.bodies)
	}
	if r := &f.passages; len(r.ids) > 0 {
		b.Queue(insertPassagesSQL, w.tenant, w.collection, w.generation, r.ids, r.sections, r.versions, r.ordinals, r.starts, r.ends, r.tokens)
		b.Queue(fmt.Sprintf(insertVectorsSQL, store.VectorTable(f.dimension)), w.tenant, w.collection, w.space, w.generation, r.ids, r.versions, r.vectors)
	}
	f.sections, f.passages, f.bytes = sectionRows{}, passageRows{}, 0
}
