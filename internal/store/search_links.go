package store

// This file reads what passages are linked to.

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/ingest/batch"
	"github.com/sluice-rag/sluice/internal/lexical"
	"github.com/sluice-rag/sluice/internal/retrieval"
	"github.com/sluice-rag/sluice/schema"
)

// LinksOf reads the links of one passage of a section, k at most.
func LinksOf(data []byte, version uuid.UUID, passage, k int) ([]retrieval.Link, error) {
	broken := false
	next := func() int {
		x, n := binary.Uvarint(data)
		if n <= 0 || x > 1<<31 {
			broken = true
			return 0
		}
		data = data[n:]
		return int(x)
	}
	for at := 0; ; at++ {
		n := next()
		var out []retrieval.Link
		for range n {
			ref := lexical.Ref{Version: version, Section: next(), Passage: next()}
			if broken || len(data) < 2 {
				return nil, fmt.Errorf("the links of version %s are broken", version)
			}
			if at == passage && len(out) < k {
				out = append(out, retrieval.Link{To: ref, Weight: float64(batch.Weight(data))})
			}
			data = data[2:]
		}
		switch {
		case at == passage && !broken:
			return out, nil
		case broken || len(data) == 0:
			return nil, fmt.Errorf("the links of version %s are broken", version)
		}
	}
}

var passageLinksSQL = `
WITH live AS MATERIALIZED (` + liveSQL + `)
SELECT a.version_id, a.section, a.passage, k.links
FROM unnest($4::uuid[], $5::int[], $6::int[]) AS a(version_id, section, passage)
JOIN live l ON l.version_id = a.version_id
JOIN passage_links k ON k.tenant_id = $1 AND k.version_id = a.version_id AND k.generation = $7 AND k.section = a.section`

// Links implements retrieval.Links. A version that was written with a model pack
// that links nothing has none, until its collection is rebuilt.
func (r Reader) Links(ctx context.Context, p schema.Principal, collection uuid.UUID, generation int, passages []lexical.Ref, k int) (map[lexical.Ref][]retrieval.Link, error) {
	found, err := collectOf(ctx, r, p, collection, generation, passageLinksSQL, columns(passages).args(p, collection, generation),
		func(row pgx.CollectableRow) (x pair[lexical.Ref, []retrieval.Link], err error) {
			var data []byte
			if err := row.Scan(&x.key.Version, &x.key.Section, &x.key.Passage, &data); err != nil {
				return x, err
			}
			x.value, err = LinksOf(data, x.key.Version, x.key.Passage, k)
			return x, err
		})
	return byKey(found), Wrap(err, "read what passages of collection %s are linked to", collection)
}

var _ retrieval.Links = Reader{}
