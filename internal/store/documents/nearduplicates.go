package documents

// This file finds the near-duplicates of a document: documents of its collection that
// share a key of their signatures with it, and are similar enough by them.

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/identity"
	"github.com/sluice-rag/sluice/internal/minhash"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema"
)

const (
	// maxNearDuplicates bounds those that are shown of a document, and maxOfKey the versions that
	// are compared for each key: thousands of forms may be alike.
	maxNearDuplicates, maxOfKey = 20, 200

	ownSignatureSQL = `
SELECT s.signature, v.created_at FROM documents d
JOIN versions v ON v.tenant_id = $1 AND v.id = d.live_version_id
LEFT JOIN document_signatures s ON s.tenant_id = $1 AND s.version_id = d.live_version_id
WHERE d.tenant_id = $1 AND d.id = $2`
)

// $1 tenant, $2 sees all, $3 groups, $4 document, $5 the most versions of a key. Each version is
// looked up by its id.
var nearDuplicatesSQL = `
SELECT d.id, d.external_id, v.title, v.metadata, v.created_at, s.signature
FROM (SELECT DISTINCT other.version_id
      FROM documents own
      JOIN document_signatures mine ON mine.tenant_id = $1 AND mine.version_id = own.live_version_id
      CROSS JOIN LATERAL unnest(mine.keys) AS k(key)
      CROSS JOIN LATERAL (SELECT version_id FROM document_signature_keys WHERE tenant_id = $1 AND key = k.key LIMIT $5) AS other
      WHERE own.tenant_id = $1 AND own.id = $4) AS found
CROSS JOIN LATERAL (SELECT * FROM versions WHERE tenant_id = $1 AND id = found.version_id LIMIT 1) v
CROSS JOIN LATERAL (SELECT * FROM documents WHERE tenant_id = $1 AND id = v.document_id AND (live_version_id = v.id AND deleted_at IS NULL) IS TRUE LIMIT 1) d
CROSS JOIN LATERAL (SELECT * FROM document_signatures WHERE tenant_id = $1 AND version_id = v.id LIMIT 1) s
WHERE d.id <> $4 AND ` + store.OfLiving + ` AND ($2 OR ` + store.ReadableNow("v.id", "$3") + `)`

// nearDuplicates sets the near-duplicates of a document that p sees, or the reason why they are
// unknown. A document without a live version has none.
func nearDuplicates(ctx context.Context, tx pgx.Tx, p schema.Principal, d *schema.Document) error {
	var data []byte
	var uploaded time.Time
	err := tx.QueryRow(ctx, ownSignatureSQL, p.Tenant, d.ID).Scan(&data, &uploaded)
	switch {
	case store.IsNoRows(err):
		return nil
	case err != nil:
		return fmt.Errorf("read the signature of document %s: %w", d.ID, err)
	case data == nil:
		d.NotCompared = "it was ingested by a build that did not compare documents; upload it again, or have it read anew"
		return nil
	case len(data) == 0:
		d.NotCompared = fmt.Sprintf("its text has fewer than %d different sequences of three words: short texts are alike without being versions of each other", minhash.MinShingles)
		return nil
	}
	own, err := minhash.Decode(data)
	if err != nil {
		return fmt.Errorf("document %s: %w", d.ID, err)
	}
	edition := identity.EditionOf(d.Title, d.ExternalID, d.Metadata, uploaded)
	d.NearDuplicates = []schema.NearDuplicate{}
	rows, err := tx.Query(ctx, nearDuplicatesSQL, visibleTo(p, d.ID, maxOfKey)...)
	if err != nil {
		return fmt.Errorf("find the near-duplicates of document %s: %w", d.ID, err)
	}
	var n schema.NearDuplicate
	var metadata schema.Metadata
	_, err = pgx.ForEachRow(rows, []any{&n.ID, &n.ExternalID, &n.Title, &metadata, &n.UploadedAt, &data}, func() error {
		other, err := minhash.Decode(data)
		if err != nil {
			return fmt.Errorf("document %s: %w", n.ID, err)
		}
		if n.Similarity = math.Round(minhash.Similarity(own, other)*100) / 100; n.Similarity >= minhash.Threshold {
			order, by := identity.EditionOf(n.Title, n.ExternalID, metadata, n.UploadedAt).Compare(edition)
			n.Newer, n.By = order > 0, by
			d.NearDuplicates = append(d.NearDuplicates, n)
		}
		metadata = nil
		return nil
	})
	if err != nil {
		return fmt.Errorf("find the near-duplicates of document %s: %w", d.ID, err)
	}
	slices.SortFunc(d.NearDuplicates, func(a, b schema.NearDuplicate) int {
		return cmp.Or(cmp.Compare(b.Similarity, a.Similarity), b.UploadedAt.Compare(a.UploadedAt), cmp.Compare(a.ExternalID, b.ExternalID))
	})
	d.NearDuplicates = d.NearDuplicates[:min(len(d.NearDuplicates), maxNearDuplicates)]
	return nil
}
