package inference

import (
	"math"
	"testing"
)

func TestFiniteFindsNonFiniteValues(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for length := range 12 {
		values := make([]float32, length)
		for i := range values {
			values[i] = float32(i%2*2-1) * math.MaxFloat32
		}
		if err := finite(values); err != nil {
			t.Errorf("%d finite values: %v", length, err)
		}
		for i := range values {
			for _, bad := range []float32{nan, inf, -inf} {
				was := values[i]
				values[i] = bad
				if finite(values) == nil {
					t.Errorf("%v at %d of %d was not seen", bad, i, length)
				}
				values[i] = was
			}
		}
	}
}
