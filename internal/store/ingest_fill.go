package store

// This file writes what finished versions consist of: sections, passages,
// vectors. COPY refuses tables with row-level security, so rows go by COPY into
// temporary tables of the session and from there, as the tenant, into their own.

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/ingest/batch"
	"github.com/sluice-rag/sluice/internal/text"
)

// Text is compressed on its way into the temporary table and goes on as it is.
// LZ4 takes a quarter of the time of Postgres' own method and little more space;
// a server may be built without it.
const tempSQL = `
CREATE TEMP TABLE ingest_sections (
    id uuid, version_id uuid, document_id uuid, ordinal int, heading_path text[], body text, tokens int,
    page_starts int[], page_numbers int[]
) ON COMMIT DELETE ROWS;
CREATE TEMP TABLE ingest_passages (
    id uuid, section_id uuid, version_id uuid, ordinal int, start_byte int, end_byte int, tokens int, embedding halfvec
) ON COMMIT DELETE ROWS;
DO $$
BEGIN
    ALTER TABLE pg_temp.ingest_sections ALTER COLUMN body SET COMPRESSION lz4;
EXCEPTION WHEN feature_not_supported THEN
    NULL;
END
$$;`

// fill writes sections, passages and vectors.
func (w *writer) fill(ctx context.Context, targets []*target) error {
	if err := w.tables(ctx); err != nil {
		return err
	}
	var sections, passages [][]any
	for _, t := range targets {
		row := 0
		for _, sec := range t.doc.Text.Sections {
			starts, pages := make([]int32, len(sec.Pages)), make([]int32, len(sec.Pages))
			for i, m := range sec.Pages {
				starts[i], pages[i] = int32(m.Start), int32(m.Page)
			}
			path := make([]string, len(sec.HeadingPath))
			for i, h := range sec.HeadingPath {
				path[i] = text.Clean(h)
			}
			// The text itself was cleaned before it was cut: cleaning it here
			// could move the passages' bounds.
			sections = append(sections, []any{sec.ID, t.doc.Version, t.document, sec.Ordinal, path, sec.Text, sec.Tokens, starts, pages})
			passages = appendPassages(passages, t.doc.Version, sec, t.doc.Vectors, &row)
		}
	}
	if _, err := w.tx.CopyFrom(ctx, pgx.Identifier{"pg_temp", "ingest_sections"},
		[]string{"id", "version_id", "document_id", "ordinal", "heading_path", "body", "tokens", "page_starts", "page_numbers"},
		pgx.CopyFromRows(sections)); err != nil {
		return fmt.Errorf("copy sections: %w", err)
	}
	if _, err := w.tx.Exec(ctx, `
		INSERT INTO sections (tenant_id, id, version_id, document_id, collection_id, ordinal, heading_path, body, tokens, page_starts, page_numbers)
		SELECT $1, id, version_id, document_id, $2, ordinal, heading_path, body, tokens, page_starts, page_numbers
		FROM pg_temp.ingest_sections`, w.tenant, w.collection); err != nil {
		return fmt.Errorf("write sections: %w", err)
	}
	return w.passages(ctx, passages, targets[0].doc.Vectors.Dimension)
}

// tables makes the temporary tables of the session, where it has none.
func (w *writer) tables(ctx context.Context) error {
	var there bool
	if err := w.tx.QueryRow(ctx, `SELECT to_regclass('pg_temp.ingest_passages') IS NOT NULL`).Scan(&there); err != nil {
		return err
	}
	if !there {
		if _, err := w.tx.Exec(ctx, tempSQL); err != nil {
			return fmt.Errorf("make temporary tables: %w", err)
		}
	}
	return nil
}

// appendPassages appends a section's passages as rows for passages; their
// vectors begin at row of v.
func appendPassages(rows [][]any, version uuid.UUID, sec batch.Section, v batch.Vectors, row *int) [][]any {
	for _, p := range sec.Passages {
		rows = append(rows, []any{p.ID, sec.ID, version, p.Ordinal, p.Start, p.End, p.Tokens, halfRow(v.Bits(*row))})
		*row++
	}
	return rows
}

// passages writes passages and their vectors.
func (w *writer) passages(ctx context.Context, rows [][]any, dimension int) error {
	if _, err := w.tx.CopyFrom(ctx, pgx.Identifier{"pg_temp", "ingest_passages"},
		[]string{"id", "section_id", "version_id", "ordinal", "start_byte", "end_byte", "tokens", "embedding"},
		pgx.CopyFromRows(rows)); err != nil {
		return fmt.Errorf("copy passages: %w", err)
	}
	if _, err := w.tx.Exec(ctx, `
		INSERT INTO passages (tenant_id, id, section_id, version_id, collection_id, ordinal, start_byte, end_byte, tokens, generation)
		SELECT $1, id, section_id, version_id, $2, ordinal, start_byte, end_byte, tokens, $3
		FROM pg_temp.ingest_passages`, w.tenant, w.collection, w.generation); err != nil {
		return fmt.Errorf("write passages: %w", err)
	}
	if _, err := w.tx.Exec(ctx, fmt.Sprintf(`
		INSERT INTO vectors_%d (tenant_id, collection_id, space_id, passage_id, version_id, embedding, generation)
		SELECT $1, $2, $3, id, version_id, embedding, $4
		FROM pg_temp.ingest_passages`, dimension), w.tenant, w.collection, w.space, w.generation); err != nil {
		return fmt.Errorf("write vectors: %w", err)
	}
	return nil
}
