package documents

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema"
)

const (
	maxCompare = 10_000

	// current is the version that an upload would be compared with: the newest one that is live or
	// may become so. newest is the newest of all. Each document is looked up by its external id,
	// whatever the statistics say.
	compareSQL = `
SELECT k.external_id, coalesce(current.fingerprint = k.fingerprint, false),
       coalesce(newest.state = 'failed' AND newest.fingerprint = k.fingerprint, false)
FROM unnest($3::text[], $4::text[]) WITH ORDINALITY AS k (external_id, fingerprint, n)
LEFT JOIN LATERAL (
    SELECT * FROM documents WHERE tenant_id = $1 AND collection_id = $2 AND external_id = k.external_id AND (deleted_at IS NULL) IS TRUE LIMIT 1
) d ON true
LEFT JOIN LATERAL (SELECT * FROM versions WHERE tenant_id = $1 AND id = d.last_version_id LIMIT 1) newest ON true
LEFT JOIN LATERAL (
    SELECT v.fingerprint FROM versions v
    WHERE v.tenant_id = d.tenant_id AND v.document_id = d.id AND v.state IN ('received', 'queued', 'processing', 'ready')
    ORDER BY v.number DESC LIMIT 1
) AS current ON true
ORDER BY k.n`
)

// Compare reports which of a sender's documents it would have to upload. Each is compared only with
// the same document's current version, so the result does not reveal whether someone else stored
// the same bytes. One call takes at most 10,000 documents.
func (s *DocumentStore) Compare(ctx context.Context, p schema.Principal, collection uuid.UUID, known []schema.Known) (schema.Comparison, error) {
	var out schema.Comparison
	if len(known) > maxCompare {
		return out, schema.Invalid("documents", "has %d entries; at most %d are allowed", len(known), maxCompare)
	}
	ids, fingerprints := make([]string, len(known)), make([]string, len(known))
	for i, k := range known {
		if err := schema.CheckLength(fmt.Sprintf("documents[%d].external_id", i), k.ExternalID, 1, schema.MaxExternalID); err != nil {
			return out, err
		}
		if _, err := schema.DecodeSHA256(fmt.Sprintf("documents[%d].fingerprint", i), k.Fingerprint); err != nil {
			return out, err
		}
		ids[i], fingerprints[i] = k.ExternalID, k.Fingerprint
	}
	err := s.db.AsTenant(ctx, p.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		out = schema.Comparison{}
		if err := store.CollectionExists(ctx, tx, p.Tenant, collection); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, compareSQL, p.Tenant, collection, ids, fingerprints)
		if err != nil {
			return err
		}
		var id string
		var same, failed bool
		_, err = pgx.ForEachRow(rows, []any{&id, &same, &failed}, func() error {
			switch {
			case failed:
				out.Failed = append(out.Failed, id)
			case same:
				out.Unchanged = append(out.Unchanged, id)
			default:
				out.Changed = append(out.Changed, id)
			}
			return nil
		})
		return err
	})
	return out, store.Wrap(err, "compare documents")
}
