package answer

import (
	"slices"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/schema"
)

// versionsOf are the versions that the text of candidates is of, each once.
func versionsOf(candidates []schema.Candidate) []uuid.UUID {
	var out []uuid.UUID
	for _, c := range candidates {
		for _, s := range c.Spans {
			if !slices.Contains(out, s.Version) {
				out = append(out, s.Version)
			}
		}
	}
	return out
}
