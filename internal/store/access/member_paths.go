package access

// This file finds out how a subject comes to be a principal of a source: by a mapping, and by
// groups in groups.

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/schema"
)

const (
	namesSQL    = `SELECT principal, name FROM access_principals WHERE tenant_id = $1 AND source_id = $2 AND principal = ANY ($3)`
	mappedAsSQL = `
SELECT m.principal, m.kind, m.value FROM access_mappings m
JOIN unnest($3::text[], $4::text[]) AS who (kind, value) ON m.kind = who.kind AND m.value = who.value
WHERE m.tenant_id = $1 AND m.source_id = $2 ORDER BY m.principal, m.kind, m.value`
	membersAmongSQL = `
SELECT member, in_group FROM access_members
WHERE tenant_id = $1 AND source_id = $2 AND member = ANY ($3) AND in_group = ANY ($3) ORDER BY member, in_group`
)

// namesOf returns the names of principals.
func namesOf(ctx context.Context, tx pgx.Tx, tenant, of uuid.UUID, principals []string) (map[string]string, error) {
	rows, err := tx.Query(ctx, namesSQL, tenant, of, principals)
	if err != nil {
		return nil, fmt.Errorf("read names of principals: %w", err)
	}
	out := map[string]string{}
	var principal, name string
	if _, err := pgx.ForEachRow(rows, []any{&principal, &name}, func() error {
		out[principal] = name
		return nil
	}); err != nil {
		return nil, fmt.Errorf("read names of principals: %w", err)
	}
	return out, nil
}

// memberPaths returns, for each principal of h, a shortest path by which the subject comes to be
// it: the mapping, and the members of groups in between.
func (h sourcePrincipals) memberPaths(ctx context.Context, tx pgx.Tx, tenant uuid.UUID, subjects []schema.AccessSubject, names map[string]string) (
	[]schema.AccessHolder, error) {
	out := []schema.AccessHolder{}
	if len(h.principals) == 0 {
		return out, nil
	}
	var kinds, values []string
	for _, w := range subjects {
		kinds, values = append(kinds, string(w.Kind)), append(values, w.Value)
	}
	rows, err := tx.Query(ctx, mappedAsSQL, tenant, h.source, kinds, values)
	if err != nil {
		return nil, fmt.Errorf("read mappings: %w", err)
	}
	paths, next := map[string][]string{}, []string(nil)
	var principal, kind, value string
	if _, err := pgx.ForEachRow(rows, []any{&principal, &kind, &value}, func() error {
		if paths[principal] == nil {
			paths[principal], next = []string{kind + " " + value}, append(next, principal)
		}
		return nil
	}); err != nil {
		return nil, fmt.Errorf("read mappings: %w", err)
	}
	if rows, err = tx.Query(ctx, membersAmongSQL, tenant, h.source, h.principals); err != nil {
		return nil, fmt.Errorf("read members of groups: %w", err)
	}
	groups := map[string][]string{}
	var member, group string
	if _, err := pgx.ForEachRow(rows, []any{&member, &group}, func() error {
		groups[member] = append(groups[member], group)
		return nil
	}); err != nil {
		return nil, fmt.Errorf("read members of groups: %w", err)
	}
	for ; len(next) > 0; next = next[1:] {
		for _, g := range groups[next[0]] {
			if paths[g] == nil {
				paths[g] = append(append([]string{}, paths[next[0]]...), named(next[0], names))
				next = append(next, g)
			}
		}
	}
	for _, principal := range h.principals {
		out = append(out, schema.AccessHolder{Principal: principal, Name: names[principal], Through: paths[principal]})
	}
	return out, nil
}
