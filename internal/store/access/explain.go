package access

// This file explains why a subject may or may not see a document. The permissions are evaluated as
// for a request, and the result is then put into words.

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/source"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema"
)

const (
	// The labels of both the newest version and the live one decide who sees a document.
	explainedSQL = `
SELECT d.collection_id, d.live_version_id IS NOT NULL,
       ARRAY(SELECT l.label FROM version_labels l WHERE l.tenant_id = $1 AND l.version_id = d.last_version_id ORDER BY l.label),
       ARRAY(SELECT l.label FROM version_labels l WHERE l.tenant_id = $1 AND l.version_id = d.live_version_id ORDER BY l.label)
FROM documents d WHERE d.tenant_id = $1 AND d.id = $2 AND d.deleted_at IS NULL AND ` + store.OfLiving
	explainedItemSQL = `
SELECT i.source_id, i.item, s.principals_at IS NOT NULL, n.node IS NOT NULL, n.access IS NOT NULL, coalesce(n.label, ''), coalesce(n.given, ''),
       EXISTS (SELECT FROM access_nodes o WHERE o.tenant_id = $1 AND o.source_id = i.source_id
               AND o.given = n.given AND o.given <> '' AND o.given <> o.label)
FROM source_items i JOIN source_access s ON s.tenant_id = $1 AND s.source_id = i.source_id
LEFT JOIN access_nodes n ON n.tenant_id = $1 AND n.source_id = i.source_id AND NOT n.is_folder AND n.node = i.item
WHERE i.tenant_id = $1 AND i.document_id = $2`
	explainedListSQL = `SELECT content FROM access_lists WHERE tenant_id = $1 AND source_id = $2 AND label = $3`
	rowOfKeySQL      = `
SELECT id, name, groups, scopes, collections, revoked_at, least(replaced_until, expires_at) FROM api_keys WHERE tenant_id = $1 AND id = $2`
	rowOfPersonSQL = `SELECT id, name, groups, scopes, collections, revoked_at, expires_at FROM api_keys WHERE tenant_id = $1 AND subject = $2`
)

// explainedItem is an item of a source whose permissions are followed, with what is stored about
// its access.
type explainedItem struct {
	source                          uuid.UUID
	item                            string
	principalsListed, listed, known bool
	label, given                    string
	waits                           bool // a document with the label waits for another one
}

// resolvedSubject is the subject whose access to a document is explained.
type resolvedSubject struct {
	schema.AccessSubject
	subjects []schema.AccessSubject
	groups   []string
	out      string // why the subject sees nothing at all; empty: it may see documents
	note     string // added to every reason
}

// ExplainAccess explains why a subject may or may not see a document.
func (s *AccessStore) ExplainAccess(ctx context.Context, p schema.Principal, document uuid.UUID, subject schema.AccessSubject) (
	out schema.AccessExplanation, err error) {
	err = s.db.AsTenant(ctx, p.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		out = schema.AccessExplanation{Document: document, Labels: []string{}, Entries: []schema.AccessRule{}, Holds: []schema.AccessHolder{}}
		var collection uuid.UUID
		var live bool
		var newest, now []string
		if err := tx.QueryRow(ctx, explainedSQL, p.Tenant, document).Scan(&collection, &live, &newest, &now); store.IsNoRows(err) {
			return fmt.Errorf("no such document: %w", schema.ErrNotFound)
		} else if err != nil {
			return err
		}
		out.Labels = newest
		of, err := resolveSubject(ctx, tx, p.Tenant, collection, subject)
		if err != nil {
			return err
		}
		them, err := principalsOfSubjects(ctx, tx, p.Tenant, of.subjects)
		if err != nil {
			return err
		}
		groups := slices.Clone(of.groups)
		for _, h := range them {
			labels, _, err := h.labels(ctx, tx, p.Tenant)
			if err != nil {
				return err
			}
			groups = append(groups, labels...)
		}
		out.Allowed = of.out == "" && open(newest, groups) && open(now, groups)
		item, followed, err := itemOf(ctx, tx, p.Tenant, document)
		if err != nil {
			return err
		}
		if followed {
			err = explainItem(ctx, tx, p.Tenant, item, of, them, &out)
		} else {
			out.Reason = byLabels(newest, now, of)
		}
		switch {
		case of.out != "":
			out.Reason = of.out
		case of.note != "":
			out.Reason += " " + of.note
		}
		if !live {
			out.Reason += " Searches don't find it yet: none of its versions is ready."
		}
		return err
	})
	return out, store.Wrap(err, "explain who may see document %s", document)
}

// open reports whether something with these labels is open to groups.
func open(labels, groups []string) bool {
	return len(labels) == 0 || slices.ContainsFunc(labels, func(l string) bool { return slices.Contains(groups, l) })
}

// resolveSubject looks up a subject, with its groups, for a document of a collection.
func resolveSubject(ctx context.Context, tx pgx.Tx, tenant, collection uuid.UUID, subject schema.AccessSubject) (resolvedSubject, error) {
	out := resolvedSubject{AccessSubject: subject, subjects: []schema.AccessSubject{subject}}
	var row pgx.Row
	switch subject.Kind {
	case schema.AccessGroup:
		if schema.Reserved(subject.Value) {
			return out, schema.Invalid("group", "%q is reserved by the system", subject.Value)
		}
		out.groups = []string{subject.Value}
		return out, nil
	case schema.AccessAsker:
		out.note = "Groups that a request passes for them (X-Sluice-Groups) count, too, but are not known here."
		return out, nil
	case schema.AccessKey:
		id, err := uuid.Parse(subject.Value)
		if err != nil {
			return out, schema.Invalid("key", "%q is not the id of a key", subject.Value)
		}
		row = tx.QueryRow(ctx, rowOfKeySQL, tenant, id)
	default:
		row = tx.QueryRow(ctx, rowOfPersonSQL, tenant, subject.Value)
	}
	p := schema.Principal{Tenant: tenant}
	var revoked, expires *time.Time
	err := row.Scan(&p.Key, &p.Name, &p.Groups, &p.Scopes, &p.Collections, &revoked, &expires)
	switch {
	case store.IsNoRows(err) && subject.Kind == schema.AccessPerson:
		out.note = "They have not signed in yet: the groups that the rules of access will give them are not known here."
		return out, nil
	case store.IsNoRows(err):
		return out, fmt.Errorf("no such key: %w", schema.ErrNotFound)
	case err != nil:
		return out, fmt.Errorf("look up %s %q: %w", subject.Kind, subject.Value, err)
	case revoked != nil:
		out.out = "They see nothing: they were revoked."
	case expires != nil && expires.Before(time.Now()):
		out.out = "They see nothing: the key has expired."
	case len(p.Collections) > 0 && len(p.In(collection).Scopes) == 0:
		out.out = "They see nothing of its collection: their scopes apply to other collections."
	}
	p = p.In(collection)
	if p.Has(schema.ScopeIngest) {
		out.note = "This applies to searches, answers and its text; as they have the scope ingest, lists show them the document all the same."
	}
	out.groups = p.OwnGroups()
	out.subjects, err = subjectsOf(ctx, tx, p)
	return out, err
}

// byLabels says what the labels of a document decide when no source with followed permissions has
// it.
func byLabels(newest, now []string, of resolvedSubject) string {
	both := slices.Concat(newest, now)
	switch {
	case slices.ContainsFunc(both, func(l string) bool { return strings.HasPrefix(l, schema.AccessLabel) }):
		return "Nobody sees it: the source whose permissions decided is gone. Give the document labels of its own."
	case slices.Contains(both, schema.NobodyLabel):
		return "Nobody sees it until its newest version is live: it has no label in common with the version before."
	case len(both) == 0:
		return "It has no labels, so that everybody of the tenant sees it."
	}
	for _, labels := range [][]string{newest, now} {
		if !open(labels, of.groups) {
			return fmt.Sprintf("It is open to groups %s, and they are in none of these.", strings.Join(labels, ", "))
		}
	}
	return fmt.Sprintf("It is open to groups %s, and they are in one of these.", strings.Join(newest, ", "))
}

// itemOf finds the item of a document in a source whose permissions are followed.
func itemOf(ctx context.Context, tx pgx.Tx, tenant, document uuid.UUID) (i explainedItem, found bool, err error) {
	err = tx.QueryRow(ctx, explainedItemSQL, tenant, document).
		Scan(&i.source, &i.item, &i.principalsListed, &i.listed, &i.known, &i.label, &i.given, &i.waits)
	if store.IsNoRows(err) {
		return i, false, nil
	}
	return i, err == nil, store.Wrap(err, "look up the item of document %s", document)
}

// explainItem fills in what the permissions of an item's source decide. out.Allowed is already set.
func explainItem(ctx context.Context, tx pgx.Tx, tenant uuid.UUID, i explainedItem, of resolvedSubject, them []sourcePrincipals, out *schema.AccessExplanation) error {
	out.Source, out.Item, out.Label = &i.source, i.item, i.label
	them = slices.DeleteFunc(slices.Clone(them), func(h sourcePrincipals) bool { return h.source != i.source })
	var h sourcePrincipals
	if len(them) > 0 {
		h = them[0]
	}
	list, err := listOf(ctx, tx, tenant, i)
	if err != nil {
		return err
	}
	known, err := knownPrincipals(ctx, tx, tenant, i.source, list.Principals())
	if err != nil {
		return err
	}
	names, err := namesOf(ctx, tx, tenant, i.source, append(list.Principals(), h.principals...))
	if err != nil {
		return err
	}
	for n, levels := range list {
		for l, level := range levels {
			for _, e := range level {
				out.Entries = append(out.Entries, schema.AccessRule{List: n, Level: l, Principal: e.Principal, Name: names[e.Principal], Deny: e.Deny,
					Known: e.Principal == source.Everyone || known(e.Principal)})
			}
		}
	}
	if out.Holds, err = h.memberPaths(ctx, tx, tenant, of.subjects, names); err != nil {
		return err
	}
	v := list.Decide(h.holds, known)
	if v.Entry != nil {
		at := slices.IndexFunc(out.Entries, func(r schema.AccessRule) bool {
			return r.List == v.List && r.Principal == v.Entry.Principal && r.Deny == v.Entry.Deny
		})
		out.Decided = &out.Entries[at]
	}
	out.Reason = i.reason(v, h, names, *out)
	return nil
}

// listOf reads the access list of an item; it is empty where the item's access is unknown.
func listOf(ctx context.Context, tx pgx.Tx, tenant uuid.UUID, i explainedItem) (list source.AccessList, err error) {
	var content []byte
	err = tx.QueryRow(ctx, explainedListSQL, tenant, i.source, i.label).Scan(&content)
	if store.IsNoRows(err) {
		return nil, nil
	}
	if err == nil {
		err = json.Unmarshal(content, &list)
	}
	return list, store.Wrap(err, "read access list %s", i.label)
}

func (i explainedItem) reason(v source.AccessVerdict, h sourcePrincipals, names map[string]string, e schema.AccessExplanation) string {
	switch {
	case !i.listed || !i.known:
		return "Nobody sees it: the source did not tell who may. Let the source run, and look at what it skipped."
	case i.label == schema.NobodyLabel:
		return fmt.Sprintf("Nobody sees it: a folder that it inherits from is not known, or the source has more than %d different access lists.", maxLists)
	case len(h.principals) == 0 && !i.principalsListed:
		return "The source's users and groups were not listed yet. Let the source run, and map one of them to them."
	case len(h.principals) == 0:
		return "They have no identity in the source: map a user or a group of it to them."
	case v.Unknown:
		return fmt.Sprintf("The list keeps out %s, and the source has no such user or group. As it is not known who that is, the entries after it let nobody in.",
			named(v.Entry.Principal, names))
	case v.Entry != nil && v.Entry.Deny:
		return fmt.Sprintf("The source keeps out %s, and that includes them.", named(v.Entry.Principal, names))
	case !v.Allowed:
		return "The source lets in " + i.allowedBy(v.List, names, e.Entries) + "; they are none of these there."
	case e.Allowed:
		return fmt.Sprintf("The source lets in %s, and that includes them.", named(v.Entry.Principal, names))
	case i.given != i.label:
		return "The source lets them in by now. Nobody sees the document until it has its new label, which a source-worker gives it."
	case i.waits:
		return "The source lets them in. Nobody sees documents with this list until another one that had it has its new label, " +
			"which a source-worker gives it."
	}
	return "The source lets them in, and the document has other labels until its newest version is live."
}

// allowedBy names the principals that one list of an item allows.
func (i explainedItem) allowedBy(list int, names map[string]string, rules []schema.AccessRule) string {
	const most = 20
	var out []string
	for _, r := range rules {
		if text := named(r.Principal, names); r.List == list && !r.Deny && !slices.Contains(out, text) {
			out = append(out, text)
		}
	}
	switch {
	case len(out) == 0:
		return "nobody"
	case len(out) > most:
		return strings.Join(out[:most], ", ") + fmt.Sprintf(" and %d more", len(out)-most)
	}
	return strings.Join(out, ", ")
}

// named formats a principal for display: its id, and its name if that differs.
func named(principal string, names map[string]string) string {
	switch name := names[principal]; {
	case principal == source.Everyone:
		return "everyone"
	case name != "" && name != principal:
		return fmt.Sprintf("%s (%s)", principal, name)
	}
	return principal
}
