package run_test

import (
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/schema/wire"
)

func TestFuseKeepsWhatAnAnswerDrawsOn(t *testing.T) {
	c := read(1, 5, 3, 2, 4, 9)
	got := c.run(t, "- lexical\n- fuse: {depth: 5}")
	want(t, "the best four", places(got), []string{"a/0/1", "a/0/4", "a/0/2", "a/0/3"})
	want(t, "scores", scoresOf(got.Candidates[0], "fuse", "lexical.passage"), []float64{5, 5})
	want(t, "read at once", []int{len(c.readers.fused), len(c.readers.fused[0])}, []int{1, 5})
	want(t, "as published", []any{c.readers.tokens, c.readers.question}, []any{4, false})
	if r := got.Trace[1]; !strings.Contains(r.Why, "5 candidates in 5 texts, fused by scripted/1; fuse 5.000 to 1.000") || len(r.Dropped) != 2 || r.Dropped[1].Why != "below rank 4" {
		t.Errorf("it says %+v", r)
	}
	c.run(t, "- lexical\n- fuse: {lr: 7, with_question: true}")
	want(t, "settings", []any{c.readers.tokens, c.readers.question}, []any{7, true})
	got = c.run(t, "- lexical\n- fuse: {depth: 2, keep: 0}")
	want(t, "the rest follows in its order", places(got), []string{"a/0/1", "a/0/0", "a/0/2", "a/0/3", "a/0/4", "a/0/5"})
	want(t, "equal ones by place", places(read(1, 1, 1).run(t, "- lexical\n- fuse")), []string{"a/0/0", "a/0/1", "a/0/2"})
}

func TestFuseReadsNoMoreThanTheModelTakes(t *testing.T) {
	c := read(1, 5, 3, 2, 4, 9)
	c.readers.info.Limits = map[wire.ModelOp]int{wire.OpFuse: 3}
	got := c.run(t, "- lexical\n- fuse: {keep: 0}")
	want(t, "three", places(got), []string{"a/0/1", "a/0/2", "a/0/0", "a/0/3", "a/0/4", "a/0/5"})
	if why := got.Trace[1].Why; !strings.Contains(why, "the fuser reads 3 of 6 texts together") {
		t.Errorf("it says %q", why)
	}
	// A candidate of several pieces is read whole or not at all, except the first.
	filler := strings.Repeat("Words that say nothing at all. ", 60)
	for p := range 2 {
		c.documents[0].sections[0][1+p] = filler
	}
	c.run(t, "- lexical\n- fuse: {keep: 0}")
	want(t, "the second is whole", len(c.readers.fused[1]), 3)
	c.documents[0].sections[0][0] = filler
	c.run(t, "- lexical\n- fuse: {keep: 0}")
	want(t, "the second is not", len(c.readers.fused[2]), 2)
	c.readers.info.Limits[wire.OpFuse] = 1
	c.run(t, "- lexical\n- fuse: {keep: 0}")
	want(t, "the first is cut", len(c.readers.fused[3]), 1)
}

func TestFuseReadsLongUnitsInPieces(t *testing.T) {
	c := read()
	filler := strings.Repeat("Words that say nothing at all. ", 60)
	c.documents[0].sections = [][]string{{"Text a 0 0. "}, {filler, "Text a 1 1. Needle. "}}
	c.lexical[doc(0)], c.lexical[section(0, 0)] = 1, 1
	c.readers.fuse = func(text string) float32 { return float32(strings.Count(text, "Needle")) }
	best := c.run(t, "- lexical: {unit: document}\n- fuse").Candidates[0]
	if best.Score != 1 || !strings.HasSuffix(best.Text, "Needle. ") || len(best.Text) > 2000 {
		t.Errorf("the document shows %q", best.Text)
	}
	c.documents[0].deleted = true
	want(t, "what is gone", len(c.run(t, "- lexical: {unit: document}\n- fuse").Candidates), 0)
	c = read()
	c.documents[0].sections = nil
	want(t, "nothing found", len(c.run(t, "- lexical\n- fuse").Candidates)+len(c.readers.fused), 0)
}
