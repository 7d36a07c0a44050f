package answer

import (
	"slices"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/schema"
)

// versionsOf returns the versions that the candidates' text comes from, each once.
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
