package llm_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/llm"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// scriptedReader finds, in every text, the first of its scripted answers, with the logits of that
// answer. Package queryworker tests the gateway with the real model.
type scriptedReader struct {
	info    wire.ModelInfo
	answers map[string]wire.PairScore
	fail    error
	fewer   bool
	texts   []string
	// For the reranker.
	better   map[string]wire.PairScore
	reranked []string
}

func (r *scriptedReader) Info(context.Context) (wire.ModelInfo, error) { return r.info, nil }

func (r *scriptedReader) Score(_ context.Context, lane wire.Lane, _ string, texts []string, answers bool) ([]wire.PairScore, string, error) {
	if lane != wire.LaneInteractive || !answers {
		return nil, "", errors.New("not asked for answers now")
	}
	r.texts = append(r.texts, texts...)
	return r.find(texts, r.answers)
}

func (r *scriptedReader) Rerank(_ context.Context, lane wire.Lane, _ string, texts []string, answers bool) ([]wire.PairScore, string, error) {
	if lane != wire.LaneInteractive || !answers {
		return nil, "", errors.New("not asked for answers now")
	}
	r.reranked = append(r.reranked, texts...)
	return r.find(texts, r.better)
}

func (r *scriptedReader) find(texts []string, answers map[string]wire.PairScore) ([]wire.PairScore, string, error) {
	out := make([]wire.PairScore, len(texts))
	for i, text := range texts {
		out[i] = wire.PairScore{HasAnswer: -5, Answer: &wire.AnswerSpan{Start: 0, End: 1, Score: -9}}
		for answer, x := range answers {
			if at := strings.Index(text, answer); at >= 0 && (answer != "" || x.Answer == nil) {
				out[i] = x
				if x.Answer != nil {
					out[i].Answer = &wire.AnswerSpan{Start: at, End: at + len(answer), Score: x.Answer.Score}
				}
			}
		}
	}
	if r.fewer {
		out = out[1:]
	}
	return out, "scripted/1", r.fail
}

func reads(answers map[string]wire.PairScore) *scriptedReader {
	return &scriptedReader{info: wire.ModelInfo{Pack: "scripted", Operations: []wire.ModelOp{wire.OpEncode, wire.OpScore}}, answers: answers}
}

func logits(hasAnswer, span float32) wire.PairScore {
	return wire.PairScore{HasAnswer: hasAnswer, Answer: &wire.AnswerSpan{Score: span}}
}

func complete(t *testing.T, r llm.Reader, passages []wire.LLMPassage) llm.Completion {
	t.Helper()
	c, err := llm.NewExtractive(nil, r).Complete(t.Context(), request(passages))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestTheReaderQuotesTheSentenceOfItsAnswer(t *testing.T) {
	passages := []wire.LLMPassage{
		{Title: "Pumps", Text: works[0].Text},
		{Title: "Leave", Headings: []string{"Work", "Annual leave"}, Text: "\n " + works[1].Text},
		{Title: "Kantine", Text: works[2].Text},
	}
	r := reads(map[string]wire.PairScore{"five days": logits(3, 8)})
	c := complete(t, r, passages)
	if c.Text != "You may carry over up to five days of unused annual leave into the next year." || len(c.Quotes) != 1 || c.Model != "reader/scripted/1" || c.InputTokens < 50 || c.OutputTokens < 10 {
		t.Fatalf("got %+v", c)
	}
	q := c.Quotes[0]
	body := passages[1].Text
	if q.Passage != 1 || body[q.Start:q.End] != c.Text || body[q.Answer.Start:q.Answer.End] != "five days" || math.Abs(q.Answer.Confidence-0.952574) > 1e-6 {
		t.Errorf("the quote is %+v", q)
	}
	if want := "Leave\nAnnual leave\nEvery employee"; len(r.texts) != 3 || !strings.HasPrefix(r.texts[1], want) {
		t.Errorf("it read %q, not %q", r.texts, want)
	}
	// Multi-byte characters, and an answer across two sentences.
	c = complete(t, reads(map[string]wire.PairScore{"öffnet um acht Uhr. Suppe": logits(2, 2)}), works)
	if c.Text != works[2].Text || c.Quotes[0].Answer.Start != len("Die Kantine ") {
		t.Errorf("got %+v", c)
	}
}

// TestAShortAnswerIsOfTheSortThatIsAskedFor: a clause's number does not say how long something is,
// however sure the model is of it. A span of the right kind that scores nearly as high replaces it;
// else the quote has no short answer.
func TestAShortAnswerIsOfTheSortThatIsAskedFor(t *testing.T) {
	const clause = "7.1 Either party may end this lease by thirty days' notice in writing."
	passages := []wire.LLMPassage{{Title: "Lease", Text: clause}}
	at := func(answer string, score float32) wire.AnswerSpan {
		start := len("Lease\n") + strings.Index(clause, answer)
		return wire.AnswerSpan{Start: start, End: start + len(answer), Score: score}
	}
	for _, c := range []struct {
		question string
		others   []wire.AnswerSpan
		short    string
	}{
		{"How long is the notice of the lease?", []wire.AnswerSpan{at("Either party", 8), at("thirty days", 6)}, "thirty days"},
		{"How long is the notice of the lease?", []wire.AnswerSpan{at("Either party", 8), at("thirty days", -4)}, ""},
		{"How long is the notice of the lease?", []wire.AnswerSpan{at("in writing", 8)}, ""},
		{"How long is the notice of the lease?", nil, ""},
		{"Who may end the lease by notice?", []wire.AnswerSpan{at("Either party", 8)}, "Either party"},
		{"Which clause is about notice of the lease?", []wire.AnswerSpan{at("Either party", 8)}, "7.1"},
	} {
		score := wire.PairScore{HasAnswer: 4, Others: c.others}
		best := at("7.1", 9)
		score.Answer = &best
		r := request(passages)
		r.Question = c.question
		got, err := llm.NewExtractive(nil, reads(map[string]wire.PairScore{"7.1": score})).Complete(t.Context(), r)
		if err != nil || len(got.Quotes) != 1 || !strings.Contains(got.Text, "thirty days' notice in writing.") {
			t.Fatalf("%q, others %v: %+v, %v", c.question, c.others, got, err)
		}
		if a := got.Quotes[0].Answer; clause[a.Start:a.End] != c.short || (a.Confidence > 0) != (c.short != "") {
			t.Errorf("%q, others %v: the short answer is %q of %v, want %q", c.question, c.others, clause[a.Start:a.End], a.Confidence, c.short)
		}
	}
}

func TestAPackWithoutSpansDoesNotRead(t *testing.T) {
	r := reads(map[string]wire.PairScore{"five days": logits(3, 8)})
	r.info.NoSpans = true
	c, err := llm.NewExtractive(encoder(t), r).Complete(t.Context(), request(works))
	if err != nil || !strings.HasPrefix(c.Model, "sentences") || len(c.Quotes) == 0 || len(r.texts) > 0 {
		t.Errorf("got %+v, %v; it read %q", c, err, r.texts)
	}
}

func TestTheReaderChoosesByAllThatItKnows(t *testing.T) {
	const torque, days, march, soup = "4.5 Nm", "25 days", "31 March", "um acht Uhr"
	for _, x := range []struct {
		name    string
		answers map[string]wire.PairScore
		want    []string
	}{
		{"has_answer", map[string]wire.PairScore{torque: logits(1, 4), soup: logits(5, 4)}, []string{soup}},
		{"the span", map[string]wire.PairScore{torque: logits(1.5, -9), soup: logits(2, 9)}, []string{soup}},
		{"the rank when they are equal", map[string]wire.PairScore{torque: logits(2, 4), soup: logits(2, 4)}, []string{torque, soup}},
		{"what is near is quoted too", map[string]wire.PairScore{torque: logits(3, 4), days: logits(2.6, 4), soup: logits(1, 1)}, []string{torque, days}},
		{"what has no answer is not", map[string]wire.PairScore{torque: logits(0.6, 0), soup: logits(-0.1, 2)}, []string{torque}},
		{"what speaks of something else needs more", map[string]wire.PairScore{torque: logits(0.4, 0)}, nil},
	} {
		c := complete(t, reads(x.answers), works)
		var got []string
		for _, q := range c.Quotes {
			got = append(got, works[q.Passage].Text[q.Answer.Start:q.Answer.End])
		}
		if fmt.Sprint(got) != fmt.Sprint(x.want) || len(x.want) > 0 && strings.Count(c.Text, ".") == 0 {
			t.Errorf("%s: got %q", x.name, got)
		}
	}
}

func TestTheReaderSaysWhenNothingAnswers(t *testing.T) {
	five := map[string]wire.PairScore{"five days": logits(1, 4)}
	for name, change := range map[string]func(*scriptedReader){
		"below even odds":  func(r *scriptedReader) { r.answers = map[string]wire.PairScore{"five days": logits(-0.01, 9)} },
		"below answerable": func(r *scriptedReader) { r.info.Calibrated = map[string]float64{"has_answer": -2, "answerable": 1.1} },
		"a question without words": func(r *scriptedReader) {
			r.fail = fmt.Errorf("x: %w", &schema.RemoteError{Code: schema.CodeInvalid, Field: "question"})
		},
		"an answer in the title": func(r *scriptedReader) { r.answers = map[string]wire.PairScore{"Handbook": logits(5, 9)} },
		"no span":                func(r *scriptedReader) { r.answers = map[string]wire.PairScore{"": {HasAnswer: 5}} },
		"no number": func(r *scriptedReader) {
			r.answers = map[string]wire.PairScore{"five days": logits(float32(math.NaN()), 9)}
		},
		"a span that is no number": func(r *scriptedReader) {
			r.answers = map[string]wire.PairScore{"five days": logits(5, float32(math.NaN()))}
		},
	} {
		r := reads(five)
		change(r)
		passages := []wire.LLMPassage{{Title: "Handbook", Text: works[1].Text}}
		c := complete(t, r, passages)
		if c.Withheld == "" && (c.Text != "" || len(c.Quotes) != 0) {
			t.Errorf("%s: got %+v", name, c)
		}
		for _, q := range c.Quotes {
			if q.Answer != (wire.QuoteAnswer{}) {
				t.Errorf("%s: what is nearest has a short answer: %+v", name, q)
			}
		}
	}
	r := reads(five)
	r.info.Calibrated = map[string]float64{"has_answer": 5, "answerable": 0.9} // thresholds for one of many texts, and for the best of few
	if c := complete(t, r, works); c.Text == "" || c.Withheld != "" {
		t.Error("what is above its own threshold was refused")
	}
}

func TestTheReaderReadsLongPassagesInPieces(t *testing.T) {
	filler := strings.Repeat("Words that say nothing at all. ", 60)
	passages := []wire.LLMPassage{{Text: filler + "The needle is here."}, {Text: filler + "The needle is here."}}
	r := reads(map[string]wire.PairScore{"needle": logits(3, 5)})
	c := complete(t, r, passages)
	if c.Text != "The needle is here." || len(r.texts) != 2 || len(c.Quotes) != 1 {
		t.Errorf("of %d texts it made %q", len(r.texts), c.Text)
	}
	if c := complete(t, r, []wire.LLMPassage{{Text: " \n "}}); c.Text != "" || c.Model != "reader/scripted" {
		t.Errorf("nothing gave %+v", c)
	}
}

func TestAReaderThatFails(t *testing.T) {
	r := reads(nil)
	r.fail = context.DeadlineExceeded
	if _, err := llm.NewExtractive(nil, r).Complete(t.Context(), request(works)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	r = reads(nil)
	r.fewer = true
	if _, err := llm.NewExtractive(nil, r).Complete(t.Context(), request(works)); err == nil || !strings.Contains(err.Error(), "2 scores for 3 texts") {
		t.Errorf("got %v", err)
	}
}

// With a pack without a pair model, sentences are scored.
func TestWithoutAPairModelSentencesAreScored(t *testing.T) {
	r := reads(map[string]wire.PairScore{"31 March": logits(9, 9)})
	r.info.Operations = []wire.ModelOp{wire.OpEncode}
	q := request(works)
	q.Question = "How many days of unused annual leave can I carry over into the next year?"
	c, err := llm.NewExtractive(encoder(t), r).Complete(t.Context(), q)
	if err != nil || !strings.HasPrefix(c.Text, "You may carry over") || !strings.HasPrefix(c.Model, "sentences/") || c.Quotes[0].Answer != (wire.QuoteAnswer{}) {
		t.Errorf("got %+v, %v", c, err)
	}
}

func TestTheReaderShowsWhatIsNearest(t *testing.T) {
	near := map[string]wire.PairScore{"five days": logits(-1, 4), "30 cents": logits(-0.5, 4)}
	passages := append([]wire.LLMPassage{{Text: "A kilometre is paid with 30 cents."}}, works...)
	c := complete(t, reads(near), passages)
	if c.Withheld != "no passage says it" || len(c.Quotes) != 1 || !strings.Contains(passages[c.Quotes[0].Passage].Text[c.Quotes[0].Start:c.Quotes[0].End], "five days") {
		t.Errorf("got %+v", c)
	}
}

func TestAVersionThatTheTitleNamesIsNotMadeUp(t *testing.T) {
	for title, given := range map[string]bool{"lease v1 draft.docx": true, "lease v2.docx": false, "lease.docx": false} {
		r := request([]wire.LLMPassage{{Title: title, Text: "The yearly rent of the works is 120,000 pounds."}})
		r.Question = "What is the yearly rent of the works in version 1?"
		c, err := llm.NewExtractive(nil, reads(map[string]wire.PairScore{"120,000": logits(0.6, 4)})).Complete(t.Context(), r)
		if err != nil || (c.Text != "" && c.Withheld == "") != given {
			t.Errorf("%s: got %+v, %v", title, c, err)
		}
	}
}
