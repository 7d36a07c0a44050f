package calibrate

// This file fits probabilities to scores.

import (
	"errors"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"

	"github.com/sluice-rag/sluice/internal/roc"
)

// logistic is a logistic regression: the probability is sigmoid(intercept + coefficients * x).
type logistic struct {
	intercept    float64
	coefficients []float64
}

func (l logistic) chance(x []float64) float64 {
	sum := l.intercept
	for i, c := range l.coefficients {
		sum += c * x[i]
	}
	return sigmoid(sum)
}

// at returns the value of the single feature at which the probability is p.
func (l logistic) at(p float64) float64 { return (math.Log(p/(1-p)) - l.intercept) / l.coefficients[0] }

func sigmoid(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

// rounds bounds the iterations of Newton's method, which end at steps smaller than small.
const (
	rounds = 100
	small  = 1e-9
)

var errNotFitted = errors.New("a logistic regression has no solution")

// fitLogistic fits with Newton's method, with a ridge penalty over standardised features.
func fitLogistic(x [][]float64, yes []bool, ridge float64) (logistic, error) {
	n := len(x[0])
	mean, scale := make([]float64, n), make([]float64, n)
	for j := range n {
		column := make([]float64, len(x))
		for i := range x {
			column[i] = x[i][j]
		}
		mean[j], scale[j] = stat.PopMeanStdDev(column, nil)
		if scale[j] < 1e-6 {
			scale[j] = 1
		}
	}
	weights := make([]float64, n+1) // the intercept first
	row := make([]float64, n+1)
	for range rounds {
		slope := mat.NewVecDense(n+1, nil)
		curve := mat.NewSymDense(n+1, nil)
		for j := 1; j <= n; j++ {
			slope.SetVec(j, ridge*weights[j])
			curve.SetSym(j, j, ridge)
		}
		for i := range x {
			row[0] = 1
			sum := weights[0]
			for j := range n {
				row[j+1] = (x[i][j] - mean[j]) / scale[j]
				sum += weights[j+1] * row[j+1]
			}
			p := sigmoid(sum)
			off := p
			if yes[i] {
				off--
			}
			for j := range row {
				slope.SetVec(j, slope.AtVec(j)+off*row[j])
				for k := j; k <= n; k++ {
					curve.SetSym(j, k, curve.At(j, k)+p*(1-p)*row[j]*row[k])
				}
			}
		}
		for j := range row {
			curve.SetSym(j, j, curve.At(j, j)+small)
		}
		var by mat.Cholesky
		var step mat.VecDense
		if !by.Factorize(curve) || by.SolveVecTo(&step, slope) != nil {
			return logistic{}, errNotFitted
		}
		largest := 0.0
		for j := range weights {
			weights[j] -= step.AtVec(j)
			largest = max(largest, math.Abs(step.AtVec(j)))
		}
		if largest < small {
			break
		}
	}
	out := logistic{weights[0], make([]float64, n)}
	for j := range n {
		out.coefficients[j] = weights[j+1] / scale[j]
		out.intercept -= out.coefficients[j] * mean[j]
	}
	if math.IsNaN(out.intercept) || math.IsInf(out.intercept, 0) {
		return logistic{}, errNotFitted
	}
	return out, nil
}

// platt fits the probability to one score (Platt 1999).
func platt(scores []float64, yes []bool) (logistic, error) {
	x := make([][]float64, len(scores))
	for i, s := range scores {
		x[i] = []float64{s}
	}
	return fitLogistic(x, yes, 1e-6)
}

// area returns the area under the ROC curve: the probability that the score of a yes is above that
// of a no. It is 0.5 if there is only one class.
func area(scores []float64, yes []bool) float64 {
	if a := roc.Area(scores, yes); !math.IsNaN(a) {
		return a
	}
	return 0.5
}

// quantile returns a quantile of values, with linear interpolation.
func quantile(values []float64, q float64) float64 {
	return stat.Quantile(q, stat.LinInterp, slices.Sorted(slices.Values(values)), nil)
}
