package llm_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/llm"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// Mistakes of small models. Most of these are replies of SmolLM2-135M-Instruct, shortened, to
// Sluice's own prompts.
const (
	proseReply      = "The bridge of Grindle has nine arches. It crosses the river Loom, and the toll is four pence."
	truncatedQuote  = `{"answer": 9, "citations": [{"sentence": 1, "passage": 1, "quote": "You may carry over up to five days of unused leave"}, {"sentence": 2, "passage": 2, "quote": "The canteen opens at eight. The canteen opens`
	nestedCitations = "{\n  \"answer\": 9,\n  \"citations\": [{\n    \"sentence\": 1,\n    \"passage\": 1,\n    \"quote\": \"Annual leave is 25 days.\"\n  },\n  \"citations\": [{\n    \"sentence\": 2,"
	duplicateKeys   = `{"answer": 9, "citations": [{"sentence": 1, "passage": 1, "quote": "...", "quote": "...", "quote": "...", "quote": "..."`
	uncitedReply    = `{"answer": "Leave is 25 days.", "citations": [{"sentence": 1, "passa`
	repeatingReply  = `{"answer": "Leave is 25 days. Leave is 25 days. Leave is 25 da`
)

// The complete part of a reply that was cut off, or was malformed twice, counts: an answer with a
// quote, or nothing.
func TestWhatIsWholeOfACutReplyCounts(t *testing.T) {
	for _, c := range []struct {
		name  string
		turns []turn
		text  string // empty: there is an error
		asked int
	}{
		{"a quote and a half", []turn{{content: truncatedQuote, finish: "length"}}, "9", 1},
		{"a list in a list", []turn{{content: nestedCitations, finish: "length"}}, "9", 1},
		{"malformed twice", []turn{{content: proseReply}, {content: nestedCitations}}, "9", 2},
		{"malformed once", []turn{{content: nestedCitations}, {content: `{"answer":"Five.","citations":[{"passage":1,"quote":"Annual leave is 25 days."}]}`}}, "Five.", 2},
		{"no quote is whole", []turn{{content: uncitedReply, finish: "length"}}, "", 1},
		{"a quote that is none", []turn{{content: duplicateKeys, finish: "length"}}, "", 1},
		{"half an answer", []turn{{content: repeatingReply, finish: "length"}}, "", 1},
		{"no object", []turn{{content: proseReply, finish: "length"}}, "", 1},
		{"no object, twice", []turn{{content: proseReply}}, "", 2},
	} {
		s := newScriptedOpenAI(t, c.turns...)
		g := gateway(t, llm.Options{Providers: []llm.Provider{provider(t, s, llm.OpenAIOptions{})}})
		reply := g.Complete(t.Context(), request(leave))
		if n := len(s.seen()); n != c.asked {
			t.Errorf("%s: asked %d times", c.name, n)
		}
		if c.text == "" {
			if reply.Error == nil || !strings.Contains(reply.Error.Message, "SLUICE_LLM_M") || !reply.Error.OfProvider {
				t.Errorf("%s: got %+v", c.name, reply)
			}
			continue
		}
		if reply.Error != nil || reply.Text != c.text || !reply.Supported || len(reply.Quotes) != 1 {
			t.Errorf("%s: got %+v, %v", c.name, reply, reply.Error)
		}
	}
}

func TestWhatIsWholeOfACutJudgementCounts(t *testing.T) {
	for content, want := range map[string][]float64{
		`{"scores": [0.8, 0.15]`:                              {0.8, 0.15},
		`{"scores": [0.8, 0.15], "reasons": ["the first`:      {0.8, 0.15},
		`{"scores": [0.8, 0.1`:                                nil, // the last number may be incomplete
		`{"scores": [0.8`:                                     nil,
		`{"scores": [0.8, 0.15, 0.15, 0.15, 0.15, 0.15, 0.15`: nil,
	} {
		s := newScriptedOpenAI(t, turn{content: content, finish: "length"})
		got, err := provider(t, s, llm.OpenAIOptions{}).Complete(t.Context(), taskRequest(wire.TaskRelevance))
		if (err == nil) != (want != nil) || err == nil && !slices.Equal(got.Scores, want) {
			t.Errorf("%s: got %v, %v", content, got.Scores, err)
		}
	}
}

// Text around a reply is ignored: reasoning with braces of its own, other objects, prose.
func TestWhatStandsAroundAReplyIsPassedOver(t *testing.T) {
	const object = `{"scores": [0.8, 0.15]}`
	for name, content := range map[string]string{
		"reasoning":             "<think>The form is {\"scores\": [x]}, so {\"scores\": [1, 1]} perhaps.</think>\n" + object,
		"reasoning twice":       "\n<think>{</think> <think>}</think>" + object,
		"reasoning half tagged": "So it is {\"scores\": [1, 1]}.</think>" + object,
		"an object behind":      object + "\n{\"note\": \"done\"}",
		"an object before":      "{\"note\": \"{\"} " + object,
		"prose with braces":     "In the form {scores}: " + object + " (see {above})",
		"the same twice":        object + object,
		"a fence":               "```json\n" + object + "\n```",
		"scores as text":        `{"scores": ["0.8", " 0.15 "]}`,
		"a brace in a text":     `{"why": "a } and a {", "scores": [0.8, 0.15]}`,
	} {
		s := newScriptedOpenAI(t, turn{content: content})
		got, err := provider(t, s, llm.OpenAIOptions{}).Complete(t.Context(), taskRequest(wire.TaskRelevance))
		if err != nil || !slices.Equal(got.Scores, []float64{0.8, 0.15}) {
			t.Errorf("%s: got %v, %v", name, got.Scores, err)
		}
	}
	for name, content := range map[string]string{
		"reasoning alone":  "<think>It is {\"scores\": [0.8, 0.15]}",
		"scores in words":  `{"scores": ["high", "low"]}`,
		"another's object": `{"judgements": [0.8, 0.15]}`,
		"braces":           strings.Repeat("{", 100_000),
	} {
		s := newScriptedOpenAI(t, turn{content: content})
		if got, err := provider(t, s, llm.OpenAIOptions{}).Complete(t.Context(), taskRequest(wire.TaskRelevance)); err == nil {
			t.Errorf("%s: got %v", name, got.Scores)
		}
	}
}

// TestReasoningIsNotStreamed: wherever the pieces cut its tags.
func TestReasoningIsNotStreamed(t *testing.T) {
	const reply = `{"answer":"Leave is 25 days.","citations":[{"passage":1,"quote":"Annual leave is 25 days."}]}`
	for _, before := range []string{"", "<think>{\"answer\": \"Five?\"} no</think>", " \n<think>\n</think>\n\n", "<think>a</thin></think>", "{\"draft\": 1} ", "{} "} {
		for size := 1; size <= 12; size += 3 {
			var pieces []string
			for rest := before + reply; rest != ""; rest = rest[min(size, len(rest)):] {
				pieces = append(pieces, rest[:min(size, len(rest))])
			}
			s := newScriptedOpenAI(t, turn{pieces: pieces})
			var text strings.Builder
			got, err := provider(t, s, llm.OpenAIOptions{}).Stream(t.Context(), request(leave), func(d wire.LLMDelta) { text.WriteString(d.Text) })
			if err != nil || got.Text != "Leave is 25 days." || text.String() != got.Text {
				t.Errorf("%q in pieces of %d: said %q, got %q, %v", before, size, text.String(), got.Text, err)
			}
		}
	}
}

// A quote is searched in all passages, so that it is found without a passage number.
func TestPassagesNamedByTheirTitle(t *testing.T) {
	for _, named := range []string{`"leave.md"`, `"Passage 1"`, `null`, `"Annual leave is 25 days."`, `{"title":"leave.md"}`} {
		reply := replyTo(t, request(leave), `{"answer":"Leave is 25 days.","citations":[{"sentence":"Leave is 25 days.","passage":`+named+`,"quote":"Annual leave is 25 days."}]}`)
		if reply.Error != nil || !reply.Supported || len(reply.Quotes) != 1 || len(reply.Sentences) != 1 {
			t.Errorf("%s: got %+v", named, reply)
		}
	}
	s := newScriptedOpenAI(t, turn{content: `{"answer":"Dogs may come.","citations":[{"passage":"leave.md","quote":"Dogs are welcome in every building we own."}]}`})
	_, err := provider(t, s, llm.OpenAIOptions{}).Complete(t.Context(), request(leave))
	wantError(t, err, schema.CodeInternal, "SLUICE_LLM_MODEL")
	if n := len(s.seen()); n != 2 {
		t.Errorf("a passage without a number and an invention: asked %d times", n)
	}
}

func TestAnswersThatAreNoText(t *testing.T) {
	const proof = `"citations":[{"passage":1,"quote":"Annual leave is 25 days."}]}`
	for answer, want := range map[string]string{`25`: "25", `true`: "true", `"25"`: "25", `0.5`: "0.5"} {
		if reply := replyTo(t, request(leave), `{"answer":`+answer+`,`+proof); reply.Error != nil || reply.Text != want || !reply.Supported {
			t.Errorf("%s: got %+v", answer, reply)
		}
	}
	for _, answer := range []string{`null`, `{"a":1}`, `["a"]`} {
		reply := replyTo(t, request(leave), `{"answer":`+answer+`,`+proof)
		if reply.Error == nil || reply.Error.Code != schema.CodeInternal || !strings.Contains(reply.Error.Message, "SLUICE_LLM_MODEL") {
			t.Errorf("%s: got %+v", answer, reply)
		}
	}
}
