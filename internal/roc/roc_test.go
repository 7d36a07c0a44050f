package roc

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestAreaIsTheChanceThatAPositiveScoresHigher(t *testing.T) {
	draw := rand.New(rand.NewPCG(1, 2))
	for n := range 60 {
		scores, positive := make([]float64, n), make([]bool, n)
		for i := range scores {
			scores[i], positive[i] = float64(draw.IntN(12)), draw.IntN(3) == 0 // some are equal
		}
		var above, pairs float64
		for i, yes := range positive {
			for j, no := range positive {
				if !yes || no {
					continue
				}
				pairs++
				switch {
				case scores[i] > scores[j]:
					above++
				case scores[i] == scores[j]:
					above += 0.5
				}
			}
		}
		got, want := Area(scores, positive), above/pairs // NaN where there is no pair
		if math.IsNaN(got) != math.IsNaN(want) || math.Abs(got-want) > 1e-12 {
			t.Errorf("%v of %v: %g, want %g", scores, positive, got, want)
		}
	}
}
