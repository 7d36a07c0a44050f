package run_test

import (
	"math"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/schema/wire"
)

// conversationCorpus is a document of three sections whose words determine the pair model's scores:
// "good" and "liked" count one each.
func conversationCorpus() *scriptedCorpus {
	c := corpus([]int{1, 1, 1})
	c.documents[0].sections = [][]string{
		{"One. Two. Three is good. Four is good and liked. Five is good. Six. Seven. "},
		{"One is liked. Two. "},
		{"One. Two. Three. Four is good, liked and liked. "},
	}
	for s := range 3 {
		c.lexical[section(0, s)] = float64(9 - s)
	}
	c.readers = everyOp(func(string) float32 { return 0 })
	c.readers.score = func(text string) wire.PairScore {
		return wire.PairScore{HasAnswer: float32(strings.Count(text, "good")), LLMPrefer: float32(strings.Count(text, "liked"))}
	}
	return c
}

func contextTexts(c *scriptedCorpus, t *testing.T, stages string) []string {
	t.Helper()
	got := c.run(t, stages)
	var out []string
	for _, i := range got.Context {
		x := got.Candidates[i]
		for _, s := range x.Spans {
			whole := strings.Join(c.documents[0].sections[0], "")
			for _, section := range c.documents[0].sections {
				if text := strings.Join(section, ""); s.End <= len(text) && text[s.Start:s.End] == x.Text {
					whole = text
				}
			}
			if whole[s.Start:s.End] != x.Text {
				t.Errorf("%q is not bytes %d to %d of a section", x.Text, s.Start, s.End)
			}
		}
		out = append(out, strings.TrimSpace(x.Text))
	}
	return out
}

const (
	first  = "Three is good. Four is good and liked. Five is good." // 4
	second = "Two. Three. Four is good, liked and liked."           // 3
	third  = "One is liked. Two."                                   // 1
)

func TestReduceTakesTheBestWindowsUntilTheyAreEnough(t *testing.T) {
	c := conversationCorpus()
	want(t, "three are enough", contextTexts(c, t, "- lexical: {unit: section}\n- reduce"), []string{first, second, third})
	want(t, "windows", len(c.readers.scored[0]), 5+1+2)
	want(t, "what the detector sees", c.readers.contexts, [][][2]float32{{{3, 1}}, {{3, 1}, {1, 2}}, {{3, 1}, {1, 2}, {0, 1}}})
	want(t, "two, by a number", contextTexts(c, t, "- lexical: {unit: section}\n- reduce: {enough: 0.15}"), []string{first, second})
	c.readers.enough = func(pairs [][2]float32) float32 { return float32(len(pairs)) / 4 } // which are exact
	want(t, "as much as is enough", contextTexts(c, t, "- lexical: {unit: section}\n- reduce: {enough: 0.5}"), []string{first, second})
	c = conversationCorpus()
	want(t, "most", contextTexts(c, t, "- lexical: {unit: section}\n- reduce: {most: 1}"), []string{first})
	want(t, "depth", contextTexts(c, t, "- lexical: {unit: section}\n- reduce: {depth: 2}"), []string{first, third})
	want(t, "never enough", contextTexts(c, t, "- lexical: {unit: section}\n- reduce: {enough: 1}"), []string{first, second, third})
	want(t, "other windows", contextTexts(c, t, "- lexical: {unit: section}\n- reduce: {sentences: 1, enough: 0.1}"), []string{"Four is good, liked and liked."})
	want(t, "a stride", contextTexts(c, t, "- lexical: {unit: section}\n- reduce: {stride: 3, depth: 1}"), []string{"Four is good and liked. Five is good. Six."})
	want(t, "so many windows", contextTexts(c, t, "- lexical: {unit: section}\n- reduce: {windows: 1, depth: 1}"), []string{"One. Two. Three is good."})
}

func TestReduceLeavesTheRanking(t *testing.T) {
	c := conversationCorpus()
	got := c.run(t, "- lexical: {unit: section}\n- reduce: {enough: 0.2}")
	want(t, "context", got.Context, []int{0, 2})
	want(t, "ranking", len(got.Candidates), 3)
	if x := got.Candidates[1]; x.Text != c.documents[0].sections[1][0] || x.Scores["has_answer"] != 0 {
		t.Errorf("what is not in the context is %+v", x)
	}
	if x := got.Candidates[2]; x.Score != 7 || x.Scores["prefer_sum"] != 3 || x.Scores["has_answer"] != 1 || x.Scores["lexical.section"] != 7 || x.Tokens >= 20 {
		t.Errorf("what is reduced is %+v", x)
	}
	r := got.Trace[1]
	if !strings.Contains(r.Why, "windows of 3 sentences of 3 candidates in 8 texts") || !strings.Contains(r.Why, "2 windows are enough: 0.200, from 0.200 on") ||
		len(r.Dropped) != 1 || r.Dropped[0].Why != "the windows before it are enough" {
		t.Errorf("it says %+v", r)
	}
	if r := c.run(t, "- lexical: {unit: section}\n- reduce: {enough: 0.9}").Trace[1]; !strings.Contains(r.Why, "all 3 windows are kept: the probability that they are enough is 0.300, below 0.900") {
		t.Errorf("it says %q", r.Why)
	}
	// Later stages see the windows: 18 tokens, then 10.
	want(t, "limit", contextTexts(c, t, "- lexical: {unit: section}\n- reduce\n- limit: {tokens: 25}"), []string{first})
	c.documents[0].sections[1][0] = c.documents[0].sections[0][0]
	want(t, "dedupe", contextTexts(c, t, "- lexical: {unit: section}\n- reduce\n- dedupe"), []string{first, second})
	want(t, "order", len(contextTexts(c, t, "- lexical: {unit: section}\n- reduce\n- order: {method: ends}")), 3)
}

func TestReduceReadsEveryUnit(t *testing.T) {
	c := conversationCorpus()
	c.lexical[doc(0)] = 1
	c.clusters[section(0, 0)], c.clusters[section(0, 1)], c.clusters[section(0, 2)] = clusterID(0), clusterID(0), clusterID(0)
	c.byCluster[clusterID(0)] = 1
	for s := range 3 {
		c.lexical[passage(0, s, 0)] = float64(3 - s)
	}
	for unit, expected := range map[string][]string{"document": {first}, "cluster": {first}, "passage": {first, second, third}} {
		want(t, unit, contextTexts(c, t, "- lexical: {unit: "+unit+"}\n- reduce"), expected)
	}
	c.documents[0].deleted = true
	want(t, "what is gone", len(c.run(t, "- lexical: {unit: passage}\n- reduce").Context), 0)
	want(t, "nothing found", len(corpus([]int{1}).run(t, "- lexical\n- reduce").Candidates), 0)
	if c.readers.scored[0] == nil || math.IsNaN(float64(c.readers.contexts[0][0][0])) {
		t.Error("nothing was read")
	}
}
