package documents

// This file restricts who may see the existing versions of a document when it gets labels. A right
// that new labels remove is removed at once, from every version, whatever becomes of the content
// that they came with; a right that they add takes effect when the version that has them is live.

import (
	"context"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/documents"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/internal/store/corpus"
	"github.com/sluice-rag/sluice/schema"
)

const (
	// The documents are locked; labels change only under that lock.
	labelsOfVersionsSQL = `
SELECT v.id, v.document_id, v.bytes, d.live_version_id IS NOT DISTINCT FROM v.id,
       ARRAY(SELECT l.label FROM version_labels l WHERE l.tenant_id = $1 AND l.version_id = v.id ORDER BY l.label)
FROM documents d JOIN versions v ON v.tenant_id = $1 AND v.document_id = d.id
WHERE d.tenant_id = $1 AND d.id = ANY ($2) AND v.purged_at IS NULL AND NOT v.id = ANY ($3)
ORDER BY v.id`
	dropLabelsOfSQL = `DELETE FROM version_labels WHERE tenant_id = $1 AND version_id = ANY ($2)`
)

// narrowing are the labels that a document gets.
type narrowing struct {
	document uuid.UUID
	labels   []string
}

// narrowed returns the labels that remain of a version's when its document gets others: those in
// both. If there are none, nobody sees the version until a version with either labels is live.
func narrowed(have, got []string) []string {
	if len(got) == 0 {
		return have
	}
	if len(have) == 0 {
		return got
	}
	var out []string
	for _, label := range have {
		if slices.Contains(got, label) {
			out = append(out, label)
		}
	}
	if len(out) == 0 {
		return []string{schema.NobodyLabel}
	}
	return out
}

// narrow restricts the labels of all versions of locked documents of a collection, except for the
// versions in but, and returns how many it changed.
func narrow(ctx context.Context, tx pgx.Tx, tenant, collection uuid.UUID, list []narrowing, but []uuid.UUID) (int, error) {
	got := map[uuid.UUID][]string{}
	var documents []uuid.UUID
	for _, n := range list {
		if len(n.labels) > 0 {
			got[n.document], documents = n.labels, append(documents, n.document)
		}
	}
	if len(documents) == 0 {
		return 0, nil
	}
	rows, err := tx.Query(ctx, labelsOfVersionsSQL, tenant, documents, store.EmptyNotNull(but))
	if err != nil {
		return 0, fmt.Errorf("read labels: %w", err)
	}
	var versions, live []uuid.UUID
	var sizes []int64
	labels := map[uuid.UUID][]string{}
	var version, document uuid.UUID
	var bytes int64
	var isLive bool
	var have []string
	if _, err := pgx.ForEachRow(rows, []any{&version, &document, &bytes, &isLive, &have}, func() error {
		left := narrowed(have, got[document])
		if slices.Equal(left, have) {
			return nil
		}
		versions, labels[version] = append(versions, version), slices.Clone(left)
		if isLive {
			live, sizes = append(live, version), append(sizes, bytes)
		}
		return nil
	}); err != nil {
		return 0, fmt.Errorf("read labels: %w", err)
	}
	if len(versions) == 0 {
		return 0, nil
	}
	if err := setLabelsOf(ctx, tx, tenant, versions, labels); err != nil {
		return 0, err
	}
	return len(versions), corpus.ReindexNarrowed(ctx, tx, tenant, collection, live, sizes)
}

// setLabelsOf sets the labels of versions, and updates their fingerprints, with which later uploads
// are compared.
func setLabelsOf(ctx context.Context, tx pgx.Tx, tenant uuid.UUID, versions []uuid.UUID, labels map[uuid.UUID][]string) error {
	// This locks the versions. A transaction that makes a version ready also locks it before it
	// reads its labels.
	rows, err := tx.Query(ctx, attributesSQL, tenant, versions)
	if err != nil {
		return fmt.Errorf("read versions: %w", err)
	}
	batch := &pgx.Batch{}
	batch.Queue(dropLabelsOfSQL, tenant, versions)
	var added attributeRows
	var version uuid.UUID
	var sha256 string
	var a schema.Attributes
	if _, err := pgx.ForEachRow(rows, []any{&version, &sha256, &a.Title, &a.Metadata, &a.Labels}, func() error {
		a.Labels = labels[version]
		fingerprint, err := schema.Fingerprint(sha256, a)
		if err != nil {
			return err
		}
		batch.Queue(setFingerprintSQL, tenant, version, fingerprint)
		added.add(version, documents.Attributes{Labels: labels[version]})
		a = schema.Attributes{}
		return nil
	}); err != nil {
		return fmt.Errorf("read versions: %w", err)
	}
	added.queue(batch, tenant)
	return store.Wrap(tx.SendBatch(ctx, batch).Close(), "narrow labels")
}
