package main

// This file generates unit vectors like those of a text encoder: in groups by topic, with few
// dimensions of variation within a group, and some noise.

import (
	"math"
	"math/rand/v2"
)

const (
	// dimension is that of the model pack that comes with Sluice.
	dimension   = 256
	vectorSpace = "bench"
	// latent is the number of dimensions of variation.
	latent = 16
)

// points generates vectors, the same ones for the same seed.
type points struct {
	seed    uint64
	centres [][]float32 // by topic
	axes    [][]float32 // latent x dimension
}

func newPoints(seed uint64) *points {
	random := rand.New(rand.NewPCG(seed, 1<<33))
	p := &points{seed: seed}
	gaussian := func(scale float64) []float32 {
		v := make([]float32, dimension)
		for i := range v {
			v[i] = float32(scale * random.NormFloat64())
		}
		return v
	}
	for range topicCount {
		p.centres = append(p.centres, gaussian(1))
	}
	for range latent {
		p.axes = append(p.axes, gaussian(math.Sqrt(1.0/latent)))
	}
	return p
}

// near draws a point of a topic and writes it to out.
func (p *points) near(random *rand.Rand, topic int, out []float32) {
	copy(out, p.centres[topic%topicCount])
	for _, axis := range p.axes {
		z := float32(1.2 * random.NormFloat64())
		for i, a := range axis {
			out[i] += z * a
		}
	}
	sum := 0.0
	for i := range out {
		out[i] += float32(0.3 * (random.Float64() - 0.5))
		sum += float64(out[i]) * float64(out[i])
	}
	scale := float32(1 / math.Sqrt(sum))
	for i := range out {
		out[i] *= scale
	}
}

// seeded returns a generator that depends only on the two numbers.
func seeded(seed uint64, number int) *rand.Rand { return rand.New(rand.NewPCG(seed, uint64(number))) }

// rows returns the vectors of a document's passages.
func (p *points) rows(d written, number int) []float32 {
	n := d.passages()
	out := make([]float32, n*dimension)
	if p == nil {
		for i := range n {
			out[i*dimension] = 1
		}
		return out
	}
	random := seeded(p.seed, number)
	for i := range n {
		p.near(random, d.topic, out[i*dimension:(i+1)*dimension])
	}
	return out
}

// questions draws vectors to search with, of the topics of documents.
func (p *points) questions(docs []written, count int) [][]float32 {
	random := rand.New(rand.NewPCG(p.seed, 1<<34))
	out := make([][]float32, count)
	for i := range out {
		out[i] = make([]float32, dimension)
		p.near(random, docs[random.IntN(len(docs))].topic, out[i])
	}
	return out
}
