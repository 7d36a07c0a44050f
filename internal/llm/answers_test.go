package llm_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/llm"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// replyTo returns the gateway's reply when a model replies with these turns.
func replyTo(t *testing.T, r wire.LLMRequest, contents ...string) wire.LLMReply {
	t.Helper()
	var turns []turn
	for _, c := range contents {
		turns = append(turns, turn{content: c})
	}
	g := gateway(t, llm.Options{Providers: []llm.Provider{provider(t, newScriptedOpenAI(t, turns...), llm.OpenAIOptions{})}})
	return g.Complete(t.Context(), r)
}

func TestModelsSayWhichSentenceAQuoteProves(t *testing.T) {
	const two = `"citations":[{"sentence":1,"passage":1,"quote":"Annual leave is 25 days."},{"sentence":"2","passage":2,"quote":"The canteen opens at eight."}]}`
	for _, c := range []struct {
		name, content, text string
		want                string // quotes by sentence
	}{
		{"numbers", `{"answer":"Leave is 25 days. Food is there from eight.",` + two, "Leave is 25 days. Food is there from eight.", "[0 18 [0]] [18 43 [1]]"},
		{"a list", `{"answer":"Leave is 25 days. Food is there from eight.","citations":[{"sentence":[1,2],"passage":1,"quote":"Annual leave is 25 days."}]}`,
			"Leave is 25 days. Food is there from eight.", "[0 18 [0]] [18 43 [0]]"},
		{"marks instead", `{"answer":"Leave is 25 days [1]. Food is there from eight. (passage 2)","citations":[{"passage":1,"quote":"Annual leave is 25 days."},{"passage":2,"quote":"The canteen opens at eight."}]}`,
			"Leave is 25 days. Food is there from eight.", "[0 18 [0]] [18 43 [1]]"},
		{"marks behind the stop", `{"answer":"Leave is 25 days.[1] Food is there from eight.【2†source】","citations":[{"passage":1,"quote":"Annual leave is 25 days."},{"passage":2,"quote":"The canteen opens at eight."}]}`,
			"Leave is 25 days. Food is there from eight.", "[0 18 [0]] [18 43 [1]]"},
		{"broken marks", `{"answer":"Leave is 25 days <cite>[1, 2]</cite>. Food is there [citation:2] from eight. [1","citations":[{"passage":1,"quote":"Annual leave is 25 days."}]}`,
			"Leave is 25 days. Food is there from eight.", "[0 18 [0]] [18 43 [0]]"},
		{"one sentence is what all is for", `{"answer":"Leave is 25 days.","citations":[{"passage":1,"quote":"Annual leave is 25 days."},{"sentence":7,"passage":1,"quote":"It ends on 31 March."}]}`,
			"Leave is 25 days.", "[0 17 [0 1]]"},
		{"nothing is said", `{"answer":"Leave is 25 days. Food is there from eight.","citations":[{"sentence":null,"passage":1,"quote":"Annual leave is 25 days."}]}`,
			"Leave is 25 days. Food is there from eight.", ""},
		{"nonsense is said", `{"answer":"Leave is 25 days. Food is there from eight.","citations":[{"sentence":{"a":-9.5e999},"passage":1,"quote":"Annual leave is 25 days."}]}`,
			"Leave is 25 days. Food is there from eight.", ""},
		{"brackets that are no marks", `{"answer":"Use array (5) or list [2023] here.","citations":[{"passage":1,"quote":"Annual leave is 25 days."}]}`,
			"Use array (5) or list [2023] here.", "[0 34 [0]]"},
		{"an invention proves nothing", `{"answer":"Leave is 25 days. Dogs are welcome.","citations":[{"sentence":2,"passage":1,"quote":"Dogs are welcome in every building we own."},{"sentence":1,"passage":1,"quote":"Annual leave is 25 days."}]}`,
			"Leave is 25 days. Dogs are welcome.", "[0 18 [0]] [18 35 []]"},
	} {
		reply := replyTo(t, request(leave), c.content)
		var got []string
		for _, s := range reply.Sentences {
			got = append(got, fmt.Sprint([]any{s.Start, s.End, s.Quotes}))
		}
		if have := strings.Join(got, " "); reply.Error != nil || reply.Text != c.text || have != c.want && strings.ReplaceAll(have, ", ", " ") != c.want {
			t.Errorf("%s: got %q %s, %v", c.name, reply.Text, have, reply.Error)
		}
	}
}

func TestModelsChoose(t *testing.T) {
	choices := []string{"Two days", "Five days", "B vitamins"}
	const proof = `"citations":[{"passage":1,"quote":"You may carry over up to five days of unused leave into the next year."}]}`
	for choice, want := range map[string]int{`"B"`: 2, `"b)"`: 2, `"(B) Five days"`: 2, `"Five days"`: 2, `"five  DAYS"`: 2, `2`: 2, `"2"`: 2, `"C. B vitamins"`: 3, `"B vitamins"`: 3, `"A"`: 1} {
		r := request(leave)
		r.Choices = choices
		reply := replyTo(t, r, `{"answer":"whatever I say [1]","choice":`+choice+`,`+proof)
		if reply.Error != nil || reply.Choice != want || !reply.Supported || reply.Text != choices[want-1] || len(reply.Sentences) != 1 || len(reply.Sentences[0].Quotes) != 1 {
			t.Errorf("%s: got %+v", choice, reply)
		}
	}
	r := request(leave)
	r.Choices = choices
	if reply := replyTo(t, r, `{"answer":"","choice":"","citations":[]}`); reply.Choice != 0 || reply.Supported || reply.Text != schema.NoAnswer {
		t.Errorf("no choice gave %+v", reply)
	}
	s := newScriptedOpenAI(t, turn{content: `{"answer":"x","choice":"D",` + proof}, turn{content: `{"answer":"x","choice":"Perhaps",` + proof}, turn{content: `{"answer":"x","choice":"B",` + proof})
	_, err := provider(t, s, llm.OpenAIOptions{}).Complete(t.Context(), r)
	wantError(t, err, schema.CodeInternal, "SLUICE_LLM_MODEL")
	asked := s.seen()
	if len(asked) != 2 || !strings.Contains(asked[0].Messages[1].Content, "A. Two days\nB. Five days\nC. B vitamins\n") || !strings.Contains(asked[0].Messages[0].Content, `"choice"`) {
		t.Errorf("asked %d times: %+v", len(asked), asked[0].Messages)
	}
	if reply := replyTo(t, r, `{"answer":"x","choice":"Z",`+proof, `{"answer":"x","choice":"B",`+proof); reply.Choice != 2 {
		t.Errorf("a repaired choice gave %+v", reply)
	}
	for _, bad := range [][]string{{"one"}, make([]string, 27), {"a", " "}} {
		r.Choices = bad
		if reply := replyTo(t, r, `{}`); reply.Error == nil || reply.Error.Field != "choices" {
			t.Errorf("%q: got %+v", bad, reply.Error)
		}
	}
}

// chooser is a scripted pair model. Its texts answer as the scriptedReader says; for a question
// followed by a choice it returns the given relevance.
type chooser struct {
	*scriptedReader
	relevance map[string]float32
}

func (c chooser) Score(ctx context.Context, lane wire.Lane, question string, texts []string, answers bool) ([]wire.PairScore, string, error) {
	out, model, err := c.scriptedReader.Score(ctx, lane, question, texts, true)
	for choice, x := range c.relevance {
		if strings.HasSuffix(question, " "+choice) {
			for i := range out {
				out[i].Relevance = x
			}
		}
	}
	return out, model, err
}

func TestExtractiveChooses(t *testing.T) {
	r := request(works)
	r.Choices = []string{"25 days", "five days", "ten days"}
	for name, c := range map[string]struct {
		reader llm.Reader
		want   int
		quote  string
	}{
		"by the span":      {chooser{reads(map[string]wire.PairScore{"five days": logits(3, 8)}), nil}, 2, "You may carry over up to five days of unused annual leave into the next year."},
		"by the relevance": {chooser{reads(nil), map[string]float32{"25 days": 40}}, 1, "Every employee has 25 days of annual leave a year."},
		"by vectors":       {nil, 2, "You may carry over up to five days of unused annual leave into the next year."},
	} {
		q := r
		q.Question = "How many days of unused annual leave can I carry over into the next year?"
		got, err := llm.NewExtractive(encoder(t), c.reader).Complete(t.Context(), q)
		if err != nil || got.Choice != c.want || got.Text != r.Choices[c.want-1] || len(got.Quotes) != 1 || quotes(got, works)[0] != c.quote || len(got.Sentences) != 1 {
			t.Errorf("%s: got %+v, %v", name, got, err)
		}
		if a := got.Quotes[0].Answer; works[1].Text[a.Start:a.End] != r.Choices[c.want-1] {
			t.Errorf("%s: the answer in the quote is %+v", name, a)
		}
	}
	r.Choices = []string{"zebras", "quaggas"}
	got, err := llm.NewExtractive(encoder(t), chooser{reads(nil), nil}).Complete(t.Context(), r)
	if err != nil || got.Choice != 0 || got.Text != "" {
		t.Errorf("what no passage speaks of was chosen: %+v, %v", got, err)
	}
	failing := reads(nil)
	failing.fail = context.DeadlineExceeded
	if _, err := llm.NewExtractive(nil, failing).Complete(t.Context(), r); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	failing.fail, failing.fewer = nil, true
	if _, err := llm.NewExtractive(nil, failing).Complete(t.Context(), r); err == nil {
		t.Error("fewer scores than texts were taken")
	}
}

// TestQuotedAnswersNameTheirSentences: in answers made of quotes, each quote proves its own
// sentence.
func TestQuotedAnswersNameTheirSentences(t *testing.T) {
	r := reads(map[string]wire.PairScore{"4.5 Nm": logits(3, 4), "25 days": logits(2.8, 4)})
	reply := gateway(t, llm.Options{Providers: []llm.Provider{llm.NewExtractive(nil, r)}}).Complete(t.Context(), request(works))
	if len(reply.Quotes) != 2 || len(reply.Sentences) != 2 {
		t.Fatalf("got %+v", reply)
	}
	for i, s := range reply.Sentences {
		q := reply.Quotes[i]
		if len(s.Quotes) != 1 || s.Quotes[0] != i || strings.TrimSpace(reply.Text[s.Start:s.End]) != works[q.Passage].Text[q.Start:q.End] {
			t.Errorf("sentence %d is %q by %v", i, reply.Text[s.Start:s.End], s.Quotes)
		}
	}
}
