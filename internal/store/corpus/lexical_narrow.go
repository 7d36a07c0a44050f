package corpus

import (
	"context"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/lexical"
	"github.com/sluice-rag/sluice/internal/store"
)

const uncurateVersionsSQL = `UPDATE versions SET curated = false WHERE tenant_id = $1 AND id = ANY ($2) AND (state = 'ready') IS TRUE`

const narrowedRecipeSQL = `SELECT id, generation, language FROM collections WHERE tenant_id = $1 AND id = $2 FOR SHARE`

// maxNarrowedBytes bounds how much text, in bytes of uploaded files, the transaction that narrows
// the labels reindexes. The rest leaves the index at once, and curation adds it again.
const maxNarrowedBytes = 1 << 20

// ReindexNarrowed removes live versions from the index, and adds the first of them, up to
// maxNarrowedBytes in total, again under their new labels.
func ReindexNarrowed(ctx context.Context, tx pgx.Tx, tenant, collection uuid.UUID, live []uuid.UUID, sizes []int64) error {
	if len(live) == 0 {
		return nil
	}
	var r Recipe
	if err := tx.QueryRow(ctx, narrowedRecipeSQL, tenant, collection).Scan(&r.collection, &r.generation, &r.language); err != nil {
		return store.Named(err, "collection", collection)
	}
	var indexed []uuid.UUID
	var total int64
	for i, version := range live {
		generations, err := markDead(ctx, tx, tenant, version)
		if err != nil {
			return err
		}
		if total += sizes[i]; total <= maxNarrowedBytes && slices.Contains(generations, r.generation) {
			indexed = append(indexed, version)
		}
	}
	at := generationKey{tenant, r.collection, r.generation}
	if len(indexed) < len(live) {
		if err := leaveToBackfill(ctx, tx, at); err != nil {
			return err
		}
	}
	if len(indexed) > 0 {
		analyzer, err := lexical.NewAnalyzer(r.language)
		if err != nil {
			return err
		}
		texts, err := storedTexts(ctx, tx, at, indexed, analyzer)
		if err != nil {
			return err
		}
		if err := indexStored(ctx, tx, at, indexed, texts, analyzer); err != nil {
			return err
		}
	}
	if _, err := tx.Exec(ctx, uncurateVersionsSQL, tenant, live); err != nil {
		return fmt.Errorf("leave them to curation: %w", err)
	}
	return nil
}
