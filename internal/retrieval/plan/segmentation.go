package plan

// This file reads the segmentation that a plan is meant for: how the collection's text is cut into
// passages. On a collection with another segmentation the plan runs too, and its report says so.

import (
	"go.yaml.in/yaml/v3"

	"github.com/sluice-rag/sluice/internal/retrieval/stage"
	"github.com/sluice-rag/sluice/schema"
)

// Segmentation returns the segmentation that the plan is meant for, with all settings; zero if the
// plan names none.
func (p Plan) Segmentation() schema.Segmentation { return p.segmentation }

// Segmentation returns the segmentation that the named plan is meant for, with all settings; zero
// if the plan takes any. Names are as for Plan.
func (c *Catalogue) Segmentation(plan string) (schema.Segmentation, error) {
	p, err := c.Plan(plan)
	return p.segmentation, err
}

// readSegmentation reads a plan's section "segmentation":
//
//	segmentation: {by: similarity, threshold: calibrated, max_characters: 500}
//
// The settings are those of a collection's segmentation.
func readSegmentation(top *stage.Parameters) schema.Segmentation {
	const name = "segmentation"
	node := top.Take(name)
	if node == nil {
		return schema.Segmentation{}
	}
	if node.Kind != yaml.MappingNode || len(node.Content) == 0 {
		top.Fail(name, "needs fields with values, for example {by: %s}", schema.BySentences)
		return schema.Segmentation{}
	}
	p, err := stage.ReadParameters(name, node)
	if err != nil {
		top.Err = err
		return schema.Segmentation{}
	}
	s := schema.Segmentation{By: p.Text("by", true)}
	if t := p.Threshold("threshold", name, stage.Threshold{}, 0, 1); t.Calibrated != "" {
		s.Calibrated = true
	} else {
		s.Threshold = t.Value
	}
	s.MaxCharacters, s.Sentences = p.Int("max_characters", 0, 0, 10_000), p.Int("sentences", 0, 0, 10_000)
	s.Apart = p.Int("apart", 0, 0, 10_000)
	s.CoarseTokens, s.MinTokens, s.MaxTokens = p.Int("coarse_tokens", 0, 0, 10_000), p.Int("min_tokens", 0, 0, 10_000), p.Int("max_tokens", 0, 0, 10_000)
	if err = p.Close(); err == nil {
		s, err = s.Complete()
	}
	if err != nil && top.Err == nil {
		top.Err = err
	}
	return s
}
