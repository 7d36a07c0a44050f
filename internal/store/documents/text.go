package documents

// This file reads a document's text as it was segmented: sections, and their passages with links
// and clusters. Only principals that could find the text may read it: the right to see all
// documents does not include their text.

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/internal/store/corpus"
	"github.com/sluice-rag/sluice/internal/text"
	"github.com/sluice-rag/sluice/schema"
)

// $1 tenant, $2 document, $3 groups, $4 version; null means the live one.
var readableSQL = `
SELECT v.id, c.generation, ` + store.ReadableNow("v.id", "$3") + `
FROM documents d
JOIN versions v ON v.tenant_id = d.tenant_id AND v.document_id = d.id AND v.id = coalesce($4::uuid, d.live_version_id)
JOIN collections c ON c.tenant_id = d.tenant_id AND c.id = d.collection_id AND c.deleted_at IS NULL
WHERE d.tenant_id = $1 AND d.id = $2 AND d.deleted_at IS NULL AND v.state IN ('ready', 'superseded')`

const (
	readSectionsSQL = `
SELECT s.id, s.ordinal, s.heading_path, s.body, s.tokens, s.page_starts, s.page_numbers, m.cluster_id, k.links
FROM sections s
LEFT JOIN cluster_members m ON m.tenant_id = $1 AND m.section_id = s.id AND m.generation = $3
LEFT JOIN passage_links k ON k.tenant_id = $1 AND k.version_id = s.version_id AND k.generation = $3 AND k.section = s.ordinal
WHERE s.tenant_id = $1 AND s.version_id = $2 AND s.ordinal > $4 AND ($5::uuid IS NULL OR s.id = $5)
ORDER BY s.ordinal LIMIT $6`
	readPassagesSQL = `
SELECT section_id, ordinal, start_byte, end_byte, tokens FROM passages
WHERE tenant_id = $1 AND section_id = ANY ($2) AND generation = $3 ORDER BY section_id, ordinal`
)

// maxSections bounds the sections on a page of text.
const maxSections = 100

// DocumentText returns the sections of a document's live version, or of another one that is still
// stored, in their order, and the cursor of the next page. The error is schema.ErrNotFound for a
// document without a ready version, and schema.ErrForbidden when the principal may see that the
// document exists but has none of its groups.
func (s *DocumentStore) DocumentText(ctx context.Context, p schema.Principal, document uuid.UUID, q schema.TextQuery) ([]schema.DocumentSection, string, error) {
	after := -1
	if q.Cursor != "" {
		var err error
		if after, err = strconv.Atoi(q.Cursor); err != nil || after < 0 {
			return nil, "", schema.Invalid("cursor", "is not the cursor of a previous page")
		}
		q.Cursor = ""
	}
	pg, err := store.PageOf(q.PageQuery)
	if err != nil {
		return nil, "", err
	}
	pg.Limit = min(pg.Limit, maxSections)
	var out []schema.DocumentSection
	err = s.db.AsTenant(ctx, p.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		t := textReader{tx: tx, p: p}
		if err := t.find(ctx, document, q.Version); err != nil {
			return err
		}
		out, err = t.sections(ctx, after, q.Section, pg.Limit+1)
		return err
	})
	if err != nil {
		return nil, "", fmt.Errorf("read the text of document %s: %w", document, err)
	}
	if q.Section != uuid.Nil && len(out) == 0 {
		return nil, "", fmt.Errorf("section %s: %w", q.Section, schema.ErrNotFound)
	}
	if len(out) <= pg.Limit {
		return out, "", nil
	}
	out = out[:pg.Limit]
	return out, strconv.Itoa(out[len(out)-1].Ordinal), nil
}

const placeSQL = `
SELECT heading_path, ordinal, body, page_starts, page_numbers, layout FROM sections WHERE tenant_id = $1 AND version_id = $2 AND id = $3`

// TextPlace returns the location, page and boxes of a range of bytes of a section. Only a principal
// that may read the text gets them.
func (s *DocumentStore) TextPlace(ctx context.Context, p schema.Principal, document uuid.UUID, q schema.PlaceQuery) (schema.Place, error) {
	var sec schema.Section
	var starts, pages []int
	err := s.db.AsTenant(ctx, p.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		t := textReader{tx: tx, p: p}
		if err := t.find(ctx, document, q.Version); err != nil {
			return err
		}
		err := tx.QueryRow(ctx, placeSQL, p.Tenant, t.version, q.Section).Scan(&sec.HeadingPath, &sec.Ordinal, &sec.Text, &starts, &pages, &sec.Layout)
		return store.Named(err, "section", q.Section)
	})
	if err != nil {
		return schema.Place{}, fmt.Errorf("find a place in document %s: %w", document, err)
	}
	if q.End == 0 {
		q.End = len(sec.Text)
	}
	switch {
	case q.Start < 0 || q.Start >= len(sec.Text):
		return schema.Place{}, schema.Invalid("start", "is not in the section, which has %d bytes", len(sec.Text))
	case q.End <= q.Start || q.End > len(sec.Text):
		return schema.Place{}, schema.Invalid("end", "is not after start in the section, which has %d bytes", len(sec.Text))
	}
	sec.Pages = store.PageMarks(starts, pages)
	boxes, err := text.Boxes(sec.Layout, sec.Text, q.Start, q.End)
	if err != nil {
		return schema.Place{}, fmt.Errorf("read the layout of section %s: %w", q.Section, err)
	}
	return schema.Place{Location: sec.Location(q.Start), Page: sec.PageAt(q.Start), Boxes: store.EmptyNotNull(boxes)}, nil
}

type textReader struct {
	tx         pgx.Tx
	p          schema.Principal
	version    uuid.UUID
	generation int
}

// find finds the version to be read.
func (t *textReader) find(ctx context.Context, document, version uuid.UUID) error {
	var wanted *uuid.UUID
	if version != uuid.Nil {
		wanted = &version
	}
	visible := false
	err := t.tx.QueryRow(ctx, readableSQL, t.p.Tenant, document, store.GroupsOf(t.p), wanted).Scan(&t.version, &t.generation, &visible)
	if err == nil && visible {
		return nil
	}
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return err
	}
	rows, problem := t.tx.Query(ctx, documentSQL, visibleTo(t.p, document)...)
	if problem != nil {
		return problem
	}
	d, problem := pgx.CollectExactlyOneRow(rows, scanDocument)
	switch {
	case problem != nil:
		return store.Named(problem, "document", document)
	case err == nil:
		return fmt.Errorf("document %s has labels, and the key has none of them as a group: %w", document, schema.ErrForbidden)
	case version != uuid.Nil:
		return fmt.Errorf("version %s is not stored any more, or never was ready: %w", version, schema.ErrNotFound)
	}
	return fmt.Errorf("document %s has no text yet, it is %s: %w", document, d.State, schema.ErrNotFound)
}

// sections reads up to limit sections after an ordinal, or only the one with the id only.
func (t *textReader) sections(ctx context.Context, after int, only uuid.UUID, limit int) ([]schema.DocumentSection, error) {
	var one *uuid.UUID
	if only != uuid.Nil {
		one = &only
	}
	rows, err := t.tx.Query(ctx, readSectionsSQL, t.p.Tenant, t.version, t.generation, after, one, limit)
	if err != nil {
		return nil, err
	}
	var links [][]byte
	out, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (s schema.DocumentSection, err error) {
		var starts, pages []int
		var data []byte
		s.Version = t.version
		err = row.Scan(&s.ID, &s.Ordinal, &s.HeadingPath, &s.Text, &s.Tokens, &starts, &pages, &s.Cluster, &data)
		s.Pages = store.PageMarks(starts, pages)
		s.Location = s.Section.Location(0)
		links = append(links, data)
		return s, err
	})
	if err != nil {
		return nil, err
	}
	return out, t.passages(ctx, out, links)
}

// passages adds the passages to sections.
func (t *textReader) passages(ctx context.Context, sections []schema.DocumentSection, links [][]byte) error {
	ids, at := make([]uuid.UUID, len(sections)), make(map[uuid.UUID]int, len(sections))
	for i, s := range sections {
		ids[i], at[s.ID] = s.ID, i
		sections[i].Passages = []schema.DocumentPassage{}
	}
	rows, err := t.tx.Query(ctx, readPassagesSQL, t.p.Tenant, ids, t.generation)
	if err != nil {
		return err
	}
	var section uuid.UUID
	var p schema.DocumentPassage
	_, err = pgx.ForEachRow(rows, []any{&section, &p.Ordinal, &p.Start, &p.End, &p.Tokens}, func() error {
		i := at[section]
		p.Links = nil
		if links[i] != nil {
			found, err := corpus.LinksOf(links[i], t.version, p.Ordinal, maxLinksShown)
			if err != nil {
				return err
			}
			for _, l := range found {
				p.Links = append(p.Links, schema.PassageLink{Section: l.To.Section, Passage: l.To.Passage, Weight: l.Weight})
			}
		}
		sections[i].Passages = append(sections[i].Passages, p)
		return nil
	})
	return err
}

// maxLinksShown bounds the links that are shown of a passage.
const maxLinksShown = 10
