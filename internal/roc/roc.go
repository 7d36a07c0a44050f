// Package roc measures how well scores tell two kinds apart.
package roc

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/integrate"
	"gonum.org/v1/gonum/stat"
)

// Area is the area under the ROC curve: the chance that a score of a positive is above
// one of a negative, of equals one half. It is NaN where all are of one kind.
func Area(scores []float64, positive []bool) float64 {
	if !slices.Contains(positive, true) || !slices.Contains(positive, false) {
		return math.NaN()
	}
	scores, positive = slices.Clone(scores), slices.Clone(positive)
	stat.SortWeightedLabeled(scores, positive, nil)
	right, wrong, _ := stat.ROC(nil, scores, positive, nil)
	return integrate.Trapezoidal(wrong, right)
}
