package evaluate

// This file measures whether an answer's confidence is the chance that it is right.

import (
	"math"

	"github.com/sluice-rag/sluice/internal/roc"
	"github.com/sluice-rag/sluice/schema"
)

// calibrationBins are how many bins of equal width a reliability diagram has.
const calibrationBins = 10

// rated is an answer that was given with a confidence.
type rated struct {
	confidence float64
	right      bool
}

// rate keeps what an answer's confidence is and whether it is right: the short answer of the
// greatest confidence, or the text where there is none. Where no answer is known nothing tells
// whether it is right.
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

// calibration compares confidence with what was right; nil: no answer had any.
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

// areaUnderROC is the chance that a right answer has more confidence than a wrong one;
// NaN: all are right, or none is.
func areaUnderROC(all []rated) float64 {
	confidences, right := make([]float64, len(all)), make([]bool, len(all))
	for i, r := range all {
		confidences[i], right[i] = r.confidence, r.right
	}
	return roc.Area(confidences, right)
}
