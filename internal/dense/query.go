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
	// Generation is that which the places are of; 0: whichever is live.
	Generation int
	// Within restricts to some places when it is not nil: passages, sections
	// (Passage -1) and whole versions (Section -1 too). It is exact then.
	Within []lexical.Ref
	K      int
	// View is what the lexical index has of the collection, opened for the principal's
	// groups and the filter, where the caller has it; nil: it is asked for.
	View *search.View
}

// Hit is a passage that Nearest found.
type Hit struct {
	Passage    uuid.UUID
	Ref        lexical.Ref
	Similarity float64 // inner product of unit vectors, in [-1, 1] but for rounding
}
