package corpus

// This file removes what retired versions hold: their text, vectors, bytes that no other version
// has, and what answers quoted from them. Versions are hidden long before; purge only frees the
// space and erases the text.

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/store"
)

const (
	// Skips documents and versions that others have locked: purge is not urgent.
	lockPurgedDocumentsSQL = `
SELECT id FROM documents
WHERE tenant_id = $1 AND id IN (SELECT document_id FROM versions WHERE tenant_id = $1 AND id = ANY ($2)) ORDER BY id FOR UPDATE SKIP LOCKED`
	lockPurgedVersionsSQL = `
SELECT id, sha256 FROM versions
WHERE tenant_id = $1 AND id = ANY ($2) AND document_id = ANY ($3) AND state IN ('superseded', 'cancelled', 'failed') AND purged_at IS NULL
ORDER BY id FOR UPDATE SKIP LOCKED`

	// One index finds the rows; a bitmap scan would combine it with another one that has all rows
	// of the tenant, and read that to its end.
	purgePlanSQL = `SELECT set_config('enable_bitmapscan', 'off', true)`

	// Naming the shards keeps the other collections' partitions from being scanned.
	purgedShardsSQL = `
SELECT id FROM vector_shards
WHERE tenant_id = $1 AND collection_id IN (SELECT collection_id FROM versions WHERE tenant_id = $1 AND id = ANY ($2))
UNION ALL SELECT '00000000-0000-0000-0000-000000000000'`

	// An array, so that no statistics turn this into a scan of all passages.
	purgePassagesSQL = `
DELETE FROM passages WHERE tenant_id = $1
  AND section_id = ANY (ARRAY(SELECT id FROM sections WHERE tenant_id = $1 AND version_id = ANY ($2)))`
	// The bounds exclude nothing. Without statistics, Postgres estimates ten times as many rows for
	// a list of versions as for the tenant, and scans the tenant's part of the primary key; for a
	// range it estimates few.
	vectorsOfVersionsSQL = `tenant_id = $1 AND version_id = ANY ($2)
  AND version_id >= (SELECT id FROM unnest($2::uuid[]) AS w(id) ORDER BY id LIMIT 1)
  AND version_id <= (SELECT id FROM unnest($2::uuid[]) AS w(id) ORDER BY id DESC LIMIT 1)`
	purgeSectionsSQL  = `DELETE FROM sections WHERE tenant_id = $1 AND version_id = ANY ($2)`
	purgeArtifactsSQL = `DELETE FROM artifacts WHERE tenant_id = $1 AND version_id = ANY ($2)`
	// Keeps the labels of a replaced version, because answers made from it are kept.
	purgeLabelsSQL = `
DELETE FROM version_labels WHERE tenant_id = $1 AND version_id IN (
    SELECT v.id FROM versions v JOIN documents d ON d.tenant_id = $1 AND d.id = v.document_id
    WHERE v.tenant_id = $1 AND v.id = ANY ($2) AND d.deleted_at IS NOT NULL)`
	purgeMetadataSQL = `DELETE FROM version_metadata WHERE tenant_id = $1 AND version_id = ANY ($2)`
	markPurgedSQL    = `
UPDATE versions SET purged_at = now(), title = '', given_title = '', file_name = '', metadata = NULL, warnings = NULL
WHERE tenant_id = $1 AND id = ANY ($2)`

	// The questions whose answers were made from the text of a deleted document, of any version. An
	// answer made from a version that was only replaced is a record of what was said then, and is
	// kept.
	builtOnSQL = `
WITH gone AS (
    SELECT v.id FROM documents d JOIN versions v ON v.tenant_id = d.tenant_id AND v.document_id = d.id
    WHERE d.tenant_id = $1 AND d.id = ANY ($2) AND d.deleted_at IS NOT NULL)
SELECT question_id FROM citations WHERE tenant_id = $1 AND version_id IN (SELECT id FROM gone)
UNION
SELECT question_id FROM retrieval_versions WHERE tenant_id = $1 AND version_id IN (SELECT id FROM gone)
ORDER BY question_id`
	purgeAnswersSQL = `
UPDATE answers SET answer = 'Removed: a document that this answer was built on was deleted.', supported = false,
       trace = '[]', sentences = '[]', notes = '{}', choice = 0, purged_at = now()
WHERE tenant_id = $1 AND question_id = ANY ($2)`
	purgeCitationsSQL = `DELETE FROM citations WHERE tenant_id = $1 AND question_id = ANY ($2)`
	purgeRatingsSQL   = `DELETE FROM ratings WHERE tenant_id = $1 AND question_id = ANY ($2)`
	// A question that was generated from a deleted document reveals its contents.
	purgeChoiceQuestionsSQL = `
DELETE FROM plan_choice_questions WHERE tenant_id = $1 AND document_ids && ARRAY(
    SELECT id FROM documents WHERE tenant_id = $1 AND id = ANY ($2) AND deleted_at IS NOT NULL)`
	purgeRetrievalsSQL = `DELETE FROM retrievals WHERE tenant_id = $1 AND question_id = ANY ($2)`
	purgeRepliesSQL    = `UPDATE llm_calls SET reply = '{}' WHERE tenant_id = $1 AND question_id = ANY ($2)`

	// Locked first: a concurrent upload of the same bytes either comes before, and the next
	// statement sees its version, or comes after, and finds no blob.
	lockBlobsSQL = `
SELECT b.sha256 FROM (SELECT DISTINCT sha256 FROM unnest($2::bytea[]) AS w(sha256) ORDER BY 1) w
CROSS JOIN LATERAL (SELECT sha256 FROM blobs WHERE tenant_id = $1 AND sha256 = w.sha256 LIMIT 1 FOR UPDATE) b`
	// One blob at a time: for a list of hashes the planner may read all blobs of a tenant that it
	// does not know. An object is deleted after the row that names it (package blobs).
	purgeBlobSQL = `
WITH gone AS (
    DELETE FROM blobs b WHERE tenant_id = $1 AND sha256 = $2 AND NOT EXISTS (
        SELECT 1 FROM versions v WHERE v.tenant_id = b.tenant_id AND v.sha256 = b.sha256 AND v.purged_at IS NULL)
    RETURNING b.object, b.sha256
)
INSERT INTO loose_objects (tenant_id, object, sha256, due_at) SELECT $1, object, sha256, now() FROM gone WHERE object IS NOT NULL`
	purgeDocumentsSQL = `
DELETE FROM documents d WHERE tenant_id = $1 AND id = ANY ($2) AND deleted_at IS NOT NULL AND NOT EXISTS (
    SELECT 1 FROM versions v WHERE v.tenant_id = d.tenant_id AND v.document_id = d.id AND v.purged_at IS NULL)`

	// Only this kind of kept reply contains a document, with its title and metadata.
	purgeShownSQL = `
DELETE FROM idempotency i USING documents d
WHERE i.tenant_id = $1 AND i.route = 'retry-document' AND d.tenant_id = $1 AND d.id = ANY ($2) AND d.deleted_at IS NOT NULL
  AND position(convert_to(d.id::text, 'UTF8') IN i.body) > 0`
)

// PurgeOnce purges up to limit retired versions, as many expired idempotency replies, as many
// objects that no version needs, and vector partitions that no search uses any more. It returns how
// many it removed, 0 when nothing is left to do now. Several processes may purge at once, each a
// part.
func (s *CorpusStore) PurgeOnce(ctx context.Context, limit int) (int, error) {
	found, err := s.findPurgeable(ctx, limit)
	if err != nil {
		return 0, fmt.Errorf("find versions to purge: %w", err)
	}
	done := found.replies
	var problems []error
	n, err := s.dropShards(ctx)
	if done += n; err != nil {
		problems = append(problems, err)
	}
	purged := true
	for _, tenant := range found.tenants {
		n, err := s.purge(ctx, tenant, found.versions[tenant])
		if done += n; err != nil {
			purged = false
			problems = append(problems, fmt.Errorf("purge %d versions of tenant %s: %w", len(found.versions[tenant]), tenant, err))
		}
	}
	if purged && found.all {
		s.failed.record(found.check)
	}
	n, err = s.bytes.PurgeObjects(ctx, limit)
	if done += n; err != nil {
		problems = append(problems, err)
	}
	return done, errors.Join(problems...)
}

// purge removes what some versions of a tenant hold, in one transaction.
func (s *CorpusStore) purge(ctx context.Context, tenant uuid.UUID, candidates []uuid.UUID) (int, error) {
	var versions []uuid.UUID
	err := s.db.AsTenant(ctx, tenant, func(ctx context.Context, tx pgx.Tx) error {
		vectors, err := s.db.VectorTables(ctx, tx)
		if err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, purgePlanSQL); err != nil {
			return fmt.Errorf("prepare the lookups: %w", err)
		}
		if _, err := tx.Exec(ctx, lockClusteringsOfSQL, tenant, candidates); err != nil {
			return fmt.Errorf("lock clusterings: %w", err)
		}
		documents, err := store.IDs(tx.Query(ctx, lockPurgedDocumentsSQL, tenant, candidates))
		if err != nil {
			return fmt.Errorf("lock documents: %w", err)
		}
		versions = nil
		var hashes [][]byte
		rows, err := tx.Query(ctx, lockPurgedVersionsSQL, tenant, candidates, documents)
		if err != nil {
			return fmt.Errorf("lock versions: %w", err)
		}
		var version uuid.UUID
		var hash []byte
		if _, err := pgx.ForEachRow(rows, []any{&version, &hash}, func() error {
			versions, hashes = append(versions, version), append(hashes, append([]byte(nil), hash...))
			return nil
		}); err != nil {
			return fmt.Errorf("lock versions: %w", err)
		}
		if len(versions) == 0 {
			return nil // another process purges them, or did
		}
		questions, err := store.IDs(tx.Query(ctx, builtOnSQL, tenant, documents))
		if err != nil {
			return fmt.Errorf("find answers built on them: %w", err)
		}
		shards, err := store.IDs(tx.Query(ctx, purgedShardsSQL, tenant, versions))
		if err != nil {
			return fmt.Errorf("list shards: %w", err)
		}
		batch := &pgx.Batch{}
		for _, table := range vectors {
			batch.Queue(purgeVectorsSQL(table), tenant, versions, shards)
		}
		for _, sql := range []string{
			purgePassagesSQL, purgePassageLinksSQL, purgeSectionsSQL, purgeArtifactsSQL, purgeLabelsSQL, purgeMetadataSQL, purgeLinksSQL,
			purgeMembersSQL, purgeCacheSQL, purgeTextLabelsSQL, DropSignaturesSQL, DropLeasesSQL, markPurgedSQL,
		} {
			batch.Queue(sql, tenant, versions)
		}
		if len(questions) > 0 {
			for _, sql := range []string{purgeAnswersSQL, purgeCitationsSQL, purgeRatingsSQL, purgeRetrievalsSQL, purgeRepliesSQL, purgeKnownSQL} {
				batch.Queue(sql, tenant, questions)
			}
		}
		batch.Queue(lockBlobsSQL, tenant, hashes)
		for _, sha256 := range hashes {
			batch.Queue(purgeBlobSQL, tenant, sha256)
		}
		batch.Queue(purgeShownSQL, tenant, documents)
		batch.Queue(purgeChoiceQuestionsSQL, tenant, documents)
		batch.Queue(purgeDocumentsSQL, tenant, documents)
		return tx.SendBatch(ctx, batch).Close()
	})
	if err != nil {
		return 0, err
	}
	return len(versions), nil
}

func purgeVectorsSQL(table string) string {
	return `DELETE FROM ` + pgx.Identifier{table}.Sanitize() + ` WHERE ` + vectorsOfVersionsSQL + ` AND shard = ANY ($3)`
}

// purgeCacheSQL deletes cached replies that quote versions.
const purgeCacheSQL = `
DELETE FROM llm_cache WHERE tenant_id = $1 AND key = ANY (ARRAY(SELECT key FROM llm_cache_versions WHERE tenant_id = $1 AND version_id = ANY ($2)))`

// purgeTextLabelsSQL deletes the relevance labels of versions' texts for labelled questions.
const purgeTextLabelsSQL = `DELETE FROM preference_labels WHERE tenant_id = $1 AND version_id = ANY ($2)`

// purgeKnownSQL deletes what was learnt from questions.
const purgeKnownSQL = `DELETE FROM known_questions WHERE tenant_id = $1 AND question_id = ANY ($2)`

// lockClusteringsOfSQL locks the clusterings with sections of the versions in $2, for transactions
// outside of curation that remove these.
const lockClusteringsOfSQL = `
SELECT FROM clusterings WHERE tenant_id = $1 AND collection_id IN (
    SELECT collection_id FROM cluster_members WHERE tenant_id = $1 AND version_id = ANY ($2))
ORDER BY collection_id, generation FOR UPDATE`

// purgeMembersSQL removes versions' sections from their clusters.
const purgeMembersSQL = `
WITH gone AS (
    DELETE FROM cluster_members WHERE tenant_id = $1 AND version_id = ANY ($2) RETURNING collection_id, generation, cluster_id, tokens
), counted AS (
    UPDATE clusterings k SET members = k.members - g.sections
    FROM (SELECT collection_id, generation, count(*) AS sections FROM gone GROUP BY 1, 2) g
    WHERE k.tenant_id = $1 AND k.collection_id = g.collection_id AND k.generation = g.generation
), sums AS (
    SELECT cluster_id, sum(tokens) AS tokens, count(*) AS sections FROM gone GROUP BY cluster_id
), emptied AS (
    DELETE FROM clusters c USING sums s WHERE c.tenant_id = $1 AND c.id = s.cluster_id AND c.sections <= s.sections
)
UPDATE clusters c SET tokens = greatest(c.tokens - s.tokens, 1), sections = c.sections - s.sections
FROM sums s WHERE c.tenant_id = $1 AND c.id = s.cluster_id AND c.sections > s.sections`

const DropLeasesSQL = `DELETE FROM leases WHERE tenant_id = $1 AND subject_id = ANY ($2)`
