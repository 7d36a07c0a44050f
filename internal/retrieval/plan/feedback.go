package plan

// This file reads how a plan wants answers to be judged (SAGE, section VI).

import (
	"go.yaml.in/yaml/v3"

	"github.com/sluice-rag/sluice/internal/retrieval/stage"
	"github.com/sluice-rag/sluice/schema"
)

// Feedback says how the answers of a plan are judged.
type Feedback struct {
	Least  int // lowest score, from 1 to 10, of an answer that is good enough
	Rounds int // most rounds of selection and generation
	MinK   int // min_k of the first round
	Stage  int // index of the stage whose selection is repeated
}

// Feedback returns how the plan's answers are judged; nil: they are not.
func (p Plan) Feedback() *Feedback { return p.feedback }

// readFeedback reads a plan's section "feedback":
//
//	feedback: {least: 9, rounds: 3, of: gradient}
//
// SAGE's loop (section VI-A, Figure 6): an answer is scored from 1 to 10, and is good enough if it
// scores least or more. Otherwise min_k of the stage named by of grows or shrinks by one, as the
// judgement says, and selection and generation run again. There are at most rounds rounds.
func readFeedback(top *stage.Parameters) *Feedback {
	const name = "feedback"
	node := top.Take(name)
	if node == nil {
		return nil
	}
	if node.Kind != yaml.MappingNode {
		top.Fail(name, "needs fields with values, for example {least: 9, rounds: 3, of: gradient}")
		return nil
	}
	p, err := stage.ReadParameters(name, node)
	if err != nil {
		top.Err = err
		return nil
	}
	f := Feedback{Least: p.Int("least", 9, 1, 10), Rounds: p.Int("rounds", 3, 1, 10)}
	p.Choice("of", "gradient")
	if err := p.Close(); err != nil && top.Err == nil {
		top.Err = err
	}
	top.Given[name] = p.Given
	return &f
}

// findStage finds the stage whose min_k the feedback changes.
func (f *Feedback) findStage(stages []stage.Stage) error {
	for i, s := range stages {
		if s.MinK > 0 {
			f.Stage, f.MinK = i, s.MinK
			return nil
		}
	}
	return schema.Invalid("feedback.of", "is gradient, but the plan has no such stage")
}
