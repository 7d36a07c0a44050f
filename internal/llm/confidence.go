package llm

// This file rates the answers that the provider "extractive" reads. A logistic regression over
// features of an answer gives its confidence; the model pack has the coefficients. The answer is
// withheld if the confidence is too low.

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

// Names of a pack's calibrated values for confidence; those of the reranker end in
// wire.RerankerSuffix. There is a coefficient for each feature, the intercept, the least confidence
// of an answer that is not withheld, and that least confidence for each nominal risk ("risk_0.05").
const (
	coefficientPrefix = "confidence_"
	intercept         = coefficientPrefix + "intercept"
	minConfidenceKey  = coefficientPrefix + "least"
	riskPrefix        = "risk_"
)

// maxFeature bounds every feature, and is the value of a margin when there is nothing to compare
// with.
const maxFeature = 10.0

// scoredSpan is a span that may be the answer, with what its confidence depends on.
type scoredSpan struct {
	span
	hasAnswer float64 // the answer's own logit
	score     float64 // the logit of the next answer in the same text
	next      float64 // that of the next answer in the same text
	missing   missingContent
	asked     text.AnswerType
	fits      bool   // it is of the kind asked for
	words     string // of the answer, to compare with others
}

// missingContent is the part of the question that the quoted sentences or the text do not have.
type missingContent struct {
	share        float64 // of the question's content, missing from the sentences
	name, number bool    // the question has one that the text does not have
}

// penalty returns what a text loses for that, in logits.
func (l missingContent) penalty() float64 {
	penalty := missingPenalty * l.share
	for _, missing := range []bool{l.name, l.number} {
		if missing {
			penalty += mismatchPenalty
		}
	}
	return penalty
}

// features returns the features of an answer's confidence. all has the answers of all texts.
func features(of scoredSpan, all []scoredSpan) map[string]float64 {
	margin, ahead, agree := maxFeature, maxFeature, 0.0
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
		"missing":     of.missing.share,
		"made_up":     is(of.missing.name) + is(of.missing.number),
		"fits":        is(of.fits && of.asked != text.AnswerAnything),
		"other_sort":  is(!of.fits),
		"agree":       math.Log1p(agree),
		"length":      math.Log1p(float64(len(strings.Fields(of.words)))),
	}
	for name, x := range out {
		out[name] = max(-maxFeature, min(maxFeature, finite(x)))
	}
	return out
}

// calibration has a pack's calibrated values for the answers of one graph.
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

// known reports whether the pack has a calibration for the graph.
func (c calibration) known() bool {
	_, ok := c.of[intercept+c.suffix]
	return ok
}

// probability returns the probability that an answer is right. Without a calibration it is the
// graph's probability that the text has an answer.
func (c calibration) probability(x map[string]float64) float64 {
	if !c.known() {
		return probability(x["has_answer"])
	}
	sum := c.of[intercept+c.suffix]
	// Sort the names: the last bits of a sum depend on the order.
	for _, name := range slices.Sorted(maps.Keys(x)) {
		sum += c.of[coefficientPrefix+name+c.suffix] * x[name]
	}
	return probability(sum)
}

// minConfidence returns the least confidence of an answer that is not withheld at a risk. Without a
// risk it is the pack's default, else that of the greatest calibrated risk that is at most the one
// asked for. If no calibrated risk is that small the result is infinite, and every answer is
// withheld.
func (c calibration) minConfidence(risk *float64) float64 {
	switch {
	case risk == nil:
		return c.of[minConfidenceKey+c.suffix]
	case *risk >= 1:
		return 0
	}
	nominal, minConfidence := -1.0, math.Inf(1)
	for name, x := range c.of {
		digits, ok := strings.CutPrefix(name, riskPrefix)
		if ok && c.suffix != "" {
			digits, ok = strings.CutSuffix(digits, c.suffix)
		}
		at, err := strconv.ParseFloat(digits, 64)
		if ok && err == nil && at <= *risk && at > nominal {
			nominal, minConfidence = at, x
		}
	}
	return minConfidence
}

// rate sets the confidence of spans, which are sorted best first, and returns why they are withheld
// at the risk; "": they are not. No span gets a higher confidence than the first, which is the
// answer.
func (c calibration) rate(spans []span, risk *float64) (withheld string) {
	if len(spans) == 0 {
		return ""
	}
	confidence, minConfidence := c.probability(spans[0].features), c.minConfidence(risk)
	for i := range spans {
		if c.known() {
			spans[i].quote.Answer.Confidence = min(confidence, c.probability(spans[i].features))
		}
	}
	switch {
	case confidence >= minConfidence:
		return ""
	case !c.known():
		return notCalibrated
	case math.IsInf(minConfidence, 1):
		return fmt.Sprintf("the model pack is not calibrated for a risk as small as %g", *risk)
	}
	return fmt.Sprintf("its confidence, %.2f, is below %.2f", confidence, minConfidence)
}

// notCalibrated is why an answer is withheld at a risk if its provider has no calibrated
// confidence.
const notCalibrated = "how likely it is right is not known"

// sameWords returns an answer's content words in a form that compares equal for the same words.
func sameWords(s string) string {
	return strings.Join(slices.Sorted(maps.Keys(text.ContentWords(s))), " ")
}

// byValue sorts answers, best first.
func byValue(all []scoredSpan) {
	slices.SortStableFunc(all, func(a, b scoredSpan) int { return cmp.Compare(b.value, a.value) })
}
