package llm_test

import (
	"context"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/llm"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// remoteModels returns models at a scripted server, at 100 dollars per million tokens.
func remoteModels(t *testing.T, s *scriptedembeddings, a llm.Accounts) *llm.RemoteModels {
	t.Helper()
	x, err := llm.NewRemoteModels(llm.RemoteOptions{Embed: llm.RemoteServer{URL: s.URL + "/v1/", Key: "k"}, EmbedPrice: 100, Accounts: a,
		Pause: time.Millisecond, Timeout: time.Minute, MaxWait: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(x.Close)
	return x
}

func encodeTexts(texts ...string) wire.RemoteEncodeRequest {
	return wire.RemoteEncodeRequest{Envelope: wire.Header(), Tenant: uuid.New(), Lane: wire.LaneBulk, Texts: texts, Dimension: 4,
		By: wire.RemoteModel{Provider: wire.RemoteOpenAI, Model: "m", MaxTokens: 50, Batch: 3}}
}

func TestTextsAreEncodedInBatchesAndKeepTheirOrder(t *testing.T) {
	s, a := newScriptedEmbeddings(t), &scriptedaccounts{atOnce: 1}
	r := encodeTexts("a", "bb", "  ", "cccc", "ddddd", "", "eeeeee", strings.Repeat("word ", 500))
	r.Shorten = true
	reply := remoteModels(t, s, a).Encode(t.Context(), r)
	if reply.Error != nil || reply.Vectors.Len() != len(r.Texts) || reply.Truncated != 1 {
		t.Fatalf("got %+v", reply)
	}
	for i, text := range r.Texts {
		v := reply.Vectors.Row(i)
		length := math.Hypot(float64(v[0]), float64(v[1]))
		switch {
		case strings.TrimSpace(text) == "" && length != 0:
			t.Errorf("the blank text %d has %v", i, v)
		case strings.TrimSpace(text) != "" && math.Abs(length-1) > 1e-6:
			t.Errorf("text %d has %v", i, v)
		case len(text) > 0 && len(text) < 10 && strings.TrimSpace(text) != "" && math.Abs(float64(v[0]/v[1])-float64(len(text))) > 1e-3:
			t.Errorf("text %d has the vector of another: %v", i, v)
		}
	}
	seen := s.seen()
	if len(seen) != 2 || len(seen[0].Input) != 3 || len(seen[1].Input) != 3 || seen[0].Path != "/v1/embeddings" || seen[0].Model != "m" || seen[0].Dimensions != 4 || s.keys[0] != "Bearer k" {
		t.Errorf("asked %+v with %q", seen, s.keys)
	}
	if len(seen[1].Input[2]) >= len(r.Texts[7]) {
		t.Errorf("a text that is too long was sent whole")
	}
	// 60 tokens at 100 dollars a million.
	if len(a.searches) != 1 || len(a.open) != 0 || a.searches[0].InputTokens != 60 || math.Abs(a.searches[0].Cost-0.006) > 1e-9 || a.searches[0].Provider != "openai" || a.searches[0].Model != "m" {
		t.Errorf("booked %+v, open %+v", a.searches, a.open)
	}
}

func TestAnEncoderIsAskedAgainWhereThatMayHelp(t *testing.T) {
	s, a := newScriptedEmbeddings(t, embeddingsTurn{status: http.StatusTooManyRequests, after: "0.01"}, embeddingsTurn{status: http.StatusBadGateway}), &scriptedaccounts{atOnce: 1}
	if reply := remoteModels(t, s, a).Encode(t.Context(), encodeTexts("a")); reply.Error != nil || len(s.seen()) != 3 || len(a.searches) != 1 || a.searches[0].InputTokens != 10 {
		t.Errorf("got %+v after %d calls, booked %+v", reply.Error, len(s.seen()), a.searches)
	}
}

func TestAnEncoderThatKeepsFailingIsLeftAlone(t *testing.T) {
	s := newScriptedEmbeddings(t)
	s.turns = []embeddingsTurn{{status: http.StatusServiceUnavailable}}
	x := remoteModels(t, s, nil)
	for range 5 {
		x.Encode(t.Context(), encodeTexts("a"))
	}
	before := len(s.seen())
	if reply := x.Encode(t.Context(), encodeTexts("a")); reply.Error == nil || !strings.Contains(reply.Error.Message, "SLUICE_EMBED_URL") || len(s.seen()) != before {
		t.Errorf("got %+v, and %d calls more", reply.Error, len(s.seen())-before)
	}
}

func TestAnEncodersMistakesAreNamed(t *testing.T) {
	for name, c := range map[string]struct {
		turn    embeddingsTurn
		code    schema.Code
		message []string
	}{
		"wrong dimension": {embeddingsTurn{numbers: 3}, schema.CodeInternal, []string{"dimension 3", "says 4", "--shorten"}},
		"too few":         {embeddingsTurn{body: `{"data": []}`}, schema.CodeInternal, []string{"0 vectors for 2 texts"}},
		"no index":        {embeddingsTurn{body: `{"data": [{"embedding": [1, 0, 0, 0]}, {"embedding": [1, 0, 0, 0]}]}`}, schema.CodeInternal, []string{"index"}},
		"one index twice": {embeddingsTurn{body: `{"data": [{"index": 0, "embedding": [1, 0, 0, 0]}, {"index": 0, "embedding": [1, 0, 0, 0]}]}`}, schema.CodeInternal, []string{"index"}},
		"no length":       {embeddingsTurn{body: `{"data": [{"index": 0, "embedding": [1, 0, 0, 0]}, {"index": 1, "embedding": [0, 0, 0, 0]}]}`}, schema.CodeInternal, []string{"without length"}},
		"not finite":      {embeddingsTurn{body: `{"data": [{"index": 0, "embedding": [1, 0, 0, 0]}, {"index": 1, "embedding": [1e200, 1e200, 0, 0]}]}`}, schema.CodeInternal, []string{"not finite"}},
		"another API":     {embeddingsTurn{body: `<html>`}, schema.CodeInternal, []string{"SLUICE_EMBED_URL"}},
		"a wrong key":     {embeddingsTurn{status: http.StatusUnauthorized}, schema.CodeInternal, []string{"SLUICE_EMBED_KEY"}},
		"elsewhere":       {embeddingsTurn{status: http.StatusMovedPermanently}, schema.CodeInternal, []string{"SLUICE_EMBED_URL"}},
		"refused texts":   {embeddingsTurn{status: http.StatusBadRequest}, schema.CodeInvalid, []string{"max_tokens", "scripted failure"}},
	} {
		s, a := newScriptedEmbeddings(t, c.turn), &scriptedaccounts{atOnce: 1}
		reply := remoteModels(t, s, a).Encode(t.Context(), encodeTexts("a", "b"))
		if reply.Error == nil || reply.Error.Code != c.code || len(s.seen()) != 1 || len(a.settled) != 1 || len(a.open) != 0 {
			t.Errorf("%s: got %+v after %d calls, settled %+v", name, reply.Error, len(s.seen()), a.settled)
			continue
		}
		for _, part := range append(c.message, "http://127.0.0.1") {
			if !strings.Contains(reply.Error.Message, part) {
				t.Errorf("%s: %q does not say %q", name, reply.Error.Message, part)
			}
		}
	}
}

func TestABudgetKeepsAnEncoderFromBeingAsked(t *testing.T) {
	s, a := newScriptedEmbeddings(t), &scriptedaccounts{refusal: &schema.RemoteError{Code: schema.CodeQuota, Message: "no room"}}
	if reply := remoteModels(t, s, a).Encode(t.Context(), encodeTexts("a")); reply.Error == nil || reply.Error.Code != schema.CodeQuota || len(s.seen()) != 0 {
		t.Errorf("got %+v after %d calls", reply.Error, len(s.seen()))
	}
	r := encodeTexts("a")
	r.Tenant = uuid.Nil
	if reply := remoteModels(t, s, nil).Encode(t.Context(), r); reply.Error == nil || reply.Error.Field != "tenant" || len(s.seen()) != 0 {
		t.Errorf("without a tenant: %+v", reply.Error)
	}
}

func TestACancelledEncodingIsBooked(t *testing.T) {
	s, a := newScriptedEmbeddings(t, embeddingsTurn{}, embeddingsTurn{hang: true}), &scriptedaccounts{atOnce: 1}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	got := make(chan wire.RemoteEncodeReply, 1)
	x := remoteModels(t, s, a)
	go func() { got <- x.Encode(ctx, encodeTexts("a", "b", "c", "d")) }()
	<-s.began
	<-s.began
	cancel()
	if reply := <-got; reply.Error == nil || reply.Error.Code != schema.CodeUnavailable || len(a.cancelled) != 1 || a.cancelled[0].InputTokens != 30 || len(a.open) != 0 {
		t.Errorf("got %+v, booked %+v", reply.Error, a.cancelled)
	}
}

func TestWithoutAServerTheSettingIsNamed(t *testing.T) {
	x, err := llm.NewRemoteModels(llm.RemoteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if reply := x.Encode(t.Context(), encodeTexts("a")); reply.Error == nil || !strings.Contains(reply.Error.Message, "SLUICE_EMBED_URL") {
		t.Errorf("got %+v", reply.Error)
	}
	if _, err := llm.NewRemoteModels(llm.RemoteOptions{Embed: llm.RemoteServer{URL: "nowhere"}}); err == nil || !strings.Contains(err.Error(), "SLUICE_EMBED_URL") {
		t.Errorf("got %v", err)
	}
}
