package schema

import (
	"slices"

	"github.com/google/uuid"
)

// MaxKeyCollections is in how many collections a key has scopes of its own at most.
const MaxKeyCollections = 100

// CollectionScopes are scopes that hold in one collection alone.
type CollectionScopes struct {
	Collection uuid.UUID `json:"id"`
	Name       string    `json:"name,omitempty" doc:"The collection's."` // where it was looked up
	Scopes     []Scope   `json:"scopes"`
}

// OfCollections reports whether s may be given for single collections.
func (s Scope) OfCollections() bool {
	return s == ScopeQuery || s == ScopeIngest || s == ScopeCurate
}

// In is p with the scopes that it has in a collection: the tenant's, and those of this collection.
func (p Principal) In(collection uuid.UUID) Principal {
	for _, c := range p.Collections {
		if c.Collection == collection {
			p.Scopes = slices.Concat(p.Scopes, c.Scopes)
		}
	}
	return p
}

// HasSomewhere reports whether p holds s in the tenant or in any collection; for an empty one,
// whether it holds any.
func (p Principal) HasSomewhere(s Scope) bool {
	return p.HasOrAny(s) || slices.ContainsFunc(p.Collections, func(c CollectionScopes) bool { return Principal{Scopes: c.Scopes}.HasOrAny(s) })
}

// HasOrAny reports whether p holds s; for an empty one, whether it holds any scope of the tenant.
func (p Principal) HasOrAny(s Scope) bool {
	return s == "" && len(p.Scopes) > 0 || p.Has(s)
}

// OnlyIn returns the collections where alone p holds s, or any scope for an empty one; all is true
// when it holds it in the tenant, or has no scopes of collections: whether it holds s was looked at
// before.
func (p Principal) OnlyIn(s Scope) (ids []uuid.UUID, all bool) {
	if len(p.Collections) == 0 || p.HasOrAny(s) {
		return nil, true
	}
	ids = []uuid.UUID{}
	for _, c := range p.Collections {
		if (Principal{Scopes: c.Scopes}).HasOrAny(s) {
			ids = append(ids, c.Collection)
		}
	}
	return ids, false
}
