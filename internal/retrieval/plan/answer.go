package plan

// This file is what a plan says of how answers are written.

import (
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/sluice-rag/sluice/internal/retrieval/stage"
)

const (
	promptExplain = "explain" // has an answer explained (FIT-RAG, section 4.5)
	promptShort   = "short"   // has the shortest words that answer
)

// Prompt is how the language model is asked for the answer: "", the usual way,
// "explain" or "short".
func (p Plan) Prompt() string { return p.prompt }

// SkipsRetrieval reports whether the plan may answer from what the language model
// knows.
func (p Plan) SkipsRetrieval() bool {
	return slices.ContainsFunc(p.stages, func(s stage.Stage) bool { return s.Kind.Skips })
}

// readAnswer reads a plan's section "answer":
//
//	answer: {prompt: explain}
//
// explain has the passages read, the question understood, and the answer explained;
// short has the shortest words that answer, for questions whose right answers are known
// as such.
func readAnswer(top *stage.Parameters) (prompt string) {
	const name = "answer"
	node := top.Take(name)
	if node == nil {
		return ""
	}
	if node.Kind != yaml.MappingNode {
		top.Fail(name, "needs fields with values, for example {prompt: %s}", promptExplain)
		return ""
	}
	p, err := stage.ReadParameters(name, node)
	if err == nil {
		if prompt = p.Choice("prompt", "usual", promptExplain, promptShort); prompt == "usual" {
			prompt = ""
		}
		err = p.Close()
	}
	if err != nil && top.Err == nil {
		top.Err = err
	}
	return prompt
}
