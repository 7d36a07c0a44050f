package source

// Who may see what in a place. Principals are named by ids that the place gives for good, never by
// names.

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

// PermissionsSetting is the field by which a driver says that its connectors are Permissions. They
// are asked for by FollowPermissions; IgnorePermissions, and nothing, leave them alone. Other
// drivers have no field of this name.
const (
	PermissionsSetting = "permissions"
	FollowPermissions  = "follow"
	IgnorePermissions  = "ignore"
)

// Everyone is the principal that stands for all users of a place.
const Everyone = "*"

// Permissions is a Connector that tells who may see what. When Settings ask for it, listings have
// Folders, and items have Access and Folder.
type Permissions interface {
	Connector
	// Principals returns a page of the place's users and groups; the empty cursor begins. A listing
	// is complete or an error.
	Principals(ctx context.Context, cursor string) (PrincipalPage, error)
}

// PrincipalPage is one page of the users and groups of a place.
type PrincipalPage struct {
	Principals []Principal
	Next       string // the cursor of the next page; empty: this is the last
}

// Principal is a user or a group of a place.
type Principal struct {
	// ID stays the same for as long as the principal is there, and is no other's. At most 512
	// bytes.
	ID    string
	Group bool
	// Name and Email are shown to people. Nothing is decided by them.
	Name, Email string
	// Members of a group are users and groups, by their ids.
	Members []string
}

// AccessFolder is what items inherit access from.
type AccessFolder struct {
	ID     string // of a folder, as Item.ID is of an item
	Folder string // that it is in; empty: in none
	Access Access
}

// Access is who may see an item, or, of a folder, what is below.
type Access struct {
	Entries []AccessEntry
	// Inherits has the folder decide where no entry does. Without a folder nobody is let in there.
	Inherits bool
	// Requires are lists each of which has to let somebody in, too.
	Requires [][]AccessEntry
}

// AccessEntry lets a principal in, or keeps it out.
type AccessEntry struct {
	Principal string `json:"p"`
	Deny      bool   `json:"d,omitempty"`
	// Rank orders entries of one list: the lowest that has one for somebody decides. Within a rank,
	// denial goes first.
	Rank int `json:"r,omitempty"`
}

// AccessList is who may see something with all that it inherits. Each of the lists lets somebody
// in, or nobody sees it. A list has levels: the first with an entry for somebody decides, and
// denial before admission. Who has none is kept out.
type AccessList [][]AccessLevel

// AccessLevel are entries that decide together.
type AccessLevel []AccessEntry

// Effective is the list of what has an access, in folders, the nearest first. Where what would be
// inherited is not known, nobody is let in by it.
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

// levels puts entries into the order in which they decide.
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

// Label names a list of a source. Equal lists have one name.
func (l AccessList) Label(of uuid.UUID) string {
	sum := sha256.Sum256([]byte(of.String() + " " + encode(l)))
	return schema.AccessLabel + strings.ToLower(base32.StdEncoding.EncodeToString(sum[:16])[:26])
}

// Principals are those that the list lets in or keeps out, each once.
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

// AccessVerdict is what a list decides, and by which of its entries.
type AccessVerdict struct {
	Allowed bool
	// Entry is the one that decided; nil: there is none for them.
	Entry *AccessEntry
	// List is which of the lists kept somebody out, from 0; of who is let in, the last one.
	List int
	// Unknown is true where an entry keeps out a principal that is not known, so that nobody knows
	// who that is.
	Unknown bool
}

// Decide tells whether a list lets somebody in who holds some principals; known are all that the
// place has. What keeps out a principal that is not known keeps everybody out whom no level before
// let in.
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
		for _, e := range level { // denial first
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
