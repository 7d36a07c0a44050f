package llm

// How sure the provider "extractive" is of what it read: by a logistic regression
// over what it knows of an answer, whose coefficients the model pack has, and
// whether that is enough to give the answer.

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-rag/sluice/internal/text"
	"github.com/sluice-rag/sluice/schema/wire"
)

// Names of what a pack has calibrated for confidence, wire.RerankerSuffix behind
// those of the reranker: a coefficient for each feature, the intercept, the least
// confidence of an answer that is given, and the same for nominal risks ("risk_0.05").
const (
	coefficient     = "confidence_"
	intercept       = coefficient + "intercept"
	leastConfidence = coefficient + "least"
	riskPrefix      = "risk_"
)

// surely bounds features that have no bounds of their own.
const surely = 10.0

// scoredSpan is a span that may be the answer, with what its confidence depends on.
type scoredSpan struct {
	span
	hasAnswer float64 // the text's logit of has_answer
	score     float64 // the answer's own
	next      float64 // that of the next answer in the same text
	lacks     lacks
	asked     text.Asked
	fits      bool   // it is of the sort asked for
	words     string // of the answer, to compare
}

// lacks is what the sentences quoted of a text lack of the question.
type lacks struct {
	share        float64 // of its content
	name, number bool    // that the text does not have
}

// loss is what a text loses for it.
func (l lacks) loss() float64 {
	loss := offQuestion * l.share
	for _, lacks := range []bool{l.name, l.number} {
		if lacks {
			loss += madeUp
		}
	}
	return loss
}

// features are what the confidence of an answer is computed from; all has the answer of
// every text.
func features(of scoredSpan, all []scoredSpan) map[string]float64 {
	margin, ahead, agree := surely, surely, 0.0
	for _, other := range all {
		switch {
		case other.words == of.words:
			if other.quote.Passage != of.quote.Passage {
				agree++
			}
		default:
			margin, ahead = min(margin, of.hasAnswer-other.hasAnswer), min(ahead, of.value-other.value)
		}
	}
	is := func(yes bool) float64 {
		if yes {
			return 1
		}
		return 0
	}
	out := map[string]float64{
		"has_answer":  of.hasAnswer,
		"span":        of.score,
		"span_margin": of.score - of.next,
		"margin":      margin,
		"ahead":       ahead,
		"first":       1 / float64(1+of.quote.Passage),
		"missing":     of.lacks.share,
		"made_up":     is(of.lacks.name) + is(of.lacks.number),
		"fits":        is(of.fits && of.asked != text.AskedAnything),
		"other_sort":  is(!of.fits),
		"agree":       math.Log1p(agree),
		"length":      math.Log1p(float64(len(strings.Fields(of.words)))),
	}
	for name, x := range out {
		out[name] = max(-surely, min(surely, finite(x)))
	}
	return out
}

// calibration is what a pack says of the confidence in what one graph reads.
type calibration struct {
	of     map[string]float64
	suffix string
}

func calibrationOf(info wire.ModelInfo, graph string) calibration {
	if graph == wire.GraphReranker {
		return calibration{info.Calibrated, wire.RerankerSuffix}
	}
	return calibration{info.Calibrated, ""}
}

// known reports whether there is a calibration at all.
func (c calibration) known() bool {
	_, ok := c.of[intercept+c.suffix]
	return ok
}

// probability is the chance that an answer is right. Without a calibration it is what
// the graph says of the text having an answer.
func (c calibration) probability(x map[string]float64) float64 {
	if !c.known() {
		return probability(x["has_answer"])
	}
	sum := c.of[intercept+c.suffix]
	// In one order: sums of the same numbers in another one differ in their last bits.
	for _, name := range slices.Sorted(maps.Keys(x)) {
		sum += c.of[coefficient+name+c.suffix] * x[name]
	}
	return probability(sum)
}

// least is the confidence from which an answer is given at a risk: at the usual one,
// where none is asked for, else by the greatest calibrated risk that is no greater.
// Where none is so small no answer is given.
func (c calibration) least(risk *float64) float64 {
	switch {
	case risk == nil:
		return c.of[leastConfidence+c.suffix]
	case *risk >= 1:
		return 0
	}
	nominal, least := -1.0, math.Inf(1)
	for name, x := range c.of {
		digits, ok := strings.CutPrefix(name, riskPrefix)
		if ok && c.suffix != "" {
			digits, ok = strings.CutSuffix(digits, c.suffix)
		}
		at, err := strconv.ParseFloat(digits, 64)
		if ok && err == nil && at <= *risk && at > nominal {
			nominal, least = at, x
		}
	}
	return least
}

// rate sets the confidence of spans, best first, and says why they are not to be given
// at the risk; "": they are. None is surer than the first, which is the answer.
func (c calibration) rate(spans []span, risk *float64) (withheld string) {
	if len(spans) == 0 {
		return ""
	}
	confidence, least := c.probability(spans[0].features), c.least(risk)
	for i := range spans {
		if c.known() {
			spans[i].quote.Answer.Confidence = min(confidence, c.probability(spans[i].features))
		}
	}
	switch {
	case confidence >= least:
		return ""
	case !c.known():
		return notCalibrated
	case math.IsInf(least, 1):
		return fmt.Sprintf("the model pack is not calibrated for a risk as small as %g", *risk)
	}
	return fmt.Sprintf("its confidence, %.2f, is below %.2f", confidence, least)
}

// notCalibrated is why nothing is given at a risk by who cannot tell how likely its
// answers are right.
const notCalibrated = "nothing tells how likely it is right"

// sameWords is an answer as others are compared with it.
func sameWords(s string) string {
	return strings.Join(slices.Sorted(maps.Keys(text.ContentWords(s))), " ")
}

// byValue sorts answers, best first.
func byValue(all []scoredSpan) {
	slices.SortStableFunc(all, func(a, b scoredSpan) int { return cmp.Compare(b.value, a.value) })
}
