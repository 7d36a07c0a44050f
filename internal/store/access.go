package store

// This file has the conditions under which a principal may read a text.

import (
	"fmt"

	"github.com/sluice-rag/sluice/schema"
)

// GroupsOf returns p's groups. The result is never nil, which would be NULL in SQL and match
// nothing.
func GroupsOf(p schema.Principal) []string {
	if p.Groups == nil {
		return []string{}
	}
	return p.Groups
}

// OfLiving is the condition that the collection of document d is not deleted. The documents of a
// deleted collection are hidden with it, and are retired later.
const OfLiving = `EXISTS (SELECT FROM collections k WHERE k.tenant_id = $1 AND k.id = d.collection_id AND k.deleted_at IS NULL)`

// ReadableNow returns the condition that the groups may read a version of document d: both the
// version's own labels and those of the document's live version must allow it.
func ReadableNow(version, groups string) string {
	return fmt.Sprintf(VisibleSQL, version, groups) + " AND " + fmt.Sprintf(VisibleSQL, "d.live_version_id", groups)
}

// VisibleSQL is the condition that the groups in parameter %[2]s may see version %[1]s: the version
// has no labels, or one of the groups.
const VisibleSQL = `(NOT EXISTS (SELECT FROM version_labels l WHERE l.tenant_id = $1 AND l.version_id = %[1]s)
      OR EXISTS (SELECT FROM version_labels l WHERE l.tenant_id = $1 AND l.version_id = %[1]s AND l.label = ANY(%[2]s::text[])))`
