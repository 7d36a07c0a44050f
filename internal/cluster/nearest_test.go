package cluster

import (
	"math/rand/v2"
	"reflect"
	"testing"
)

func TestNeighboursByHand(t *testing.T) {
	got := Neighbours([][]float32{{1, 0}, {5, 5}, {0, 0}, {2, 0.1}, {0, 3}, {3, 0}}, 2)
	want := [][]int{{5, 3}, {3, 0}, nil, {0, 5}, {1, 3}, {0, 3}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := Neighbours([][]float32{{1}}, 3); len(got[0]) != 0 {
		t.Errorf("a lone vector has neighbours %v", got)
	}
}

// For vectors around topics, nearly all of the true neighbours are found.
func TestNeighboursOfMany(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	const n, d, topics = 5000, 32, 200
	middle := make([][]float32, topics)
	draw := func(around []float32) []float32 {
		v := make([]float32, d)
		for i := range v {
			v[i] = float32(r.NormFloat64())
			if around != nil {
				v[i] = around[i] + 0.3*v[i]
			}
		}
		return v
	}
	for i := range middle {
		middle[i] = draw(nil)
	}
	vectors := make([][]float32, n)
	for i := range vectors {
		vectors[i] = draw(middle[i%topics])
	}
	got := Neighbours(vectors, 4)
	found, of := 0, 0
	unit := make([][]float32, n)
	all := make([]int, n)
	for i, v := range vectors {
		unit[i], all[i] = normalised(v), i
	}
	for i := 0; i < n; i += 10 {
		exact := map[int]bool{}
		for _, j := range closest(unit, i, all, 4) {
			exact[j] = true
		}
		for _, j := range got[i] {
			if j == i {
				t.Fatalf("vector %d is its own neighbour", i)
			}
			if exact[j] {
				found++
			}
		}
		of += 4
	}
	recall := float64(found) / float64(of)
	t.Logf("recall %.3f", recall)
	if recall < 0.6 {
		t.Errorf("recall %.3f", recall)
	}
}
