package corpus

// This file merges lexical segments, so that a query reads few of them, and the terms of dead
// entries are removed. Segments are read and merged outside of any transaction; one short
// transaction then replaces the old ones by the new one. Queries and writers never wait for it.

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/curate/due"
	"github.com/sluice-rag/sluice/internal/lexical/segment"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema"
)

const (
	readPages = 64 // read by one statement of a merge

	liveSegmentsSQL = `
SELECT s.id, s.documents, s.passages, s.bytes FROM lexical_segments s
WHERE s.tenant_id = $1 AND s.collection_id = $2 AND s.generation = $3 AND s.merged_at IS NULL`
	deadEntriesSQL = `
SELECT id FROM lexical_entries WHERE tenant_id = $1 AND collection_id = $2 AND generation = $3 AND dead`
	directoriesSQL = `
SELECT s.id, s.header, p.page, p.data
FROM lexical_segments s LEFT JOIN lexical_pages p ON p.tenant_id = $1 AND p.segment_id = s.id AND p.first_term IS NULL
WHERE s.tenant_id = $1 AND s.id = ANY ($2) ORDER BY s.id, p.page`
	pagesSQL = `
SELECT page, data FROM lexical_pages WHERE tenant_id = $1 AND segment_id = $2 AND page >= $3 AND page < $4`

	lockSegmentsSQL = `
SELECT id FROM lexical_segments WHERE tenant_id = $1 AND id = ANY ($2) AND merged_at IS NULL ORDER BY id FOR UPDATE`
	markMergedSQL  = `UPDATE lexical_segments SET merged_at = now() WHERE tenant_id = $1 AND id = ANY ($2)`
	dropEntriesSQL = `DELETE FROM lexical_entries WHERE tenant_id = $1 AND id = ANY ($2) AND dead`
)

// MergeSegments does one merge of a collection's live generation if one is due, and returns the
// number of segments that it merged, 0 if none was due. A merge that comes too late, because
// another was faster or the collection is gone, counts as none.
func (s *CorpusStore) MergeSegments(ctx context.Context, tenant, collection uuid.UUID) (int, error) {
	commit, err := s.PrepareMerge(ctx, tenant, collection)
	if err != nil {
		return 0, err
	}
	return commit()
}

// PrepareMerge does all of MergeSegments except its last transaction, which commit runs.
func (s *CorpusStore) PrepareMerge(ctx context.Context, tenant, collection uuid.UUID) (commit func() (int, error), err error) {
	at := generationKey{tenant: tenant, collection: collection}
	var language string
	err = s.db.AsTenant(ctx, tenant, func(ctx context.Context, tx pgx.Tx) error {
		return store.Named(tx.QueryRow(ctx, liveRecipeSQL, tenant, collection).Scan(&at.generation, &language), "collection", collection)
	})
	if err != nil {
		return nil, fmt.Errorf("merge segments of collection %s: %w", collection, err)
	}
	failed := func(err error) error {
		return fmt.Errorf("merge segments of generation %d of collection %s: %w", at.generation, collection, err)
	}
	inputs, dead, err := s.chooseMerge(ctx, at)
	if err != nil {
		return nil, failed(err)
	}
	if len(inputs) == 0 {
		return func() (int, error) { return 0, nil }, nil
	}
	built, err := s.mergeSegments(ctx, at, inputs, dead)
	if err != nil {
		return nil, failed(err)
	}
	return func() (int, error) {
		done, err := s.replaceSegments(ctx, at, inputs, dead, built)
		switch {
		case err != nil:
			return 0, failed(err)
		case !done:
			return 0, nil
		}
		return len(inputs), nil
	}, nil
}

// chooseMerge returns the segments of the merge that is due, with headers and directories, and the
// generation's dead entries.
func (s *CorpusStore) chooseMerge(ctx context.Context, at generationKey) ([]*due.StoredSegment, map[uuid.UUID]bool, error) {
	var inputs []*due.StoredSegment
	dead := map[uuid.UUID]bool{}
	err := s.db.AsTenant(ctx, at.tenant, func(ctx context.Context, tx pgx.Tx) error {
		clear(dead)
		inputs = nil
		rows, err := tx.Query(ctx, liveSegmentsSQL, at.tenant, at.collection, at.generation)
		if err != nil {
			return fmt.Errorf("list segments: %w", err)
		}
		live, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (*due.StoredSegment, error) {
			g := &due.StoredSegment{}
			return g, r.Scan(&g.ID, &g.Documents, &g.Passages, &g.Bytes)
		})
		if err != nil {
			return fmt.Errorf("list segments: %w", err)
		}
		deadEntries, err := store.IDs(tx.Query(ctx, deadEntriesSQL, at.tenant, at.collection, at.generation))
		if err != nil {
			return fmt.Errorf("list dead entries: %w", err)
		}
		for _, id := range deadEntries {
			dead[id] = true
		}
		if err := openSegments(ctx, tx, at, due.MergeCandidates(live, len(dead))); err != nil {
			return err
		}
		inputs = due.Merge(live, dead)
		return openSegments(ctx, tx, at, slices.DeleteFunc(slices.Clone(inputs), func(g *due.StoredSegment) bool { return g.Directory != nil }))
	})
	return inputs, dead, err
}

// openSegments reads the headers and directories of segments.
func openSegments(ctx context.Context, tx pgx.Tx, at generationKey, list []*due.StoredSegment) error {
	if len(list) == 0 {
		return nil
	}
	byID := map[uuid.UUID]*due.StoredSegment{}
	for _, g := range list {
		byID[g.ID] = g
	}
	rows, err := tx.Query(ctx, directoriesSQL, at.tenant, slices.Collect(maps.Keys(byID)))
	if err != nil {
		return fmt.Errorf("read directories: %w", err)
	}
	headers, pages := map[uuid.UUID][]byte{}, map[uuid.UUID]map[int][]byte{}
	var id uuid.UUID
	var header, data []byte
	var page *int
	if _, err := pgx.ForEachRow(rows, []any{&id, &header, &page, &data}, func() error {
		headers[id] = header
		if pages[id] == nil {
			pages[id] = map[int][]byte{}
		}
		if page != nil {
			pages[id][*page] = data
		}
		return nil
	}); err != nil {
		return fmt.Errorf("read directories: %w", err)
	}
	for id, g := range byID {
		page := func(n int) []byte { return pages[id][n] }
		if g.Header, g.Directory, err = segment.Open(id, headers[id], page); err != nil {
			return err
		}
	}
	return nil
}

// mergeSegments reads the inputs' pages in runs of readPages, each in a transaction of its own, and
// merges them.
func (s *CorpusStore) mergeSegments(ctx context.Context, at generationKey, inputs []*due.StoredSegment, dead map[uuid.UUID]bool) (segment.Built, error) {
	list := make([]segment.MergeInput, len(inputs))
	for i, g := range inputs {
		list[i] = segment.MergeInput{Header: g.Header, Directory: g.Directory, Page: s.pageReader(ctx, at, g.ID)}
	}
	return segment.Merge(schema.NewID(), list, dead)
}

func (s *CorpusStore) pageReader(ctx context.Context, at generationKey, id uuid.UUID) func(number int) (*segment.Page, error) {
	run := map[int][]byte{}
	return func(number int) (*segment.Page, error) {
		if run[number] == nil {
			clear(run)
			err := s.db.AsTenant(ctx, at.tenant, func(ctx context.Context, tx pgx.Tx) error {
				rows, err := tx.Query(ctx, pagesSQL, at.tenant, id, number, number+readPages)
				if err != nil {
					return err
				}
				var page int
				var data []byte
				_, err = pgx.ForEachRow(rows, []any{&page, &data}, func() error { run[page] = data; return nil })
				return err
			})
			if err != nil {
				return nil, fmt.Errorf("read pages of segment %s: %w", id, err)
			}
		}
		data := run[number]
		if data == nil {
			return nil, fmt.Errorf("page %d of segment %s is missing: %w", number, id, segment.ErrCorrupt)
		}
		delete(run, number) // a merge asks for each page once
		p, err := segment.DecodePage(data)
		if err != nil {
			return nil, fmt.Errorf("page %d of segment %s: %w", number, id, err)
		}
		return p, nil
	}
}

// replaceSegments replaces the inputs by the merged segment, unless one of them is not live any
// more. Entries that died after the inputs were read are in the merged segment and stay dead; the
// rows of the entries that it dropped are deleted.
func (s *CorpusStore) replaceSegments(ctx context.Context, at generationKey, inputs []*due.StoredSegment, dead map[uuid.UUID]bool, built segment.Built) (bool, error) {
	names := make([]uuid.UUID, len(inputs))
	var dropped []uuid.UUID
	for i, g := range inputs {
		names[i] = g.ID
		for e := range g.Directory.Len() {
			if id := g.Directory.Entry(e).ID; dead[id] {
				dropped = append(dropped, id)
			}
		}
	}
	done := false
	err := s.db.AsTenant(ctx, at.tenant, func(ctx context.Context, tx pgx.Tx) error {
		done = false
		// A shared lock, as writers take it: only the deletion of the collection waits for it, or
		// has come first.
		if err := tx.QueryRow(ctx, lockLivingSQL, at.tenant, at.collection).Scan(); store.IsNoRows(err) {
			return nil
		} else if err != nil {
			return fmt.Errorf("lock collection: %w", err)
		}
		locked, err := store.IDs(tx.Query(ctx, lockSegmentsSQL, at.tenant, names))
		if err != nil {
			return fmt.Errorf("lock segments: %w", err)
		}
		if len(locked) != len(names) {
			return nil
		}
		b := &pgx.Batch{}
		if built.Documents > 0 {
			queueSegment(b, at, built)
		}
		b.Queue(markMergedSQL, at.tenant, names)
		b.Queue(dropEntriesSQL, at.tenant, dropped)
		if err := tx.SendBatch(ctx, b).Close(); err != nil {
			return fmt.Errorf("replace segments: %w", err)
		}
		done = true
		return nil
	})
	return done, err
}
