package plan

// This file reads how a plan wants answers to be written.

import (
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/sluice-rag/sluice/internal/retrieval/stage"
)

const (
	promptExplain = "explain" // asks for an explained answer (FIT-RAG, section 4.5)
	promptShort   = "short"   // asks for the shortest answer
)

// Prompt returns how the language model is asked for the answer: "" is the usual way; the others
// are "explain" and "short".
func (p Plan) Prompt() string { return p.prompt }

// SkipsRetrieval reports whether the plan may answer from what the language model knows, without
// retrieval.
func (p Plan) SkipsRetrieval() bool {
	return slices.ContainsFunc(p.stages, func(s stage.Stage) bool { return s.Kind.Skips })
}

// readAnswer reads a plan's section "answer":
//
//	answer: {prompt: explain}
//
// With explain, the model reads the passages, restates the question and explains the answer. With
// short, it gives the shortest answer; that is for questions whose right answers are known as short
// texts.
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
