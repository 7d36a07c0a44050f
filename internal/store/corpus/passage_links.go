package corpus

// This file keeps what passages are linked to inside their document: a row for
// a section's passages, which only whoever asks for links reads.

import (
	"encoding/binary"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/ingest/batch"
	"github.com/sluice-rag/sluice/internal/lexical"
	"github.com/sluice-rag/sluice/internal/retrieval"
)

const (
	insertPassageLinksSQL = `
INSERT INTO passage_links (tenant_id, generation, version_id, section, links)
SELECT $1, $2, unnest($3::uuid[]), unnest($4::int[]), unnest($5::bytea[])`
	removePassageLinksSQL = `DELETE FROM passage_links WHERE tenant_id = $1 AND version_id = ANY ($2) AND generation = $3`
	purgePassageLinksSQL  = `DELETE FROM passage_links WHERE tenant_id = $1 AND version_id = ANY ($2)`
)

// passageLinkRows are the links of sections by column.
type passageLinkRows struct {
	versions []uuid.UUID
	sections []int
	links    [][]byte
}

// add adds the rows of a version; links are of its passages in order. A pack
// that links nothing gives none.
func (r *passageLinkRows) add(version uuid.UUID, sections []batch.Section, links batch.Links) {
	if links == nil {
		return
	}
	var places [][2]int // section and passage of each
	for _, s := range sections {
		for _, p := range s.Passages {
			places = append(places, [2]int{s.Ordinal, p.Ordinal})
		}
	}
	at := 0
	for _, s := range sections {
		var data []byte
		for range s.Passages {
			data = binary.AppendUvarint(data, uint64(len(links[at])))
			for _, l := range links[at] {
				to := places[l.To]
				data = binary.AppendUvarint(binary.AppendUvarint(data, uint64(to[0])), uint64(to[1]))
				data = batch.AppendWeight(data, l.Weight)
			}
			at++
		}
		r.versions, r.sections, r.links = append(r.versions, version), append(r.sections, s.Ordinal), append(r.links, data)
	}
}

// queue adds the statement that writes the rows, if there are any.
func (r *passageLinkRows) queue(b *pgx.Batch, at generationKey) {
	if len(r.versions) > 0 {
		b.Queue(insertPassageLinksSQL, at.tenant, at.generation, r.versions, r.sections, r.links)
	}
}

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
