package schema

import (
	"slices"

	"github.com/google/uuid"
)

// MaxKeyCollections is the most collections in which a key has scopes of its own.
const MaxKeyCollections = 100

// CollectionScopes are scopes in one collection.
type CollectionScopes struct {
	Collection uuid.UUID `json:"id"`
	Name       string    `json:"name,omitempty" doc:"The collection's."` // if it was looked up
	Scopes     []Scope   `json:"scopes"`
}

// OfCollections reports whether s may be given for single collections.
func (s Scope) OfCollections() bool {
	return s == ScopeQuery || s == ScopeIngest || s == ScopeCurate
}

// In returns p with all scopes that it has in a collection: the tenant's, and those of the
// collection.
func (p Principal) In(collection uuid.UUID) Principal {
	for _, c := range p.Collections {
		if c.Collection == collection {
			p.Scopes = slices.Concat(p.Scopes, c.Scopes)
		}
	}
	return p
}

// Covers reports whether p has all groups and scopes of another principal.
func (p Principal) Covers(other Principal) bool {
	for _, s := range other.Scopes {
		if !p.Has(s) {
			return false
		}
	}
	for _, g := range other.Groups {
		if !slices.Contains(p.Groups, g) {
			return false
		}
	}
	for _, c := range other.Collections {
		here := p.In(c.Collection)
		for _, s := range c.Scopes {
			if !here.Has(s) {
				return false
			}
		}
	}
	return true
}

// HasSomewhere reports whether p has s in the tenant or in any collection. If s is empty, it
// reports whether p has any scope.
func (p Principal) HasSomewhere(s Scope) bool {
	return p.HasOrAny(s) || slices.ContainsFunc(p.Collections, func(c CollectionScopes) bool { return Principal{Scopes: c.Scopes}.HasOrAny(s) })
}

// HasOrAny reports whether p has s in the tenant. If s is empty, it reports whether p has any scope
// in the tenant.
func (p Principal) HasOrAny(s Scope) bool {
	return s == "" && len(p.Scopes) > 0 || p.Has(s)
}

// OnlyIn returns the collections in which p has s, or any scope if s is empty. all is true if p has
// the scope in the tenant, or has no scopes of collections: the caller has checked that p has s
// somewhere.
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
