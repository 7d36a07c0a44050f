package preference

import (
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-7 {
		t.Errorf("%s: %.9f, want %.9f", what, got, want)
	}
}

func sample(hasAnswer, prefer bool, x ...float64) Sample {
	return Sample{X: x, HasAnswer: hasAnswer, Prefer: prefer}
}

// TestStepsAreAlgorithm2 compares five steps with the results of NumPy for eq. 5 to 11.
func TestStepsAreAlgorithm2(t *testing.T) {
	train := divide([]Sample{sample(true, true, .5, -1, .2), sample(false, false, 1.5, .3, -.7), sample(true, false, -.4, .8, 1.1),
		sample(false, true, .1, -.2, .9), sample(false, false, -1.2, .6, -.3), sample(true, true, .7, 1.4, .5)})
	check := []Sample{sample(true, true, .3, .3, -.5), sample(false, false, -.6, 1, .4), sample(true, false, 1.1, -.9, 0)}
	d := descent{theta: heads{{.2, -.1, .4, .05}, {-.3, .5, .1, -.2}}, w: .5, eta: .3, alpha: .7}
	for range 5 {
		d.step(train, divide(check))
	}
	for label, row := range (heads{{.21040858, -.04757556, .56904521, -.0128269}, {-.04517446, .22903194, .25888387, -.17737015}}) {
		for i, want := range row {
			if math.Abs(d.theta[label][i]-want) > 1e-8 {
				t.Errorf("theta[%d][%d] = %.8f, want %.8f", label, i, d.theta[label][i], want)
			}
		}
	}
	near(t, "w", d.w, .5378101243909956)
	near(t, "loss", d.theta.mean(check), 1.408346340585312)
}

// TestWeightKeepsAway: w stays within its bounds, whatever the step size.
func TestWeightKeepsAway(t *testing.T) {
	for _, alpha := range []float64{1e9, -1e9} {
		d := descent{theta: heads{{.2, 0}, {-.3, 0}}, w: .5, eta: .3, alpha: alpha}
		d.step(divide([]Sample{sample(true, true, 1), sample(true, false, -2)}), divide([]Sample{sample(true, true, .5), sample(false, true, 1)}))
		if d.w != leastWeight && d.w != 1-leastWeight {
			t.Errorf("alpha %g: w is %g", alpha, d.w)
		}
	}
}

// TestGradientIsThatOfTheLoss compares the gradient with finite differences.
func TestGradientIsThatOfTheLoss(t *testing.T) {
	samples := []Sample{sample(true, false, .5, -1), sample(false, false, 1.5, .3), sample(true, true, 30, -40)}
	h := heads{{.2, -.1, .4}, {-.3, .5, .1}}
	got := h.gradient(samples, len(samples))
	for label := range h {
		for i := range h[label] {
			const step = 1e-6
			up, down := h.clone(), h.clone()
			up[label][i] += step
			down[label][i] -= step
			if want := (up.mean(samples) - down.mean(samples)) / (2 * step); math.Abs(got[label][i]-want) > 1e-6 {
				t.Errorf("[%d][%d] = %g, differences give %g", label, i, got[label][i], want)
			}
		}
	}
}

// drawn returns samples of random questions, with texts of three features and the pair model's
// logits. A text is preferred if it has the answer and a low first feature, which the pair model
// does not know.
func drawn(questions int, seed uint64) []Sample {
	rng := rand.New(rand.NewPCG(seed, 1))
	var out []Sample
	for q := range questions {
		for range 8 {
			x := []float64{100 + 20*rng.NormFloat64(), rng.NormFloat64(), 7}
			has := rng.Float64() < .5
			logit := 2 * (number(has) - .5) * 2
			out = append(out, Sample{X: append(x, logit+rng.NormFloat64(), logit+rng.NormFloat64()), HasAnswer: has, Prefer: has && x[0] < 100, Group: q})
		}
	}
	return out
}

func TestFitLearnsWhatTheReaderDoesNotKnow(t *testing.T) {
	l, err := Fit(drawn(200, 1), 1)
	if err != nil {
		t.Fatal(err)
	}
	if l.Questions != 200 || l.Texts != 1600 || l.HeldOut != 40 || l.Area < .95 || l.OwnArea > .9 || !l.Better() {
		t.Errorf("got %+v", l)
	}
	if l.Preferred == 0 || l.Differing == 0 || l.Weight <= 0 || l.Weight >= 1 {
		t.Errorf("got %+v", l)
	}
	if l.Head.Weights[0] >= 0 || l.Head.Weights[2] != 0 {
		t.Errorf("weights %v: the first counts against a text, the third says nothing", l.Head.Weights)
	}
	again, err := Fit(drawn(200, 1), 1)
	if err != nil || again.Area != l.Area || again.Head.Bias != l.Head.Bias {
		t.Errorf("the same samples give %+v, %v", again, err)
	}
}

// TestFitBeginsAtTheReader: if the pair model is right, no head is better than its own.
func TestFitBeginsAtTheReader(t *testing.T) {
	samples := drawn(60, 2)
	for i, s := range samples {
		own := 4 * (number(s.Prefer) - .5)
		samples[i].X[len(s.X)-1] = own + s.X[1]*.01
	}
	l, err := Fit(samples, 1)
	if err != nil || l.OwnArea != 1 || l.Area != 1 {
		t.Errorf("got %+v, %v", l, err)
	}
}

func TestFitSaysWhatIsMissing(t *testing.T) {
	none, all := drawn(60, 3), drawn(60, 3)
	for i := range none {
		none[i].Prefer, all[i].Prefer = false, true
	}
	odd := drawn(60, 3)
	odd[5].X = odd[5].X[:4]
	for says, samples := range map[string][]Sample{"30 at least": drawn(20, 3), "10 at least": none, "10 others": all, "different graphs": odd, "0 are labelled": nil} {
		_, err := Fit(samples, 1)
		var field *schema.FieldError
		if !errors.As(err, &field) || !strings.Contains(err.Error(), says) {
			t.Errorf("want %q, got %v", says, err)
		}
	}
}

func TestAreaCountsPairs(t *testing.T) {
	of := func(prefer bool, x float64) Sample { return sample(prefer, prefer, x) }
	got := area([]Sample{of(true, 3), of(true, 1), of(false, 1), of(false, 0), of(false, 2)}, func(s Sample) float64 { return s.X[0] })
	near(t, "area", got, (3+1.5)/6)
}

func TestHeadReadsItsOwnGraph(t *testing.T) {
	x := Vector([]float32{1, 2}, wire.PairScore{HasAnswer: 3, LLMPrefer: 4, Relevance: 9})
	got, err := (Head{Weights: []float64{1, 10, 100, 1000}, Bias: .5}).Logit(x)
	if err != nil || got != 4321.5 {
		t.Errorf("got %g, %v", got, err)
	}
	if _, err := (Head{Weights: []float64{1}}).Logit(x); err == nil {
		t.Error("a head of another graph gave a logit")
	}
}
