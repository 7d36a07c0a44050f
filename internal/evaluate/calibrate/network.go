package calibrate

// This file trains a small fully connected network for one probability.

import (
	"math"
	"math/rand/v2"
)

// Layer is a fully connected layer: out[j] = bias[j] + sum over i of in[i] * weights[i][j]. A ReLU
// follows each layer except the last, which is followed by a sigmoid.
type Layer struct {
	Weights [][]float32 `json:"-"` // by input, then by output
	Bias    []float32   `json:"-"`
}

// layer is a layer in training, with Adam's moments of each parameter.
type layer struct {
	in, out int
	// weights are by input, then by output, followed by the biases.
	weights, slope, first, second []float64
}

type network struct {
	layers []*layer
	scale  float64 // inputs are divided by it
	steps  int
}

// Adam's constants (Kingma and Ba 2015), and weight decay (Loshchilov and Hutter 2019).
const (
	keepFirst, keepSecond, tiny = 0.9, 0.999, 1e-8
	decay                       = 0.05
)

// newNetwork returns a network with random weights (He et al. 2015) and layers of the given sizes.
func newNetwork(random *rand.Rand, scale float64, sizes ...int) *network {
	n := &network{scale: scale}
	for i := 1; i < len(sizes); i++ {
		in, out := sizes[i-1], sizes[i]
		size := (in + 1) * out
		l := &layer{in, out, make([]float64, size), make([]float64, size), make([]float64, size), make([]float64, size)}
		for j := range in * out {
			l.weights[j] = random.NormFloat64() * math.Sqrt(2/float64(in))
		}
		n.layers = append(n.layers, l)
	}
	return n
}

// values returns the scaled inputs, and the outputs of every layer before its activation.
func (n *network) values(x []float64) [][]float64 {
	scaled := make([]float64, len(x))
	for i := range x {
		scaled[i] = x[i] / n.scale
	}
	out := [][]float64{scaled}
	for k, l := range n.layers {
		in := out[k]
		sums := append([]float64(nil), l.weights[l.in*l.out:]...)
		for i := range in {
			v := in[i]
			if k > 0 {
				v = max(0, v)
			}
			if v == 0 {
				continue
			}
			for j, w := range l.weights[i*l.out : (i+1)*l.out] {
				sums[j] += v * w
			}
		}
		out = append(out, sums)
	}
	return out
}

// chance returns the network's probability for an input.
func (n *network) chance(x []float64) float64 {
	values := n.values(x)
	return sigmoid(values[len(values)-1][0])
}

// learn adds the gradient of the log loss of one input.
func (n *network) learn(x []float64, yes bool, weight float64) {
	values := n.values(x)
	off := sigmoid(values[len(values)-1][0])
	if yes {
		off--
	}
	back := []float64{weight * off}
	for k := len(n.layers) - 1; k >= 0; k-- {
		l, in := n.layers[k], values[k]
		before := make([]float64, l.in)
		for i := range in {
			v := in[i]
			if k > 0 && v <= 0 {
				continue // below the ReLU: neither value nor gradient
			}
			for j, b := range back {
				l.slope[i*l.out+j] += v * b
				before[i] += l.weights[i*l.out+j] * b
			}
		}
		for j, b := range back {
			l.slope[l.in*l.out+j] += b
		}
		back = before
	}
}

// step updates the weights by the gradients, and resets these.
func (n *network) step(rate float64) {
	n.steps++
	one, two := 1-math.Pow(keepFirst, float64(n.steps)), 1-math.Pow(keepSecond, float64(n.steps))
	for _, l := range n.layers {
		for i, g := range l.slope {
			l.first[i] = keepFirst*l.first[i] + (1-keepFirst)*g
			l.second[i] = keepSecond*l.second[i] + (1-keepSecond)*g*g
			l.weights[i] -= rate * (l.first[i]/one/(math.Sqrt(l.second[i]/two)+tiny) + decay*l.weights[i])
			l.slope[i] = 0
		}
	}
}

// plain returns the layers for unscaled inputs.
func (n *network) plain() []Layer {
	var out []Layer
	for k, l := range n.layers {
		scale := 1.0
		if k == 0 {
			scale = n.scale
		}
		p := Layer{Bias: make([]float32, l.out)}
		for i := range l.in {
			row := make([]float32, l.out)
			for j := range row {
				row[j] = float32(l.weights[i*l.out+j] / scale)
			}
			p.Weights = append(p.Weights, row)
		}
		for j := range p.Bias {
			p.Bias[j] = float32(l.weights[l.in*l.out+j])
		}
		out = append(out, p)
	}
	return out
}
