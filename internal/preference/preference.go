// Package preference learns which texts help a language model answer: the label llm_prefer of
// FIT-RAG's bi-label scorer (section 4.2) for one model. Head is a linear head on the features from
// which the pair model computes its own labels; Fit learns one with the paper's
// data-imbalance-aware loss.
package preference

import (
	"fmt"
	"math"

	"github.com/sluice-rag/sluice/schema/wire"
)

// Appended is the number of values that Vector appends to the pair model's features.
const Appended = 2

// Vector returns the input of a head for a question and a text: the pair model's features, and its
// own logits of has_answer and llm_prefer.
func Vector(features []float32, s wire.PairScore) []float64 {
	out := make([]float64, 0, len(features)+Appended)
	for _, x := range features {
		out = append(out, float64(x))
	}
	return append(out, float64(s.HasAnswer), float64(s.LLMPrefer))
}

// Head computes the logit of one label.
type Head struct {
	Weights []float64 `json:"weights"`
	Bias    float64   `json:"bias"`
}

// Logit applies the head to a Vector. The error is about a vector of another length, which comes
// from another graph.
func (h Head) Logit(x []float64) (float64, error) {
	if len(x) != len(h.Weights) {
		return 0, fmt.Errorf("the head has weights for %d numbers, the text has %d", len(h.Weights), len(x))
	}
	return h.at(x), nil
}

func (h Head) at(x []float64) float64 {
	sum := h.Bias
	for i, w := range h.Weights {
		sum += w * x[i]
	}
	return sum
}

// Sample is a question and a text with both labels.
type Sample struct {
	X         []float64 // Vector
	HasAnswer bool
	Prefer    bool
	// Group is the same for all samples of a question, which are kept together when samples are
	// split.
	Group int
}

func (s Sample) matched() bool { return s.HasAnswer == s.Prefer }

func (s Sample) labels() [2]float64 { return [2]float64{number(s.HasAnswer), number(s.Prefer)} }

func number(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

func sigmoid(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

// crossEntropy returns the cross-entropy of a logit and a label, without overflow.
func crossEntropy(logit, label float64) float64 {
	return math.Max(logit, 0) - logit*label + math.Log1p(math.Exp(-math.Abs(logit)))
}
