// Package dense finds the vectors nearest to a question by comparing all of them: exactly, and for
// some ten thousand vectors in memory faster than an index elsewhere. It does no input or output;
// package store/search reads the vectors.
package dense

import (
	"bytes"
	"slices"

	"github.com/google/uuid"
)

// Block has vectors of one space with their ids. It does not change once it is filled.
type Block struct {
	IDs       []uuid.UUID
	Data      []uint16 // len(IDs) rows of Dimension, in the bits of IEEE 754 half precision
	Dimension int
}

// Row returns a vector.
func (b *Block) Row(i int) []uint16 { return b.Data[i*b.Dimension : (i+1)*b.Dimension] }

// Fill sets a row to a copy of a vector in the bits of half precision, as the store has it.
func (b *Block) Fill(i int, id uuid.UUID, vector []uint16) {
	b.IDs[i] = id
	copy(b.Row(i), vector)
}

// Bytes is the approximate size of the block in memory.
func (b *Block) Bytes() int64 { return int64(len(b.IDs)*16 + len(b.Data)*2) }

// Neighbour is a vector that a scan found.
type Neighbour struct {
	ID         uuid.UUID
	Block, Row int // the number of the block that Scan was called with
	Similarity float32
}

// Top collects the k vectors nearest to a question by inner product; of ties those with lower ids.
type Top struct {
	question operand
	k        int
	heap     []Neighbour // the worst first
}

// NewTop returns a Top for k neighbours of question.
func NewTop(question []float32, k int) *Top {
	return &Top{question: newOperand(question), k: k, heap: make([]Neighbour, 0, min(k, 1024))}
}

// Scan compares the rows from first to before end of a block, which must have the question's
// dimension. number identifies the block in the result.
func (t *Top) Scan(number int, b *Block, first, end int) {
	if t.k <= 0 {
		return
	}
	for i := first; i < end; i++ {
		s := t.question.dot(b.Row(i))
		if len(t.heap) == t.k && s < t.heap[0].Similarity {
			continue
		}
		t.add(Neighbour{ID: b.IDs[i], Block: number, Row: i, Similarity: s})
	}
}

// Neighbours returns the neighbours, best first, ties by id. The Top must not be used after that.
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
