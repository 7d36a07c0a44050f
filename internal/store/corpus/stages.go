package corpus

// This file holds what the stages of a batch read and leave: sources, bytes and
// artifacts. Each call is one round trip for the whole batch where it can be.

import (
	"bytes"
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/ingest/batch"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// Sources returns what is known of versions that are to be parsed.
func (s *CorpusStore) Sources(ctx context.Context, tenant uuid.UUID, items []wire.Attempt) ([]batch.Source, error) {
	var out []batch.Source
	ids, attempts := split(items)
	err := s.db.AsTenant(ctx, tenant, func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, `
			SELECT v.id, v.attempt, coalesce(nullif(v.file_name, ''), d.external_id), v.title, v.media_type, c.language, v.sha256, a.version_id IS NOT NULL
			FROM unnest($1::uuid[], $2::int[]) AS w(id, attempt)
			JOIN versions v ON v.id = ANY ($1) AND v.id = w.id AND v.attempt = w.attempt
			JOIN documents d ON d.id = v.document_id
			JOIN collections c ON c.tenant_id = d.tenant_id AND c.id = d.collection_id
			LEFT JOIN artifacts a ON a.version_id = v.id AND a.attempt = v.attempt AND a.stage = 'parsed'
			ORDER BY v.id`, ids, attempts)
		if err != nil {
			return err
		}
		out, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (batch.Source, error) {
			var b batch.Source
			err := row.Scan(&b.Version, &b.Attempt.Attempt, &b.Name, &b.Title, &b.MediaType, &b.Language, &b.SHA256, &b.Parsed)
			return b, err
		})
		return err
	})
	return out, err
}

// Blobs returns the bytes behind SHA-256 hashes, by hash. One that is missing is
// not in the map.
func (s *CorpusStore) Blobs(ctx context.Context, tenant uuid.UUID, hashes [][]byte) (map[string][]byte, error) {
	var out map[string][]byte
	err := s.db.AsTenant(ctx, tenant, func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, `
			SELECT b.sha256, b.bytes, coalesce(c.data, '') FROM blobs b
			LEFT JOIN blob_chunks c ON c.tenant_id = b.tenant_id AND c.sha256 = b.sha256
			WHERE b.sha256 = ANY($1) ORDER BY b.sha256, c.ordinal`, hashes)
		if err != nil {
			return err
		}
		parts := map[string]*bytes.Buffer{}
		var hash, data []byte
		var size int64
		_, err = pgx.ForEachRow(rows, []any{&hash, &size, &data}, func() error {
			b := parts[string(hash)]
			if b == nil {
				b = bytes.NewBuffer(make([]byte, 0, size))
				parts[string(hash)] = b
			}
			b.Write(data)
			return nil
		})
		if err != nil {
			return err
		}
		out = make(map[string][]byte, len(parts))
		for h, b := range parts {
			out[h] = b.Bytes()
		}
		return nil
	})
	return out, err
}

// The versions' rows are locked before the leases', as everywhere.
const (
	deathsSQL = `SELECT parses FROM versions WHERE id = $1 AND attempt = $2 AND state = 'processing' FOR UPDATE`
	// A holder that is somebody else, and dead, died before it noted an end: its
	// session's advisory lock is gone.
	beginParseSQL = `
WITH before AS (
    SELECT parsing FROM leases WHERE subject_id = $1 AND attempt = $2 AND kind = 'version'
), noted AS (
    UPDATE leases SET parsing = $3 WHERE subject_id = $1 AND attempt = $2 AND kind = 'version'
)
SELECT coalesce(parsing <> $3, false) AND NOT EXISTS (
    SELECT FROM pg_locks l
    WHERE l.locktype = 'advisory' AND l.classid = $4::int::oid AND l.objsubid = 2 AND l.granted
      AND l.objid = (hashtext(parsing)::bigint & 4294967295)::oid
      AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database()))
FROM before`
	// The same of versions that are taken from whoever has them.
	diedParsingSQL = `
UPDATE versions v SET parses = v.parses + 1 FROM leases h
WHERE v.id = ANY($1) AND h.tenant_id = v.tenant_id AND h.subject_id = v.id AND h.parsing IS NOT NULL AND NOT EXISTS (
    SELECT FROM pg_locks l
    WHERE l.locktype = 'advisory' AND l.classid = $2::int::oid AND l.objsubid = 2 AND l.granted
      AND l.objid = (hashtext(h.parsing)::bigint & 4294967295)::oid
      AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database()))`
	countDeathSQL = `
UPDATE versions SET parses = parses + 1 WHERE id = $1 AND attempt = $2 AND state = 'processing' RETURNING parses`
	endParsesSQL = `
UPDATE leases l SET parsing = NULL FROM unnest($1::uuid[], $2::int[]) AS w(id, attempt)
WHERE l.subject_id = w.id AND l.attempt = w.attempt AND l.kind = 'version' AND l.parsing = coalesce($3, l.parsing)`
)

// BeginParse notes that holder begins to parse a version, and that its parses of
// others are over. It returns how often a parser died over the version since it
// was last parsed, or a worker that had noted the same and whose session is gone.
// ErrLostLease: the attempt is over.
func (s *CorpusStore) BeginParse(ctx context.Context, tenant uuid.UUID, item wire.Attempt, holder string, over []wire.Attempt) (int, error) {
	var deaths int
	ids, attempts := split(over)
	err := s.db.AsTenant(ctx, tenant, func(ctx context.Context, tx pgx.Tx) error {
		var found, died bool
		b := &pgx.Batch{}
		// A note that a crash of the database itself loses costs one more
		// parse; waiting for the disk per document would cost more.
		b.Queue(`SET LOCAL synchronous_commit = off`)
		b.Queue(deathsSQL, item.Version, item.Attempt).QueryRow(func(row pgx.Row) error {
			err := row.Scan(&deaths)
			found = err == nil
			return unlessNoRows(err)
		})
		if len(over) > 0 { // the version may be among them
			b.Queue(endParsesSQL, ids, attempts, holder)
		}
		b.Queue(beginParseSQL, item.Version, item.Attempt, holder, store.PresenceClass).QueryRow(func(row pgx.Row) error {
			return unlessNoRows(row.Scan(&died))
		})
		if err := tx.SendBatch(ctx, b).Close(); err != nil {
			return err
		}
		if !found {
			return fmt.Errorf("begin to parse version %s: %w", item.Version, schema.ErrLostLease)
		}
		if !died {
			return nil
		}
		return tx.QueryRow(ctx, countDeathSQL, item.Version, item.Attempt).Scan(&deaths)
	})
	return deaths, err
}

func unlessNoRows(err error) error {
	if store.IsNoRows(err) {
		return nil
	}
	return err
}

// CountDeath counts a parser that died over a version. The worker that tells of
// it lives.
func (s *CorpusStore) CountDeath(ctx context.Context, tenant uuid.UUID, item wire.Attempt) error {
	return s.db.AsTenant(ctx, tenant, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, countDeathSQL, item.Version, item.Attempt); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, endParsesSQL, []uuid.UUID{item.Version}, []int{item.Attempt}, nil)
		return err
	})
}

// EndParses takes back what BeginParse noted for holder.
func (s *CorpusStore) EndParses(ctx context.Context, tenant uuid.UUID, items []wire.Attempt, holder string) error {
	ids, attempts := split(items)
	return s.db.AsTenant(ctx, tenant, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, endParsesSQL, ids, attempts, holder)
		return err
	})
}

// SaveArtifacts keeps what a stage made. The first artifact of an attempt and
// stage stays: the stages behind it may have read it. A parsed artifact ends the
// parse and the count of deaths.
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
		if stage == batch.StageParsed {
			if _, err := tx.Exec(ctx, `
				UPDATE versions v SET parses = 0
				FROM unnest($1::uuid[], $2::int[]) AS w(id, attempt)
				WHERE v.id = ANY ($1) AND v.id = w.id AND v.attempt = w.attempt`, ids, attempts); err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, endParsesSQL, ids, attempts, nil); err != nil {
				return err
			}
		}
		_, err := tx.Exec(ctx, `
			INSERT INTO artifacts (tenant_id, version_id, attempt, stage, data)
			SELECT $1, w.id, w.attempt, $2, w.data
			FROM unnest($3::uuid[], $4::int[], $5::bytea[]) AS w(id, attempt, data)
			JOIN versions v ON v.id = ANY ($3) AND v.id = w.id AND v.attempt = w.attempt AND (v.state = 'processing') IS TRUE
			ON CONFLICT DO NOTHING`, tenant, stage, ids, attempts, data)
		return err
	})
}

// Artifacts returns the artifacts of attempts by version; one that is missing is
// not in the map.
func (s *CorpusStore) Artifacts(ctx context.Context, tenant uuid.UUID, stage batch.Stage, items []wire.Attempt) (map[uuid.UUID][]byte, error) {
	var out map[uuid.UUID][]byte
	ids, attempts := split(items)
	err := s.db.AsTenant(ctx, tenant, func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, `
			SELECT a.version_id, a.data FROM unnest($1::uuid[], $2::int[]) AS w(id, attempt)
			JOIN artifacts a ON a.version_id = w.id AND a.attempt = w.attempt
			WHERE a.stage = $3`, ids, attempts, stage)
		if err != nil {
			return err
		}
		out = make(map[uuid.UUID][]byte, len(items))
		for rows.Next() {
			var id uuid.UUID
			var data []byte
			if err := rows.Scan(&id, &data); err != nil {
				rows.Close()
				return err
			}
			out[id] = data
		}
		return rows.Err()
	})
	return out, err
}
