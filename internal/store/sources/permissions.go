package sources

// This file is what workers read and write of permissions, other than those of items.

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/source"
	"github.com/sluice-rag/sluice/internal/source/follow"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/internal/store/access"
	"github.com/sluice-rag/sluice/schema/wire"
)

const (
	itemLabelSQL = `SELECT label FROM access_nodes WHERE tenant_id = $1 AND source_id = $2 AND NOT is_folder AND node = $3`
	// Only items with a document; others get their label with their content.
	staleItemsSQL = `
SELECT n.node, n.given, n.label, i.document_id FROM access_nodes n
JOIN source_items i ON i.tenant_id = $1 AND i.source_id = $2 AND i.item = n.node AND i.document_id IS NOT NULL
WHERE n.tenant_id = $1 AND n.source_id = $2 AND NOT n.is_folder AND n.given <> '' AND n.given <> n.label ORDER BY n.node LIMIT $3`
	// Keeps an item whose document was uploaded again meanwhile, with whatever label.
	clearLabelSQL = `
UPDATE access_nodes SET given = '' WHERE tenant_id = $1 AND source_id = $2 AND NOT is_folder AND node = $3 AND given = $4 AND label = $5`
)

// SetPrincipals implements follow.Store.
func (s *SourceStore) SetPrincipals(ctx context.Context, in wire.SourceSync, pushed int64, principals []source.Principal) error {
	return s.withLock(ctx, in, "write the users and groups", func(ctx context.Context, tx pgx.Tx) error {
		return access.SetPrincipals(ctx, tx, in.Tenant, in.Source, in.Run, pushed, principals)
	})
}

// ItemLabel implements follow.Store.
func (s *SourceStore) ItemLabel(ctx context.Context, tenant, id uuid.UUID, item string) (label string, err error) {
	err = s.db.AsTenant(ctx, tenant, func(ctx context.Context, tx pgx.Tx) error {
		return store.Named(tx.QueryRow(ctx, itemLabelSQL, tenant, id, item).Scan(&label), "access of item", item)
	})
	return label, store.Wrap(err, "read who may see %q", item)
}

// StaleItems implements follow.Store.
func (s *SourceStore) StaleItems(ctx context.Context, tenant, id uuid.UUID, limit int) (out []follow.RelabelledItem, err error) {
	err = s.db.AsTenant(ctx, tenant, func(ctx context.Context, tx pgx.Tx) (err error) {
		out, err = staleItems(ctx, tx, tenant, id, limit)
		return err
	})
	return out, store.Wrap(err, "list items whose permissions changed")
}

func staleItems(ctx context.Context, tx pgx.Tx, tenant, id uuid.UUID, limit int) ([]follow.RelabelledItem, error) {
	rows, err := tx.Query(ctx, staleItemsSQL, tenant, id, limit)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[follow.RelabelledItem])
}

// MarkDocumentDeleted implements follow.Store.
func (s *SourceStore) MarkDocumentDeleted(ctx context.Context, tenant, id uuid.UUID, item follow.RelabelledItem) error {
	err := s.db.AsTenant(ctx, tenant, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, clearLabelSQL, tenant, id, item.Item, item.Given, item.Label)
		return err
	})
	return store.Wrap(err, "note that the document of %q is gone", item.Item)
}
