// Package plan reads plans. A plan is data: an ordered list of stages with typed, validated
// parameters. Errors name the field that is wrong.
package plan

import (
	"errors"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sluice-rag/sluice/internal/retrieval/stage"
	"github.com/sluice-rag/sluice/schema"
)

// Plan is an ordered list of stages.
type Plan struct {
	Name         string
	Description  string
	segmentation schema.Segmentation // that the plan is meant for; zero: any
	feedback     *Feedback           // nil: answers are not judged
	prompt       string              // of the answer; "": the usual one
	stages       []stage.Stage
	described    []schema.PlanStage
	text         string
	Own          bool // it came with its query
}

// Text is the YAML that the plan was read from.
func (p Plan) Text() string { return p.text }

// Label names the plan in metrics and spans, which must have few different names.
func (p Plan) Label() string {
	if p.Own {
		return "own"
	}
	return p.Name
}

// Sequence returns the plan's stages in order.
func (p Plan) Sequence() []stage.Stage { return p.stages }

// Stages describes the plan's stages in order, with all their parameters.
func (p Plan) Stages() []schema.PlanStage { return p.described }

// Describe describes the plan.
func (p Plan) Describe() schema.Plan {
	out := schema.Plan{Name: p.Name, Description: p.Description, Stages: p.described}
	if f := p.feedback; f != nil {
		out.Feedback = &schema.PlanFeedback{Least: f.Least, Rounds: f.Rounds, Of: p.stages[f.Stage].Kind.Name}
	}
	if p.prompt != "" {
		out.Answer = &schema.PlanAnswer{Prompt: p.prompt}
	}
	if p.segmentation != (schema.Segmentation{}) {
		out.Segmentation = &p.segmentation
	}
	return out
}

const maxStages = 32

// Parse reads a plan:
//
//	name: naive
//	description: what it is for
//	segmentation: {by: sentences}
//	stages:
//	  - dense: {k: 10}
//	  - gradient
//	feedback: {least: 9, rounds: 3}
//	answer: {prompt: explain}
//
// Description, segmentation, feedback and answer are optional. Every error is a schema.FieldError
// that names the field ("stages[0].dense.k") and the line.
func Parse(text []byte) (Plan, error) {
	var root yaml.Node
	if err := yaml.Unmarshal(text, &root); err != nil {
		return Plan{}, schema.Invalid("plan", "is not YAML: %v", err)
	}
	if len(root.Content) == 0 {
		return Plan{}, schema.Invalid("plan", "is empty")
	}
	p, err := readPlan(root.Content[0])
	if err != nil {
		return Plan{}, inLine(err, root.Content[0])
	}
	p.text = string(text)
	return p, nil
}

func readPlan(document *yaml.Node) (Plan, error) {
	top, err := stage.ReadParameters("", document)
	if err != nil {
		return Plan{}, err
	}
	p := Plan{Name: top.Text("name", true), Description: top.Text("description", false), segmentation: readSegmentation(top), feedback: readFeedback(top), prompt: readAnswer(top)}
	stages := top.Take("stages")
	if err := top.Close(); err != nil {
		return Plan{}, err
	}
	switch {
	case stages == nil || stages.Kind != yaml.SequenceNode || len(stages.Content) == 0:
		return Plan{}, schema.Invalid("stages", "needs a list of at least one stage")
	case len(stages.Content) > maxStages:
		return Plan{}, schema.Invalid("stages", "at most %d stages", maxStages)
	}
	unit, selected, joined := schema.Unit(""), false, false
	scores := map[string]bool{} // that the previous stages give
	for i, node := range stages.Content {
		field := fmt.Sprintf("stages[%d]", i)
		s, described, err := readStage(field, node)
		if err != nil {
			return Plan{}, err
		}
		field += "." + s.Kind.Name
		out, err := s.Fit(unit)
		var wrong *schema.FieldError
		if errors.As(err, &wrong) {
			return Plan{}, schema.Invalid(strings.TrimSuffix(field+"."+wrong.Field, "."), "%s", wrong.Problem)
		} else if err != nil {
			return Plan{}, err
		}
		switch {
		case s.Reads != "" && !scores[s.Reads]:
			return Plan{}, schema.Invalid(field+".score", "is %q; the stages before give: %s", s.Reads, names(scores))
		case selected && !s.Kind.MayFollowSelection():
			return Plan{}, schema.Invalid(field, "comes after a stage that selects the context: only %s may follow it", stage.FollowSelection())
		case joined && s.Kind.Finds:
			return Plan{}, schema.Invalid(field, "comes after relate, whose candidates are two passages each: only stages that read texts, or select, may follow it")
		}
		for _, name := range s.Scores {
			scores[name] = true
		}
		selected, joined = selected || s.Kind.Selects, joined || s.Kind.Joins
		unit, described.Unit = out, out
		p.stages, p.described = append(p.stages, s), append(p.described, described)
	}
	if p.feedback != nil {
		if err := p.feedback.findStage(p.stages); err != nil {
			return Plan{}, err
		}
	}
	return p, nil
}

func readStage(field string, node *yaml.Node) (stage.Stage, schema.PlanStage, error) {
	name, params, err := stage.ReadNamed(field, "stage", "- dense: {k: 10}", node)
	if err != nil {
		return stage.Stage{}, schema.PlanStage{}, err
	}
	kind := stage.Find(name)
	if kind == nil {
		return stage.Stage{}, schema.PlanStage{}, schema.Invalid(field, "there is no stage %q; stages are: %s", name, stage.Names())
	}
	s := kind.Make(params)
	return s, schema.PlanStage{Stage: name, Parameters: params.Given}, params.Close()
}
