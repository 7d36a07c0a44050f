package access

// This file stores users and groups of sources, and the permissions that are pushed.

import (
	"context"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/source"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema"
)

const (
	// Mappings are deleted with their principals. A user that became a group is another principal.
	forgetPrincipalsSQL = `
DELETE FROM access_principals a WHERE a.tenant_id = $1 AND a.source_id = $2
AND NOT EXISTS (SELECT FROM unnest($3::text[], $4::bool[]) AS n (principal, is_group) WHERE n.principal = a.principal AND n.is_group = a.is_group)`
	removePrincipalsSQL = `DELETE FROM access_principals WHERE tenant_id = $1 AND source_id = $2 AND principal = ANY ($3)`
	removeOfOtherSQL    = `
DELETE FROM access_principals a USING unnest($3::text[], $4::bool[]) AS n (principal, is_group)
WHERE a.tenant_id = $1 AND a.source_id = $2 AND a.principal = n.principal AND a.is_group <> n.is_group`
	putPrincipalsSQL = `
INSERT INTO access_principals (tenant_id, source_id, principal, is_group, name, email)
SELECT $1, $2, n.* FROM unnest($3::text[], $4::bool[], $5::text[], $6::text[]) AS n (principal, is_group, name, email)
ON CONFLICT (tenant_id, source_id, principal) DO UPDATE SET name = excluded.name, email = excluded.email`
	forgetAllMembersSQL = `DELETE FROM access_members WHERE tenant_id = $1 AND source_id = $2`
	// Of groups that are gone or reported again; a member that is gone is removed from all groups.
	forgetMembersSQL = `DELETE FROM access_members WHERE tenant_id = $1 AND source_id = $2 AND (in_group = ANY ($3) OR member = ANY ($4))`
	addMembersSQL    = `
INSERT INTO access_members (tenant_id, source_id, in_group, member) SELECT $1, $2, n.* FROM unnest($3::text[], $4::text[]) AS n (in_group, member)
ON CONFLICT DO NOTHING`
	principalsListedSQL = `
UPDATE source_access SET principals_at = now(), listed_run = $3 WHERE tenant_id = $1 AND source_id = $2 AND pushed = $4 RETURNING true`
	pushedSQL = `UPDATE source_access SET pushed = pushed + 1 WHERE tenant_id = $1 AND source_id = $2`
)

// principalRows are principals to be written.
type principalRows struct {
	ids, names, emails []string
	groups             []bool
	in, members        []string
}

func rowsOf(principals []source.Principal) (r principalRows) {
	at := map[string]bool{}
	for _, p := range principals {
		if at[p.ID] || p.ID == source.Everyone {
			continue
		}
		at[p.ID] = true
		r.ids, r.groups, r.names, r.emails = append(r.ids, p.ID), append(r.groups, p.Group), append(r.names, p.Name), append(r.emails, p.Email)
		for _, m := range p.Members {
			if p.Group {
				r.in, r.members = append(r.in, p.ID), append(r.members, m)
			}
		}
	}
	return r
}

func (r principalRows) put(ctx context.Context, tx pgx.Tx, tenant, of uuid.UUID) error {
	if _, err := tx.Exec(ctx, putPrincipalsSQL, tenant, of, r.ids, r.groups, r.names, r.emails); err != nil {
		return fmt.Errorf("write principals: %w", err)
	}
	_, err := tx.Exec(ctx, addMembersSQL, tenant, of, r.in, r.members)
	return store.Wrap(err, "write members of groups")
}

// SetPrincipals replaces the users and groups of a source by the complete set that a run listed.
// pushed is the number of pushes when the listing began; after another push the error is
// schema.ErrConflict.
func SetPrincipals(ctx context.Context, tx pgx.Tx, tenant, of, run uuid.UUID, pushed int64, principals []source.Principal) error {
	if yes, err := followed(ctx, tx, tenant, of); err != nil || !yes {
		return err
	}
	var current bool
	if err := tx.QueryRow(ctx, principalsListedSQL, tenant, of, run, pushed).Scan(&current); err != nil {
		return translateOvertaken(err)
	}
	r := rowsOf(principals)
	if _, err := tx.Exec(ctx, forgetPrincipalsSQL, tenant, of, r.ids, r.groups); err != nil {
		return fmt.Errorf("forget principals: %w", err)
	}
	if _, err := tx.Exec(ctx, forgetAllMembersSQL, tenant, of); err != nil {
		return fmt.Errorf("forget members of groups: %w", err)
	}
	if err := r.put(ctx, tx, tenant, of); err != nil {
		return err
	}
	return raise(ctx, tx, tenant)
}

// translateOvertaken translates a missing row: permissions were pushed since the listing began.
func translateOvertaken(err error) error {
	if store.IsNoRows(err) {
		return fmt.Errorf("permissions were pushed since they were listed: %w", schema.ErrConflict)
	}
	return err
}

// Current returns schema.ErrConflict when the number of pushes to a source whose permissions are
// followed is no longer pushed.
func Current(ctx context.Context, tx pgx.Tx, tenant, of uuid.UUID, pushed int64) error {
	var now int64
	err := tx.QueryRow(ctx, `SELECT pushed FROM source_access WHERE tenant_id = $1 AND source_id = $2 FOR UPDATE`, tenant, of).Scan(&now)
	switch {
	case store.IsNoRows(err):
		return nil
	case err == nil && now != pushed:
		return translateOvertaken(pgx.ErrNoRows)
	}
	return store.Wrap(err, "lock the permissions of source %s", of)
}

// PushAccess stores changes of a source's permissions. They take effect at once.
func (s *AccessStore) PushAccess(ctx context.Context, p schema.Principal, of uuid.UUID, push schema.AccessPush) error {
	var principals []source.Principal
	for _, n := range push.Principals {
		principals = append(principals, source.Principal{ID: n.ID, Group: n.Group, Name: n.Name, Email: n.Email, Members: n.Members})
	}
	var folders []source.AccessFolder
	for _, n := range push.Folders {
		folders = append(folders, source.AccessFolder{ID: n.ID, Folder: n.Folder, Access: accessOf(n)})
	}
	var items []source.Item
	for _, n := range push.Items {
		own := accessOf(n)
		items = append(items, source.Item{ID: n.ID, Folder: n.Folder, Access: &own})
	}
	err := s.db.AsTenant(ctx, p.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		if err := isFollowed(ctx, tx, p.Tenant, of); err != nil {
			return err
		}
		if err := knowsItems(ctx, tx, p.Tenant, of, push.Items); err != nil {
			return err
		}
		r := rowsOf(principals)
		if _, err := tx.Exec(ctx, removePrincipalsSQL, p.Tenant, of, store.EmptyNotNull(push.Removed)); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, removeOfOtherSQL, p.Tenant, of, r.ids, r.groups); err != nil {
			return err
		}
		named := slices.Concat(r.ids, push.Removed)
		if _, err := tx.Exec(ctx, forgetMembersSQL, p.Tenant, of, store.EmptyNotNull(named), store.EmptyNotNull(push.Removed)); err != nil {
			return err
		}
		if err := r.put(ctx, tx, p.Tenant, of); err != nil {
			return err
		}
		if err := Note(ctx, tx, p.Tenant, of, uuid.Nil, folders, items); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, pushedSQL, p.Tenant, of); err != nil {
			return err
		}
		if err := raise(ctx, tx, p.Tenant); err != nil {
			return err
		}
		return store.Audit(ctx, tx, p.Tenant, p, "source.access", of.String(), map[string]any{"principals": len(push.Principals), "removed": len(push.Removed),
			"folders": len(push.Folders), "items": len(push.Items)})
	})
	return store.Wrap(err, "change who may see what in source %s", of)
}

// isFollowed returns an error for a source that does not exist, or whose permissions are not
// followed.
func isFollowed(ctx context.Context, tx pgx.Tx, tenant, of uuid.UUID) error {
	if err := tx.QueryRow(ctx, `SELECT true FROM sources WHERE tenant_id = $1 AND id = $2`, tenant, of).Scan(nil); err != nil {
		return store.Named(err, "source", of)
	}
	yes, err := followed(ctx, tx, tenant, of)
	if err == nil && !yes {
		err = schema.Invalid("source", "its permissions are not followed; make a source with the setting %s=%s", source.PermissionsSetting, source.FollowPermissions)
	}
	return err
}

func knowsItems(ctx context.Context, tx pgx.Tx, tenant, of uuid.UUID, items []schema.AccessNode) error {
	var ids []string
	for _, item := range items {
		ids = append(ids, item.ID)
	}
	rows, err := tx.Query(ctx, `SELECT node FROM access_nodes WHERE tenant_id = $1 AND source_id = $2 AND NOT is_folder AND node = ANY ($3)`, tenant, of, store.EmptyNotNull(ids))
	if err != nil {
		return fmt.Errorf("look up items: %w", err)
	}
	have, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return fmt.Errorf("look up items: %w", err)
	}
	for i, id := range ids {
		if !slices.Contains(have, id) {
			return schema.Invalid(fmt.Sprintf("items[%d].id", i), "the source has no item %q", id)
		}
	}
	return nil
}

func accessOf(n schema.AccessNode) source.Access {
	a := source.Access{Entries: entriesOf(n.Entries), Inherits: n.Inherits}
	for _, r := range n.Requires {
		a.Requires = append(a.Requires, entriesOf(r))
	}
	return a
}

func entriesOf(list []schema.AccessEntry) []source.AccessEntry {
	var out []source.AccessEntry
	for _, e := range list {
		out = append(out, source.AccessEntry{Principal: e.Principal, Deny: e.Deny, Rank: e.Rank})
	}
	return out
}
