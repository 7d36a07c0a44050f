package llm_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf16"

	"pgregory.net/rapid"

	"github.com/sluice-rag/sluice/internal/llm"
	"github.com/sluice-rag/sluice/internal/text"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// deltaRecorder keep the pieces that are sent while answers are made.
type deltaRecorder struct {
	mu       sync.Mutex
	deltas   []wire.LLMDelta
	subjects []string
}

func (e *deltaRecorder) Send(subject string, d wire.LLMDelta) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.deltas, e.subjects = append(e.deltas, d), append(e.subjects, subject)
}

// text returns what a reader has in the end, and how often it restarted.
func (e *deltaRecorder) text() (text string, restarts int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, d := range e.deltas {
		if d.Restart {
			text = ""
			restarts++
		}
		text += d.Text
	}
	return text, restarts
}

func streamReply(t *testing.T, o llm.Options, r wire.LLMRequest) (wire.LLMReply, *deltaRecorder) {
	t.Helper()
	e := &deltaRecorder{}
	o.Deltas = e
	if o.Ledger == nil {
		o.Ledger = book{}
	}
	g, err := llm.NewGateway(o)
	if err != nil {
		t.Fatal(err)
	}
	r.Stream = "_INBOX.reader.text"
	reply := g.Complete(t.Context(), r)
	for _, s := range e.subjects {
		if s != r.Stream {
			t.Errorf("sent to %q", s)
		}
	}
	return reply, e
}

// The background that a model writes before its answer is not streamed; the answer is.
func TestAnswersWithoutPassagesAreStreamed(t *testing.T) {
	const content = `{"background": "Paris is a \"city\" on the Seine.", "answer": "Paris lies on the Seine, in France."}`
	for name, p := range map[string]llm.Provider{
		"openai":    provider(t, newScriptedOpenAI(t, turn{content: content}), llm.OpenAIOptions{}),
		"anthropic": newScriptedAnthropic(t, turn{content: content}).provider(t, llm.AnthropicOptions{}),
	} {
		r := request(nil)
		r.Task, r.Step.Step = wire.TaskBackground, "background"
		reply, e := streamReply(t, llm.Options{Providers: []llm.Provider{p}}, r)
		text, restarts := e.text()
		if reply.Error != nil || reply.Text != "Paris lies on the Seine, in France." || text != reply.Text || restarts != 0 || len(e.deltas) < 8 {
			t.Errorf("%s: heard %q in %d pieces with %d restarts of %+v", name, text, len(e.deltas), restarts, reply)
		}
	}
}

func TestAnswersAreStreamed(t *testing.T) {
	const content = "```json\n" + `{"answer": "Soup is \"free\"\non Fridays: caf\u00e9 \ud83d\ude00 für alle.", "citations": [{"passage": 2, "quote": "Soup is “free” on Fridays."}]}` + "\n```"
	const want = "Soup is \"free\"\non Fridays: café 😀 für alle."
	for name, p := range map[string]llm.Provider{
		"openai":    provider(t, newScriptedOpenAI(t, turn{content: content}), llm.OpenAIOptions{}),
		"anthropic": newScriptedAnthropic(t, turn{content: content}).provider(t, llm.AnthropicOptions{}),
	} {
		reply, e := streamReply(t, llm.Options{Providers: []llm.Provider{p}}, request(leave))
		if reply.Error != nil || reply.Text != want || reply.Usage.InputTokens != 100 || reply.Usage.OutputTokens != 20 {
			t.Errorf("%s: got %+v", name, reply)
		}
		if got, restarts := e.text(); got != want || restarts != 0 || len(e.deltas) < 10 {
			t.Errorf("%s: heard %q in %d pieces, %d restarts", name, got, len(e.deltas), restarts)
		}
	}
}

// TestAServerThatDoesNotStream: it sends whole completions although a stream was requested.
func TestAServerThatDoesNotStream(t *testing.T) {
	good := turn{content: `{"answer": "Soup is free.\nOn Fridays.", "citations": [{"passage": 2, "quote": "Soup is “free” on Fridays."}]}`, whole: true}
	s := newScriptedOpenAI(t, turn{broken: true, whole: true}, turn{status: http.StatusServiceUnavailable}, good)
	reply, e := streamReply(t, llm.Options{Providers: []llm.Provider{provider(t, s, llm.OpenAIOptions{Pause: time.Millisecond})}}, request(leave))
	if reply.Error != nil || reply.Text != "Soup is free.\nOn Fridays." || reply.Usage.OutputTokens != 20 || !reply.Supported {
		t.Errorf("got %+v", reply)
	}
	if got, _ := e.text(); got != reply.Text || len(s.seen()) != 3 || !s.seen()[2].Stream {
		t.Errorf("told %q, after %d requests", got, len(s.seen()))
	}
	for content, want := range map[string]string{`no json`: "asked for", `{"answer": 5}`: "asked for"} {
		s := newScriptedOpenAI(t, turn{content: content, whole: true})
		reply, _ := streamReply(t, llm.Options{Providers: []llm.Provider{provider(t, s, llm.OpenAIOptions{})}}, request(leave))
		if reply.Error == nil || !strings.Contains(reply.Error.Message, want) {
			t.Errorf("%s gave %+v", content, reply)
		}
	}
}

func TestStreamsBeginAgain(t *testing.T) {
	half := turn{content: `{"answer": "Thirty d`, broken: true}
	for _, c := range []struct {
		name     string
		turns    []turn
		want     string
		restarts int
	}{
		{"a reply that broke off", []turn{half, {content: fiveDays}}, "Five days.", 1},
		{"a reply that is not what was asked for", []turn{{content: `{"answer": "Five", "citations": 7}`}, {content: fiveDays}}, "Five days.", 1},
		{"nothing was said before", []turn{{content: "Five days, I think."}, {content: fiveDays}}, "Five days.", 0},
		{"an answer that nothing proves", []turn{{content: `{"answer": "Ninety.", "citations": []}`}}, schema.NoAnswer, 1},
		{"other members first", []turn{{content: `{"n": [1, {"answer": "no\"pe"}], "why": "Ten {", "answer": "Five days.", "citations": [{"passage": 1, "quote": "It ends on 31 March."}]}`}}, "Five days.", 0},
	} {
		for _, p := range []llm.Provider{
			provider(t, newScriptedOpenAI(t, c.turns...), llm.OpenAIOptions{}),
			newScriptedAnthropic(t, c.turns...).provider(t, llm.AnthropicOptions{}),
		} {
			reply, e := streamReply(t, llm.Options{Providers: []llm.Provider{p}}, request(leave))
			got, restarts := e.text()
			if reply.Error != nil || reply.Text != c.want || got != c.want || restarts != c.restarts {
				t.Errorf("%s: %s: got %+v, heard %q, %d restarts", c.name, p.Name(), reply, got, restarts)
			}
		}
	}
}

func TestWhatCannotStreamSaysItAtOnce(t *testing.T) {
	completion := llm.Completion{Text: "Five days.", Quotes: []wire.Quote{{End: 5}}}
	reply, e := streamReply(t, llm.Options{Providers: []llm.Provider{fixedProvider{Completion: completion}}}, request(leave))
	if text, restarts := e.text(); reply.Error != nil || text != "Five days." || restarts != 0 || len(e.deltas) != 1 {
		t.Errorf("got %+v, heard %+v", reply, e.deltas)
	}
	// After a restart another provider answers.
	half := provider(t, newScriptedOpenAI(t, turn{content: `{"answer": "Thirty d`, broken: true}), llm.OpenAIOptions{})
	reply, e = streamReply(t, llm.Options{Providers: []llm.Provider{half, fixedProvider{Completion: completion}}, Fallback: []string{"liar"}}, request(leave))
	if text, restarts := e.text(); reply.Error != nil || reply.Usage.Provider != "liar" || text != "Five days." || restarts != 3 {
		t.Errorf("got %+v, heard %q, %d restarts", reply, text, restarts)
	}
	// Judgements are not streamed.
	reply, e = streamReply(t, llm.Options{Providers: []llm.Provider{fixedProvider{Completion: llm.Completion{Scores: []float64{0, 1}}}}}, taskRequest(wire.TaskFilter))
	if reply.Error != nil || len(e.deltas) != 0 {
		t.Errorf("got %+v, heard %+v", reply, e.deltas)
	}
}

// replayLedger is a ledger that has a reply for every step.
type replayLedger struct{ reply wire.LLMReply }

func (b replayLedger) Once(context.Context, llm.Call, func(context.Context) (wire.LLMReply, error)) (wire.LLMReply, error) {
	return b.reply, nil
}

func TestARepeatedStepIsSaidAtOnce(t *testing.T) {
	kept := replayLedger{wire.LLMReply{Text: "Five days.", Supported: true, Repeated: true}}
	reply, e := streamReply(t, llm.Options{Ledger: kept, Providers: []llm.Provider{fixedProvider{}}}, request(leave))
	if text, _ := e.text(); !reply.Repeated || text != "Five days." || len(e.deltas) != 1 {
		t.Errorf("got %+v, heard %+v", reply, e.deltas)
	}
}

func TestStreamsGoToInboxesAlone(t *testing.T) {
	g, err := llm.NewGateway(llm.Options{Ledger: book{}, Providers: []llm.Provider{fixedProvider{}}, Deltas: &deltaRecorder{}})
	if err != nil {
		t.Fatal(err)
	}
	for _, subject := range []string{"sluice.events.x", "_INBOX.", "_INBOX.*", "_INBOX.a.>", "_INBOX.a b", "_INBOX.a\r\nPUB x", "_INBOX..a", "_INBOX.a.", "_INBOX." + strings.Repeat("a", 300)} {
		r := request(leave)
		r.Stream = subject
		if reply := g.Complete(t.Context(), r); reply.Error == nil || reply.Error.Field != "stream" {
			t.Errorf("%q: got %+v", subject, reply)
		}
	}
}

// Whatever the answer is and wherever the pieces are cut, they add up to the answer.
func TestAnyAnswerIsHeardWhole(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		answer := "x" + rapid.String().Draw(rt, "answer") + "x"
		encoded, err := json.Marshal(map[string]any{"answer": answer, "citations": []any{}})
		if err != nil {
			rt.Fatal(err)
		}
		if rapid.Bool().Draw(rt, "ascii") {
			encoded = escaped(encoded)
		}
		var got strings.Builder
		replyTo := llm.StreamAnswer(func(s string) { got.WriteString(s) })
		for len(encoded) > 0 {
			n := rapid.IntRange(1, len(encoded)).Draw(rt, "cut")
			replyTo(string(encoded[:n]))
			encoded = encoded[n:]
		}
		if want := text.Clean(answer); text.Clean(got.String()) != want {
			rt.Fatalf("heard %q, want %q", got.String(), want)
		}
	})
}

// escaped escapes every non-ASCII character in JSON.
func escaped(data []byte) []byte {
	var b strings.Builder
	for _, r := range string(data) {
		if r < 0x80 {
			b.WriteRune(r)
			continue
		}
		for _, u := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(&b, `\u%04x`, u)
		}
	}
	return []byte(b.String())
}

func TestFailuresAreNotStreamed(t *testing.T) {
	p := provider(t, newScriptedOpenAI(t, turn{status: http.StatusUnauthorized}), llm.OpenAIOptions{})
	reply, e := streamReply(t, llm.Options{Providers: []llm.Provider{p}}, request(leave))
	if reply.Error == nil || len(e.deltas) != 0 {
		t.Errorf("got %+v, heard %+v", reply, e.deltas)
	}
}
