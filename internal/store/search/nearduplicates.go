package search

// This file reads what near-duplicate documents are compared by.

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/minhash"
	"github.com/sluice-rag/sluice/internal/retrieval"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema"
)

// pairedSQL checks only versions that have near-duplicates for being live and visible: of the
// candidates of a search most have none.
const pairedSQL = `
SELECT l.version_id, l.document_id, l.external_id, l.title, v.metadata, v.created_at, s.signature
FROM (` + liveColumnsSQL + `unnest($4::uuid[]) AS candidate (id)
    CROSS JOIN LATERAL (
        SELECT FROM document_signatures
        WHERE tenant_id = $1 AND version_id = candidate.id AND paired IS TRUE LIMIT 1) s` + isLiveOfSQL + `) l
CROSS JOIN LATERAL (SELECT * FROM document_signatures WHERE tenant_id = $1 AND version_id = l.version_id LIMIT 1) s
CROSS JOIN LATERAL (SELECT * FROM versions WHERE tenant_id = $1 AND id = l.version_id LIMIT 1) v`

var _ retrieval.NearDuplicates = (*SearchStore)(nil)

// Paired implements retrieval.NearDuplicates.
func (s *SearchStore) Paired(ctx context.Context, p schema.Principal, collection uuid.UUID, versions []uuid.UUID) (map[uuid.UUID]retrieval.Compared, error) {
	found, err := collect(ctx, s, p, collection, pairedSQL, []any{p.Tenant, collection, store.GroupsOf(p), versions},
		func(row pgx.CollectableRow) (x pair[uuid.UUID, retrieval.Compared], err error) {
			var data []byte
			c := &x.value
			if err = row.Scan(&x.key, &c.Document, &c.ExternalID, &c.Title, &c.Metadata, &c.Uploaded, &data); err != nil {
				return x, err
			}
			c.Signature, err = minhash.Decode(data)
			return x, err
		})
	return byKey(found), store.Wrap(err, "compare documents of collection %s", collection)
}
