package dense

import (
	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/lexical"
	"github.com/sluice-rag/sluice/internal/lexical/search"
	"github.com/sluice-rag/sluice/schema"
)

// NearestQuery asks for the passages nearest to a vector.
type NearestQuery struct {
	Principal  schema.Principal
	Collection uuid.UUID
	Space      string // of Vector
	Vector     []float32
	Filter     schema.Filter
	// Generation is the generation that the places belong to; 0: the live one.
	Generation int
	// Within, if not nil, restricts the search to places: passages, sections (Passage -1) and whole
	// versions (Section -1 too). The search is then exact.
	Within []lexical.Ref
	K      int
	// View is the lexical index's view of the collection, opened for the principal's groups and the
	// filter; nil: it is loaded.
	View *search.View
}

// PassagesQuery asks for the vectors of passages.
type PassagesQuery struct {
	Principal  schema.Principal
	Collection uuid.UUID
	Generation int // that the places belong to
	Passages   []lexical.Ref
	// View is the lexical index's view of the collection, opened for the principal's groups; nil:
	// vectors in memory are not looked up.
	View *search.View
}

// Hit is a passage that Nearest found.
type Hit struct {
	Passage    uuid.UUID
	Ref        lexical.Ref
	Similarity float64 // inner product of unit vectors, in [-1, 1] except for rounding
}
