package run_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// scriptedHistory is a history that is set by a test.
type scriptedHistory struct {
	known []bool // of the nearest, nearest first
	fail  error
	asked []int
	model string // the model of the last call
}

func (h *scriptedHistory) Known(_ context.Context, _ schema.Principal, space string, vector []float32, model string, k int) ([]bool, error) {
	if space != "scripted" || !slices.Equal(vector, []float32{1}) {
		return nil, errors.New("asked of another question")
	}
	h.asked, h.model = append(h.asked, k), model
	return h.known[:min(k, len(h.known))], h.fail
}

// scriptedModel is a language model that answers without text, or cannot.
type scriptedModel struct {
	answer string
	fail   error
	asked  []wire.LLMRequest
}

func (j *scriptedModel) Complete(_ context.Context, r wire.LLMRequest) (wire.LLMReply, error) {
	if r.Task == wire.TaskWho {
		return wire.LLMReply{Usage: schema.Usage{Provider: "openai", Model: "scripted"}}, j.fail
	}
	j.asked = append(j.asked, r)
	return wire.LLMReply{Text: j.answer, Usage: schema.Usage{Model: "scripted"}}, j.fail
}

func repeatBool(n int, ok bool) []bool { return slices.Repeat([]bool{ok}, n) }

const skipPlan = "- dense\n- score: {by: prefer_sum}\n- skip-retrieval: {delta: 4.5, k: 3}\n- limit: {k: 2}"

func TestRetrievalIsSkippedWhereTheModelKnowsEnough(t *testing.T) {
	refusal := &schema.RemoteError{Code: schema.CodeInvalid, Message: "the provider extractive knows nothing by itself"}
	common := []float32{5, 4.6, 1, 0}
	for _, x := range []struct {
		name    string
		scores  []float32 // has_answer of the candidates
		history *scriptedHistory
		model   *scriptedModel
		stage   string
		search  bool
		skipped bool
		asked   int // calls for an answer
		message string
	}{
		{"both are above", common, &scriptedHistory{known: repeatBool(3, true)}, &scriptedModel{answer: "Five."}, skipPlan, false, true, 1,
			"S_ltod 0.500: 2 of 4 candidates above 4.500; S_nn 1.000: 3 of the 3 nearest questions right without retrieval, 3 are known; answered without retrieval by scripted"},
		{"delta is no limit that counts itself", []float32{4.5, 4.5, 1, 0}, &scriptedHistory{known: repeatBool(3, true)}, &scriptedModel{answer: "Five."}, skipPlan, false, false, 0,
			"S_ltod 0.000: 0 of 4 candidates above 4.500; not above 0.04"},
		{"too few candidates", common, &scriptedHistory{known: repeatBool(3, true)}, &scriptedModel{answer: "Five."}, strings.Replace(skipPlan, "k: 3", "k: 3, s_l: 0.5", 1), false, false, 0,
			"not above 0.5"},
		{"too few neighbours", common, &scriptedHistory{known: []bool{true, false, true}}, &scriptedModel{answer: "Five."}, skipPlan, false, false, 0,
			"S_nn 0.667: 2 of the 3 nearest questions right without retrieval, 3 are known; not above 0.67"},
		{"the paper's other s_n", common, &scriptedHistory{known: []bool{true, false, true}}, &scriptedModel{answer: "Five."}, strings.Replace(skipPlan, "k: 3", "k: 3, s_n: 0.55", 1), false, true, 1,
			"S_nn 0.667"},
		{"as many as s_n, and no more", common, &scriptedHistory{known: []bool{true, true, false, false}}, &scriptedModel{answer: "Five."}, strings.Replace(skipPlan, "k: 3", "k: 4, s_n: 0.5", 1), false, false, 0,
			"S_nn 0.500: 2 of the 4 nearest questions right without retrieval, 4 are known; not above 0.5"},
		{"one question, however right", common, &scriptedHistory{known: repeatBool(1, true)}, &scriptedModel{answer: "Five."}, skipPlan, false, false, 0, "1 are known; not above"},
		{"no history", common, nil, &scriptedModel{answer: "Five."}, skipPlan, false, false, 0, "0 are known; not above"},
		{"history fails", common, &scriptedHistory{fail: schema.ErrUnavailable}, &scriptedModel{answer: "Five."}, skipPlan, false, false, 0, "earlier questions cannot be read"},
		{"a provider that knows nothing", common, &scriptedHistory{known: repeatBool(3, true)}, &scriptedModel{fail: refusal}, skipPlan, false, false, 1,
			"but there is no answer without retrieval: the provider extractive knows nothing by itself"},
		{"a model that does not know", common, &scriptedHistory{known: repeatBool(3, true)}, &scriptedModel{}, skipPlan, false, false, 1, "the language model does not know the answer"},
		{"no model", common, &scriptedHistory{known: repeatBool(3, true)}, nil, skipPlan, false, false, 0, "no language model is configured"},
		{"a search", common, &scriptedHistory{known: repeatBool(3, true)}, &scriptedModel{answer: "Five."}, skipPlan, true, false, 0, "the question would be answered without retrieval"},
	} {
		c := ranked([]float64{9, 8, 7, 6})
		c.readers = everyOp(func(string) float32 { return 0 })
		of := numbered(x.scores...)
		c.readers.score = func(text string) wire.PairScore { return wire.PairScore{HasAnswer: of(text)} }
		if x.history != nil {
			c.history = x.history
		}
		if x.model != nil {
			c.judges = x.model
		}
		question := uuid.MustParse("aaaaaaaa-0000-7000-8000-000000000001")
		got := c.run(t, x.stage, func(q *wire.SearchQuery) {
			if !x.search {
				q.Question = question
			}
		})
		why := got.Trace[2].Why
		kept := 2
		if x.skipped {
			kept = 0
		}
		if got.Skipped != x.skipped || len(got.Context) != kept || len(got.Candidates) != 4 || !strings.Contains(why, x.message) {
			t.Errorf("%s: skipped %t, %d in the context of %d (%s)", x.name, got.Skipped, len(got.Context), len(got.Candidates), why)
		}
		if x.model == nil {
			continue
		}
		if h := x.history; h != nil && h.asked != nil && x.model.fail == nil && h.model != "openai/scripted" {
			t.Errorf("%s: the history was asked of the model %q", x.name, h.model)
		}
		if len(x.model.asked) != x.asked {
			t.Errorf("%s: asked %d times", x.name, len(x.model.asked))
		}
		for _, r := range x.model.asked {
			if r.Task != wire.TaskBackground || r.Step != (wire.Step{Question: question, Round: 1, Step: "background"}) || r.Question != "words of the question" || r.Passages != nil {
				t.Errorf("%s: asked %+v", x.name, r)
			}
		}
	}
}

// TestAPlanWithoutRetrieval: no candidate reaches the answer, whether the model has an answer or
// not.
func TestAPlanWithoutRetrieval(t *testing.T) {
	for _, model := range []*scriptedModel{{answer: "Five."}, {}} {
		c := ranked([]float64{9, 8})
		c.judges = model
		got := c.run(t, "- dense\n- skip-retrieval: {always: true}", func(q *wire.SearchQuery) { q.Question = uuid.MustParse("aaaaaaaa-0000-7000-8000-000000000001") })
		if got.Skipped != (model.answer != "") || len(got.Context) != 0 || len(model.asked) != 1 {
			t.Errorf("a model that says %q: skipped %t, %d in the context, asked %d times (%s)", model.answer, got.Skipped, len(got.Context), len(model.asked), got.Trace[1].Why)
		}
	}
	c := ranked([]float64{9, 8})
	if got := c.run(t, "- dense\n- skip-retrieval: {always: true}"); len(got.Context) != 2 {
		t.Errorf("a search has %d passages", len(got.Context))
	}
}

func TestSkippingNeedsWhatScoreReads(t *testing.T) {
	c := ranked([]float64{9, 8})
	if got := c.run(t, "- dense\n- limit\n"); got.Skipped {
		t.Error("a plan without the stage skips")
	}
	if _, err := c.tryRun(t, "- dense\n- score\n- skip-retrieval"); err == nil {
		t.Error("calibrated was resolved without a model pack")
	}
}

// TestNothingFoundIsNoKnowledge: without a candidate S_ltod is 0, however many earlier answers were
// right.
func TestNothingFoundIsNoKnowledge(t *testing.T) {
	c := ranked(nil)
	c.readers, c.history, c.judges = everyOp(func(string) float32 { return 0 }), &scriptedHistory{known: repeatBool(3, true)}, &scriptedModel{answer: "Five."}
	got := c.run(t, skipPlan, func(q *wire.SearchQuery) { q.Question = uuid.MustParse("aaaaaaaa-0000-7000-8000-000000000001") })
	if why := got.Trace[2].Why; got.Skipped || !strings.Contains(why, "S_ltod 0.000: 0 of 0 candidates") {
		t.Errorf("skipped %t (%s)", got.Skipped, why)
	}
}
