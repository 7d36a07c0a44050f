package answer

import (
	"slices"
	"testing"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/schema"
)

func TestOtherVersionsThatSaySomethingElseAreNamed(t *testing.T) {
	const own = "The supplier keeps all records. Either party may end this contract with a notice of 90 days. The fee is due on the first of May."
	texts := []string{
		"Records are kept. 4. Either party may end this contract with a notice of 60 days. The fee is due on the FIRST of May",
		"4. Either party may end this contract with a notice of 90 days.",
		"Nothing of the kind stands here.",
		"Either party may end this contract with a notice of 10 days.",
	}
	sections := map[uuid.UUID]schema.Section{}
	c := schema.Candidate{ExternalID: "v3.md", Text: own}
	for i, text := range texts {
		id := uuid.New()
		if i < 3 { // the asker may not see the last one
			sections[id] = schema.Section{ID: id, Text: "Before. " + text}
		}
		c.NearDuplicates = append(c.NearDuplicates, schema.NearPassage{Document: string(rune('a' + i)), By: schema.NewerByDate, Newer: i == 3,
			Span: schema.Span{Section: id, Start: len("Before. "), End: len("Before. " + text)}})
	}
	quote := func(start, end int) []string { return otherVersions(c, start, end, sections) }
	want := []string{"Versions differ: v3.md (newer, by its date) says “Either party may end this contract with a notice of 90 days.”; " +
		"a says “4. Either party may end this contract with a notice of 60 days.”."}
	if got := quote(40, 50); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := quote(len(own)-20, len(own)); len(got) > 0 {
		t.Errorf("a sentence that is the same: %q", got)
	}
	c.NearDuplicates[0].Newer = true
	if got := quote(40, 50); len(got) != 1 || got[0][:len("Versions differ: v3.md says")] != "Versions differ: v3.md says" {
		t.Errorf("of a newer version: %q", got)
	}
	c.NearDuplicates[0].Span.End = 10_000
	if got := quote(40, 50); len(got) > 0 {
		t.Errorf("a span that is not in its section: %q", got)
	}
}
