package access

// This file stores folders and items: their access as listings and pushes report it, and the label
// that an item's document should have.

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/source"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema"
)

// maxLists bounds the number of access lists of a source. Items that need a further list are
// visible to nobody.
const maxLists = 2000

const (
	noteNodesSQL = `
WITH n AS (
    SELECT * FROM unnest($3::bool[], $4::text[], $5::text[], $6::text[]::jsonb[]) AS n (is_folder, node, folder, access)
), changed AS (
    SELECT n.is_folder, n.node FROM n LEFT JOIN access_nodes o ON o.tenant_id = $1 AND o.source_id = $2 AND o.is_folder = n.is_folder AND o.node = n.node
    WHERE o.node IS NULL OR o.folder <> n.folder OR o.access IS DISTINCT FROM n.access
), put AS (
    INSERT INTO access_nodes AS a (tenant_id, source_id, is_folder, node, folder, access, run_id)
    SELECT $1, $2, n.is_folder, n.node, n.folder, n.access, $7 FROM n
    ON CONFLICT (tenant_id, source_id, is_folder, node) DO UPDATE SET folder = excluded.folder, access = excluded.access,
        run_id = CASE WHEN $7 = '00000000-0000-0000-0000-000000000000'::uuid THEN a.run_id ELSE $7 END
)
SELECT is_folder, node FROM changed`
	// The current run may have passed a folder when it is pushed. Read under the lock of the
	// permissions, so that the listing of a run that begins later sees the push.
	currentRunSQL   = `SELECT coalesce(run_id, '00000000-0000-0000-0000-000000000000') FROM sources WHERE tenant_id = $1 AND id = $2`
	forgetNodesSQL  = `DELETE FROM access_nodes WHERE tenant_id = $1 AND source_id = $2 AND node = ANY ($3) AND is_folder = $4`
	forgetUnseenSQL = `DELETE FROM access_nodes WHERE tenant_id = $1 AND source_id = $2 AND is_folder AND run_id <> $3 RETURNING node`
	followSQL       = `INSERT INTO source_access (tenant_id, source_id) VALUES ($1, $2)`
	dropSQL         = `DELETE FROM source_access WHERE tenant_id = $1 AND source_id = $2`
)

// Follow begins to follow the permissions of a source.
func Follow(ctx context.Context, tx pgx.Tx, tenant, of uuid.UUID) error {
	if _, err := tx.Exec(ctx, followSQL, tenant, of); err != nil {
		return fmt.Errorf("follow the permissions of source %s: %w", of, err)
	}
	return raise(ctx, tx, tenant)
}

// Drop deletes the permissions of a source that is removed. Its remaining documents are visible to
// nobody.
func Drop(ctx context.Context, tx pgx.Tx, tenant, of uuid.UUID) error {
	tag, err := tx.Exec(ctx, dropSQL, tenant, of)
	if err != nil || tag.RowsAffected() == 0 {
		return store.Wrap(err, "forget the permissions of source %s", of)
	}
	return raise(ctx, tx, tenant)
}

// nodeRows are folders and items to be written, each once.
type nodeRows struct {
	at       map[string]int
	isFolder []bool
	ids      []string
	folders  []string
	access   []*string
}

func (r *nodeRows) add(isFolder bool, id, folder string, a *source.Access) error {
	var text *string
	if a != nil {
		encoded, err := json.Marshal(a)
		if err != nil {
			return fmt.Errorf("encode the access of %q: %w", id, err)
		}
		whole := string(encoded)
		text = &whole
	}
	key := fmt.Sprint(isFolder, id)
	if i, twice := r.at[key]; twice {
		r.folders[i], r.access[i] = folder, text
		return nil
	}
	if r.at == nil {
		r.at = map[string]int{}
	}
	r.at[key] = len(r.ids)
	r.isFolder, r.ids, r.folders, r.access = append(r.isFolder, isFolder), append(r.ids, id), append(r.folders, folder), append(r.access, text)
	return nil
}

// Note stores the access of folders and items that the listing of run reports, or a push where run
// is uuid.Nil: then the current run, if there is one, counts as having listed them. Note does
// nothing when the source's permissions are not followed.
func Note(ctx context.Context, tx pgx.Tx, tenant, of, run uuid.UUID, folders []source.AccessFolder, items []source.Item) error {
	if yes, err := followed(ctx, tx, tenant, of); err != nil || !yes {
		return err
	}
	var rows nodeRows
	for _, f := range folders {
		if err := rows.add(true, f.ID, f.Folder, &f.Access); err != nil {
			return err
		}
	}
	for _, item := range items {
		if err := rows.add(false, item.ID, item.Folder, item.Access); err != nil {
			return err
		}
	}
	if len(rows.ids) == 0 {
		return nil
	}
	if run == uuid.Nil {
		if err := tx.QueryRow(ctx, currentRunSQL, tenant, of).Scan(&run); err != nil {
			return fmt.Errorf("read the run of source %s: %w", of, err)
		}
	}
	found, err := tx.Query(ctx, noteNodesSQL, tenant, of, rows.isFolder, rows.ids, rows.folders, rows.access, run)
	if err != nil {
		return fmt.Errorf("note access: %w", err)
	}
	var changedFolders, changedItems []string
	var isFolder bool
	var node string
	if _, err := pgx.ForEachRow(found, []any{&isFolder, &node}, func() error {
		if isFolder {
			changedFolders = append(changedFolders, node)
		} else {
			changedItems = append(changedItems, node)
		}
		return nil
	}); err != nil {
		return fmt.Errorf("note access: %w", err)
	}
	return relabel(ctx, tx, tenant, of, changedFolders, changedItems)
}

// Forget deletes items and folders that no longer exist. Items in such a folder inherit nothing,
// and are visible to nobody.
func Forget(ctx context.Context, tx pgx.Tx, tenant, of uuid.UUID, items, folders []string) error {
	if yes, err := followed(ctx, tx, tenant, of); err != nil || !yes {
		return err
	}
	for _, x := range []struct {
		ids    []string
		folder bool
	}{{items, false}, {folders, true}} {
		if len(x.ids) == 0 {
			continue
		}
		if _, err := tx.Exec(ctx, forgetNodesSQL, tenant, of, x.ids, x.folder); err != nil {
			return fmt.Errorf("forget access: %w", err)
		}
	}
	return relabel(ctx, tx, tenant, of, folders, nil)
}

// forgetListsSQL keeps the lists that a document has or should have.
const forgetListsSQL = `
DELETE FROM access_lists l WHERE l.tenant_id = $1 AND l.source_id = $2 AND NOT EXISTS (
    SELECT FROM access_nodes n WHERE n.tenant_id = $1 AND n.source_id = $2 AND NOT n.is_folder AND (n.label = l.label OR n.given = l.label))`

// ForgetUnseen deletes folders that the complete listing of run did not report, and lists that no
// item uses any more.
func ForgetUnseen(ctx context.Context, tx pgx.Tx, tenant, of, run uuid.UUID) error {
	if yes, err := followed(ctx, tx, tenant, of); err != nil || !yes {
		return err
	}
	rows, err := tx.Query(ctx, forgetUnseenSQL, tenant, of, run)
	if err != nil {
		return fmt.Errorf("forget folders: %w", err)
	}
	removed, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return fmt.Errorf("forget folders: %w", err)
	}
	if len(removed) > 0 {
		if err := relabel(ctx, tx, tenant, of, removed, nil); err != nil {
			return err
		}
	}
	_, err = tx.Exec(ctx, forgetListsSQL, tenant, of)
	return store.Wrap(err, "forget access lists")
}

const (
	// Items in or below the given folders, and some others. Folders may contain each other: UNION
	// ends the recursion.
	affectedSQL = `
WITH RECURSIVE below AS (
    SELECT f AS node FROM unnest($3::text[]) AS f
    UNION
    SELECT c.node FROM below b JOIN access_nodes c ON c.tenant_id = $1 AND c.source_id = $2 AND c.is_folder AND c.folder = b.node
)
SELECT n.node, n.folder, n.access, n.label FROM access_nodes n
WHERE n.tenant_id = $1 AND n.source_id = $2 AND NOT n.is_folder AND (n.node = ANY ($4) OR n.folder IN (SELECT node FROM below))`
	ancestorsSQL = `
WITH RECURSIVE above AS (
    SELECT f AS node FROM unnest($3::text[]) AS f
    UNION
    SELECT c.folder FROM above a JOIN access_nodes c ON c.tenant_id = $1 AND c.source_id = $2 AND c.is_folder AND c.node = a.node
    WHERE c.folder <> ''
)
SELECT n.node, n.folder, n.access FROM access_nodes n WHERE n.tenant_id = $1 AND n.source_id = $2 AND n.is_folder AND n.node IN (SELECT node FROM above)`
	countListsSQL = `SELECT label FROM access_lists WHERE tenant_id = $1 AND source_id = $2`
	addListsSQL   = `
INSERT INTO access_lists (tenant_id, source_id, label, content, principals)
SELECT $1, $2, n.label, n.content, ARRAY(SELECT jsonb_array_elements_text(n.principals))
FROM unnest($3::text[], $4::text[]::jsonb[], $5::text[]::jsonb[]) AS n (label, content, principals)
ON CONFLICT DO NOTHING`
	setLabelsSQL = `
UPDATE access_nodes a SET label = n.label FROM unnest($3::text[], $4::text[]) AS n (node, label)
WHERE a.tenant_id = $1 AND a.source_id = $2 AND NOT a.is_folder AND a.node = n.node`
)

// node is a stored folder or item.
type node struct {
	folder string
	access *source.Access
}

// relabel recomputes the labels of items that depend on some folders, or on the items' own access.
func relabel(ctx context.Context, tx pgx.Tx, tenant, of uuid.UUID, folders, items []string) error {
	if len(folders)+len(items) == 0 {
		return nil
	}
	rows, err := tx.Query(ctx, affectedSQL, tenant, of, store.EmptyNotNull(folders), store.EmptyNotNull(items))
	if err != nil {
		return fmt.Errorf("read the access of items: %w", err)
	}
	affected, had, in := map[string]node{}, map[string]string{}, []string{}
	var id, folder, label string
	var own []byte
	if _, err := pgx.ForEachRow(rows, []any{&id, &folder, &own, &label}, func() error {
		n := node{folder: folder}
		if err := n.read(own); err != nil {
			return err
		}
		affected[id], had[id] = n, label
		if folder != "" {
			in = append(in, folder)
		}
		return nil
	}); err != nil {
		return fmt.Errorf("read the access of items: %w", err)
	}
	if len(affected) == 0 {
		return raise(ctx, tx, tenant)
	}
	slices.Sort(in)
	if rows, err = tx.Query(ctx, ancestorsSQL, tenant, of, store.EmptyNotNull(slices.Compact(in))); err != nil {
		return fmt.Errorf("read the access of folders: %w", err)
	}
	above := map[string]node{}
	if _, err := pgx.ForEachRow(rows, []any{&id, &folder, &own}, func() error {
		n := node{folder: folder}
		err := n.read(own)
		above[id] = n
		return err
	}); err != nil {
		return fmt.Errorf("read the access of folders: %w", err)
	}
	lists, want := map[string]source.AccessList{}, map[string]string{}
	for id, n := range affected {
		list, complete := n.effective(above)
		want[id] = schema.NobodyLabel
		if complete {
			want[id] = list.Label(of)
			lists[want[id]] = list
		}
	}
	if err := addLists(ctx, tx, tenant, of, lists, want); err != nil {
		return err
	}
	var nodes, labels []string
	for id, label := range want {
		if label != had[id] {
			nodes, labels = append(nodes, id), append(labels, label)
		}
	}
	if _, err := tx.Exec(ctx, setLabelsSQL, tenant, of, nodes, labels); err != nil {
		return fmt.Errorf("set labels: %w", err)
	}
	return raise(ctx, tx, tenant)
}

func (n *node) read(access []byte) error {
	if access == nil {
		return nil
	}
	n.access = new(source.Access)
	return store.Wrap(json.Unmarshal(access, n.access), "decode an access")
}

// effective returns a node's access list given its folders. complete is false when the node's own
// access, or that of a folder it inherits from, is unknown.
func (n node) effective(folders map[string]node) (_ source.AccessList, complete bool) {
	if n.access == nil {
		return nil, false
	}
	var chain []source.Access
	at := n
	for passed := map[string]bool{}; at.access.Inherits && at.folder != ""; {
		next, known := folders[at.folder]
		if !known || next.access == nil || passed[at.folder] {
			return nil, false
		}
		passed[at.folder] = true
		chain, at = append(chain, *next.access), next
	}
	return source.Effective(*n.access, chain), true
}

// addLists writes lists, up to maxLists for a source. Items whose list exceeds that become visible
// to nobody.
func addLists(ctx context.Context, tx pgx.Tx, tenant, of uuid.UUID, lists map[string]source.AccessList, want map[string]string) error {
	rows, err := tx.Query(ctx, countListsSQL, tenant, of)
	if err != nil {
		return fmt.Errorf("count access lists: %w", err)
	}
	have, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return fmt.Errorf("count access lists: %w", err)
	}
	for _, label := range have {
		delete(lists, label)
	}
	var labels, contents, principals []string
	for label, list := range lists {
		if len(have)+len(labels) >= maxLists {
			for id, wanted := range want {
				if wanted == label {
					want[id] = schema.NobodyLabel
				}
			}
			continue
		}
		content, err := json.Marshal(list)
		if err != nil {
			return fmt.Errorf("encode an access list: %w", err)
		}
		named, err := json.Marshal(store.EmptyNotNull(list.Principals()))
		if err != nil {
			return fmt.Errorf("encode an access list: %w", err)
		}
		labels, contents, principals = append(labels, label), append(contents, string(content)), append(principals, string(named))
	}
	if len(labels) == 0 {
		return nil
	}
	_, err = tx.Exec(ctx, addListsSQL, tenant, of, labels, contents, principals)
	return store.Wrap(err, "write access lists")
}

const (
	labelItemsSQL = `
UPDATE access_nodes SET given = label WHERE tenant_id = $1 AND source_id = $2 AND NOT is_folder AND node = $3 AND label = $4 RETURNING true`
)

// MayLabel returns an error unless p may give labels to a document, in the transaction that gives
// them. Where the permissions of the document's source are followed, only the source may, with the
// one label that these determine; MayLabel records that the document has it. For anyone else, and
// when the permissions determine another label by now, the error is schema.ErrConflict.
func MayLabel(ctx context.Context, tx pgx.Tx, p schema.Principal, externalID string, labels []string) error {
	if p.Writes != nil {
		return setLabels(ctx, tx, p.Tenant, *p.Writes, labels)
	}
	rest, of := strings.CutPrefix(externalID, schema.SourceDocument)
	id, err := uuid.Parse(rest[:min(len(rest), 36)])
	if !of || err != nil {
		return nil
	}
	yes, err := followed(ctx, tx, p.Tenant, id)
	if yes {
		return fmt.Errorf("labels of %q follow the permissions of its source: %w", externalID, schema.ErrConflict)
	}
	return err
}

func setLabels(ctx context.Context, tx pgx.Tx, tenant uuid.UUID, w schema.SourceWrite, labels []string) error {
	if len(labels) != 1 {
		return fmt.Errorf("a document of a source whose permissions are followed has one label, not %d", len(labels))
	}
	var given bool
	err := tx.QueryRow(ctx, labelItemsSQL, tenant, w.Source, w.Item, labels[0]).Scan(&given)
	if store.IsNoRows(err) {
		return fmt.Errorf("the permissions of %q in its source changed meanwhile: %w", w.Item, schema.ErrConflict)
	}
	return store.Wrap(err, "note who may see %q", w.Item)
}
