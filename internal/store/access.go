package store

// This file has the conditions under which a principal may read a text.

import (
	"fmt"

	"github.com/sluice-rag/sluice/schema"
)

// GroupsOf are p's groups, never nil: SQL would find NULL in none.
func GroupsOf(p schema.Principal) []string {
	if p.Groups == nil {
		return []string{}
	}
	return p.Groups
}

// OfLiving is the condition under which the collection of document d is not deleted: its
// documents are hidden with it, and retire later.
const OfLiving = `EXISTS (SELECT FROM collections k WHERE k.tenant_id = $1 AND k.id = d.collection_id AND k.deleted_at IS NULL)`

// ReadableNow is the condition under which a version's text, of document d, is open
// to groups: by its own labels, and by those of the version that is live now.
func ReadableNow(version, groups string) string {
	return fmt.Sprintf(VisibleSQL, version, groups) + " AND " + fmt.Sprintf(VisibleSQL, "d.live_version_id", groups)
}

// VisibleSQL is the condition under which version %s is open to the groups in
// parameter %s.
const VisibleSQL = `(NOT EXISTS (SELECT FROM version_labels l WHERE l.tenant_id = $1 AND l.version_id = %[1]s)
      OR EXISTS (SELECT FROM version_labels l WHERE l.tenant_id = $1 AND l.version_id = %[1]s AND l.label = ANY(%[2]s::text[])))`
