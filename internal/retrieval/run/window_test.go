package run_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/retrieval/plan"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// TestAModelReadsTheSentencesThatHaveTheQuestion: a window of 12 tokens, in which two sentences of
// five words and their full stops fit.
func TestAModelReadsTheSentencesThatHaveTheQuestion(t *testing.T) {
	const (
		empty  = "Nothing is said in here. "
		rare   = "Some question is in here. "
		common = "Some word is in here. "
	)
	for name, x := range map[string]struct{ text, read, asked string }{
		"most, then what it lacks": {text: common + empty + rare + empty, read: common + rare},
		"what stands before it":    {text: empty + empty + rare + empty, read: empty + rare},
		"the better neighbour":     {text: empty + rare + rare + empty + rare, read: rare + rare},
		"the first one":            {text: rare + empty + empty, read: rare + empty},
		"none has a term":          {text: empty + empty + empty, read: empty + empty},
		"it fits":                  {text: empty + empty, read: empty + empty},
		"one is longer":            {text: empty + "This question " + strings.Repeat("goes on and on, ", 5) + "here. " + empty, read: "This question " + strings.Repeat("goes on and on, ", 5) + "here."},
		"a table's first row":      {text: empty + "\n\nName | Year\nRed | 2001\nBlue | 2002\nThe question | 2003\nGreen | 2004\n\n" + empty, read: "Name | Year\nRed | 2001\nThe question | 2003"},
		"no term was asked":        {text: empty + empty + empty, read: empty + empty + empty, asked: "and of the"},
	} {
		for _, model := range []string{"pair", "reranker"} {
			c := reranked([]float32{1}, []float32{1})
			c.df = map[string]int{"word": 5, "question": 1}
			c.documents[0].sections[0][0] = x.text
			c.dense[passage(0, 0, 0)] = 1
			got := c.run(t, "- dense\n- score: {model: "+model+", window: 12}", func(q *wire.SearchQuery) {
				if x.asked != "" {
					q.Text = x.asked
				}
			})
			texts := c.readers.scored
			if model == "reranker" {
				texts = c.readers.reranked
			}
			want(t, name+", "+model, texts, [][]string{{strings.TrimSpace(x.read)}})
			want(t, name+", what is shown", got.Candidates[0].Text, x.text)
		}
	}
}

// TestEveryPieceIsNarrowed: a candidate longer than the model's input is read in pieces, each
// reduced to its own window.
func TestEveryPieceIsNarrowed(t *testing.T) {
	c := read(1)
	filler := strings.Repeat("Nothing is said in here. ", 45) // 270 tokens
	c.documents[0].sections[0][0] = filler + "A word. " + filler + "A question. "
	got := c.run(t, "- lexical\n- score: {window: 20}")
	if n := len(c.readers.scored[0]); n < 2 || !strings.Contains(got.Trace[1].Why, "1 candidates in "+string(rune('0'+n))+" texts, 1 of them in pieces") {
		t.Errorf("read %d texts, and says %q", n, got.Trace[1].Why)
	}
	all := strings.Join(c.readers.scored[0], "|")
	if !strings.Contains(all, "A word.") || !strings.Contains(all, "A question.") || len(strings.Fields(all)) > 60 {
		t.Errorf("read %q", all)
	}
}

// TestWhatIsFarBehindIsNotRead: shares of the best one's score are 1, 0.8, 0.6, 0.4, 0.2.
func TestWhatIsFarBehindIsNotRead(t *testing.T) {
	for within, n := range map[string]int{"0": 4, "1": 4, "0.61": 4, "0.5": 3, "0.21": 2, "0.1": 2} {
		c := read(1, 2, 3, 4, 9)
		got := c.run(t, "- lexical\n- score: {depth: 4, within: "+within+"}")
		want(t, within+": texts", len(c.readers.scored[0]), n)
		expected := []string{"a/0/3", "a/0/2", "a/0/1", "a/0/0", "a/0/4"}[4-n:]
		for i := n; i < 4; i++ {
			expected = append(expected[:i:i], "a/0/"+string(rune('0'+i)))
		}
		want(t, within+": ranking", places(got), append(expected[:4:4], "a/0/4"))
		for i := 1; i < len(got.Candidates); i++ {
			if a, b := got.Candidates[i-1], got.Candidates[i]; !(a.Score > b.Score) {
				t.Errorf("%s: rank %d scores %g and the next one %g", within, i, a.Score, b.Score)
			}
		}
	}
	// The first min_k are read however far their scores are below.
	for minK, n := range map[string]int{"1": 1, "2": 2, "3": 3, "5": 4} {
		c := read(1, 2, 3, 4, 9)
		c.run(t, "- lexical\n- score: {depth: 4, within: 0.1, min_k: "+minK+"}")
		want(t, minK+" at least: texts", len(c.readers.scored[0]), n)
	}
	// Candidates that were not read are dropped by least.
	c := read(1, 2, 3, 4)
	got := c.run(t, "- lexical\n- score: {within: 0.3, least: 0}")
	want(t, "least", places(got), []string{"a/0/1", "a/0/0"})
	want(t, "why", got.Trace[1].Dropped[0].Why, "not read: below rank 2")
	// A single candidate is read too, and all are if no score is above 0.
	c = read(5)
	c.run(t, "- lexical\n- score: {within: 0.1}")
	want(t, "one alone", len(c.readers.scored[0]), 1)
	c = read(-1, -2, -3)
	c.run(t, "- lexical\n- score\n- score: {by: has_answer, within: 0.1}")
	want(t, "all are below 0", len(c.readers.scored[1]), 3)
}

func TestAWindowIsNoLongerThanAPiece(t *testing.T) {
	_, err := plan.Parse([]byte("name: p\nstages:\n- lexical\n- score: {window: 281}"))
	var field *schema.FieldError
	if !errors.As(err, &field) || field.Field != "stages[1].score.window" || !strings.Contains(field.Problem, "280") {
		t.Errorf("got %v", err)
	}
}
