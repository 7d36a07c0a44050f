package llm_test

import (
	"maps"
	"math"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/llm"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// calibratedReader finds two answers. Its pack computes confidence from the margin of has_answer
// over the next answer.
func calibratedReader(more map[string]float64) *scriptedReader {
	r := reads(map[string]wire.PairScore{"five days": logits(3, 8), "4.5 Nm": logits(2, 8)})
	r.info.Calibrated = map[string]float64{"confidence_intercept": -0.5, "confidence_margin": 1}
	maps.Copy(r.info.Calibrated, more)
	return r
}

func askReader(t *testing.T, r llm.Reader, risk *float64) wire.LLMReply {
	t.Helper()
	g, err := llm.NewGateway(llm.Options{Ledger: book{}, Providers: []llm.Provider{llm.NewExtractive(nil, r)}})
	if err != nil {
		t.Fatal(err)
	}
	q := request(works)
	q.Risk = risk
	return g.Complete(t.Context(), q)
}

func TestConfidenceIsWhatThePackWasCalibratedTo(t *testing.T) {
	reply := askReader(t, calibratedReader(nil), nil)
	if reply.Error != nil || !reply.Supported || len(reply.Quotes) != 2 {
		t.Fatalf("got %+v", reply)
	}
	// The second answer is behind the first by 1, and its confidence is not higher.
	for i, want := range []float64{1 / (1 + math.Exp(-0.5)), 1 / (1 + math.Exp(1.5))} {
		if got := reply.Quotes[i].Answer.Confidence; math.Abs(got-want) > 1e-9 {
			t.Errorf("the confidence of quote %d is %g, want %g", i, got, want)
		}
	}
	if f := reply.Features; f["has_answer"] != 3 || f["margin"] != 1 || f["first"] != 0.5 || f["span"] != 8 {
		t.Errorf("the features are %v", f)
	}
}

func TestAgreementIsNoRivalry(t *testing.T) {
	passages := []wire.LLMPassage{{Text: "It takes five days."}, {Text: "Leave of five days is carried over."}, {Text: "No more than the five days."}}
	r := reads(map[string]wire.PairScore{"five days": logits(3, 8)})
	c := complete(t, r, passages)
	if f := c.Features; math.Abs(f["agree"]-math.Log(3)) > 1e-9 || f["margin"] != 10 || c.Rated {
		t.Errorf("the features are %v", f)
	}
}

func TestAnAnswerBelowItsRiskIsHeldBack(t *testing.T) {
	sure := map[string]float64{"confidence_least": 0.6, "risk_0.05": 0.9, "risk_0.2": 0.62}
	unsure := map[string]float64{"confidence_least": 0.63}
	at := func(x float64) *float64 { return &x }
	for _, x := range []struct {
		name       string
		calibrated map[string]float64
		risk       *float64
		given      bool
		why        string
	}{
		{"above the default", sure, nil, true, ""},
		{"below the default", unsure, nil, false, "its confidence, 0.62, is below 0.63"},
		{"within the risk", sure, at(0.2), true, ""},
		{"the risk between two is the smaller", sure, at(0.19), false, "below 0.90"},
		{"beyond the risk", sure, at(0.05), false, "below 0.90"},
		{"a risk too small", sure, at(0.01), false, "not calibrated for a risk as small as 0.01"},
		{"any risk", unsure, at(1), true, ""},
	} {
		reply := askReader(t, calibratedReader(x.calibrated), x.risk)
		if reply.Error != nil || reply.Supported != x.given || (reply.Text == schema.NoAnswer) == x.given || !strings.Contains(reply.Withheld, x.why) || x.given && reply.Withheld != "" {
			t.Errorf("%s: got %+v", x.name, reply)
		}
		if len(reply.Quotes) != 2 {
			t.Errorf("%s: what is nearest is %v", x.name, reply.Quotes)
		}
	}
}

func TestARiskNeedsAProbability(t *testing.T) {
	risk := 0.3
	r := calibratedReader(nil)
	r.info.Calibrated = nil
	if reply := askReader(t, r, &risk); reply.Supported || !strings.Contains(reply.Withheld, "how likely it is right is not known") {
		t.Errorf("got %+v", reply)
	}
	for _, risk := range []float64{-0.1, 1.1, math.NaN()} {
		if reply := askReader(t, r, &risk); reply.Error == nil || reply.Error.Field != "risk" {
			t.Errorf("a risk of %g gave %+v", risk, reply)
		}
	}
	g, err := llm.NewGateway(llm.Options{Ledger: book{}, Providers: []llm.Provider{fixedProvider{Completion: llm.Completion{Text: "yes", Quotes: []wire.Quote{{End: 3}}}}}})
	if err != nil {
		t.Fatal(err)
	}
	q := request(works)
	q.Tenant, q.Risk = uuid.New(), &risk
	if reply := g.Complete(t.Context(), q); reply.Supported || reply.Withheld == "" {
		t.Errorf("an answer of unknown risk was given: %+v", reply)
	}
}
