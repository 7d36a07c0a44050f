package search

// This file reads the links of passages.

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/lexical"
	"github.com/sluice-rag/sluice/internal/retrieval"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/internal/store/corpus"
	"github.com/sluice-rag/sluice/schema"
)

var passageLinksSQL = `
WITH live AS MATERIALIZED (` + liveSQL + `)
SELECT a.version_id, a.section, a.passage, k.links
FROM unnest($4::uuid[], $5::int[], $6::int[]) AS a(version_id, section, passage)
JOIN live l ON l.version_id = a.version_id
CROSS JOIN LATERAL (
    SELECT links FROM passage_links
    WHERE tenant_id = $1 AND version_id = a.version_id AND generation = $7 AND section = a.section OFFSET 0) k`

// Links implements retrieval.Links. A version that was written with a model pack that makes no
// links has none until its collection is rebuilt.
func (s *SearchStore) Links(ctx context.Context, p schema.Principal, collection uuid.UUID, at retrieval.At, passages []lexical.Ref, k int) (map[lexical.Ref][]retrieval.Link, error) {
	found, err := collectOf(ctx, s, p, collection, at, passageLinksSQL, columns(passages).args(p, collection, at.Generation),
		func(row pgx.CollectableRow) (x pair[lexical.Ref, []retrieval.Link], err error) {
			var data []byte
			if err := row.Scan(&x.key.Version, &x.key.Section, &x.key.Passage, &data); err != nil {
				return x, err
			}
			x.value, err = corpus.LinksOf(data, x.key.Version, x.key.Passage, k)
			return x, err
		})
	return byKey(found), store.Wrap(err, "read what passages of collection %s are linked to", collection)
}

var _ retrieval.Links = (*SearchStore)(nil)
