package stage

// What searches learnt of collections. A search of a collection that has not changed
// lately takes it for as it was; the first source that it draws on says whether it
// still is.

import (
	"slices"
	"strings"
	"sync"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/retrieval"
	"github.com/sluice-rag/sluice/schema/wire"
)

// maxPlaces bounds how many places are kept; each takes some 300 bytes.
const maxPlaces = 16_384

// Places remembers collections as searches found them. It is safe for concurrent use.
type Places struct {
	mu    sync.Mutex
	known map[placeKey]knownPlace
}

// placeKey is a collection as some groups see it.
type placeKey struct {
	tenant, collection uuid.UUID
	groups             string
}

// knownPlace is a place, and whether it was the same the time before.
type knownPlace struct {
	retrieval.Place
	steady bool
}

// NewPlaces returns an empty memory.
func NewPlaces() *Places { return &Places{known: map[placeKey]knownPlace{}} }

func keyOf(q wire.SearchQuery) placeKey {
	return placeKey{q.Principal.Tenant, q.Collection, strings.Join(slices.Sorted(slices.Values(q.Principal.Groups)), "\x00")}
}

// steady returns the place of a query, where it was the same twice. One without a
// revision cannot be compared with what is.
func (s *Places) steady(q wire.SearchQuery) (retrieval.Place, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.known[keyOf(q)]
	return k.Place, k.steady && k.Revision != 0
}

// saw notes what the place of a query is.
func (s *Places) saw(q wire.SearchQuery, p retrieval.Place) {
	key := keyOf(q)
	s.mu.Lock()
	defer s.mu.Unlock()
	before, ok := s.known[key]
	if !ok && len(s.known) >= maxPlaces {
		clear(s.known) // searches ask again for each
	}
	s.known[key] = knownPlace{Place: p, steady: ok && before.Revision == p.Revision}
}

// Forget has the next search of a query's collection ask.
func (s *Places) Forget(q wire.SearchQuery) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.known, keyOf(q))
}
