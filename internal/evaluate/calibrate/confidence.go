package calibrate

// This file calibrates the confidence of answers that the reader finds: a logistic regression over
// the reader's features, and the confidence from which answers are given at each risk.

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/sluice-rag/sluice/schema/wire"
)

const (
	// unanswerableShare is the share of the questions that are asked without the passages that
	// answer them.
	unanswerableShare = 0.3
	// minAnswers is the least number of answers for a calibration, of both halves.
	minAnswers = 100
	// confidenceRidge is the ridge penalty of the regression, which shrinks coefficients with
	// little data.
	confidenceRidge = 10.0
	// keptShare is the share of the right answers that are given without a risk.
	keptShare = 0.985
	// confidenceLevel is the confidence level, over draws of the questions, at which the error is
	// within a nominal risk.
	confidenceLevel = 0.9
	// strictestShare is the share of the answers above the strictest threshold that is tried;
	// thresholdCount is the number of thresholds.
	strictestShare = 0.1
	thresholdCount = 40
	// bins is the number of bins of the expected calibration error.
	bins = 10
)

// risks are the nominal risks for which thresholds are searched.
var risks = []float64{0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.5}

// Confidence is the calibration of answers that one graph reads.
type Confidence struct {
	Graph        string             `json:"graph"` // wire.GraphPair or wire.GraphReranker
	Intercept    float64            `json:"intercept"`
	Coefficients map[string]float64 `json:"coefficients"`
	// Least is the least confidence of an answer that is given without a risk. Risks has the same
	// for nominal risks.
	Least float64      `json:"least"`
	Risks []RiskAnswer `json:"risks"`
	// Measured on the half of the answers that the coefficients were not fitted on: the number of
	// answers, the share that is right, the expected calibration error, the area under the ROC
	// curve, and, for comparison, the area of the probability of has_answer alone.
	Answers       int     `json:"answers"`
	Right         float64 `json:"right"`
	Error         float64 `json:"error"`
	Area          float64 `json:"area"`
	HasAnswerArea float64 `json:"has_answer_area"`
}

// RiskAnswer is the confidence from which answers are wrong no more often than Risk.
type RiskAnswer struct {
	Risk       float64 `json:"risk"`
	Confidence float64 `json:"confidence"`
	Given      float64 `json:"given"` // share of the answers that are given
}

// rated is an answer with its features.
type rated struct {
	features map[string]float64
	right    bool
}

// confidence has the reader answer every question, and calibrates its confidence.
func (r *run) confidence(ctx context.Context) error {
	if r.read == nil {
		return nil
	}
	graph, thresholds := "", r.found.Thresholds()
	var answers []rated
	number := 0
	err := r.each(ctx, "confidence", func(q *question) error {
		number++
		without := float64(number%10) < 10*unanswerableShare
		var passages []wire.LLMPassage
		for _, i := range q.bestPositions(len(q.best)) {
			p := r.sample.passages[q.best[i]]
			if _, relevant := q.relevant[p.document]; without && (relevant || q.holds[i]) {
				continue
			}
			if passages = append(passages, wire.LLMPassage{Title: p.title, Text: p.body}); len(passages) == answerDepth {
				break
			}
		}
		if len(passages) == 0 {
			return nil
		}
		read, err := r.read(ctx, q.text, passages, thresholds)
		if err != nil {
			return err
		}
		if read.Features != nil {
			graph = read.Graph
			answers = append(answers, rated{read.Features, q.answers.Right(read.Answer)})
		}
		return nil
	})
	if err != nil {
		return err
	}
	if graph == "" {
		r.found.note("the pack reads no answers in texts: there is no confidence to calibrate")
		return nil
	}
	c, why := rate(answers)
	if why != "" {
		r.found.note("confidence stays as it is: %s", why)
		return nil
	}
	c.Graph = graph
	r.found.Confidence = &c
	return nil
}

// rate fits the coefficients on half of the answers and the thresholds on the other. why is the
// reason if it cannot.
func rate(answers []rated) (c Confidence, why string) {
	if len(answers) < minAnswers {
		return c, "too few of the questions have an answer that was read"
	}
	names := slices.Sorted(maps.Keys(answers[0].features))
	var x [2][][]float64
	var right [2][]bool
	var has []float64
	for i, a := range answers {
		row := make([]float64, len(names))
		for j, name := range names {
			row[j] = a.features[name]
		}
		x[i%2], right[i%2] = append(x[i%2], row), append(right[i%2], a.right)
		if i%2 == 1 {
			has = append(has, a.features["has_answer"])
		}
	}
	for _, half := range right {
		if !slices.Contains(half, true) || !slices.Contains(half, false) {
			return c, "all answers are right, or all are wrong"
		}
	}
	fit, err := fitLogistic(x[0], right[0], confidenceRidge)
	if err != nil {
		return c, err.Error()
	}
	c = Confidence{Intercept: fit.intercept, Coefficients: map[string]float64{}, Answers: len(x[1])}
	for j, name := range names {
		c.Coefficients[name] = fit.coefficients[j]
	}
	chances := make([]float64, len(x[1]))
	var ofRight []float64
	for i, row := range x[1] {
		chances[i] = fit.chance(row)
		if right[1][i] {
			ofRight = append(ofRight, chances[i])
		}
	}
	c.Right = float64(len(ofRight)) / float64(len(chances))
	c.Area, c.HasAnswerArea, c.Error = area(chances, right[1]), area(has, right[1]), calibrationError(chances, right[1])
	c.Least = quantile(ofRight, 1-keptShare)
	c.Risks = riskThresholds(chances, right[1])
	return c, ""
}

// calibrationError returns the expected calibration error: the mean difference, weighted by bin
// size, of the confidence and the share of right answers in a bin.
func calibrationError(chances []float64, right []bool) float64 {
	var off [bins]float64
	for i, p := range chances {
		b := min(bins-1, int(p*bins))
		off[b] += p
		if right[i] {
			off[b]--
		}
	}
	sum := 0.0
	for _, x := range off {
		sum += math.Abs(x)
	}
	return sum / float64(len(chances))
}

// riskThresholds returns, for each risk, the lowest confidence above which the error is within the
// risk. The thresholds to try are fixed in advance, from strict to lax, and the search ends at the
// first that fails, so that each is tested at the full confidence level (fixed-sequence testing). A
// risk that the strictest threshold exceeds is left out.
func riskThresholds(chances []float64, right []bool) []RiskAnswer {
	order := indices(len(chances))
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(chances[b], chances[a]) })
	wrong := make([]int, len(order)+1)
	for i, at := range order {
		wrong[i+1] = wrong[i]
		if !right[at] {
			wrong[i+1]++
		}
	}
	var out []RiskAnswer
	for _, risk := range risks {
		found := 0
		for try := range thresholdCount {
			share := strictestShare + (1-strictestShare)*float64(try)/(thresholdCount-1)
			n := max(1, int(math.Round(share*float64(len(order)))))
			if errorBound(wrong[n], n) > risk {
				break
			}
			found = n
		}
		if found > 0 {
			out = append(out, RiskAnswer{Risk: risk, Confidence: chances[order[found-1]], Given: float64(found) / float64(len(order))})
		}
	}
	return out
}

// errorBound returns the upper bound of the error rate, at the level confidenceLevel, after so many
// errors in n answers (Clopper and Pearson 1934).
func errorBound(errors, n int) float64 {
	if errors >= n {
		return 1
	}
	return distuv.Beta{Alpha: float64(errors + 1), Beta: float64(n - errors)}.Quantile(confidenceLevel)
}
