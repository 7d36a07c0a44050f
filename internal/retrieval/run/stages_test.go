package run_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/lexical"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

func want(t *testing.T, what string, got, want any) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func TestLexicalSearchesEveryUnit(t *testing.T) {
	c := corpus([]int{2, 1}, []int{1}, []int{1})
	c.clusters[section(0, 1)], c.clusters[section(1, 0)] = clusterID(0), clusterID(0)
	for r, x := range map[lexical.Ref]float64{
		passage(0, 0, 0): 1, passage(0, 0, 1): 3, passage(0, 1, 0): 2, passage(1, 0, 0): 2.5,
		section(0, 0): 4, section(1, 0): 5, doc(0): 6, doc(1): 7,
	} {
		c.lexical[r] = x
	}
	c.byCluster[clusterID(0)] = 9
	for unit, expected := range map[string][]string{
		"passage":  {"a/0/1", "b/0/0", "a/1/0", "a/0/0"},
		"section":  {"b/0", "a/0"},
		"document": {"b", "a"},
	} {
		got := c.run(t, "- lexical: {unit: "+unit+"}")
		want(t, unit, places(got), expected)
		if unit != "section" {
			continue
		}
		want(t, "documents", got.Documents, []schema.RankedDocument{{Document: "b", Score: 5}, {Document: "a", Score: 4}})
		if s := got.Candidates[0].Scores; s["lexical.section"] != 5 || got.Candidates[0].Score != 5 {
			t.Errorf("scores are %v", s)
		}
	}
	got := c.run(t, "- lexical: {unit: cluster}")
	if len(got.Candidates) != 2 || got.Candidates[0].Cluster != clusterID(0) || got.Candidates[1].Cluster != lexical.SingletonCluster(version(0), 0) {
		t.Fatalf("clusters: %+v", got.Candidates)
	}
	// A document and a cluster show their best passage.
	want(t, "a cluster's text", got.Candidates[0].Text, "Text b 0 0. ")
	want(t, "a single section's text", got.Candidates[1].Text, "Text a 0 1. ")
	want(t, "documents of clusters", documents(got), []string{"a", "b"})
	want(t, "a document's text", c.run(t, "- lexical: {unit: document}").Candidates[1].Text, "Text a 0 1. ")
	want(t, "k", places(c.run(t, "- lexical: {unit: passage, k: 2}")), []string{"a/0/1", "b/0/0"})
	if q := c.queries[len(c.queries)-1]; q.Settings != lexical.Defaults || len(q.Terms) == 0 {
		t.Errorf("asked with %+v", q)
	}
	c.run(t, "- lexical: {unit: passage, k1: 0.9, b: 0.4}")
	want(t, "settings", c.queries[len(c.queries)-1].Settings, lexical.Settings{K1: 0.9, B: 0.4})
}

func TestDenseCountsALargerUnitByItsBestPassage(t *testing.T) {
	c := corpus([]int{30, 1}, []int{1}, []int{1})
	for p := range 30 { // one document fills the first passages
		c.dense[passage(0, 0, p)] = 0.9 - float64(p)/100
	}
	c.dense[passage(0, 1, 0)], c.dense[passage(1, 0, 0)], c.dense[passage(2, 0, 0)] = 0.2, 0.3, 0.1
	c.clusters[section(0, 1)], c.clusters[section(1, 0)] = clusterID(0), clusterID(0)
	want(t, "passages", places(c.run(t, "- dense: {k: 2}")), []string{"a/0/0", "a/0/1"})
	for unit, expected := range map[string]string{"section": "[a/0 b/0]", "document": "[a b]"} {
		c.nearest = nil
		got := c.run(t, "- dense: {unit: "+unit+", k: 2}")
		want(t, unit, places(got), expected)
		want(t, "score", got.Candidates[1].Scores["dense."+unit], 0.3)
		want(t, "best passage", got.Candidates[1].Text, "Text b 0 0. ")
		if len(c.nearest) < 2 {
			t.Error("it did not look further than the first document")
		}
	}
	got := c.run(t, "- dense: {unit: cluster, k: 2}")
	want(t, "second cluster", got.Candidates[1].Cluster, clusterID(0))
	want(t, "its text", got.Candidates[1].Text, "Text b 0 0. ")
}

func TestLaterStagesSearchInsideEarlierOnes(t *testing.T) {
	c := corpus([]int{2, 2}, []int{2}, []int{1})
	c.clusters[section(0, 0)], c.clusters[section(1, 0)] = clusterID(0), clusterID(0)
	c.byCluster[clusterID(0)] = 9
	c.lexical[section(0, 0)], c.lexical[section(0, 1)], c.lexical[section(1, 0)], c.lexical[section(2, 0)] = 1, 8, 2, 3
	for i, r := range c.all(schema.UnitPassage) {
		c.lexical[r], c.dense[r] = float64(10+i), 0.5-float64(i)/100
	}
	got := c.run(t, "- lexical: {unit: cluster, k: 2}\n- lexical: {unit: section, k: 2}\n- dense: {unit: passage, k: 3}")
	// Clusters: the pair (9) and a/1 alone (8). c/0 scores, but is outside.
	want(t, "funnel", places(got), []string{"a/1/0", "a/1/1", "b/0/0"})
	last := got.Candidates[2]
	if last.Scores["lexical.cluster"] != 9 || last.Scores["lexical.section"] != 2 || last.Score != last.Scores["dense.passage"] || last.Cluster != clusterID(0) {
		t.Errorf("a passage lost what its parents scored: %+v", last)
	}
	if d := got.Trace[1].Dropped; len(d) != 0 {
		t.Errorf("both clusters have a section among the best, but %+v is dropped", d)
	}
	got = c.run(t, "- lexical: {unit: section, k: 3}\n- lexical: {unit: passage, k: 2}\n- dense: {unit: passage, k: 1}")
	want(t, "scores what is there", places(got), []string{"b/0/1"})
	want(t, "dropped", []any{got.Trace[1].Dropped[0].Document, got.Trace[2].Dropped[0].Why}, []any{"a", "below rank 1"})
}

func TestZoomKeepsOrderAndScores(t *testing.T) {
	c := corpus([]int{2, 1}, []int{3}, []int{1})
	c.lexical[doc(0)], c.lexical[doc(1)] = 1, 2
	got := c.run(t, "- lexical: {unit: document}\n- zoom: {to: section}\n- zoom: {to: passage}")
	want(t, "everything inside", places(got), []string{"b/0/0", "b/0/1", "b/0/2", "a/0/0", "a/0/1", "a/1/0"})
	want(t, "scores", got.Candidates[5].Scores, map[string]float64{"lexical.document": 1})
	c.lexical[passage(1, 0, 2)], c.lexical[passage(0, 0, 1)] = 5, 7
	want(t, "per", places(c.run(t, "- lexical: {unit: document}\n- zoom: {to: passage, per: 1}")), []string{"b/0/2", "a/0/1"})
	want(t, "k", places(c.run(t, "- lexical: {unit: document}\n- zoom: {to: passage, k: 3}")), []string{"a/0/1", "b/0/2", "a/0/0"})
	c.clusters[section(0, 1)], c.clusters[section(2, 0)] = clusterID(0), clusterID(0)
	c.byCluster[clusterID(0)], c.lexical[section(1, 0)] = 3, 4
	want(t, "clusters", places(c.run(t, "- lexical: {unit: cluster}\n- zoom: {to: section}")), []string{"b/0", "a/1", "c/0"})
}

// TestHybridScoresExactly: whatever one component found, every other one gives it the scripted
// score, however shallow its own search was. A search as deep as the collection ranks by the exact
// sum.
func TestHybridScoresExactly(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 60 {
		c := corpus([]int{2, 3}, []int{4}, []int{1, 1, 1}, []int{2}, []int{5})
		c.clusters[section(0, 1)], c.clusters[section(3, 0)] = clusterID(0), clusterID(0)
		c.byCluster[clusterID(0)] = 1 + r.Float64()
		for _, unit := range []schema.Unit{schema.UnitPassage, schema.UnitSection, schema.UnitDocument} {
			for _, ref := range c.all(unit) {
				if r.IntN(3) > 0 {
					c.lexical[ref] = 1 + float64(r.IntN(50))
				}
			}
		}
		for _, ref := range c.all(schema.UnitPassage) {
			c.dense[ref] = r.Float64()
		}
		const of = "\n    of: [{lexical: {unit: document, weight: 2}}, {lexical: {unit: section}}, {lexical: {unit: cluster}}, {lexical: {weight: 0.5}}, {dense: {weight: 3}}]"
		for depth, deep := range map[int]bool{2: false, 100: true} {
			got := c.run(t, fmt.Sprintf("- hybrid:\n    normalise: none\n    depth: %d%s", depth, of))
			byPlace := map[string]float64{}
			for _, x := range got.Candidates {
				ref, ok := find(c, place(x))
				if !ok {
					t.Fatalf("no place %q", place(x))
				}
				expected := map[string]float64{
					"lexical.passage": c.lexical[ref], "dense.passage": c.dense[ref],
					"lexical.section":  c.lexical[lexical.Ref{Version: ref.Version, Section: ref.Section, Passage: -1}],
					"lexical.document": c.lexical[lexical.Ref{Version: ref.Version, Section: -1, Passage: -1}],
					"lexical.cluster":  c.clusterScore(ref),
				}
				sum := 2*expected["lexical.document"] + expected["lexical.section"] + expected["lexical.cluster"] +
					expected["lexical.passage"]/2 + 3*expected["dense.passage"]
				for name, score := range expected {
					if x.Scores[name] != score {
						t.Fatalf("depth %d: %s of %s is %v, want %v", depth, name, place(x), x.Scores[name], score)
					}
				}
				if math.Abs(x.Score-sum) > 1e-9 {
					t.Fatalf("depth %d: the sum of %s is %v, want %v", depth, place(x), x.Score, sum)
				}
				byPlace[place(x)] = x.Score
			}
			if deep && len(byPlace) != len(c.all(schema.UnitPassage)) {
				t.Fatalf("a deep search gave %d of %d passages", len(byPlace), len(c.all(schema.UnitPassage)))
			}
			for i := 1; i < len(got.Candidates); i++ {
				if got.Candidates[i].Score > got.Candidates[i-1].Score {
					t.Fatal("not by falling score")
				}
			}
		}
	}
}

func find(c *scriptedCorpus, name string) (lexical.Ref, bool) {
	for _, r := range c.all(schema.UnitPassage) {
		if fmt.Sprintf("%s/%d/%d", c.documents[c.number(r.Version)].name, r.Section, r.Passage) == name {
			return r, true
		}
	}
	return lexical.Ref{}, false
}

func (c *scriptedCorpus) clusterScore(r lexical.Ref) float64 {
	r.Passage = -1
	if id, ok := c.clusters[r]; ok {
		return c.byCluster[id]
	}
	return c.lexical[r]
}

func TestHybridFindsADocumentByItsTitleAlone(t *testing.T) {
	c := corpus([]int{2}, []int{1})
	c.lexical[doc(0)], c.lexical[passage(1, 0, 0)] = 5, 1
	got := c.run(t, "- hybrid:\n    of: [{lexical: {unit: document}}, {lexical: {unit: passage}}]")
	want(t, "its first passage", places(got), []string{"a/0/0", "b/0/0"})
}

func TestHybridOfLargerUnitsTakesTheBestPart(t *testing.T) {
	c := corpus([]int{2, 2}, []int{2})
	c.lexical[passage(0, 1, 0)], c.lexical[passage(0, 0, 0)], c.lexical[passage(1, 0, 1)] = 4, 2, 3
	c.dense[passage(0, 0, 1)], c.dense[passage(1, 0, 0)] = 0.5, 0.7
	got := c.run(t, "- hybrid:\n    unit: document\n    normalise: none\n    of: [{lexical: {unit: passage}}, {dense: {unit: passage}}]")
	want(t, "documents", places(got), []string{"a", "b"})
	want(t, "scores", []float64{got.Candidates[0].Score, got.Candidates[1].Score}, []float64{4.5, 3.7})
}

// TestHybridTakesTheBestOfManyParts: at any position among them.
func TestHybridTakesTheBestOfManyParts(t *testing.T) {
	c := corpus([]int{12})
	for p := range 12 {
		c.dense[passage(0, 0, p)] = float64(1 + p*5%12)
	}
	got := c.run(t, "- hybrid: {unit: section, normalise: none, of: [dense: {unit: passage}]}")
	want(t, "the section's score", got.Candidates[0].Score, 12)
}

func TestHybridMethods(t *testing.T) {
	c := corpus([]int{1}, []int{1}, []int{1}, []int{1})
	for d, x := range []float64{8, 4, 2} {
		c.lexical[passage(d, 0, 0)] = x
	}
	for d, x := range []float64{0.2, 0.8, 0.4, -0.4} {
		c.dense[passage(d, 0, 0)] = x
	}
	scores := func(parameters string) map[string]float64 {
		out := map[string]float64{}
		for _, x := range c.run(t, "- hybrid: {"+parameters+", of: [{lexical: {weight: 2}}, {dense: {}}]}").Candidates {
			out[x.ExternalID] = math.Round(x.Score*1e6) / 1e6
		}
		return out
	}
	want(t, "max", scores("normalise: max"), map[string]float64{"a": 2.25, "b": 2, "c": 1, "d": -0.5})
	want(t, "minmax", scores("normalise: minmax"), map[string]float64{"a": 2.5, "b": 2, "c": 1.166667, "d": 0})
	want(t, "none", scores("normalise: none"), map[string]float64{"a": 16.2, "b": 8.8, "c": 4.4, "d": -0.4})
	round := func(x float64) float64 { return math.Round(x*1e6) / 1e6 }
	want(t, "rrf", scores("method: rrf"), map[string]float64{"a": round(2./61 + 1./63), "b": round(2./62 + 1./61), "c": round(2./63 + 1./62), "d": 0})
	want(t, "rrf 10", scores("method: rrf, rank_constant: 10")["a"], round(2./11+1./13))
}

func TestHybridInsideAFunnel(t *testing.T) {
	c := corpus([]int{2, 2}, []int{2})
	for i, r := range c.all(schema.UnitPassage) {
		c.lexical[r], c.dense[r] = float64(1+i), 0.9
	}
	c.lexical[section(0, 0)], c.lexical[doc(0)], c.lexical[doc(1)] = 5, 2, 50
	got := c.run(t, "- lexical: {unit: section}\n- hybrid:\n    normalise: none\n    of: [{lexical: {unit: document}}, {lexical: {unit: passage}}, {dense: {}}]")
	want(t, "only what the funnel holds", places(got), []string{"a/0/1", "a/0/0"})
	if s := got.Candidates[0].Scores; s["lexical.document"] != 2 || s["lexical.section"] != 5 {
		t.Errorf("scores are %v", s)
	}
}

func TestFirstStagesNarrowBeforeTheyScore(t *testing.T) {
	for _, stages := range []string{
		"- lexical: {unit: passage, k: 1}", "- lexical: {unit: section, k: 1}", "- lexical: {unit: document, k: 1}", "- lexical: {unit: cluster, k: 1}",
		"- dense: {unit: passage, k: 1}", "- dense: {unit: section, k: 1}", "- dense: {unit: document, k: 1}", "- dense: {unit: cluster, k: 1}",
		"- hybrid: {k: 1, depth: 1, of: [{lexical: {unit: document}}, {lexical: {}}, {dense: {}}]}",
		"- lexical: {unit: cluster, k: 1}\n- zoom: {to: passage}",
		"- lexical: {unit: document, k: 1}\n- zoom: {to: section}",
	} {
		c := corpus([]int{1}, []int{1}, []int{1}, []int{1})
		c.documents[0].labels = []string{"board"}
		for d := range c.documents {
			c.documents[d].metadata = map[string]string{"year": []string{"2024", "2023", "2024", "2023"}[d]}
			for _, r := range []lexical.Ref{doc(d), section(d, 0), passage(d, 0, 0)} {
				c.lexical[r] = float64(10 - d)
			}
			c.dense[passage(d, 0, 0)] = 1 - float64(d)/10
			c.clusters[section(d, 0)] = clusterID(d / 2) // a cluster holds a hidden document and an open one
		}
		c.byCluster[clusterID(0)], c.byCluster[clusterID(1)] = 10, 9
		expected := func(name string, groups []string, filter schema.Filter) {
			t.Helper()
			got := c.run(t, stages, func(q *wire.SearchQuery) { q.Principal.Groups, q.Filter = groups, filter })
			var names []string
			for _, x := range got.Candidates {
				names = append(names, x.ExternalID)
			}
			want(t, stages+" "+name, names, []string{expectedOf[name]})
		}
		year := schema.Filter{{Key: "year", Op: schema.OpEq, Values: []string{"2024"}}}
		if !strings.Contains(stages, "cluster") {
			expected("groups", []string{"board"}, nil)
		}
		expected("no groups", nil, nil)
		expected("filter", nil, year)
		for _, q := range c.nearest {
			if q.Filter != nil && !slices.Equal(q.Filter[0].Values, year[0].Values) {
				t.Errorf("%s: the vectors were asked with filter %v", stages, q.Filter)
			}
		}
	}
}

var expectedOf = map[string]string{"groups": "a", "no groups": "b", "filter": "c"}

func TestADeletedDocumentIsNeverShown(t *testing.T) {
	for _, unit := range []string{"passage", "section", "document", "cluster"} {
		for _, kind := range []string{"lexical", "hybrid"} {
			c := corpus([]int{1}, []int{1}, []int{1})
			for d := range c.documents {
				for _, r := range []lexical.Ref{doc(d), section(d, 0), passage(d, 0, 0)} {
					c.lexical[r] = float64(10 - d)
				}
			}
			c.documents[0].deleted = true // the index was read before
			stages := "- lexical: {unit: " + unit + "}"
			if kind == "hybrid" {
				stages = "- hybrid: {unit: " + unit + ", of: [{lexical: {unit: " + unit + "}}]}"
			}
			got := c.run(t, stages, func(q *wire.SearchQuery) { q.K = 1 })
			if len(got.Candidates) != 1 || got.Candidates[0].ExternalID != "b" {
				t.Errorf("%s of %s: got %v, want b alone in the place of a", kind, unit, places(got))
			}
			want(t, "documents", documents(got), []string{"b", "c"})
			want(t, "context", got.Context, []int{0})
			for _, k := range got.Trace[0].Kept {
				if k.Document == "a" || k.Version == version(0) {
					t.Errorf("%s of %s: the explanation names it", kind, unit)
				}
			}
		}
	}
}

func TestEqualScoresAreInTheOrderOfPlaces(t *testing.T) {
	c := corpus([]int{2, 1}, []int{2}, []int{1})
	for _, r := range c.all(schema.UnitPassage) {
		c.lexical[r], c.dense[r] = 1, 0.5
	}
	for _, stages := range []string{"- lexical: {}", "- dense: {}", "- hybrid: {of: [{lexical: {}}, {dense: {}}]}", "- hybrid: {method: rrf, of: [{lexical: {}}, {dense: {}}]}"} {
		for range 20 { // the order of maps differs each time
			want(t, stages, places(c.run(t, stages)), []string{"a/0/0", "a/0/1", "a/1/0", "b/0/0", "b/0/1", "c/0/0"})
		}
	}
}

func TestWhatIsNotIndexedIsSaid(t *testing.T) {
	c := corpus([]int{1})
	c.lexical[passage(0, 0, 0)], c.unindexed = 1, 3
	if why := c.run(t, "- lexical: {}").Trace[0].Why; !strings.Contains(why, "3 documents wait to be indexed") {
		t.Errorf("why is %q", why)
	}
}

func TestStatisticsAreForAdmins(t *testing.T) {
	c := corpus([]int{1})
	c.lexical[passage(0, 0, 0)] = 1
	for _, x := range []struct {
		scopes  []schema.Scope
		explain bool
		want    bool
	}{{nil, true, false}, {[]schema.Scope{schema.ScopeQuery}, true, false}, {[]schema.Scope{schema.ScopeAdmin}, true, true}, {[]schema.Scope{schema.ScopeAdmin}, false, false}} {
		got := c.run(t, "- hybrid: {of: [{lexical: {}}]}", func(q *wire.SearchQuery) { q.Principal.Scopes, q.Explain = x.scopes, x.explain })
		if s := got.Trace[0].Statistics; (s["lexical.passage.units"] == 7) != x.want || !x.want && s != nil {
			t.Errorf("%v, explain %v: statistics %v", x.scopes, x.explain, s)
		}
		if (len(got.Trace[0].Kept) > 0) != x.explain {
			t.Errorf("explain %v: kept %v", x.explain, got.Trace[0].Kept)
		}
	}
}

func TestNothingFound(t *testing.T) {
	c := corpus([]int{1})
	for _, stages := range []string{
		"- lexical: {unit: cluster}\n- zoom: {to: section}\n- hybrid: {unit: section, of: [{lexical: {unit: section}}]}\n- zoom: {to: passage}\n- lexical: {}\n- dedupe\n- gradient\n- order: {method: ends}\n- limit: {tokens: 5}",
		"- dense: {}", "- hybrid: {of: [{dense: {}}, {lexical: {unit: cluster}}]}",
	} {
		got := c.run(t, stages)
		if len(got.Candidates) != 0 || len(got.Context) != 0 || len(got.Documents) != 0 {
			t.Errorf("%s: got %+v", stages, got)
		}
	}
}

func TestDocumentsOfAllClustersAreLookedUpAtOnce(t *testing.T) {
	c := corpus([]int{1}, []int{1}, []int{1}, []int{1}, []int{1})
	for d := range 5 {
		c.clusters[section(d, 0)] = clusterID(d)
		c.byCluster[clusterID(d)] = float64(9 - d)
	}
	got := c.run(t, "- lexical: {unit: cluster}", func(q *wire.SearchQuery) { q.K = 1 })
	if want(t, "documents", documents(got), []string{"a", "b", "c", "d", "e"}); c.members > 2 { // what is shown, and the rest
		t.Errorf("%d statements list the members of 5 clusters", c.members)
	}
}
