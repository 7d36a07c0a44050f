package run_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/preference"
	"github.com/sluice-rag/sluice/internal/retrieval"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// scriptedPreferences are heads that are set by a test.
type scriptedPreferences struct {
	all  []retrieval.Preference
	fail error
	asks int
}

func (p *scriptedPreferences) Preferences(context.Context, schema.Principal, uuid.UUID) ([]retrieval.Preference, error) {
	p.asks++
	return slices.Clone(p.all), p.fail
}

// preferenceFor is a head that uses one feature only.
func preferenceFor(model, graph string) retrieval.Preference {
	return retrieval.Preference{Model: model, Of: graph, Questions: 400, Head: preference.Head{Weights: []float64{2, 0, 0}, Bias: -1}}
}

// TestLLMPreferIsOfTheModelThatAnswers: if a head was trained for that model and this graph. The
// explanation says whose llm_prefer it is, and why no head is used.
func TestLLMPreferIsOfTheModelThatAnswers(t *testing.T) {
	const own = "llm_prefer: the pack's own reader's"
	for _, x := range []struct {
		name     string
		prefers  *scriptedPreferences
		model    *scriptedModel
		features bool
		stage    string
		first    string // in the ranking
		message  string // "": the explanation does not say whose it is
		featured int
	}{
		{"learnt", &scriptedPreferences{all: []retrieval.Preference{preferenceFor("openai/other", "graph"), preferenceFor("openai/scripted", "graph")}}, &scriptedModel{}, true,
			"score: {by: llm_prefer}", "a/0/2", "llm_prefer: openai/scripted's, learnt from 400 questions", 1},
		{"the sum", &scriptedPreferences{all: []retrieval.Preference{preferenceFor("openai/scripted", "graph")}}, &scriptedModel{}, true,
			"score: {by: prefer_sum}", "a/0/2", "llm_prefer: openai/scripted's", 1},
		{"nobody ranks by it", &scriptedPreferences{all: []retrieval.Preference{preferenceFor("openai/scripted", "graph")}}, &scriptedModel{}, true,
			"score: {by: has_answer}", "a/0/0", "", 0},
		{"of another model", &scriptedPreferences{all: []retrieval.Preference{preferenceFor("openai/other", "graph")}}, &scriptedModel{}, true,
			"score: {by: llm_prefer}", "a/0/0", own + " (none was learnt for openai/scripted)", 0},
		{"of another graph", &scriptedPreferences{all: []retrieval.Preference{preferenceFor("openai/scripted", "before")}}, &scriptedModel{}, true,
			"score: {by: llm_prefer}", "a/0/0", own + " (what openai/scripted prefers was learnt with another pair model", 1},
		{"a graph without features", &scriptedPreferences{all: []retrieval.Preference{preferenceFor("openai/scripted", "graph")}}, &scriptedModel{}, false,
			"score: {by: llm_prefer}", "a/0/0", own + " (what openai/scripted prefers was learnt with another pair model", 1},
		{"nothing was learnt", &scriptedPreferences{}, &scriptedModel{}, true, "score: {by: llm_prefer}", "a/0/0", own, 0},
		{"nothing can be", nil, nil, true, "score: {by: llm_prefer}", "a/0/0", own, 0},
		{"no answer to who answers", &scriptedPreferences{all: []retrieval.Preference{preferenceFor("openai/scripted", "graph")}}, &scriptedModel{fail: schema.ErrUnavailable}, true,
			"score: {by: llm_prefer}", "a/0/0", own + " (the language model's name cannot be determined: ", 0},
		{"the store is away", &scriptedPreferences{fail: errors.New("no store")}, &scriptedModel{}, true,
			"score: {by: llm_prefer}", "a/0/0", own + " (the learnt preferences cannot be read: no store)", 0},
	} {
		c := ranked([]float64{9, 8, 7})
		of := numbered(2, 1, 0)
		c.readers = everyOp(of)
		if x.features {
			c.readers.features = func(text string) []float32 { return []float32{-3 * of(text)} }
		}
		if x.prefers != nil {
			c.prefers = x.prefers
		}
		if x.model != nil {
			c.judges = x.model
		}
		got := c.run(t, "- dense\n- "+x.stage+"\n- "+x.stage)
		why := got.Trace[1].Why
		if x.message == "" && strings.Contains(why, "llm_prefer:") || !strings.Contains(why, x.message) || places(got)[0] != x.first {
			t.Errorf("%s: %v first, because %s", x.name, places(got), why)
		}
		if x.message == own && !strings.HasPrefix(why[strings.Index(why, own):]+";", own+";") {
			t.Errorf("%s: %s", x.name, why)
		}
		if c.readers.featured != 2*x.featured {
			t.Errorf("%s: features were asked for %d times", x.name, c.readers.featured)
		}
		if x.prefers != nil && x.message != "" && x.prefers.asks != 1 {
			t.Errorf("%s: looked up %d times in a run", x.name, x.prefers.asks)
		}
	}
}

// TestATextWithoutAWordStaysLast: a head does not score it.
func TestATextWithoutAWordStaysLast(t *testing.T) {
	c := ranked([]float64{9, 8})
	c.readers = everyOp(numbered(wire.LowestScore, 1))
	c.readers.features = func(string) []float32 { return []float32{0} }
	head := preferenceFor("openai/scripted", "graph")
	head.Head.Bias = -500
	c.prefers, c.judges = &scriptedPreferences{all: []retrieval.Preference{head}}, &scriptedModel{}
	got := c.run(t, "- dense\n- score: {by: llm_prefer}")
	if s := got.Candidates[1].Scores["llm_prefer"]; places(got)[0] != "a/0/0" || got.Candidates[0].Scores["llm_prefer"] != wire.LowestScore || s != -500 {
		t.Errorf("got %v with %v", places(got), fmt.Sprint(got.Candidates[0].Scores, s))
	}
}

// TestTheDetectorIsGivenThePacksOwn: windows are chosen by the language model's preference, but the
// detector gets the pack's, for which it is calibrated.
func TestTheDetectorIsGivenThePacksOwn(t *testing.T) {
	c := conversationCorpus()
	c.readers.features = func(text string) []float32 { return []float32{float32(strings.Count(text, "liked")) * 10} }
	c.prefers, c.judges = &scriptedPreferences{all: []retrieval.Preference{preferenceFor("openai/scripted", "graph")}}, &scriptedModel{}
	got := c.run(t, "- lexical: {unit: section}\n- reduce")
	if why := got.Trace[1].Why; !strings.Contains(why, "llm_prefer: openai/scripted's") {
		t.Errorf("it says %s", why)
	}
	best := got.Candidates[got.Context[0]]
	if strings.TrimSpace(best.Text) != second || best.Scores["llm_prefer"] != 39 {
		t.Errorf("first is %q with %v", best.Text, best.Scores)
	}
	if first := c.readers.contexts[0]; len(first) != 1 || first[0] != [2]float32{1, 2} {
		t.Errorf("the detector was given %v", first)
	}
}
