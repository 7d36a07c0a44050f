package corpus

// This file writes postings of stored versions: those that an older build ingested, those of a
// generation that is being built, and those whose labels changed.

import (
	"context"
	"fmt"
	"runtime"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/sluice-rag/sluice/internal/ingest/batch"
	"github.com/sluice-rag/sluice/internal/lexical"
	"github.com/sluice-rag/sluice/internal/lexical/segment"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema"
)

const (
	liveRecipeSQL = `
SELECT generation, language FROM collections WHERE tenant_id = $1 AND id = $2 AND deleted_at IS NULL`

	unindexed = `
FROM versions v
WHERE v.tenant_id = $1 AND v.collection_id = $2 AND v.state = 'ready' AND NOT EXISTS (
    SELECT FROM lexical_entries e WHERE e.tenant_id = $1 AND e.version_id = v.id AND e.generation = $3 AND NOT e.dead)`
	unindexedSQL = `SELECT v.id, v.bytes` + unindexed + ` ORDER BY v.id LIMIT $4`
	// Counts no more than the next call takes.
	countUnindexedSQL = `SELECT count(*) FROM (SELECT` + unindexed + ` LIMIT $4) AS lacking`

	// Transactions that end, relabel or index a version lock it first. Only a statement after the
	// lock can tell which versions still have no postings.
	lockReadySQL = `
SELECT id FROM versions WHERE tenant_id = $1 AND id = ANY ($2) AND (state = 'ready') IS TRUE ORDER BY id FOR NO KEY UPDATE`
	stillUnindexedSQL = `SELECT v.id` + unindexed + ` AND v.id = ANY ($4)`

	lockLivingSQL = `
SELECT FROM collections WHERE tenant_id = $1 AND id = $2 AND deleted_at IS NULL FOR SHARE`

	// The passages of one generation tile their section.
	storedTextSQL = `
SELECT s.version_id, s.ordinal, s.heading_path, s.body,
       ARRAY(SELECT p.start_byte FROM passages p WHERE p.tenant_id = $1 AND p.section_id = s.id AND p.generation = $3 ORDER BY p.ordinal),
       ARRAY(SELECT p.end_byte FROM passages p WHERE p.tenant_id = $1 AND p.section_id = s.id AND p.generation = $3 ORDER BY p.ordinal)
FROM sections s
WHERE s.tenant_id = $1 AND s.version_id = ANY ($2)
ORDER BY s.version_id, s.ordinal`

	// maxBackfillBytes bounds what one call reads, unless a single version is larger. It counts
	// bytes of uploaded files, which are about as many as of text.
	maxBackfillBytes = 8 << 20
	// The most segments that one call writes, and the fewest versions of each when it writes
	// several.
	maxBackfillSegments, minBackfillVersions = 4, 32
)

// BackfillLexical adds up to limit ready versions that have no entry in the index of a collection's
// live generation; many versions are written as several segments in parallel. It returns how many
// it wrote, and how many of the rest the next call would take. The error is schema.ErrNotFound for
// a collection that does not exist.
//
// A version's entry is written with the version, so a missing one means that the version was
// written by an older build, in another generation, or left to curation. Once a generation was
// found complete, its versions are checked again after a day, or when a transaction leaves some
// without entries (lexical_complete.go).
func (s *CorpusStore) BackfillLexical(ctx context.Context, tenant, collection uuid.UUID, limit int) (done, left int, err error) {
	var generation int
	var language string
	var versions []uuid.UUID
	var complete bool
	err = s.db.AsTenant(ctx, tenant, func(ctx context.Context, tx pgx.Tx) error {
		err := store.Named(tx.QueryRow(ctx, liveRecipeSQL, tenant, collection).Scan(&generation, &language), "collection", collection)
		if err != nil {
			return err
		}
		at := generationKey{tenant, collection, generation}
		if complete, err = knownComplete(ctx, tx, at); err != nil || complete {
			return err
		}
		versions, err = chooseUnindexed(ctx, tx, at, limit)
		return err
	})
	if err != nil {
		return 0, 0, fmt.Errorf("index collection %s: %w", collection, err)
	}
	if complete {
		return 0, 0, nil
	}
	done, left, err = s.backfill(ctx, generationKey{tenant, collection, generation}, language, versions, limit)
	if err != nil {
		return 0, 0, fmt.Errorf("index generation %d of collection %s: %w", generation, collection, err)
	}
	return done, left, nil
}

func (s *CorpusStore) backfill(ctx context.Context, at generationKey, language string, versions []uuid.UUID, limit int) (done, left int, err error) {
	analyzer, err := lexical.NewAnalyzer(language)
	if err != nil {
		return 0, 0, err
	}
	parts := partsOf(versions, runtime.GOMAXPROCS(0))
	written := make([]int, len(parts))
	group, working := errgroup.WithContext(ctx)
	for i, part := range parts {
		group.Go(func() (err error) {
			written[i], err = s.backfillSegment(working, at, analyzer, part)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return 0, 0, err
	}
	for _, n := range written {
		done += n
	}
	err = s.db.AsTenant(ctx, at.tenant, func(ctx context.Context, tx pgx.Tx) error {
		if err := holdComplete(ctx, tx, at); err != nil {
			return err
		}
		if err := tx.QueryRow(ctx, countUnindexedSQL, at.tenant, at.collection, at.generation, limit).Scan(&left); err != nil || left > 0 {
			return store.Wrap(err, "count versions without postings")
		}
		return noteComplete(ctx, tx, at)
	})
	return done, left, err
}

// partsOf divides versions into at most limit parts of about the same length.
func partsOf(versions []uuid.UUID, limit int) [][]uuid.UUID {
	if len(versions) == 0 {
		return nil
	}
	n := max(1, min(limit, maxBackfillSegments, len(versions)/minBackfillVersions))
	return slices.Collect(slices.Chunk(versions, (len(versions)+n-1)/n))
}

// backfillSegment writes one segment with those of the wanted versions that still have no postings,
// and returns their number.
func (s *CorpusStore) backfillSegment(ctx context.Context, at generationKey, analyzer *lexical.Analyzer, wanted []uuid.UUID) (done int, err error) {
	var texts map[uuid.UUID]storedText
	err = s.db.AsTenant(ctx, at.tenant, func(ctx context.Context, tx pgx.Tx) (err error) {
		texts, err = storedTexts(ctx, tx, at, wanted, analyzer)
		return err
	})
	if err != nil {
		return 0, err
	}
	err = s.db.AsTenant(ctx, at.tenant, func(ctx context.Context, tx pgx.Tx) error {
		done = 0
		if err := tx.QueryRow(ctx, lockLivingSQL, at.tenant, at.collection).Scan(); err != nil {
			return store.Named(err, "collection", at.collection)
		}
		versions, err := store.IDs(tx.Query(ctx, lockReadySQL, at.tenant, wanted))
		if err != nil {
			return fmt.Errorf("lock versions: %w", err)
		}
		versions, err = store.IDs(tx.Query(ctx, stillUnindexedSQL, at.tenant, at.collection, at.generation, versions))
		if err != nil {
			return fmt.Errorf("find versions without postings: %w", err)
		}
		if len(versions) == 0 {
			return nil
		}
		if err := indexStored(ctx, tx, at, versions, texts, analyzer); err != nil {
			return err
		}
		// Older builds stored no links. Those of metadata are added here; those inside the text
		// come with the next upload.
		var given linkRows
		if err := given.addGiven(ctx, tx, at.tenant, versions); err != nil {
			return err
		}
		if err := given.write(ctx, tx, at.tenant, at.collection); err != nil {
			return err
		}
		done = len(versions)
		return nil
	})
	return done, err
}

// chooseUnindexed selects the versions for one call.
func chooseUnindexed(ctx context.Context, tx pgx.Tx, at generationKey, limit int) ([]uuid.UUID, error) {
	rows, err := tx.Query(ctx, unindexedSQL, at.tenant, at.collection, at.generation, limit)
	if err != nil {
		return nil, fmt.Errorf("find versions without postings: %w", err)
	}
	var out []uuid.UUID
	var id uuid.UUID
	var bytes, total int64
	if _, err := pgx.ForEachRow(rows, []any{&id, &bytes}, func() error {
		if total += bytes; total <= maxBackfillBytes || len(out) == 0 {
			out = append(out, id)
		}
		return nil
	}); err != nil {
		return nil, fmt.Errorf("find versions without postings: %w", err)
	}
	return out, nil
}

// storedText is a stored version in the form that is indexed: the terms of its passages, by
// section, and the sections that contain its head.
type storedText struct {
	terms [][][]string
	head  []batch.Section
}

// storedTexts reads stored versions. The result has an entry for each.
func storedTexts(ctx context.Context, tx pgx.Tx, at generationKey, versions []uuid.UUID, analyzer *lexical.Analyzer) (map[uuid.UUID]storedText, error) {
	out := make(map[uuid.UUID]storedText, len(versions))
	for _, id := range versions {
		out[id] = storedText{}
	}
	rows, err := tx.Query(ctx, storedTextSQL, at.tenant, versions, at.generation)
	if err != nil {
		return nil, fmt.Errorf("read stored text: %w", err)
	}
	var version uuid.UUID
	var ordinal int
	var heading []string
	var body string
	var starts, ends []int
	if _, err := pgx.ForEachRow(rows, []any{&version, &ordinal, &heading, &body, &starts, &ends}, func() error {
		text := out[version]
		if ordinal != len(text.terms) {
			return fmt.Errorf("version %s: section %d comes after %d sections", version, ordinal, len(text.terms))
		}
		var passages [][]string
		for i := range starts {
			if err := checkBounds(version, ordinal, starts[i], ends[i], body); err != nil {
				return err
			}
			passages = append(passages, analyzer.Terms(body[starts[i]:ends[i]]))
		}
		text.terms = append(text.terms, passages)
		if ordinal < headSections {
			text.head = append(text.head, batch.Section{Section: schema.Section{HeadingPath: heading, Text: body}})
		}
		out[version], heading = text, nil // the next row gets a slice of its own
		return nil
	}); err != nil {
		return nil, fmt.Errorf("read stored text: %w", err)
	}
	return out, nil
}

// indexStored writes a segment with locked versions.
func indexStored(ctx context.Context, tx pgx.Tx, at generationKey, versions []uuid.UUID, texts map[uuid.UUID]storedText, analyzer *lexical.Analyzer) error {
	rows, err := tx.Query(ctx, titlesLabelsSQL, at.tenant, versions)
	if err != nil {
		return fmt.Errorf("read titles and labels: %w", err)
	}
	docs, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (segment.VersionText, error) {
		d := segment.VersionText{Entry: schema.NewID()}
		var title string
		var called documentNames
		err := r.Scan(&d.Version, &title, &d.Labels, &called.names, &called.metadata)
		d.Title, d.Sections = analyzer.Terms(title), texts[d.Version].terms
		d.Identity = identityOf(title, called, texts[d.Version].head, analyzer)
		return d, err
	})
	if err != nil {
		return fmt.Errorf("read titles and labels: %w", err)
	}
	return writeSegment(ctx, tx, at, docs)
}

const (
	// The collection's recipe must not change while a document is relabelled. As everywhere, the
	// collection is locked before the document.
	shareRecipeOfSQL = `
SELECT c.id, c.generation, c.language FROM documents d
JOIN collections c ON c.tenant_id = $1 AND c.id = d.collection_id
WHERE d.tenant_id = $1 AND d.id = $2 FOR SHARE OF c`
	endEntriesSQL = `
UPDATE lexical_entries SET dead = true WHERE tenant_id = $1 AND version_id = $2 AND NOT dead RETURNING generation`
)

// Recipe is how a collection's live generation is made.
type Recipe struct {
	collection uuid.UUID
	generation int
	language   string
}

func ShareRecipe(ctx context.Context, tx pgx.Tx, tenant, document uuid.UUID) (Recipe, error) {
	var r Recipe
	err := tx.QueryRow(ctx, shareRecipeOfSQL, tenant, document).Scan(&r.collection, &r.generation, &r.language)
	return r, store.Named(err, "document", document)
}

// markDead marks the entries of a locked version as dead, and returns their generations.
func markDead(ctx context.Context, tx pgx.Tx, tenant, version uuid.UUID) ([]int, error) {
	rows, err := tx.Query(ctx, endEntriesSQL, tenant, version)
	if err != nil {
		return nil, fmt.Errorf("end postings of version %s: %w", version, err)
	}
	generations, err := pgx.CollectRows(rows, pgx.RowTo[int])
	return generations, store.Wrap(err, "end postings of version %s", version)
}

// Relabel writes the postings of a locked version again because its labels or metadata have
// changed. Its entry in a generation that is being built is marked dead, so it is written again
// before that generation goes live.
func Relabel(ctx context.Context, tx pgx.Tx, tenant, version uuid.UUID, r Recipe) error {
	generations, err := markDead(ctx, tx, tenant, version)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(generations, func(g int) bool { return g != r.generation }) {
		if err := leaveToBackfill(ctx, tx, generationKey{tenant, r.collection, r.generation}); err != nil {
			return err
		}
	}
	if !slices.Contains(generations, r.generation) {
		return nil // curation has not indexed it yet
	}
	analyzer, err := lexical.NewAnalyzer(r.language)
	if err != nil {
		return err
	}
	at := generationKey{tenant, r.collection, r.generation}
	texts, err := storedTexts(ctx, tx, at, []uuid.UUID{version}, analyzer)
	if err != nil {
		return err
	}
	return indexStored(ctx, tx, at, []uuid.UUID{version}, texts, analyzer)
}
