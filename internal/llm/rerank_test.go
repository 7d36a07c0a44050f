package llm_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/llm"
	"github.com/sluice-rag/sluice/schema/wire"
)

// reranks returns a reader whose pair model and reranker find different answers.
func reranks(pair, better map[string]wire.PairScore) *scriptedReader {
	r := reads(pair)
	r.info.Operations = append(r.info.Operations, wire.OpRerank)
	r.better = better
	return r
}

func TestTheRerankerReadsWhereThereIsOne(t *testing.T) {
	pair, better := map[string]wire.PairScore{"25 days": logits(5, 8)}, map[string]wire.PairScore{"five days": logits(2, 8)}
	r := reranks(pair, better)
	c := complete(t, r, works)
	if c.Model != "reranker/scripted/1" || len(c.Quotes) != 1 || len(r.texts) != 0 || len(r.reranked) != 3 {
		t.Fatalf("got %+v; the pair model read %q, the reranker %q", c, r.texts, r.reranked)
	}
	q := c.Quotes[0]
	if works[q.Passage].Text[q.Answer.Start:q.Answer.End] != "five days" || math.Abs(q.Answer.Confidence-0.880797) > 1e-6 {
		t.Errorf("the quote is %+v", q)
	}

	// If the reranker is a cross-encoder, which finds no spans, the pair model finds them.
	r = reranks(pair, better)
	r.info.NoRerankSpans = true
	if c := complete(t, r, works); c.Model != "reader/scripted/1" || len(r.reranked) != 0 || len(c.Quotes) != 1 || c.Quotes[0].Answer.Confidence < 0.99 {
		t.Errorf("the pair model in its place gave %+v", c)
	}
	// A pack may have a reranker alone.
	r = reranks(pair, better)
	r.info.Operations = []wire.ModelOp{wire.OpEncode, wire.OpRerank}
	if c := complete(t, r, works); c.Model != "reranker/scripted/1" || len(c.Quotes) != 1 || len(r.texts) != 0 {
		t.Errorf("the reranker alone gave %+v", c)
	}
	// A reranker that does not know the question's script is not used either.
	r = reranks(pair, better)
	r.info.Scripts = map[wire.ModelOp][]string{wire.OpRerank: {"Han"}}
	if c := complete(t, r, works); c.Model != "reader/scripted/1" || len(r.reranked) != 0 {
		t.Errorf("a reranker of Chinese gave %+v", c)
	}
	r.info.Scripts[wire.OpScore] = []string{"Han"}
	if c, err := llm.NewExtractive(encoder(t), r).Complete(t.Context(), request(works)); err != nil || !strings.HasPrefix(c.Model, "sentences/") {
		t.Errorf("a pack of Chinese gave %+v, %v", c, err)
	}
	r = reranks(pair, better)
	r.info.Operations = []wire.ModelOp{wire.OpEncode, wire.OpRerank}
	r.fail = context.DeadlineExceeded
	if _, err := llm.NewExtractive(nil, r).Complete(t.Context(), request(works)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	r.fail, r.fewer = nil, true
	if _, err := llm.NewExtractive(nil, r).Complete(t.Context(), request(works)); err == nil || !strings.Contains(err.Error(), "2 scores for 3 texts") {
		t.Errorf("got %v", err)
	}
}

// TestAnswerableIsOfTheGraphThatReads: each graph has its own threshold, which is even odds if the
// pack has none.
func TestAnswerableIsOfTheGraphThatReads(t *testing.T) {
	five := map[string]wire.PairScore{"five days": logits(2, 8)}
	for _, x := range []struct {
		name       string
		calibrated map[string]float64
		reranker   bool
		answers    bool
	}{
		{"the pair model's does not bind the reranker", map[string]float64{"answerable": 9}, true, true},
		{"the reranker's does", map[string]float64{"answerable": -9, "answerable_reranker": 9}, true, false},
		{"the reranker's does not bind the pair model", map[string]float64{"answerable_reranker": 9}, false, true},
		{"the pair model's does", map[string]float64{"answerable": 9, "answerable_reranker": -9}, false, false},
	} {
		r := reads(five)
		if x.reranker {
			r = reranks(nil, five)
		}
		r.info.Calibrated = x.calibrated
		if c := complete(t, r, works); (c.Text != "" && c.Withheld == "") != x.answers {
			t.Errorf("%s: got %+v", x.name, c)
		}
	}
}

// TestTheRerankerReadsTheBestOfMany: of more pieces than it reads, the reranker gets those that the
// pair model scores highest.
func TestTheRerankerReadsTheBestOfMany(t *testing.T) {
	passages := make([]wire.LLMPassage, 80)
	marked := map[string]wire.PairScore{}
	var want []string
	for i := range passages {
		passages[i].Text = fmt.Sprintf("Case number %03d has nothing to say.", i)
		if i%2 == 1 && len(want) < 7 || i == 79 {
			marked[fmt.Sprintf("number %03d", i)] = logits(1, 1)
			want = append(want, passages[i].Text)
		}
	}
	r := &manyRead{reranks(marked, map[string]wire.PairScore{"number 079": logits(6, 8)})}
	c := complete(t, r, passages)
	if !slices.Equal(r.reranked, want) {
		t.Errorf("it read %q, want %q", r.reranked, want)
	}
	if c.Text != passages[79].Text || c.Model != "reranker/scripted/1" {
		t.Errorf("got %+v", c)
	}
	r.reranked, r.info.Operations = nil, []wire.ModelOp{wire.OpEncode, wire.OpRerank}
	complete(t, r, passages)
	if len(r.reranked) != 8 || r.reranked[7] != passages[7].Text {
		t.Errorf("without a pair model it read %q", r.reranked)
	}
	r.info.Operations, r.fewer = append(r.info.Operations, wire.OpScore), true
	if _, err := llm.NewExtractive(nil, r).Complete(t.Context(), request(passages)); err == nil || !strings.Contains(err.Error(), "79 scores for 80 texts") {
		t.Errorf("a pair model that leaves one out: %v", err)
	}
}

// manyRead fails if its pair model is asked for answers.
type manyRead struct{ *scriptedReader }

func (r *manyRead) Score(ctx context.Context, lane wire.Lane, question string, texts []string, answers bool) ([]wire.PairScore, string, error) {
	if answers {
		return nil, "", errors.New("asked for answers that nobody looks at")
	}
	return r.scriptedReader.Score(ctx, lane, question, texts, true)
}

// TestPiecesFitTheGraphThatReads: a reranker that reads less gets shorter pieces.
func TestPiecesFitTheGraphThatReads(t *testing.T) {
	r := reranks(nil, map[string]wire.PairScore{"needle": logits(3, 5)})
	r.info.Limits = map[wire.ModelOp]int{wire.OpScore: 384, wire.OpRerank: 192}
	filler := ""
	for i := range 60 {
		filler += fmt.Sprintf("Clause %d says nothing at all. ", i) // 7 tokens
	}
	c := complete(t, r, []wire.LLMPassage{{Text: filler + "The needle is here."}})
	if c.Text != "The needle is here." || len(r.reranked) != 4 {
		t.Errorf("of %d texts it made %q", len(r.reranked), c.Text)
	}
}
