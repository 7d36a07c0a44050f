package dense

// This file has vectors in half precision, the bits of IEEE 754 binary16, and their
// inner products with questions in single precision. What the store keeps is as
// precise, so nothing is lost.

import (
	"math"
	"slices"
)

// operand is a vector that rows are compared with.
type operand struct {
	numbers []float32
	scaled  []float32 // by halfScale, for products in Go; nil: the processor converts
}

// halfScale, 2^112, is what the bits of a half, moved to where a single has them, lack: their
// exponents have biases of 15 and 127.
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

// dot is the inner product with a row of as many numbers, all of which are finite.
func (q *operand) dot(row []uint16) float32 {
	if q.scaled == nil {
		return dotProcessor(row, q.numbers)
	}
	return dotGo(row, q.scaled)
}

// dotGo is dot in Go, of numbers that are scaled. Halves that are not normal become singles
// that are not either, so they need no branch.
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

// single is a half as a single, divided by halfScale.
func single(h uint16) float32 {
	return math.Float32frombits(uint32(h&0x8000)<<16 | uint32(h&0x7fff)<<13)
}
