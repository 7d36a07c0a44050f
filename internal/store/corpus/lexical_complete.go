package corpus

// This file keeps which generation's index was found complete, so that curation need not search all
// of a collection's versions for missing entries each time.

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/store"
)

const (
	knownCompleteSQL = `
SELECT EXISTS (SELECT FROM lexical_complete
    WHERE tenant_id = $1 AND collection_id = $2 AND generation = $3 AND checked_at > now() - interval '1 day')`
	// The row is locked before versions are checked, and by transactions that remove entries, so
	// that one of the two sees the effect of the other.
	holdCompleteSQL = `
INSERT INTO lexical_complete (tenant_id, collection_id, generation) VALUES ($1, $2, $3)
ON CONFLICT (collection_id, tenant_id) DO UPDATE SET generation = excluded.generation, checked_at = NULL`
	noteCompleteSQL = `UPDATE lexical_complete SET checked_at = now() WHERE tenant_id = $1 AND collection_id = $2 AND generation = $3`
)

// knownComplete reports whether the generation was found complete within the last day.
func knownComplete(ctx context.Context, tx pgx.Tx, at generationKey) (complete bool, err error) {
	err = tx.QueryRow(ctx, knownCompleteSQL, at.tenant, at.collection, at.generation).Scan(&complete)
	return complete, store.Wrap(err, "read whether the index is complete")
}

// holdComplete clears the record that the index is complete, and locks it until the transaction
// ends: transactions that remove entries wait.
func holdComplete(ctx context.Context, tx pgx.Tx, at generationKey) error {
	_, err := tx.Exec(ctx, holdCompleteSQL, at.tenant, at.collection, at.generation)
	return store.Wrap(err, "forget that the index is complete")
}

// noteComplete records that the generation's index is complete.
func noteComplete(ctx context.Context, tx pgx.Tx, at generationKey) error {
	_, err := tx.Exec(ctx, noteCompleteSQL, at.tenant, at.collection, at.generation)
	return store.Wrap(err, "note that the index is complete")
}

// leaveToBackfill has curation search for versions without entries, because the transaction removes
// entries that it does not write again.
func leaveToBackfill(ctx context.Context, tx pgx.Tx, at generationKey) error {
	return holdComplete(ctx, tx, at)
}
