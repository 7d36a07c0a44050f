package run_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/retrieval/run"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// linked is a document of two sections and another one, found in their order,
// with links.
func linked() *scriptedCorpus {
	c := corpus([]int{3, 2}, []int{1})
	for i, r := range c.all(schema.UnitPassage) {
		c.lexical[r] = float64(9 - i)
	}
	c.links = scriptedLinks{
		passage(0, 0, 0): {{To: passage(0, 1, 1), Weight: 0.6}, {To: passage(0, 0, 1), Weight: 0.3}, {To: passage(0, 0, 2), Weight: 0.1}},
		passage(0, 0, 1): {{To: passage(0, 0, 0), Weight: 0.5}, {To: passage(0, 1, 0), Weight: 0.2}},
		passage(0, 1, 0): {{To: passage(1, 0, 0), Weight: 0.9}, {To: passage(0, 1, 0), Weight: 0.8}}, // of another document, and itself
	}
	return c
}

func texts(r run.Result) []string {
	var out []string
	for _, c := range r.Candidates {
		out = append(out, strings.TrimSpace(c.Text))
	}
	return out
}

func TestRelateJoinsPassagesWithWhatTheyAreLinkedTo(t *testing.T) {
	c := linked()
	got := c.run(t, "- lexical\n- relate: {depth: 4, k: 2}")
	want(t, "candidates", texts(got), []string{
		"Text a 0 0. Text a 1 1.", "Text a 0 0. Text a 0 1.",
		"Text a 0 1. Text a 1 0.",    // joined to the first one already
		"Text a 0 2.", "Text a 1 0.", // no link, or none that counts
		"Text a 1 1.", "Text b 0 0."}) // below the depth
	best := got.Candidates[0]
	if best.Score != 9 || best.Scores["link"] != 0.6 || best.Scores["lexical.passage"] != 9 || best.Tokens != 20 || best.Unit != schema.UnitPassage {
		t.Errorf("the first one is %+v", best)
	}
	want(t, "spans", best.Spans, []schema.Span{{Version: version(0), Section: version(0), Start: 0, End: 12}, {Version: version(0), Section: version(0), Start: 12, End: 24}})
	joined := ""
	for _, s := range best.Spans[:1] {
		joined += strings.Join(c.documents[0].sections[0], "")[s.Start:s.End]
	}
	want(t, "the first span", joined, "Text a 0 0. ")
	want(t, "documents", documents(got), []string{"a", "b"})
	want(t, "why", got.Trace[1].Why, "4 passages became 5 candidates, 2 of them stay alone")
	want(t, "kept", len(got.Trace[1].Kept), 7)
	want(t, "least", texts(c.run(t, "- lexical\n- relate: {depth: 2, least: 0.4}"))[:2], []string{"Text a 0 0. Text a 1 1.", "Text a 0 1. Text a 0 0."})
	want(t, "as strong as the least", texts(c.run(t, "- lexical\n- relate: {depth: 2, least: 0.5}"))[1], "Text a 0 1. Text a 0 0.")
	want(t, "k", texts(c.run(t, "- lexical\n- relate: {depth: 1, k: 1}"))[:2], []string{"Text a 0 0. Text a 1 1.", "Text a 0 1."})
}

// TestRelateJoinsAPassageWithAllItIsLinkedTo: each passage becomes one candidate, in the order of
// its document.
func TestRelateJoinsAPassageWithAllItIsLinkedTo(t *testing.T) {
	got := linked().run(t, "- lexical\n- relate: {depth: 4, k: 2, join: all}")
	want(t, "candidates", texts(got), []string{
		"Text a 0 0. Text a 0 1. Text a 1 1.", "Text a 0 0. Text a 0 1. Text a 1 0.", "Text a 0 2.", "Text a 1 0.", "Text a 1 1.", "Text b 0 0."})
	if best := got.Candidates[0]; best.Score != 9 || best.Scores["link"] != 0.6 || best.Tokens != 30 || len(best.Spans) != 3 {
		t.Errorf("the first one is %+v", best)
	}
	want(t, "why", got.Trace[1].Why, "4 passages became 4 candidates, 2 of them stay alone")
}

func TestJoinedCandidatesGoThroughTheStages(t *testing.T) {
	c := linked()
	c.readers = everyOp(func(text string) float32 {
		return float32(strings.Count(text, "1 0")) - float32(strings.Count(text, "b"))/2
	})
	got := c.run(t, "- lexical\n- relate: {depth: 4, k: 2}\n- proximity\n- score\n- fuse: {keep: 0}\n- dedupe\n- limit: {k: 3, tokens: 35}")
	want(t, "the model reads both", texts(got)[:2], []string{"Text a 0 1. Text a 1 0.", "Text a 1 0."})
	want(t, "read as one text", c.readers.scored[0][0], "Text a 0 0. Text a 0 1.")
	want(t, "limit counts both", len(got.Context), 2)
	if why := got.Trace[5].Why; strings.Contains(why, "2 of the first") {
		t.Errorf("candidates of one passage and different others repeat each other: %s", why)
	}
	// A window lies in one of the two passages.
	c.readers.enough = func([][2]float32) float32 { return 1 }
	got = c.run(t, "- lexical\n- relate: {depth: 4, k: 2}\n- score\n- reduce: {sentences: 1}")
	if x := got.Candidates[got.Context[0]]; strings.TrimSpace(x.Text) != "Text a 1 0." || len(x.Spans) != 1 {
		t.Errorf("the window is %q", x.Text)
	}
}

func TestRelateWhereTextsRunIntoEachOther(t *testing.T) {
	c := linked()
	c.documents[0].sections[0][0] = "The end."
	c.documents[0].sections[1][1] = "The beginning."
	got := c.run(t, "- lexical\n- relate: {depth: 1, k: 1}")
	want(t, "a line break", got.Candidates[0].Text, "The end.\nThe beginning.")
	c.documents[0].deleted = true
	want(t, "what is gone", texts(c.run(t, "- lexical\n- relate")), []string{"Text b 0 0."})
}

func TestRelateWithoutLinks(t *testing.T) {
	c := linked()
	c.links = scriptedLinks{}
	want(t, "none", len(c.run(t, "- lexical\n- relate").Candidates), 6)
	c.links = nil
	_, err := c.tryRun(t, "- lexical\n- relate")
	var field *schema.FieldError
	if !errors.As(err, &field) || field.Field != "plan" {
		t.Errorf("got %v, not a FieldError on the plan", err)
	}
	want(t, "nothing found", len(c.run(t, "- lexical\n- relate", func(q *wire.SearchQuery) { q.Text = "of" }).Candidates), 0)
}
