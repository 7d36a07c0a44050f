package dense

// This file computes inner products of vectors in half precision (IEEE 754 binary16) with questions
// in single precision. The store has half precision too, so nothing is lost.

import (
	"math"
	"slices"
)

// operand is a vector to compare rows with.
type operand struct {
	numbers []float32
	scaled  []float32 // multiplied by halfScale, for products in Go; nil: the processor converts halves
}

// halfScale, 2^112, corrects the exponent of a half whose bits are moved to where a single has
// them: the exponents have biases of 15 and 127.
const halfScale = 1 << 112

func newOperand(numbers []float32) operand {
	q := operand{numbers: numbers}
	if !hasHalf {
		q.scaled = scaled(numbers)
	}
	return q
}

// scaled multiplies numbers, which must be below 2^15, by halfScale.
func scaled(numbers []float32) []float32 {
	out := slices.Clone(numbers)
	for i := range out {
		out[i] *= halfScale
	}
	return out
}

// dot returns the inner product with a row of the same length, whose numbers must be finite.
func (q *operand) dot(row []uint16) float32 {
	if q.scaled == nil {
		return dotProcessor(row, q.numbers)
	}
	return dotGo(row, q.scaled)
}

// dotGo is dot in Go, with scaled numbers. Halves that are not normal become singles that are not
// normal, so they need no branch.
func dotGo(row []uint16, scaled []float32) float32 {
	scaled = scaled[:len(row)]
	var a, b, c, d float32
	for len(row) >= 4 {
		a += single(row[0]) * scaled[0]
		b += single(row[1]) * scaled[1]
		c += single(row[2]) * scaled[2]
		d += single(row[3]) * scaled[3]
		row, scaled = row[4:], scaled[4:]
	}
	for i, h := range row {
		a += single(h) * scaled[i]
	}
	return a + b + (c + d)
}

// single returns a half as a single, divided by halfScale.
func single(h uint16) float32 {
	return math.Float32frombits(uint32(h&0x8000)<<16 | uint32(h&0x7fff)<<13)
}
