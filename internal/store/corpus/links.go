package corpus

// This file writes the links of versions: those of sections to documents, and those of passages to
// others of their document. The targets of section links are resolved when the sections are
// clustered, because a target may be uploaded later. The links of a section's passages are one row,
// which only searches that follow links read.

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/cluster"
	"github.com/sluice-rag/sluice/internal/ingest/batch"
	"github.com/sluice-rag/sluice/internal/lexical"
	"github.com/sluice-rag/sluice/internal/retrieval"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/internal/text"
)

const (
	insertLinksSQL = `
INSERT INTO links (tenant_id, collection_id, version_id, section, target, key)
SELECT $1, $2, l.* FROM unnest($3::uuid[], $4::int[], $5::text[], $6::bigint[]) AS l(version_id, section, target, key)
ON CONFLICT DO NOTHING`
	givenLinksSQL = `
SELECT id, metadata -> 'links' FROM versions WHERE tenant_id = $1 AND id = ANY ($2) AND metadata ? 'links'`
	dropGivenLinksSQL = `DELETE FROM links WHERE tenant_id = $1 AND version_id = ANY ($2) AND section = -1 RETURNING target`
	relinkedSQL       = `
UPDATE versions SET curated = false, relinked_at = clock_timestamp() WHERE tenant_id = $1 AND id = $2 AND (state = 'ready') IS TRUE`
	purgeLinksSQL = `DELETE FROM links WHERE tenant_id = $1 AND version_id = ANY ($2)`

	maxGivenLinks = 1000 // of a version's metadata
)

// linkRows are links to be written.
type linkRows struct {
	versions []uuid.UUID
	sections []int
	targets  []string
	keys     []int64
}

func (l *linkRows) add(version uuid.UUID, section int, base, target string) {
	if target == "" || len(target) > batch.MaxTarget {
		return
	}
	l.versions, l.sections = append(l.versions, version), append(l.sections, section)
	l.targets, l.keys = append(l.targets, target), append(l.keys, cluster.Key(base, target))
}

func (l *linkRows) write(ctx context.Context, tx pgx.Tx, tenant, collection uuid.UUID) error {
	if len(l.targets) == 0 {
		return nil
	}
	b := &pgx.Batch{}
	l.queue(b, tenant, collection)
	return store.Wrap(tx.SendBatch(ctx, b).Close(), "write links")
}

// queue adds the statement that writes the rows, if there are any.
func (l *linkRows) queue(b *pgx.Batch, tenant, collection uuid.UUID) {
	if len(l.targets) > 0 {
		b.Queue(insertLinksSQL, tenant, collection, l.versions, l.sections, l.targets, l.keys)
	}
}

// addVersion adds the links of a version's sections, and the external ids or URLs that its metadata
// lists under "links".
func (l *linkRows) addVersion(t *target) {
	for i, targets := range t.links {
		for _, target := range targets {
			l.add(t.Version, t.Text.Sections[i].Ordinal, t.event.ExternalID, target)
		}
	}
	l.addValue(t.Version, t.givenLinks)
}

// addGiven adds the links that the versions' metadata lists.
func (l *linkRows) addGiven(ctx context.Context, tx pgx.Tx, tenant uuid.UUID, versions []uuid.UUID) error {
	rows, err := tx.Query(ctx, givenLinksSQL, tenant, versions)
	if err != nil {
		return fmt.Errorf("read links of metadata: %w", err)
	}
	var version uuid.UUID
	var value []byte
	_, err = pgx.ForEachRow(rows, []any{&version, &value}, func() error {
		l.addValue(version, value)
		return nil
	})
	return store.Wrap(err, "read links of metadata")
}

// addValue adds the links that a version's metadata has under "links".
func (l *linkRows) addValue(version uuid.UUID, value []byte) {
	for i, target := range givenLinks(value) {
		if i < maxGivenLinks {
			l.add(version, cluster.OfDocument, "", text.Clean(target))
		}
	}
}

// givenLinks parses a string or a list; elements that are not strings are left out.
func givenLinks(value []byte) []string {
	var one string
	if json.Unmarshal(value, &one) == nil {
		return []string{one}
	}
	var list []any
	if json.Unmarshal(value, &list) != nil {
		return nil
	}
	var out []string
	for _, item := range list {
		if s, ok := item.(string); ok {
			out = append(out, s)
		}
	}
	return out
}

// RelinkGiven replaces the links that the metadata of a live version lists, and leaves the version
// to curation if they changed.
func RelinkGiven(ctx context.Context, tx pgx.Tx, tenant, collection, version uuid.UUID) error {
	list := []uuid.UUID{version}
	rows, err := tx.Query(ctx, dropGivenLinksSQL, tenant, list)
	if err != nil {
		return fmt.Errorf("drop links of metadata: %w", err)
	}
	before, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return fmt.Errorf("drop links of metadata: %w", err)
	}
	var now linkRows
	if err := now.addGiven(ctx, tx, tenant, list); err != nil {
		return err
	}
	if err := now.write(ctx, tx, tenant, collection); err != nil {
		return err
	}
	after := slices.Clone(now.targets)
	slices.Sort(after)
	slices.Sort(before)
	if slices.Equal(before, slices.Compact(after)) {
		return nil
	}
	if _, err := tx.Exec(ctx, relinkedSQL, tenant, version); err != nil {
		return fmt.Errorf("leave its links to curation: %w", err)
	}
	return nil
}

const (
	insertPassageLinksSQL = `
INSERT INTO passage_links (tenant_id, generation, version_id, section, links)
SELECT $1, $2, unnest($3::uuid[]), unnest($4::int[]), unnest($5::bytea[])`
	removePassageLinksSQL = `DELETE FROM passage_links WHERE tenant_id = $1 AND version_id = ANY ($2) AND generation = $3`
	purgePassageLinksSQL  = `DELETE FROM passage_links WHERE tenant_id = $1 AND version_id = ANY ($2)`
)

// passageLinkRows are the passage links of sections, one slice per column.
type passageLinkRows struct {
	versions []uuid.UUID
	sections []int
	links    [][]byte
}

// add adds the rows of a version; links has an element for each of its passages, in order. It is
// nil when the model pack makes no links, and no rows are added then.
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

// LinksOf decodes the links of one passage from those of its section, at most k of them.
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
