package llm_test

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/llm"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// rerankModels returns models at a scripted server, at 100 dollars per million tokens.
func rerankModels(t *testing.T, s *scriptedrerank, a llm.Accounts) *llm.RemoteModels {
	t.Helper()
	x, err := llm.NewRemoteModels(llm.RemoteOptions{Rerank: llm.RemoteServer{URL: s.URL + "/v1/", Key: "k"}, RerankPrice: 100, Accounts: a,
		Pause: time.Millisecond, Timeout: time.Minute, MaxWait: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(x.Close)
	return x
}

func rerankTexts(provider string, texts ...string) wire.RemoteRerankRequest {
	return wire.RemoteRerankRequest{Envelope: wire.Header(), Tenant: uuid.New(), Lane: wire.LaneInteractive, Question: "what?", Texts: texts,
		By: wire.RemoteModel{Provider: provider, Model: "m", MaxTokens: 50, Batch: 2}}
}

func TestTextsAreRerankedInBatchesAndKeepTheirOrder(t *testing.T) {
	logit := func(p float64) float32 { return float32(math.Log(p / (1 - p))) }
	for provider, want := range map[string][]float32{
		wire.RemoteCohere:   {logit(0.1), wire.LowestScore, logit(0.5), logit(0.2)},
		wire.RemoteLlamaCPP: {0.1, wire.LowestScore, 0.5, 0.2},
		wire.RemoteTEI:      {0.1, wire.LowestScore, 0.5, 0.2},
	} {
		s, a := newScriptedRerank(t, ""), &scriptedaccounts{atOnce: 1}
		reply := rerankModels(t, s, a).Rerank(t.Context(), rerankTexts(provider, "a", "  ", "eeeee", "bb"))
		if reply.Error != nil || !slices.EqualFunc(reply.Scores, want, func(x, y float32) bool { return math.Abs(float64(x-y)) < 1e-5 }) {
			t.Errorf("%s: got %v, %+v, want %v", provider, reply.Scores, reply.Error, want)
		}
		seen := s.seen()
		sent := func(r rerankAsked) []string { return slices.Concat(r.Documents, r.Texts) }
		if len(seen) != 2 || seen[0].path != "/v1/rerank" || seen[0].key != "Bearer k" || seen[0].Query != "what?" ||
			!slices.Equal(sent(seen[0]), []string{"a", "eeeee"}) || !slices.Equal(sent(seen[1]), []string{"bb"}) {
			t.Errorf("%s: asked %+v", provider, seen)
		}
		if tei := provider == wire.RemoteTEI; seen[0].Raw != tei || (seen[0].Model == "m") == tei || (seen[0].TopN == 2) == tei {
			t.Errorf("%s: asked %+v", provider, seen[0])
		}
		if len(a.searches) != 1 || len(a.open) != 0 || a.searches[0].Provider != provider || a.searches[0].InputTokens == 0 || provider != wire.RemoteTEI && a.searches[0].InputTokens != 20 {
			t.Errorf("%s: booked %+v", provider, a.searches)
		}
	}
}

func TestARerankersMistakesAreNamed(t *testing.T) {
	for name, c := range map[string]struct{ body, message string }{
		"too few":         {`{"results": []}`, "0 scores for 2 texts"},
		"no index":        {`{"results": [{"relevance_score": 0.5}, {"relevance_score": 0.5}]}`, "index"},
		"one index twice": {`[{"index": 0, "relevance_score": 0.5}, {"index": 0, "relevance_score": 0.5}]`, "index"},
		"another API":     {`[{"index": 0, "score": 0.5}, {"index": 1, "score": 0.5}]`, "SLUICE_RERANK_URL"},
		"logits":          {`[{"index": 0, "relevance_score": 4}, {"index": 1, "relevance_score": 0.5}]`, "llamacpp"},
		"no JSON":         {`<html>`, "SLUICE_RERANK_URL"},
	} {
		s, a := newScriptedRerank(t, c.body), &scriptedaccounts{atOnce: 1}
		reply := rerankModels(t, s, a).Rerank(t.Context(), rerankTexts(wire.RemoteCohere, "a", "b"))
		if reply.Error == nil || !strings.Contains(reply.Error.Message, c.message) || !strings.Contains(reply.Error.Message, "http://127.0.0.1") || len(a.settled) != 1 || len(a.open) != 0 {
			t.Errorf("%s: got %+v, settled %+v", name, reply.Error, a.settled)
		}
	}
}

func TestWhatARerankerIsNotAskedFor(t *testing.T) {
	s := newScriptedRerank(t, "")
	a := &scriptedaccounts{refusal: &schema.RemoteError{Code: schema.CodeQuota, Message: "no room"}}
	if reply := rerankModels(t, s, a).Rerank(t.Context(), rerankTexts(wire.RemoteCohere, "a")); reply.Error == nil || reply.Error.Code != schema.CodeQuota {
		t.Errorf("without a budget: %+v", reply.Error)
	}
	for field, change := range map[string]func(*wire.RemoteRerankRequest){
		"tenant":      func(r *wire.RemoteRerankRequest) { r.Tenant = uuid.Nil },
		"question":    func(r *wire.RemoteRerankRequest) { r.Question = " " },
		"by.provider": func(r *wire.RemoteRerankRequest) { r.By.Provider = "other" },
		"by":          func(r *wire.RemoteRerankRequest) { r.By.Model = "" },
	} {
		r := rerankTexts(wire.RemoteCohere, "a")
		change(&r)
		if reply := rerankModels(t, s, nil).Rerank(t.Context(), r); reply.Error == nil || reply.Error.Field != field {
			t.Errorf("%s: %+v", field, reply.Error)
		}
	}
	if seen := s.seen(); len(seen) != 0 {
		t.Errorf("asked %+v", seen)
	}
	x, err := llm.NewRemoteModels(llm.RemoteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if reply := x.Rerank(t.Context(), rerankTexts(wire.RemoteTEI, "a")); reply.Error == nil || !strings.Contains(reply.Error.Message, "SLUICE_RERANK_URL") {
		t.Errorf("without a server: %+v", reply.Error)
	}
}
