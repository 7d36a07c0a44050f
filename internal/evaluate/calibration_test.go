package evaluate

import (
	"math"
	"testing"

	"github.com/sluice-rag/sluice/schema"
)

func TestCalibrationByHand(t *testing.T) {
	p := planResults{}
	for _, r := range []rated{{0.95, true}, {0.93, true}, {0.91, false}, {0.55, true}, {0.15, false}, {1, true}} {
		p.answers = append(p.answers, &answerObservation{rated: true, confidence: r.confidence, right: r.right})
	}
	p.answers = append(p.answers, &answerObservation{}) // refused
	c := p.calibration()
	// From 0.9 to 1: confidences of 3.79 for 4 answers, 3 right; 0.5: 0.55, 1 right; 0.1: 0.15,
	// none right.
	if c.Answers != 6 || math.Abs(c.Right-4./6) > 1e-9 || math.Abs(c.Error-(0.79+0.45+0.15)/6) > 1e-9 {
		t.Errorf("got %+v", c)
	}
	// One of eight pairs is in the wrong order: 0.55 right, 0.91 wrong.
	if c.AUROC == nil || math.Abs(*c.AUROC-7./8) > 1e-9 {
		t.Errorf("AUROC is %v", c.AUROC)
	}
	if b := c.Bins[9]; b.Answers != 4 || b.Right != 0.75 || b.Low != 0.9 || b.High != 1 || math.Abs(b.Confidence-3.79/4) > 1e-9 {
		t.Errorf("the last bin is %+v", b)
	}
	if (&planResults{answers: []*answerObservation{{}}}).calibration() != nil {
		t.Error("answers without confidence have a calibration")
	}
	p.answers = p.answers[:2]
	if c := p.calibration(); c.AUROC != nil {
		t.Errorf("AUROC of right answers alone is %v", *c.AUROC)
	}
}

func TestAnAnswerIsRightByItsShortForm(t *testing.T) {
	q := Topic{ID: "1", Text: "When did it begin?", Relevant: map[string]int{"gold": 1}, Answers: []string{"in October 1973"}}
	gone := q
	gone.Unanswerable = true
	open := q
	open.Answers = nil
	for _, c := range []struct {
		name  string
		q     Topic
		a     Answered
		rated bool
		right bool
	}{
		{"the same", q, newAnswer("It began in October 1973.", true, citation(0.4, "October 1973")), true, true},
		{"a part", q, newAnswer("It began in October 1973.", true, citation(0.4, "1973")), true, true},
		{"more", q, newAnswer("It began in October 1973.", true, citation(0.4, "It began in October 1973")), true, true},
		{"other words", q, newAnswer("It began in October 1973.", true, citation(0.4, "It began")), true, false},
		{"no short form", q, newAnswer("It began in October 1973.", true, citation(0.4, "")), true, true},
		{"no confidence", q, newAnswer("It began in October 1973.", true, citation(0, "")), false, true},
		{"none was to be there", gone, newAnswer("It began in June 1985.", true, citation(0.4, "June 1985")), true, false},
		{"no answer is known", open, newAnswer("It began in October 1973.", true, citation(0.4, "October 1973")), false, false},
		{"refused", q, newAnswer("The documents do not say.", false), false, false},
	} {
		j := &judge([]Topic{c.q})[0]
		if o := observeAnswer(j, &c.a, Prices{}); o.rated != c.rated || o.right != c.right {
			t.Errorf("%s: rated %v, right %v", c.name, o.rated, o.right)
		}
	}
}

// TestFeaturesAreOfTheStageThatHasSome: the features are those of the stage that has some, whatever
// stages follow.
func TestFeaturesAreOfTheStageThatHasSome(t *testing.T) {
	a := newAnswer("It began in October 1973.", true, citation(0.4, "1973"))
	a.Trace = []schema.StageReport{{Stage: "lexical"}, {Stage: "generate", Features: map[string]float64{"margin": 2}}, {Stage: "check"}}
	if o := observeAnswer(&judge([]Topic{{ID: "1", Answers: []string{"1973"}}})[0], &a, Prices{}); o.features["margin"] != 2 {
		t.Errorf("features are %v", o.features)
	}
}
