package preference

// This file is Algorithm 2 of FIT-RAG: gradient descent on the heads of both labels, and on w, the
// weight of the samples whose labels agree.

import "math"

// heads are the heads of both labels, theta: row 0 is has_answer's, row 1 llm_prefer's. The last
// number of a row is its bias.
type heads [2][]float64

func (h heads) logits(x []float64) (out [2]float64) {
	for label, row := range h {
		last := len(row) - 1
		out[label] = row[last]
		for i, w := range row[:last] {
			out[label] += w * x[i]
		}
	}
	return out
}

// loss is l(h(x), y), the sum of both labels' cross-entropy.
func (h heads) loss(s Sample) float64 {
	logits, labels := h.logits(s.X), s.labels()
	return crossEntropy(logits[0], labels[0]) + crossEntropy(logits[1], labels[1])
}

// gradient returns the gradient of the samples' summed loss, divided by n.
func (h heads) gradient(samples []Sample, n int) heads {
	out := heads{make([]float64, len(h[0])), make([]float64, len(h[1]))}
	for _, s := range samples {
		logits, labels := h.logits(s.X), s.labels()
		for label := range out {
			miss, last := (sigmoid(logits[label])-labels[label])/float64(n), len(out[label])-1
			for i, x := range s.X {
				out[label][i] += miss * x
			}
			out[label][last] += miss
		}
	}
	return out
}

func (h heads) mean(samples []Sample) float64 {
	sum := 0.0
	for _, s := range samples {
		sum += h.loss(s)
	}
	return sum / float64(max(1, len(samples)))
}

func (h heads) clone() heads {
	return heads{append([]float64(nil), h[0]...), append([]float64(nil), h[1]...)}
}

func dot(a, b heads) float64 {
	sum := 0.0
	for label := range a {
		for i, x := range a[label] {
			sum += x * b[label][i]
		}
	}
	return sum
}

// divided are samples by whether their labels agree.
type divided struct{ matched, mismatched []Sample }

func divide(samples []Sample) (d divided) {
	for _, s := range samples {
		if s.matched() {
			d.matched = append(d.matched, s)
		} else {
			d.mismatched = append(d.mismatched, s)
		}
	}
	return d
}

func (d divided) len() int { return len(d.matched) + len(d.mismatched) }

// descent is the state of Algorithm 2.
type descent struct {
	theta heads
	w     float64
	eta   float64 // learning rate
	alpha float64 // step size of w
}

// leastWeight keeps w away from 0 and 1, where one kind of samples would have no weight.
const leastWeight = 0.01

// step is one iteration: eq. 8 with all of D_t, then eq. 9 to 11. As printed, eq. 9 and 10 lack the
// minus sign of d theta_k / dw, which is added here. Losses are doubled, so that w = 1/2 is the
// plain loss. A kind without samples in D_v does not contribute to the direction.
func (d *descent) step(train, held divided) {
	n := train.len()
	mat, mis := d.theta.gradient(train.matched, n), d.theta.gradient(train.mismatched, n)
	apart := heads{make([]float64, len(mat[0])), make([]float64, len(mat[1]))}
	for label := range d.theta {
		for i := range d.theta[label] {
			a, b := mat[label][i], mis[label][i]
			d.theta[label][i] -= 2 * d.eta * (d.w*a + (1-d.w)*b)
			apart[label][i] = a - b
		}
	}
	direction := 0.0
	for _, pool := range [][]Sample{held.matched, held.mismatched} {
		if len(pool) > 0 {
			direction += -2 * d.eta * dot(d.theta.gradient(pool, len(pool)), apart) / 2
		}
	}
	d.w = math.Min(math.Max(d.w-d.alpha*direction, leastWeight), 1-leastWeight)
}
