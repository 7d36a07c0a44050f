package corpus

// This file writes the MinHash signatures of versions, by which near-duplicates among the documents
// of a collection are found.

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/ingest/batch"
	"github.com/sluice-rag/sluice/internal/minhash"
)

const (
	// Two concurrent transactions that write near-duplicates would not see each other's keys, so
	// one pairs after the other has committed. The lock is taken when all but pairing and writing
	// the keys is done.
	lockSignaturesSQL   = `SELECT pg_advisory_xact_lock(hashtextextended('signatures ' || $1::text || ' ' || $2::text, 0))`
	insertSignaturesSQL = `
INSERT INTO document_signatures (tenant_id, collection_id, version_id, signature, keys, paired)
SELECT $1, $2, unnest($3::uuid[]), unnest($4::bytea[]), unnest($5::text[])::bigint[], unnest($6::bool[])`
	insertSignatureKeysSQL = `
INSERT INTO document_signature_keys (tenant_id, key, version_id) SELECT $1, unnest($2::bigint[]), unnest($3::uuid[])`
	// Pairs versions, whose own keys are not written yet, with older ones that have one of their
	// keys. It checks only one of the other versions with a key, because if there are several they
	// are paired already. A locked row is about to be deleted. The joins are written so that they
	// use the index: a plan made while there were few keys would compare all with all.
	pairSignaturesSQL = `
WITH known AS MATERIALIZED (
    SELECT n.version_id, before.version_id AS other FROM unnest($2::bigint[], $3::uuid[]) AS n(key, version_id)
    CROSS JOIN LATERAL (
        SELECT version_id FROM document_signature_keys
        WHERE tenant_id = $1 AND key = n.key LIMIT 1) AS before)
UPDATE document_signatures SET paired = true
WHERE tenant_id = $1 AND version_id = ANY (ARRAY(
    SELECT version_id FROM document_signatures
    WHERE tenant_id = $1 AND NOT paired AND version_id = ANY (ARRAY(SELECT version_id FROM known UNION SELECT other FROM known))
    ORDER BY version_id FOR UPDATE SKIP LOCKED))`

	// DropSignaturesSQL removes the signatures of the versions in $2.
	DropSignaturesSQL = `
WITH gone AS (DELETE FROM document_signatures WHERE tenant_id = $1 AND version_id = ANY ($2) RETURNING keys)
DELETE FROM document_signature_keys
WHERE tenant_id = $1 AND key = ANY (ARRAY(SELECT unnest(keys) FROM gone)) AND version_id = ANY ($2)`
)

// signatureStatements are the statements that queueSignatures queues.
var signatureStatements = []string{lockSignaturesSQL, insertSignaturesSQL, insertSignatureKeysSQL, pairSignaturesSQL, DropSignaturesSQL}

// signatureOf returns the signature of a version's text.
func signatureOf(sections []batch.Section) minhash.Signature {
	b := minhash.NewBuilder()
	for i := range sections {
		b.Add(sections[i].Text)
	}
	s, _ := b.Signature() // empty for a text that is too short
	return s
}

// heldKey is a key of a version's signature.
type heldKey struct {
	key     int64
	version uuid.UUID
}

// queueSignatures writes the signatures of versions that go live, replacing any that they have, and
// removes those of the versions that they supersede. It must be queued last.
func queueSignatures(b *pgx.Batch, tenant, collection uuid.UUID, ready []*target) {
	var versions, gone []uuid.UUID
	var signatures [][]byte
	var literals []string
	var held []heldKey
	holders := map[int64]int{} // how many of these versions have a key
	for _, t := range ready {
		if t.old != nil {
			gone = append(gone, *t.old)
		}
		own := t.signature.Keys(collection)
		versions, signatures = append(versions, t.Version), append(signatures, t.signature.Bytes())
		literal := make([]string, len(own))
		for i, k := range own {
			literal[i] = strconv.FormatInt(k, 10)
			held = append(held, heldKey{k, t.Version})
			holders[k]++
		}
		literals = append(literals, arrayLiteral(literal))
	}
	paired := make([]bool, len(ready))
	for i, t := range ready {
		paired[i] = slices.ContainsFunc(t.signature.Keys(collection), func(k int64) bool { return holders[k] > 1 })
	}
	b.Queue(DropSignaturesSQL, tenant, append(gone, versions...))
	b.Queue(insertSignaturesSQL, tenant, collection, versions, signatures, literals, paired)
	if len(held) > 0 {
		// In the index's order, neighbours are found on a page that was just used.
		slices.SortFunc(held, func(a, b heldKey) int { return cmp.Compare(a.key, b.key) })
		keys, of := make([]int64, len(held)), make([]uuid.UUID, len(held))
		for i, h := range held {
			keys[i], of[i] = h.key, h.version
		}
		b.Queue(lockSignaturesSQL, tenant, collection)
		b.Queue(pairSignaturesSQL, tenant, keys, of)
		b.Queue(insertSignatureKeysSQL, tenant, keys, of)
	}
}
