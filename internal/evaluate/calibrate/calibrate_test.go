package calibrate

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/sluice-rag/sluice/schema/wire"
)

func TestALogisticRegressionFindsItsCoefficients(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	want := logistic{-1, []float64{2, -0.5}}
	var x [][]float64
	var yes []bool
	for range 20_000 {
		row := []float64{random.NormFloat64(), 3 + 2*random.NormFloat64()}
		x, yes = append(x, row), append(yes, random.Float64() < want.chance(row))
	}
	got, err := fitLogistic(x, yes, 1)
	if err != nil || math.Abs(got.intercept-want.intercept) > 0.1 || math.Abs(got.coefficients[0]-2) > 0.1 || math.Abs(got.coefficients[1]+0.5) > 0.05 {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
	line := logistic{-6, []float64{2}}
	if at := line.at(0.5); math.Abs(at-3) > 1e-12 {
		t.Errorf("even odds are at %v, want 3", at)
	}
	if at := line.at(0.55); math.Abs(line.chance([]float64{at})-0.55) > 1e-12 {
		t.Errorf("the chance at %v is not .55", at)
	}
	if _, err := platt([]float64{1, 1, 1}, []bool{true, false, true}); err != nil {
		t.Errorf("a score that says nothing: %v", err)
	}
}

func TestAreaUnderTheCurve(t *testing.T) {
	for _, c := range []struct {
		scores []float64
		yes    []bool
		want   float64
	}{
		{[]float64{1, 2, 3, 4}, []bool{false, false, true, true}, 1},
		{[]float64{1, 2, 3, 4}, []bool{true, true, false, false}, 0},
		{[]float64{4, 1, 3, 2}, []bool{true, false, false, true}, 0.75},
		{[]float64{1, 1, 1, 1}, []bool{true, false, true, false}, 0.5},
		{[]float64{1, 2}, []bool{true, true}, 0.5},
	} {
		if got := area(c.scores, c.yes); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%v of %v: %v, want %v", c.scores, c.yes, got, c.want)
		}
	}
}

// TestTheBoundOfAnError compares with published tables of Clopper and Pearson's bounds, one-sided
// at 90 %.
func TestTheBoundOfAnError(t *testing.T) {
	for _, c := range []struct {
		errors, n int
		want      float64
	}{{0, 10, 0.20567}, {1, 10, 0.33685}, {0, 100, 0.02276}, {5, 100, 0.09088}, {10, 10, 1}} {
		if got := errorBound(c.errors, c.n); math.Abs(got-c.want) > 5e-4 {
			t.Errorf("%d of %d: %.5f, want %.5f", c.errors, c.n, got, c.want)
		}
	}
}

// TestARiskIsKept draws calibrated confidences: in most draws the error of the answers above a
// threshold is within its risk.
func TestARiskIsKept(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	draws, kept, found := 200, 0, 0
	for range draws {
		chances, right := make([]float64, 500), make([]bool, 500)
		for i := range chances {
			chances[i] = random.Float64()
			right[i] = random.Float64() < chances[i]
		}
		for _, r := range riskThresholds(chances, right) {
			if r.Risk != 0.2 {
				continue
			}
			found++
			// Above c, the mean error of a uniform calibrated confidence is (1-c)/2.
			if (1-r.Confidence)/2 <= r.Risk {
				kept++
			}
		}
	}
	if found < draws*9/10 || float64(kept) < 0.85*float64(found) {
		t.Errorf("of %d draws %d have a threshold of risk .2, and %d keep it", draws, found, kept)
	}
	if got := riskThresholds([]float64{0.9, 0.8}, []bool{false, false}); len(got) != 0 {
		t.Errorf("wrong answers alone are given at %+v", got)
	}
}

func TestThresholdsOfScores(t *testing.T) {
	// Texts with the answer score 4 on average, others 0. The last of a question's eleven texts is
	// not among the ten.
	random := rand.New(rand.NewPCG(5, 6))
	var all [][]read
	for range 400 {
		var q []read
		for i := range 11 {
			mean := 0.0
			if i == 3 {
				mean = 4
			}
			if i == 10 {
				mean = 50
			}
			q = append(q, read{mean + random.NormFloat64(), i == 3})
		}
		all = append(all, q[:10:10])
	}
	got, err := thresholds(all, 10)
	if err != nil {
		t.Fatal(err)
	}
	// Two normal distributions of equal deviation, one nine times as frequent: even odds at 2 + ln
	// 9 / 4.
	if want := 2 + math.Log(9)/4; math.Abs(got.HasAnswer-want) > 0.15 {
		t.Errorf("a text has the answer from %.3f on, want about %.3f", got.HasAnswer, want)
	}
	if math.Abs(got.Answerable-(4-1.28)) > 0.25 || got.Refused < 0.9 || got.Area < 0.99 || got.Texts != 4000 {
		t.Errorf("%+v", got)
	}
	if _, err := thresholds([][]read{{{1, false}}}, 10); err == nil {
		t.Error("without an answer there are thresholds")
	}
}

// TestTheDetectorLearns: windows with the answer have a high has_answer, which the detector must
// distinguish from a high llm_prefer.
func TestTheDetectorLearns(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 8))
	var all []prefixes
	for range 600 {
		gold := random.IntN(8)
		var windows []scoredWindow
		for i := range 8 {
			w := scoredWindow{has: random.NormFloat64(), prefer: 3 * random.NormFloat64(), holds: i == gold}
			if w.holds {
				w.has += 5
			}
			windows = append(windows, w)
		}
		all = append(all, prefixesOf(windows))
	}
	d := trainDetector(random, all[:300], all[300:450], all[450:])
	if d.Area < 0.95 || d.WithAnswer < 0.95*d.WithAnswerAll || d.Windows > 7 || d.Threshold <= 0.02 || d.Threshold >= 1 {
		t.Errorf("%+v", d)
	}
	if len(d.Layers) != 4 || len(d.Layers[0].Weights) != 2*wire.DetectPairs || len(d.Layers[3].Bias) != 1 {
		t.Errorf("the layers are %d", len(d.Layers))
	}
}

// TestSlopesAreThoseOfTheLoss compares the gradients with finite differences.
func TestSlopesAreThoseOfTheLoss(t *testing.T) {
	random := rand.New(rand.NewPCG(9, 10))
	net := newNetwork(random, 2, 3, 4, 1)
	for i := range net.layers[0].weights {
		net.layers[0].weights[i] += 0.3 // biases, too
	}
	x := []float64{1, -2, 0.5}
	loss := func() float64 { return -math.Log(net.chance(x)) }
	net.learn(x, true, 1)
	for k, l := range net.layers {
		for i := range l.weights {
			const h = 1e-6
			w := l.weights[i]
			l.weights[i] = w + h
			above := loss()
			l.weights[i] = w - h
			below := loss()
			l.weights[i] = w
			if want := (above - below) / (2 * h); math.Abs(l.slope[i]-want) > 1e-5 {
				t.Errorf("layer %d, weight %d: slope %v, want %v", k, i, l.slope[i], want)
			}
		}
	}
}
