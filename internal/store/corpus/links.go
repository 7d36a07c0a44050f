package corpus

// This file writes where the sections of versions link to. Which documents the
// links mean is found out when sections are clustered: they may come later.

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/cluster"
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
	relinkedSQL       = `UPDATE versions SET curated = false, relinked_at = clock_timestamp() WHERE tenant_id = $1 AND id = $2 AND state = 'ready'`
	purgeLinksSQL     = `DELETE FROM links WHERE tenant_id = $1 AND version_id = ANY ($2)`

	maxGivenLinks = 1000 // of a version's metadata
	maxTarget     = 2048 // bytes
)

// linkRows are links to be written.
type linkRows struct {
	versions []uuid.UUID
	sections []int
	targets  []string
	keys     []int64
}

func (l *linkRows) add(version uuid.UUID, section int, base, target string) {
	if target == "" || len(target) > maxTarget {
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

// addVersion adds the links of a version's sections, and those that its metadata names: external ids or URLs, under
// "links".
func (l *linkRows) addVersion(t *target) {
	for i, targets := range t.links {
		for _, target := range targets {
			l.add(t.Version, t.Text.Sections[i].Ordinal, t.event.ExternalID, target)
		}
	}
	l.addValue(t.Version, t.givenLinks)
}

// addGiven adds what the versions' metadata names.
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

// addValue adds what a version's metadata has under "links".
func (l *linkRows) addValue(version uuid.UUID, value []byte) {
	for i, target := range givenLinks(value) {
		if i < maxGivenLinks {
			l.add(version, cluster.OfDocument, "", text.Clean(target))
		}
	}
}

// givenLinks reads a string or a list; what is not a string in it is left out.
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

// RelinkGiven writes anew what the metadata of a live version names, and leaves
// its sections to curation if that is something else than before.
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
