// Package dense finds the nearest of many vectors by comparing all of them:
// exact, and for some ten thousand vectors in memory faster than any index that
// is somewhere else. It does no input or output; package store/search reads vectors
// for it.
package dense

import (
	"bytes"
	"slices"

	"github.com/google/uuid"
	"gonum.org/v1/gonum/blas/gonum"
)

// Block is some vectors of one space with their ids. It does not change.
type Block struct {
	IDs       []uuid.UUID
	Data      []float32 // len(IDs) rows of Dimension
	Dimension int
}

// Row returns a vector.
func (b *Block) Row(i int) []float32 { return b.Data[i*b.Dimension : (i+1)*b.Dimension] }

// Bytes is about what the block takes in memory.
func (b *Block) Bytes() int64 { return int64(len(b.IDs)*16 + len(b.Data)*4) }

// Neighbour is a vector that a scan found.
type Neighbour struct {
	ID         uuid.UUID
	Block, Row int // the block by the number that Scan was given
	Similarity float32
}

// Top collects the k vectors nearest to a question, by inner product; of equal
// ones those with lower ids.
type Top struct {
	question []float32
	k        int
	heap     []Neighbour // the worst first
}

// NewTop returns a Top for k neighbours of question.
func NewTop(question []float32, k int) *Top {
	return &Top{question: question, k: k, heap: make([]Neighbour, 0, min(k, 1024))}
}

// Scan compares the rows from first to before end of a block, whose dimension
// is the question's. number tells blocks apart in the result.
func (t *Top) Scan(number int, b *Block, first, end int) {
	if t.k <= 0 {
		return
	}
	var asm gonum.Implementation
	for i := first; i < end; i++ {
		s := asm.Sdot(b.Dimension, b.Row(i), 1, t.question, 1)
		if len(t.heap) == t.k && s < t.heap[0].Similarity {
			continue
		}
		t.add(Neighbour{ID: b.IDs[i], Block: number, Row: i, Similarity: s})
	}
}

// Neighbours returns what was found, best first, equal ones by id. The Top is
// of no use after that.
func (t *Top) Neighbours() []Neighbour {
	slices.SortFunc(t.heap, func(a, b Neighbour) int {
		if worse(a, b) {
			return 1
		}
		return -1
	})
	return t.heap
}

func worse(a, b Neighbour) bool {
	if a.Similarity != b.Similarity {
		return a.Similarity < b.Similarity
	}
	return bytes.Compare(a.ID[:], b.ID[:]) > 0
}

func (t *Top) add(n Neighbour) {
	if len(t.heap) < t.k {
		t.heap = append(t.heap, n)
		for i := len(t.heap) - 1; i > 0; {
			parent := (i - 1) / 2
			if !worse(t.heap[i], t.heap[parent]) {
				break
			}
			t.heap[i], t.heap[parent] = t.heap[parent], t.heap[i]
			i = parent
		}
		return
	}
	if !worse(t.heap[0], n) {
		return
	}
	t.heap[0] = n
	for i := 0; ; {
		child := 2*i + 1
		if child >= t.k {
			return
		}
		if child+1 < t.k && worse(t.heap[child+1], t.heap[child]) {
			child++
		}
		if !worse(t.heap[child], t.heap[i]) {
			return
		}
		t.heap[i], t.heap[child] = t.heap[child], t.heap[i]
		i = child
	}
}
