package stage

// A cache of the states of collections. A search of a collection that has not changed lately
// assumes the cached state; the first source that it reads from says whether that is current.

import (
	"slices"
	"strings"
	"sync"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/retrieval"
	"github.com/sluice-rag/sluice/schema/wire"
)

// maxStates is the most cached states; each takes about 300 bytes.
const maxStates = 16_384

// StateCache caches the states of collections. It is safe for concurrent use.
type StateCache struct {
	mu     sync.Mutex
	states map[stateKey]cachedState
}

// stateKey is a collection and the groups of the principal.
type stateKey struct {
	tenant, collection uuid.UUID
	groups             string
}

// cachedState is a state, and whether the two last loads agreed on it.
type cachedState struct {
	retrieval.CollectionState
	stable bool
}

// NewStateCache returns an empty cache.
func NewStateCache() *StateCache { return &StateCache{states: map[stateKey]cachedState{}} }

func keyOf(q wire.SearchQuery) stateKey {
	return stateKey{q.Principal.Tenant, q.Collection, strings.Join(slices.Sorted(slices.Values(q.Principal.Groups)), "\x00")}
}

// stable returns the state of a query's collection, if two loads agreed on it and it has a revision
// by which to check it.
func (s *StateCache) stable(q wire.SearchQuery) (retrieval.CollectionState, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.states[keyOf(q)]
	return k.CollectionState, k.stable && k.Revision != 0
}

// record caches the state of a query's collection.
func (s *StateCache) record(q wire.SearchQuery, p retrieval.CollectionState) {
	key := keyOf(q)
	s.mu.Lock()
	defer s.mu.Unlock()
	before, ok := s.states[key]
	if !ok && len(s.states) >= maxStates {
		clear(s.states) // searches load each state again
	}
	s.states[key] = cachedState{CollectionState: p, stable: ok && before.Revision == p.Revision}
}

// Forget removes the state of a query's collection, so that the next search loads it.
func (s *StateCache) Forget(q wire.SearchQuery) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.states, keyOf(q))
}
