package preference

// This file fits a head, and measures how it compares with the pair model's own.

import (
	"math/rand/v2"
	"slices"

	"github.com/sluice-rag/sluice/internal/roc"
	"github.com/sluice-rag/sluice/schema"
)

// The least data to learn a head from.
const (
	LeastQuestions = 30
	leastOfEach    = 10 // samples with the label llm_prefer, and without it
)

// Parameters of the descent. Features have a standard deviation of 1.
const (
	steps        = 1000
	learningRate = 0.05
	weightRate   = 0.02
	// patience is the number of steps without a lower loss on D_v after which the descent ends.
	patience = 100
)

// Learnt is a head, and figures about it.
type Learnt struct {
	Head      Head
	Questions int
	Texts     int
	Preferred int     // texts with the label llm_prefer
	Differing int     // texts whose labels differ
	Weight    float64 // w in the end
	// Area is the head's area under the ROC curve of llm_prefer on the held-out questions, and
	// OwnArea the pair model's own.
	Area, OwnArea float64
	HeldOut       int // questions held out
}

// Better reports whether the head is at least as good as the pair model's own.
func (l Learnt) Better() bool { return l.Area >= l.OwnArea }

// Fit learns a head of llm_prefer by Algorithm 2. A fifth of the questions is held out for the
// figures, a fifth of the others is D_v, and the rest is D_t. The descent starts with the pair
// model's own heads, and the step with the least plain loss on D_v is returned, so few samples
// change little. The error is a schema.FieldError when data is missing.
func Fit(samples []Sample, seed uint64) (Learnt, error) {
	var out Learnt
	groups := map[int]bool{}
	for _, s := range samples {
		groups[s.Group] = true
		if out.Texts++; s.Prefer {
			out.Preferred++
		}
		if !s.matched() {
			out.Differing++
		}
		if len(s.X) != len(samples[0].X) || len(s.X) < Appended {
			return out, schema.Invalid("samples", "one has %d numbers, another %d: they are of different graphs", len(s.X), len(samples[0].X))
		}
	}
	out.Questions = len(groups)
	switch without := out.Texts - out.Preferred; {
	case out.Questions < LeastQuestions:
		return out, schema.Invalid("questions", "%d are labelled so far: a preference is learnt from %d at least", out.Questions, LeastQuestions)
	case out.Preferred < leastOfEach:
		return out, schema.Invalid("questions", "the model answers right from %d of %d texts and not without them: a preference is learnt from %d at least. "+
			"Ask more questions, such as it does not know the answers to", out.Preferred, out.Texts, leastOfEach)
	case without < leastOfEach:
		return out, schema.Invalid("questions", "the model is better off with all but %d of %d texts: "+
			"a preference is learnt from %d others at least. Label more texts of each question",
			without, out.Texts, leastOfEach)
	}
	train, held, test := split(samples, seed)
	if !bothLabels(train) || !bothLabels(held) || !bothLabels(test) {
		return out, schema.Invalid("questions", "%d with %d preferred texts do not divide into those to learn from and those to measure on: label more", out.Questions, out.Preferred)
	}
	scale := scaling(train)
	d := descent{theta: scale.own(), w: 0.5, eta: learningRate, alpha: weightRate}
	inTrain, inHeld := divide(scale.all(train)), divide(scale.all(held))
	check := scale.all(held)
	best, least, since := d.theta.clone(), d.theta.mean(check), 0
	for range steps {
		d.step(inTrain, inHeld)
		if since++; d.theta.mean(check) < least {
			best, least, since = d.theta.clone(), d.theta.mean(check), 0
		}
		if since >= patience {
			break
		}
	}
	out.Weight, out.Head, out.HeldOut = d.w, scale.head(best[1]), questions(test)
	own := len(samples[0].X) - 1
	out.Area = area(test, func(s Sample) float64 { return out.Head.at(s.X) })
	out.OwnArea = area(test, func(s Sample) float64 { return s.X[own] })
	return out, nil
}

// split divides samples by their questions.
func split(samples []Sample, seed uint64) (train, held, test []Sample) {
	var groups []int
	for _, s := range samples {
		groups = append(groups, s.Group)
	}
	slices.Sort(groups)
	groups = slices.Compact(groups)
	rand.New(rand.NewPCG(seed, 2)).Shuffle(len(groups), func(i, j int) { groups[i], groups[j] = groups[j], groups[i] })
	part := map[int]int{}
	for i, g := range groups {
		part[g] = i % 5
	}
	for _, s := range samples {
		switch part[s.Group] {
		case 0:
			test = append(test, s)
		case 1:
			held = append(held, s)
		default:
			train = append(train, s)
		}
	}
	return train, held, test
}

func questions(samples []Sample) int {
	seen := map[int]bool{}
	for _, s := range samples {
		seen[s.Group] = true
	}
	return len(seen)
}

func bothLabels(samples []Sample) bool {
	with := slices.ContainsFunc(samples, func(s Sample) bool { return s.Prefer })
	return with && slices.ContainsFunc(samples, func(s Sample) bool { return !s.Prefer })
}

// area returns the area under the ROC curve of llm_prefer.
func area(samples []Sample, score func(Sample) float64) float64 {
	scores, prefer := make([]float64, len(samples)), make([]bool, len(samples))
	for i, s := range samples {
		scores[i], prefer[i] = score(s), s.Prefer
	}
	return roc.Area(scores, prefer)
}
