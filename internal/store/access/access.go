// Package access keeps the permissions of sources: their users and groups, the access rules of
// folders and items, and which persons, keys and groups of this installation map to them. A
// document has one label, which names an access list; a principal's groups include the labels of
// the lists that allow it.
package access

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/source"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema"
)

// AccessStore keeps permissions of sources.
type AccessStore struct{ db *store.Store }

// New returns the AccessStore of a database.
func New(db *store.Store) *AccessStore { return &AccessStore{db} }

const (
	raiseSQL    = `INSERT INTO access_revisions AS r (tenant_id) VALUES ($1) ON CONFLICT (tenant_id) DO UPDATE SET revision = r.revision + 1`
	revisionSQL = `SELECT coalesce((SELECT revision FROM access_revisions WHERE tenant_id = $1), 0)`
	// lockSQL serializes the writers of a source's permissions.
	lockSQL = `SELECT true FROM source_access WHERE tenant_id = $1 AND source_id = $2 FOR UPDATE`
)

// raise increments the revision, so that all processes recompute what principals of a tenant see.
func raise(ctx context.Context, tx pgx.Tx, tenant uuid.UUID) error {
	_, err := tx.Exec(ctx, raiseSQL, tenant)
	return store.Wrap(err, "raise the revision of permissions")
}

// followed locks the permissions of a source, and reports whether they are followed.
func followed(ctx context.Context, tx pgx.Tx, tenant, of uuid.UUID) (yes bool, err error) {
	err = tx.QueryRow(ctx, lockSQL, tenant, of).Scan(&yes)
	if store.IsNoRows(err) {
		return false, nil
	}
	return yes, store.Wrap(err, "lock the permissions of source %s", of)
}

// AccessRevision returns a number that changes whenever what a principal of a tenant sees may have
// changed.
func (s *AccessStore) AccessRevision(ctx context.Context, tenant uuid.UUID) (revision int64, err error) {
	err = s.db.AsTenant(ctx, tenant, func(ctx context.Context, tx pgx.Tx) error {
		return tx.QueryRow(ctx, revisionSQL, tenant).Scan(&revision)
	})
	return revision, store.Wrap(err, "read the revision of permissions")
}

const (
	// The row of a person has the subject at the identity provider. A revoked row has none.
	subjectSQL = `SELECT coalesce(subject, '') FROM api_keys WHERE tenant_id = $1 AND id = $2 AND revoked_at IS NULL`
	// Groups may contain each other: UNION ends the recursion. A group that no longer exists in the
	// source passes no membership on.
	heldSQL = `
WITH RECURSIVE held AS (
    SELECT m.source_id, m.principal FROM access_mappings m JOIN unnest($2::text[], $3::text[]) AS who (kind, value) ON m.kind = who.kind AND m.value = who.value
    WHERE m.tenant_id = $1
    UNION
    SELECT h.source_id, g.principal
    FROM held h JOIN access_members x ON x.tenant_id = $1 AND x.source_id = h.source_id AND x.member = h.principal
    JOIN access_principals g ON g.tenant_id = $1 AND g.source_id = h.source_id AND g.principal = x.in_group AND g.is_group
)
SELECT source_id, array_agg(principal ORDER BY principal) FROM held GROUP BY source_id ORDER BY source_id`
	// A list that names none of the principals allows none of them. A list is ignored while a
	// document with its label waits for another one.
	listsSQL = `
SELECT l.label, l.content,
       EXISTS (SELECT FROM access_nodes n WHERE n.tenant_id = $1 AND n.source_id = $2 AND n.given = l.label AND n.given <> '' AND n.given <> n.label)
FROM access_lists l WHERE l.tenant_id = $1 AND l.source_id = $2 AND l.principals && $3::text[]
ORDER BY l.label`
	knownSQL = `SELECT principal FROM access_principals WHERE tenant_id = $1 AND source_id = $2 AND principal = ANY ($3)`
)

// AccessLabels returns the labels of the access lists that allow p, and the revision of permissions
// as it was before they were read. If it ignores a list that allows p, the revision is 0: it is not
// raised when documents get the labels that they wait for.
func (s *AccessStore) AccessLabels(ctx context.Context, p schema.Principal) (labels []string, revision int64, err error) {
	err = s.db.AsTenant(ctx, p.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		labels = nil
		ignored := false
		if err := tx.QueryRow(ctx, revisionSQL, p.Tenant).Scan(&revision); err != nil || revision == 0 {
			return err
		}
		principals, err := principalsOf(ctx, tx, p)
		if err != nil {
			return err
		}
		for _, h := range principals {
			found, some, err := h.labels(ctx, tx, p.Tenant)
			if err != nil {
				return err
			}
			labels, ignored = append(labels, found...), ignored || some
		}
		if ignored {
			revision = 0
		}
		return nil
	})
	return labels, revision, store.Wrap(err, "work out what permissions of sources give")
}

// sourcePrincipals are the principals of one source that a subject maps to.
type sourcePrincipals struct {
	source     uuid.UUID
	principals []string
}

// principalsOf returns the principals of sources that p maps to. A request on behalf of a person
// counts only as that person, with the groups given for the person.
func principalsOf(ctx context.Context, tx pgx.Tx, p schema.Principal) ([]sourcePrincipals, error) {
	subjects, err := subjectsOf(ctx, tx, p)
	if err != nil {
		return nil, err
	}
	return principalsOfSubjects(ctx, tx, p.Tenant, subjects)
}

func subjectsOf(ctx context.Context, tx pgx.Tx, p schema.Principal) ([]schema.AccessSubject, error) {
	var subjects []schema.AccessSubject
	if !p.Acting && p.Person == "" && p.Key != uuid.Nil {
		var subject string
		err := tx.QueryRow(ctx, subjectSQL, p.Tenant, p.Key).Scan(&subject)
		switch {
		case store.IsNoRows(err):
			return nil, nil
		case err != nil:
			return nil, store.Wrap(err, "read who key %s is of", p.Key)
		case subject != "":
			subjects = append(subjects, schema.AccessSubject{Kind: schema.AccessPerson, Value: subject})
		}
		subjects = append(subjects, schema.AccessSubject{Kind: schema.AccessKey, Value: p.Key.String()})
	}
	if p.Person != "" {
		subjects = append(subjects, schema.AccessSubject{Kind: schema.AccessAsker, Value: p.Person})
	}
	for _, group := range p.OwnGroups() {
		subjects = append(subjects, schema.AccessSubject{Kind: schema.AccessGroup, Value: group})
	}
	return subjects, nil
}

func principalsOfSubjects(ctx context.Context, tx pgx.Tx, tenant uuid.UUID, subjects []schema.AccessSubject) ([]sourcePrincipals, error) {
	var kinds, values []string
	for _, w := range subjects {
		kinds, values = append(kinds, string(w.Kind)), append(values, w.Value)
	}
	if len(kinds) == 0 {
		return nil, nil
	}
	rows, err := tx.Query(ctx, heldSQL, tenant, kinds, values)
	if err != nil {
		return nil, fmt.Errorf("look up who somebody is in sources: %w", err)
	}
	out, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (h sourcePrincipals, err error) {
		err = row.Scan(&h.source, &h.principals)
		return h, err
	})
	return out, store.Wrap(err, "look up who somebody is in sources")
}

// labels returns the labels of the source's access lists that allow h, and whether it ignored
// others that do.
func (h sourcePrincipals) labels(ctx context.Context, tx pgx.Tx, tenant uuid.UUID) (out []string, ignored bool, err error) {
	rows, err := tx.Query(ctx, listsSQL, tenant, h.source, append(slices.Clone(h.principals), source.Everyone))
	if err != nil {
		return nil, false, fmt.Errorf("read access lists: %w", err)
	}
	lists, waiting := map[string]source.AccessList{}, map[string]bool{}
	var label string
	var content []byte
	var waits bool
	var named []string
	if _, err := pgx.ForEachRow(rows, []any{&label, &content, &waits}, func() error {
		var list source.AccessList
		if err := json.Unmarshal(content, &list); err != nil {
			return fmt.Errorf("decode list %s: %w", label, err)
		}
		lists[label], waiting[label], named = list, waits, append(named, list.Principals()...)
		return nil
	}); err != nil {
		return nil, false, fmt.Errorf("read access lists: %w", err)
	}
	known, err := knownPrincipals(ctx, tx, tenant, h.source, named)
	if err != nil {
		return nil, false, err
	}
	for label, list := range lists {
		switch {
		case !list.Decide(h.holds, known).Allowed:
		case waiting[label]:
			ignored = true
		default:
			out = append(out, label)
		}
	}
	slices.Sort(out)
	return out, ignored, nil
}

// holds reports whether h includes a principal. Everyone includes each subject that maps to some
// principal.
func (h sourcePrincipals) holds(principal string) bool {
	_, is := slices.BinarySearch(h.principals, principal)
	return is || principal == source.Everyone && len(h.principals) > 0
}

// knownPrincipals returns a function that reports whether a source has one of the named principals.
func knownPrincipals(ctx context.Context, tx pgx.Tx, tenant, of uuid.UUID, named []string) (func(string) bool, error) {
	rows, err := tx.Query(ctx, knownSQL, tenant, of, store.EmptyNotNull(named))
	if err != nil {
		return nil, fmt.Errorf("read principals: %w", err)
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("read principals: %w", err)
	}
	have := make(map[string]bool, len(names))
	for _, n := range names {
		have[n] = true
	}
	return func(principal string) bool { return have[principal] }, nil
}
