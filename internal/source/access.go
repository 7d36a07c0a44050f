package source

// Permissions of a source: who may see what. Principals are identified by the source's permanent
// ids, never by names.

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/schema"
)

// PermissionsSetting is the field of drivers whose connectors implement Permissions. With the value
// FollowPermissions, permissions are asked for; with IgnorePermissions or none they are not. Other
// drivers have no field of this name.
const (
	PermissionsSetting = "permissions"
	FollowPermissions  = "follow"
	IgnorePermissions  = "ignore"
)

// Everyone is the principal that stands for all users of a source.
const Everyone = "*"

// Permissions is a Connector that also reports who may see what. When Settings ask for permissions,
// listings have Folders, and items have Access and Folder.
type Permissions interface {
	Connector
	// Principals returns a page of the source's users and groups; the empty cursor begins. It fails
	// rather than list them incompletely.
	Principals(ctx context.Context, cursor string) (PrincipalPage, error)
}

// PrincipalPage is one page of the users and groups of a source.
type PrincipalPage struct {
	Principals []Principal
	Next       string // the cursor of the next page; empty: this is the last
}

// Principal is a user or a group of a source.
type Principal struct {
	// ID stays the same as long as the principal exists, and never belongs to another. At most 512
	// bytes.
	ID    string
	Group bool
	// Name and Email are only shown to people. They decide nothing.
	Name, Email string
	// Members are the ids of a group's users and groups.
	Members []string
}

// AccessFolder is a folder from which items and folders inherit access.
type AccessFolder struct {
	ID     string // identifies the folder, as Item.ID does an item
	Folder string // id of its parent folder; empty: none
	Access Access
}

// Access says who may see an item or, for a folder, the items below.
type Access struct {
	Entries []AccessEntry
	// Inherits means that the folder decides where no entry does. Without a folder nobody is
	// admitted then.
	Inherits bool
	// Requires are further lists. Each of them must admit a principal, too.
	Requires [][]AccessEntry
}

// AccessEntry admits a principal, or denies it.
type AccessEntry struct {
	Principal string `json:"p"`
	Deny      bool   `json:"d,omitempty"`
	// Rank orders the entries of one list: the lowest rank that has an entry for a principal
	// decides. Within a rank, denial wins.
	Rank int `json:"r,omitempty"`
}

// AccessList says who may see something, with everything that it inherits. A principal must be
// admitted by each of the lists. Within a list, the first level with an entry for the principal
// decides, and a denial in it wins over an admission. A principal without an entry is denied.
type AccessList [][]AccessLevel

// AccessLevel is entries that decide together.
type AccessLevel []AccessEntry

// Effective returns the access list of an item with its own access in folders, the nearest first.
// If the access to inherit is unknown, nobody is admitted by inheritance.
func Effective(own Access, folders []Access) AccessList {
	main := levels(own.Entries)
	list := AccessList{}
	add := func(required [][]AccessEntry) {
		for _, r := range required {
			list = append(list, levels(r))
		}
	}
	add(own.Requires)
	for _, f := range folders {
		if !own.Inherits {
			break
		}
		main = append(main, levels(f.Entries)...)
		add(f.Requires)
		own = f
	}
	list = append(list, main)
	slices.SortFunc(list, func(a, b []AccessLevel) int { return strings.Compare(encode(a), encode(b)) })
	return slices.CompactFunc(list, func(a, b []AccessLevel) bool { return encode(a) == encode(b) })
}

// levels groups entries into levels, in the order in which they decide.
func levels(entries []AccessEntry) []AccessLevel {
	sorted := slices.Clone(entries)
	slices.SortFunc(sorted, func(a, b AccessEntry) int {
		switch {
		case a.Rank != b.Rank:
			return a.Rank - b.Rank
		case a.Deny != b.Deny && a.Deny:
			return -1
		case a.Deny != b.Deny:
			return 1
		}
		return strings.Compare(a.Principal, b.Principal)
	})
	sorted = slices.Compact(sorted)
	out := []AccessLevel{}
	for i, e := range sorted {
		if i == 0 || e.Rank != sorted[i-1].Rank {
			out = append(out, nil)
		}
		out[len(out)-1] = append(out[len(out)-1], AccessEntry{Principal: e.Principal, Deny: e.Deny})
	}
	return out
}

func encode(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("lists of texts and truth values are JSON: %v", err))
	}
	return string(text)
}

// Label returns the label of the list in a source. Equal lists have the same label.
func (l AccessList) Label(sourceID uuid.UUID) string {
	sum := sha256.Sum256([]byte(sourceID.String() + " " + encode(l)))
	return schema.AccessLabel + strings.ToLower(base32.StdEncoding.EncodeToString(sum[:16])[:26])
}

// Principals returns the principals that the list names, each once.
func (l AccessList) Principals() []string {
	var out []string
	for _, list := range l {
		for _, level := range list {
			for _, e := range level {
				out = append(out, e.Principal)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// AccessVerdict is the decision of a list, and the entry that made it.
type AccessVerdict struct {
	Allowed bool
	// Entry is the entry that decided; nil: no entry applied.
	Entry *AccessEntry
	// List is the index of the list that denied; if access is allowed, the index of the last list.
	List int
	// Unknown is true if the deciding entry denies a principal that the source does not list, so
	// that it is unknown who that is.
	Unknown bool
}

// Decide reports whether the list admits somebody who holds the principals for which holds returns
// true. known reports whether the source lists a principal. An entry that denies an unknown
// principal denies everybody whom no earlier level admitted.
func (l AccessList) Decide(holds, known func(principal string) bool) AccessVerdict {
	var v AccessVerdict
	for i, list := range l {
		if v = decide(list, holds, known); !v.Allowed {
			v.List = i
			return v
		}
		v.List = i
	}
	return v
}

func decide(list []AccessLevel, holds, known func(string) bool) AccessVerdict {
	for _, level := range list {
		for _, e := range level { // denials are first
			switch {
			case holds(e.Principal):
				return AccessVerdict{Allowed: !e.Deny, Entry: &e}
			case e.Deny && e.Principal != Everyone && !known(e.Principal):
				return AccessVerdict{Entry: &e, Unknown: true}
			}
		}
	}
	return AccessVerdict{}
}
