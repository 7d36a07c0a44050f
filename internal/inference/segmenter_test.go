package inference

import (
	"math"
	"testing"
)

// TestBoundarySides compares the sides with their definition, for windows that are longer than the
// run and that are no multiple of four.
func TestBoundarySides(t *testing.T) {
	const n, d, decay = 6, 3, 0.7
	vectors := make([]float32, n*d)
	for i := range vectors {
		vectors[i] = float32(math.Sin(float64(i)))
	}
	for window := 2; window <= 9; window++ {
		m := &Model{manifest: Manifest{Segmenter: &ManifestSegmenter{Window: window, Decay: decay}}, sentences: &embedder{dimension: d}}
		got := m.boundarySides(vectors)
		for i := range n {
			for name, side := range map[string]struct {
				step int
				row  []float32
			}{"left": {-1, got.left[i*d : (i+1)*d]}, "right": {1, got.right[i*d : (i+1)*d]}} {
				want, length := make([]float64, d), 0.0
				for distance := range window {
					if j := i + side.step*distance; j >= 0 && j < n {
						for k := range want {
							want[k] += math.Pow(decay, float64(distance)) * float64(vectors[j*d+k])
						}
					}
				}
				for _, x := range want {
					length += x * x
				}
				for k, x := range want {
					if x /= math.Sqrt(length); math.Abs(x-float64(side.row[k])) > 1e-6 {
						t.Errorf("window %d, %s side of sentence %d: %v at %d, want %v", window, name, i, side.row[k], k, x)
					}
				}
			}
		}
	}
}
