package corpus

// This file keeps which generation's index was seen to lack no version, so that
// curation need not look for gaps among all of a collection's versions each time.

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/store"
)

const (
	knownCompleteSQL = `
SELECT EXISTS (SELECT FROM lexical_complete
    WHERE tenant_id = $1 AND collection_id = $2 AND generation = $3 AND checked_at > now() - interval '1 day')`
	// The row is locked before versions are looked at, and by whoever takes entries
	// away: one of the two sees what the other did.
	holdCompleteSQL = `
INSERT INTO lexical_complete (tenant_id, collection_id, generation) VALUES ($1, $2, $3)
ON CONFLICT (collection_id, tenant_id) DO UPDATE SET generation = excluded.generation, checked_at = NULL`
	noteCompleteSQL = `UPDATE lexical_complete SET checked_at = now() WHERE tenant_id = $1 AND collection_id = $2 AND generation = $3`
)

// knownComplete reports whether the generation was seen to lack nothing.
func knownComplete(ctx context.Context, tx pgx.Tx, at generationKey) (complete bool, err error) {
	err = tx.QueryRow(ctx, knownCompleteSQL, at.tenant, at.collection, at.generation).Scan(&complete)
	return complete, store.Wrap(err, "read whether the index is complete")
}

// holdComplete makes everyone who takes entries away wait for the transaction, and
// forgets what was known.
func holdComplete(ctx context.Context, tx pgx.Tx, at generationKey) error {
	_, err := tx.Exec(ctx, holdCompleteSQL, at.tenant, at.collection, at.generation)
	return store.Wrap(err, "forget that the index is complete")
}

// noteComplete notes that the generation lacks nothing.
func noteComplete(ctx context.Context, tx pgx.Tx, at generationKey) error {
	_, err := tx.Exec(ctx, noteCompleteSQL, at.tenant, at.collection, at.generation)
	return store.Wrap(err, "note that the index is complete")
}

// leaveToBackfill has curation look for versions without entries: the transaction
// takes some away that it does not put back.
func leaveToBackfill(ctx context.Context, tx pgx.Tx, at generationKey) error {
	return holdComplete(ctx, tx, at)
}
