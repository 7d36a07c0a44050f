package answer

// Notes on other versions of a cited document that say something else.

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/text"
	"github.com/sluice-rag/sluice/schema"
)

const (
	maxNotes        = 4   // maximum number of notes of an answer
	maxNoteSentence = 200 // maximum number of characters of a sentence in a note
)

// otherVersions returns notes on the sentences of a candidate's quote [start, end) that differ in
// the same passage of other versions. sections contains only those that the asker may see and that
// still exist.
func otherVersions(c schema.Candidate, start, end int, sections map[uuid.UUID]schema.Section) []string {
	var out []string
	for _, n := range c.NearDuplicates {
		section, ok := sections[n.Span.Section]
		if s := n.Span; !ok || s.Start < 0 || s.End > len(section.Text) || s.Start >= s.End {
			continue
		}
		sentence := section.Text[n.Span.Start:n.Span.End]
		for _, r := range text.Sentences(c.Text) {
			if r.Start >= end || start >= r.End {
				continue
			}
			own := strings.TrimSpace(c.Text[r.Start:r.End])
			if other, same := text.Counterpart(own, sentence); other != "" && !same {
				out = append(out, versionNote(c.ExternalID, own, n, other))
			}
		}
	}
	return out
}

// versionNote returns a note that names both documents and says which is newer.
func versionNote(document, quoted string, n schema.NearPassage, other string) string {
	by := fmt.Sprintf(" (newer, by %s)", n.By)
	own, theirs := by, ""
	if n.Newer {
		own, theirs = "", by
	}
	return fmt.Sprintf("Versions differ: %s%s says “%s”; %s%s says “%s”.", document, own, clip(quoted), n.Document, theirs, clip(other))
}

// clip returns a sentence on one line, shortened to maxNoteSentence characters.
func clip(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if utf8.RuneCountInString(s) <= maxNoteSentence {
		return s
	}
	return string([]rune(s)[:maxNoteSentence-1]) + "…"
}
