package corpus

// This file holds what the stages of a batch read and write: sources, bytes and artifacts. Where
// possible each call is one round trip for the whole batch.

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/ingest/batch"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema/wire"
)

const (
	sourcesSQL = `
SELECT v.id, v.attempt, coalesce(nullif(v.file_name, ''), d.external_id), v.title, v.media_type, c.language, v.sha256, a.version_id IS NOT NULL
FROM unnest($1::uuid[], $2::int[]) AS w(id, attempt)
CROSS JOIN LATERAL (SELECT * FROM versions WHERE id = w.id AND attempt = w.attempt LIMIT 1) v
CROSS JOIN LATERAL (SELECT * FROM documents WHERE id = v.document_id LIMIT 1) d
CROSS JOIN LATERAL (SELECT * FROM collections WHERE tenant_id = d.tenant_id AND id = d.collection_id LIMIT 1) c
LEFT JOIN LATERAL (
    SELECT version_id FROM artifacts WHERE version_id = w.id AND attempt = w.attempt AND stage = 'parsed' LIMIT 1) a ON true
ORDER BY v.id`
	artifactsSQL = `
SELECT a.version_id, a.data FROM unnest($1::uuid[], $2::int[]) AS w(id, attempt)
CROSS JOIN LATERAL (
    SELECT version_id, data FROM artifacts WHERE version_id = w.id AND attempt = w.attempt AND stage = $3 LIMIT 1) a`
	saveArtifactsSQL = `
INSERT INTO artifacts (tenant_id, version_id, attempt, stage, data)
SELECT $1, w.id, w.attempt, $2, w.data FROM unnest($3::uuid[], $4::int[], $5::bytea[]) AS w(id, attempt, data)
CROSS JOIN LATERAL (
    SELECT FROM versions WHERE id = w.id AND attempt = w.attempt AND (state = 'processing') IS TRUE LIMIT 1) v
ON CONFLICT DO NOTHING`
	resetParsesSQL = `
UPDATE versions SET parses = 0 WHERE id = ANY ($1) AND attempt = ($2::int[])[array_position($1::uuid[], id)] AND parses <> 0`
)

// Sources returns the data of versions that the parser needs.
func (s *CorpusStore) Sources(ctx context.Context, tenant uuid.UUID, items []wire.Attempt) ([]batch.Source, error) {
	var out []batch.Source
	ids, attempts := split(items)
	err := s.db.AskTenant(ctx, tenant, sourcesSQL, []any{ids, attempts}, func(rows pgx.Rows) (err error) {
		out, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (batch.Source, error) {
			var b batch.Source
			err := row.Scan(&b.Version, &b.Attempt.Attempt, &b.Name, &b.Title, &b.MediaType, &b.Language, &b.SHA256, &b.Parsed)
			return b, err
		})
		return err
	})
	return out, err
}

// Blobs returns the bytes with the given SHA-256 hashes, by hash. The map has no entry for a
// missing blob.
func (s *CorpusStore) Blobs(ctx context.Context, tenant uuid.UUID, hashes [][]byte) (map[string]batch.Blob, error) {
	found, err := s.bytes.ReadAll(ctx, tenant, hashes)
	if err != nil {
		return nil, err
	}
	out := make(map[string]batch.Blob, len(found))
	for hash, b := range found {
		one := batch.Blob{Data: b.Data}
		if b.Damage != nil {
			one.Problem = b.Damage.Error()
		}
		out[hash] = one
	}
	return out, nil
}

// As everywhere, the versions' rows are locked before the leases'.
const (
	deathsSQL = `
SELECT v.id, v.parses FROM (SELECT * FROM unnest($1::uuid[], $2::int[]) AS w(id, attempt) ORDER BY id) w
CROSS JOIN LATERAL (
    SELECT id, parses FROM versions
    WHERE id = w.id AND attempt = w.attempt AND (state = 'processing') IS TRUE LIMIT 1 FOR UPDATE) v`
	// Another holder that is dead, since its session's advisory lock is gone, died before it ended
	// the parse.
	beginParsesSQL = `
WITH before AS (
    SELECT l.subject_id, l.parsing FROM unnest($1::uuid[], $2::int[]) AS w(id, attempt)
    CROSS JOIN LATERAL (
        SELECT subject_id, parsing FROM leases WHERE subject_id = w.id AND attempt = w.attempt AND kind = 'version' LIMIT 1) l
), noted AS (
    UPDATE leases SET parsing = $3
    WHERE subject_id = ANY ($1) AND attempt = ($2::int[])[array_position($1::uuid[], subject_id)] AND kind = 'version'
)
SELECT subject_id FROM before
WHERE parsing <> $3 AND NOT EXISTS (
    SELECT FROM pg_locks l
    WHERE l.locktype = 'advisory' AND l.classid = $4::int::oid AND l.objsubid = 2 AND l.granted
      AND l.objid = (hashtext(parsing)::bigint & 4294967295)::oid
      AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database()))`
	// The same for versions that are taken from their holders.
	diedParsingSQL = `
UPDATE versions v SET parses = v.parses + 1 FROM leases h
WHERE v.id = ANY($1) AND h.tenant_id = v.tenant_id AND h.subject_id = v.id AND h.parsing IS NOT NULL AND NOT EXISTS (
    SELECT FROM pg_locks l
    WHERE l.locktype = 'advisory' AND l.classid = $2::int::oid AND l.objsubid = 2 AND l.granted
      AND l.objid = (hashtext(h.parsing)::bigint & 4294967295)::oid
      AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database()))`
	countDeathsSQL = `
UPDATE versions v SET parses = v.parses + 1 FROM unnest($1::uuid[], $2::int[]) AS w(id, attempt)
WHERE v.id = ANY ($3) AND v.id = w.id AND v.attempt = w.attempt AND (v.state = 'processing') IS TRUE RETURNING v.id, v.parses`
	endParsesSQL = `
UPDATE leases SET parsing = NULL
WHERE subject_id = ANY ($1) AND attempt = ($2::int[])[array_position($1::uuid[], subject_id)] AND kind = 'version' AND parsing = coalesce($3, parsing)`
)

// BeginParses records that holder begins to parse versions, and that it has ended the parses in
// over. It returns, for each version, how many times a parser died over it since it was last
// parsed, including workers that had begun to parse it and whose session is gone. Versions whose
// attempt is over are missing from the result.
func (s *CorpusStore) BeginParses(ctx context.Context, tenant uuid.UUID, items []wire.Attempt, holder string, over []wire.Attempt) (map[uuid.UUID]int, error) {
	var deaths map[uuid.UUID]int
	ids, attempts := split(items)
	overIDs, overAttempts := split(over)
	err := s.db.AsTenant(ctx, tenant, func(ctx context.Context, tx pgx.Tx) error {
		deaths = make(map[uuid.UUID]int, len(items))
		count := func(rows pgx.Rows) error {
			var id uuid.UUID
			var n int
			_, err := pgx.ForEachRow(rows, []any{&id, &n}, func() error {
				deaths[id] = n
				return nil
			})
			return err
		}
		var died []uuid.UUID
		b := &pgx.Batch{}
		b.Queue(asyncCommitSQL)
		b.Queue(deathsSQL, ids, attempts).Query(count)
		if len(over) > 0 { // the versions may be among these
			b.Queue(endParsesSQL, overIDs, overAttempts, holder)
		}
		b.Queue(beginParsesSQL, ids, attempts, holder, store.PresenceClass).Query(func(rows pgx.Rows) (err error) {
			died, err = store.IDs(rows, nil)
			return err
		})
		if err := tx.SendBatch(ctx, b).Close(); err != nil || len(died) == 0 {
			return err
		}
		rows, err := tx.Query(ctx, countDeathsSQL, ids, attempts, died)
		if err != nil {
			return err
		}
		return count(rows)
	})
	return deaths, err
}

func unlessNoRows(err error) error {
	if store.IsNoRows(err) {
		return nil
	}
	return err
}

// CountDeath counts a parser that died over a version. The worker that reports it is alive.
func (s *CorpusStore) CountDeath(ctx context.Context, tenant uuid.UUID, item wire.Attempt) error {
	return s.db.AsTenant(ctx, tenant, func(ctx context.Context, tx pgx.Tx) error {
		ids, attempts := []uuid.UUID{item.Version}, []int{item.Attempt}
		if _, err := tx.Exec(ctx, countDeathsSQL, ids, attempts, ids); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, endParsesSQL, ids, attempts, nil)
		return err
	})
}

// EndParses removes what BeginParses recorded for holder.
func (s *CorpusStore) EndParses(ctx context.Context, tenant uuid.UUID, items []wire.Attempt, holder string) error {
	ids, attempts := split(items)
	return s.db.AsTenant(ctx, tenant, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, endParsesSQL, ids, attempts, holder)
		return err
	})
}

// SaveArtifacts stores the results of a stage. The first artifact of an attempt and stage is kept,
// because later stages may have read it. A parsed artifact ends the parse, and resets the count of
// deaths.
func (s *CorpusStore) SaveArtifacts(ctx context.Context, tenant uuid.UUID, stage batch.Stage, artifacts []batch.Artifact) error {
	if len(artifacts) == 0 {
		return nil
	}
	items := make([]wire.Attempt, len(artifacts))
	data := make([][]byte, len(artifacts))
	for i, a := range artifacts {
		items[i], data[i] = a.Attempt, a.Data
	}
	ids, attempts := split(items)
	return s.db.AsTenant(ctx, tenant, func(ctx context.Context, tx pgx.Tx) error {
		b := &pgx.Batch{}
		b.Queue(asyncCommitSQL)
		if stage == batch.StageParsed {
			b.Queue(resetParsesSQL, ids, attempts)
			b.Queue(endParsesSQL, ids, attempts, nil)
		}
		b.Queue(saveArtifactsSQL, tenant, stage, ids, attempts, data)
		return tx.SendBatch(ctx, b).Close()
	})
}

// Artifacts returns the artifacts of attempts by version. The map has no entry for a missing one.
func (s *CorpusStore) Artifacts(ctx context.Context, tenant uuid.UUID, stage batch.Stage, items []wire.Attempt) (map[uuid.UUID][]byte, error) {
	var out map[uuid.UUID][]byte
	ids, attempts := split(items)
	err := s.db.AskTenant(ctx, tenant, artifactsSQL, []any{ids, attempts, stage}, func(rows pgx.Rows) error {
		defer rows.Close()
		out = make(map[uuid.UUID][]byte, len(items))
		for rows.Next() {
			var id uuid.UUID
			var data []byte
			if err := rows.Scan(&id, &data); err != nil {
				return err
			}
			out[id] = data
		}
		return rows.Err()
	})
	return out, err
}
