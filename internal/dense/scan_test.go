package dense

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/uuid"
	"github.com/x448/float16"
	"pgregory.net/rapid"
)

// TestTopIsASort: for any order of rows, the k best are the first of a sort, ties by id.
func TestTopIsASort(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dimension := rapid.IntRange(1, 40).Draw(t, "dimension")
		k := rapid.IntRange(0, 12).Draw(t, "k")
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		question := make([]float32, dimension)
		for i := range question {
			question[i] = float32(r.IntN(5) - 2)
		}
		top := NewTop(question, k)
		var all []Neighbour
		for number := range rapid.IntRange(0, 4).Draw(t, "blocks") {
			b := &Block{Dimension: dimension}
			for range r.IntN(30) {
				id := uuid.UUID{15: byte(r.IntN(256)), 3: byte(number), 2: byte(len(b.IDs))}
				b.IDs = append(b.IDs, id)
				b.Data = append(b.Data, make([]uint16, dimension)...)
				vector := make([]float32, dimension)
				for j := range vector {
					vector[j] = float32(r.IntN(3) - 1) // whole numbers: sums are exact, and there are many ties
				}
				b.Fill(len(b.IDs)-1, id, halves(vector))
			}
			first := r.IntN(len(b.IDs) + 1)
			end := first + r.IntN(len(b.IDs)-first+1)
			top.Scan(number, b, first, end)
			for i := first; i < end; i++ {
				n := Neighbour{ID: b.IDs[i], Block: number, Row: i}
				for j, x := range b.Row(i) {
					n.Similarity += float16.Frombits(x).Float32() * question[j]
				}
				all = append(all, n)
			}
		}
		slices.SortFunc(all, func(a, b Neighbour) int {
			switch {
			case a.Similarity > b.Similarity:
				return -1
			case a.Similarity < b.Similarity:
				return 1
			}
			return slices.Compare(a.ID[:], b.ID[:])
		})
		if got, want := top.Neighbours(), all[:min(k, len(all))]; !slices.Equal(got, want) {
			t.Fatalf("got %v, want %v", got, want)
		}
	})
}

func BenchmarkScan(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 1))
	block := &Block{Dimension: 256, IDs: make([]uuid.UUID, 10_000), Data: make([]uint16, 256*10_000)}
	question := make([]float32, 256)
	for i := range block.IDs {
		for j := range question {
			question[j] = r.Float32()
		}
		block.Fill(i, uuid.UUID{}, halves(question))
	}
	b.SetBytes(int64(2 * len(block.Data)))
	for b.Loop() {
		top := NewTop(question, 100)
		top.Scan(0, block, 0, len(block.IDs))
		top.Neighbours()
	}
}
