package evaluate

// This file measures whether an answer's confidence is the probability that it is right.

import (
	"math"

	"github.com/sluice-rag/sluice/internal/roc"
	"github.com/sluice-rag/sluice/schema"
)

// calibrationBins is the number of bins of equal width of a reliability diagram.
const calibrationBins = 10

// rated is an answer with a confidence.
type rated struct {
	confidence float64
	right      bool
}

// rate records an answer's confidence and whether its short answer is right; if there is none, its
// text. An answer to a question without known answers is not rated.
func (a *answerObservation) rate(q *judged, given *schema.Answer) {
	known := len(q.answers) > 0 || len(q.golds) > 0 || q.Unanswerable
	for _, c := range given.Citations {
		a.confidence = max(a.confidence, c.Answer.Confidence)
		a.rated = a.rated || known && c.Answer.Confidence > 0
	}
	for _, s := range given.Trace {
		if s.Features != nil {
			a.features = s.Features
		}
	}
	a.right = Answers{q.answers, q.golds}.Right(a.shortText)
}

// calibration compares the confidence of answers with whether they are right; nil if no answer has
// one.
func (p *planResults) calibration() *schema.Calibration {
	var all []rated
	for _, a := range p.answers {
		if a != nil && a.rated {
			all = append(all, rated{a.confidence, a.right})
		}
	}
	if len(all) == 0 {
		return nil
	}
	out := &schema.Calibration{Answers: len(all), Bins: make([]schema.CalibrationBin, calibrationBins)}
	for i := range out.Bins {
		out.Bins[i].Low, out.Bins[i].High = float64(i)/calibrationBins, float64(i+1)/calibrationBins
	}
	for _, r := range all {
		bin := &out.Bins[min(int(r.confidence*calibrationBins), calibrationBins-1)]
		bin.Answers++
		bin.Confidence += r.confidence
		bin.Right += share(r.right)
		out.Right += share(r.right)
	}
	n := float64(len(all))
	for i := range out.Bins {
		bin := &out.Bins[i]
		if bin.Answers > 0 {
			out.Error += math.Abs(bin.Confidence-bin.Right) / n
			bin.Confidence, bin.Right = bin.Confidence/float64(bin.Answers), bin.Right/float64(bin.Answers)
		}
	}
	out.Right /= n
	if area := areaUnderROC(all); !math.IsNaN(area) {
		out.AUROC = &area
	}
	return out
}

// areaUnderROC returns the probability that a right answer has a higher confidence than a wrong
// one; NaN if all answers are right or all are wrong.
func areaUnderROC(all []rated) float64 {
	confidences, right := make([]float64, len(all)), make([]bool, len(all))
	for i, r := range all {
		confidences[i], right[i] = r.confidence, r.right
	}
	return roc.Area(confidences, right)
}
