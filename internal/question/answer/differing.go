package answer

// Where another version of a cited document says something else, a note says so.

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/text"
	"github.com/sluice-rag/sluice/schema"
)

const (
	maxDiffering = 4   // notes of an answer
	maxSaid      = 200 // characters of a sentence in a note
)

// otherVersions says which sentences that a candidate's quote [start, end) is of
// stand otherwise in the same passage of other versions. What the asker may not see,
// or what is gone, is not among the sections.
func otherVersions(c schema.Candidate, start, end int, sections map[uuid.UUID]schema.Section) []string {
	var out []string
	for _, n := range c.NearDuplicates {
		section, ok := sections[n.Span.Section]
		if s := n.Span; !ok || s.Start < 0 || s.End > len(section.Text) || s.Start >= s.End {
			continue
		}
		there := section.Text[n.Span.Start:n.Span.End]
		for _, r := range text.Sentences(c.Text) {
			if r.Start >= end || start >= r.End {
				continue
			}
			own := strings.TrimSpace(c.Text[r.Start:r.End])
			if other, same := text.Counterpart(own, there); other != "" && !same {
				out = append(out, differ(c.ExternalID, own, n, other))
			}
		}
	}
	return out
}

// differ names both documents and says which is newer.
func differ(document, said string, n schema.NearPassage, other string) string {
	by := fmt.Sprintf(" (newer, by %s)", n.By)
	own, theirs := by, ""
	if n.Newer {
		own, theirs = "", by
	}
	return fmt.Sprintf("Versions differ: %s%s says “%s”; %s%s says “%s”.", document, own, clip(said), n.Document, theirs, clip(other))
}

// clip is a sentence on one line, as long as a note has room for.
func clip(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if utf8.RuneCountInString(s) <= maxSaid {
		return s
	}
	return string([]rune(s)[:maxSaid-1]) + "…"
}
