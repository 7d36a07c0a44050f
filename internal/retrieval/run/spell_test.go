package run_test

import (
	"errors"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/sluice-rag/sluice/internal/retrieval/plan"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

func TestSpellTakesUnknownWordsForKnownOnes(t *testing.T) {
	for _, x := range []struct{ question, terms string }{
		{"garrsion", "garrison"},              // two letters have changed places
		{"garison", "garrison"},               // one is missing
		{"garrisonn", "garrison"},             // one is too many
		{"garrizon", "garrison"},              // one is another
		{"agrrison", "garrison"},              // the first two have changed places
		{"karrison", "karrison"},              // the first letter is right
		{"gareson", "gareson"},                // two slips
		{"dragoms", "dragon"},                 // of two words the more frequent one
		{"castel garrsion", "castl garrison"}, // stems are compared
		{"crwn crown", "crwn crown"},          // too short
		{"garris0n 471111 garrison", "garris0n 471111 garrison"},
		{"крепотсь", "крепость"},
		{"要塞要塞要塞要塞", "要 要塞 塞 塞要 要 要塞 塞 塞要 要 要塞 塞 塞要 要 要塞 塞"},
		{"and of the", ""},
	} {
		c := corpus([]int{1})
		c.lexical[passage(0, 0, 0)], c.dense[passage(0, 0, 0)] = 1, 1
		c.df = map[string]int{"garrison": 3, "castl": 2, "crown": 9, "dragom": 0, "dragon": 5, "dragum": 1, "крепость": 1}
		got := c.run(t, "- spell: {least: 5}\n- lexical\n- proximity", func(q *wire.SearchQuery) {
			q.Text, q.Principal.Scopes = x.question, []schema.Scope{schema.ScopeAdmin}
		})
		if x.terms == "" {
			want(t, "no words", len(c.queries), 0)
			continue
		}
		terms := c.queries[len(c.queries)-1].Terms
		want(t, x.question, strings.Join(terms, " "), x.terms)
		if x.question == "castel garrsion" {
			want(t, "why", got.Trace[0].Why, "2 words are in no document; 2 are taken for others")
			want(t, "statistics", got.Trace[0].Statistics, map[string]float64{"castel as castl": 2, "garrsion as garrison": 3})
		}
	}
}

// Models and an empty index are asked as before.
func TestSpellLeavesTheQuestionToModels(t *testing.T) {
	c := corpus([]int{1})
	c.lexical[passage(0, 0, 0)] = 1
	c.judges = &scriptedJudges{rewrite: func(string) string { return "garison" }}
	c.df = map[string]int{"garrison": 1}
	c.run(t, "- spell\n- rewrite\n- lexical", func(q *wire.SearchQuery) { q.Text = "garrsion" })
	want(t, "terms of what was worded anew", c.queries[len(c.queries)-1].Terms, []string{"garison"})
	c.run(t, "- rewrite\n- spell\n- lexical", func(q *wire.SearchQuery) { q.Text = "garrsion" })
	want(t, "terms after both", c.queries[len(c.queries)-1].Terms, []string{"garrison"})
}

func TestSpellComesBeforeSearch(t *testing.T) {
	_, err := plan.LoadCatalogue(fstest.MapFS{"p.yaml": {Data: []byte("name: p\nstages:\n- lexical\n- spell\n")}}, "p")
	var wrong *schema.FieldError
	if !errors.As(err, &wrong) || wrong.Field != "stages[1].spell" {
		t.Errorf("gave %v", err)
	}
}
