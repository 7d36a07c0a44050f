package llm_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/bus"
	"github.com/sluice-rag/sluice/internal/inference"
	"github.com/sluice-rag/sluice/internal/llm"
	"github.com/sluice-rag/sluice/internal/local"
	"github.com/sluice-rag/sluice/internal/local/localtest"
	"github.com/sluice-rag/sluice/internal/modelclient"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

var model = sync.OnceValues(func() (*inference.Model, error) {
	library, err := local.FindONNXRuntime()
	if err != nil {
		return nil, err
	}
	return inference.Open(inference.Options{Pack: "../../models/default", Library: library, Provider: "cpu", Threads: 1})
})

// encoder returns a client of a real model server.
func encoder(t *testing.T) llm.Encoder {
	t.Helper()
	nc, err := bus.Connect(t.Context(), bus.Options{URL: localtest.NATS(t).URL(), Name: t.Name()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	m, err := model()
	if err != nil {
		t.Fatal(err)
	}
	s := inference.NewServer(nc, m, inference.ServerOptions{})
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return modelclient.New(nc, modelclient.Options{})
}

var works = []wire.LLMPassage{
	{Text: "9.3 Head bolts\nThe head bolts of a KD-40 with a plastic head are tightened to 4.5 Nm. Those of a steel head are tightened to 7 Nm."},
	{Text: "Every employee has 25 days of annual leave a year.\nYou may carry over up to five days of unused annual leave into the next year.\n\nAnnual leave\nCarried over leave must be taken by 31 March."},
	{Text: "Die Kantine öffnet um acht Uhr. Suppe gibt es am Freitag."},
}

func TestExtractiveQuotesTheSentenceThatAnswers(t *testing.T) {
	p := llm.NewExtractive(encoder(t), nil)
	for question, want := range map[string]string{
		"How many days of unused annual leave can I carry over into the next year?":   "You may carry over up to five days of unused annual leave into the next year.",
		"To what torque are the head bolts of a KD-40 with a plastic head tightened?": "The head bolts of a KD-40 with a plastic head are tightened to 4.5 Nm.",
		"How many days of annual leave does an employee have a year?":                 "Every employee has 25 days of annual leave a year.",
	} {
		r := request(works)
		r.Question = question
		c, err := p.Complete(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		got := quotes(c, works)
		if len(got) == 0 || len(got) > 3 || got[0] != want || !strings.HasPrefix(c.Text, want) || c.Text != strings.Join(got, " ") {
			t.Errorf("%s: got %q, quotes %q", question, c.Text, got)
		}
		if c.InputTokens == 0 || c.OutputTokens == 0 || !strings.HasPrefix(c.Model, "sentences/") {
			t.Errorf("%s: usage is %+v", question, c)
		}
	}
}

func TestExtractiveSaysWhenNothingFits(t *testing.T) {
	p := llm.NewExtractive(encoder(t), nil)
	for _, question := range []string{"Which breeds of dog may employees bring to the office?", "How do I bake a sourdough loaf with rye flour?", "???", "zzqxv"} {
		r := request(works)
		r.Question = question
		if c, err := p.Complete(t.Context(), r); err != nil || c.Text != "" || len(c.Quotes) != 0 {
			t.Errorf("%s: got %q, %v", question, c.Text, err)
		}
	}
	// A heading that repeats the question does not answer it.
	r := request([]wire.LLMPassage{{Text: "4.1 Carry over of unused leave\n\nCarry over of unused leave"}})
	r.Question = "carry over of unused leave"
	if c, err := p.Complete(t.Context(), r); err != nil || c.Text != "" {
		t.Errorf("a heading answered: %q, %v", c.Text, err)
	}
}

// book is a ledger in memory, for tests of the gateway's own rules. Package store has the real one,
// with its tests.
type book map[wire.Step]wire.LLMReply

func (b book) Once(ctx context.Context, c llm.Call, complete func(context.Context) (wire.LLMReply, error)) (wire.LLMReply, error) {
	if reply, ok := b[c.Step]; ok {
		return reply, nil
	}
	reply, err := complete(ctx)
	if err == nil {
		b[c.Step] = reply
	}
	return reply, err
}

// fixedProvider is a provider that returns fixed results.
type fixedProvider struct {
	llm.Completion
	err error
}

func (fixedProvider) Name() string { return "liar" }
func (l fixedProvider) Complete(context.Context, wire.LLMRequest) (llm.Completion, error) {
	return l.Completion, l.err
}

func TestTheGatewayKeepsOnlyWhatIsProved(t *testing.T) {
	good := wire.Quote{Passage: 0, Start: 0, End: 3}
	for _, c := range []struct {
		name       string
		completion llm.Completion
		supported  bool
		quotes     int
	}{
		{"a proved answer", llm.Completion{Text: " yes ", Quotes: []wire.Quote{good, good}}, true, 1},
		{"an answer without quotes", llm.Completion{Text: "yes"}, false, 0},
		{"quotes without an answer", llm.Completion{Quotes: []wire.Quote{good}}, false, 0},
		{"quotes from nowhere", llm.Completion{Text: "yes", Quotes: []wire.Quote{{Passage: 9, End: 1}, {Passage: -1, End: 1}, {Start: 5, End: 5}, {Start: 4, End: 9999}, {Start: -1, End: 2}}}, false, 0},
		{"half a character", llm.Completion{Text: "yes", Quotes: []wire.Quote{{Passage: 2, Start: 0, End: 13}}}, false, 0},
		{"an answer in a quote", llm.Completion{Text: "yes", Quotes: []wire.Quote{answered(2, 3, 0.5)}}, true, 1},
	} {
		g, err := llm.NewGateway(llm.Options{Ledger: book{}, Providers: []llm.Provider{fixedProvider{Completion: c.completion}}})
		if err != nil {
			t.Fatal(err)
		}
		reply := g.Complete(t.Context(), request(works))
		if reply.Error != nil || reply.Supported != c.supported || len(reply.Quotes) != c.quotes || !c.supported && reply.Text != schema.NoAnswer || c.supported && reply.Text != "yes" {
			t.Errorf("%s: got %+v", c.name, reply)
		}
	}
}

// answered returns a quote of the first passage with a short answer in it.
func answered(start, end int, confidence float64) wire.Quote {
	return wire.Quote{Start: 1, End: 8, Answer: wire.QuoteAnswer{Start: start, End: end, Confidence: confidence}}
}

func TestTheGatewayKeepsAnswersThatLieInTheirQuote(t *testing.T) {
	for _, c := range []struct {
		name       string
		completion wire.Quote
		kept       bool
	}{
		{"inside", answered(1, 8, 1), true},
		{"before it", answered(0, 4, 0.5), false},
		{"behind it", answered(4, 9, 0.5), false},
		{"nothing", answered(4, 4, 0.5), false},
		{"no probability", answered(2, 4, 1.5), false},
		{"no number", answered(2, 4, math.NaN()), false},
		{"half a character", wire.Quote{Passage: 2, Start: 0, End: 20, Answer: wire.QuoteAnswer{Start: 0, End: 13, Confidence: 1}}, false},
	} {
		g, err := llm.NewGateway(llm.Options{Ledger: book{}, Providers: []llm.Provider{fixedProvider{Completion: llm.Completion{Text: "yes", Quotes: []wire.Quote{c.completion}}}}})
		if err != nil {
			t.Fatal(err)
		}
		reply := g.Complete(t.Context(), request(works))
		if len(reply.Quotes) != 1 || (reply.Quotes[0].Answer == c.completion.Answer) != c.kept || !c.kept && reply.Quotes[0].Answer != (wire.QuoteAnswer{}) {
			t.Errorf("%s: got %+v", c.name, reply)
		}
	}
}

// TestWhatTheLedgerCannotStoreIsCleaned: a jsonb value has no U+0000, and text
// is valid UTF-8.
func TestWhatTheLedgerCannotStoreIsCleaned(t *testing.T) {
	kept := book{}
	g, err := llm.NewGateway(llm.Options{Ledger: kept, Providers: []llm.Provider{fixedProvider{Completion: llm.Completion{Model: "m\x00", Text: "five\x00 days\xff", Quotes: []wire.Quote{{End: 3}}}}}})
	if err != nil {
		t.Fatal(err)
	}
	reply := g.Complete(t.Context(), request(works))
	for _, s := range []string{reply.Text, reply.Usage.Model} {
		if !utf8.ValidString(s) || strings.ContainsRune(s, 0) {
			t.Errorf("got %q", s)
		}
	}
	if !reply.Supported || !strings.Contains(reply.Text, "five") || !strings.Contains(reply.Text, "days") {
		t.Errorf("got %+v", reply)
	}
}

func TestTheGatewayRefusesWhatIsWrong(t *testing.T) {
	g, err := llm.NewGateway(llm.Options{Ledger: book{}, Providers: []llm.Provider{fixedProvider{err: errors.New("broken")}}})
	if err != nil {
		t.Fatal(err)
	}
	for field, spoil := range map[string]func(*wire.LLMRequest){
		"provider": func(r *wire.LLMRequest) { r.Provider = "oracle" },
		"tenant":   func(r *wire.LLMRequest) { r.Tenant = uuid.Nil },
		"step":     func(r *wire.LLMRequest) { r.Step.Step = "" },
		"task":     func(r *wire.LLMRequest) { r.Task = "sing" },
		"question": func(r *wire.LLMRequest) { r.Question = " " },
		"passages": func(r *wire.LLMRequest) { r.Passages = nil },
	} {
		r := request(works)
		spoil(&r)
		if reply := g.Complete(t.Context(), r); reply.Error == nil || reply.Error.Code != schema.CodeInvalid || reply.Error.Field != field {
			t.Errorf("%s: got %+v", field, reply.Error)
		}
	}
	if reply := g.Complete(t.Context(), request(works)); reply.Error == nil || reply.Error.Code != schema.CodeInternal {
		t.Errorf("a broken provider gave %+v", reply.Error)
	}
}
