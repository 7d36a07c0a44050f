package schema

import "time"

// Plan describes a retrieval plan.
type Plan struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	Default     bool   `json:"default,omitempty" doc:"It runs when a query names none."`
	// Segmentation is how a collection's text should be cut for the plan.
	Segmentation *Segmentation `json:"segmentation,omitempty" doc:"It is meant for collections that are cut so, and says in its explanation when one is not; absent: any."`
	Stages       []PlanStage   `json:"stages"`
	Answer       *PlanAnswer   `json:"answer,omitempty" doc:"How answers are written; absent: the usual way."`
	Feedback     *PlanFeedback `json:"feedback,omitempty" doc:"Answers are judged, and made anew from another selection when they are not good enough."`
	Own          bool          `json:"own,omitempty" doc:"It is this tenant's own; the others come with the server."`
	UpdatedAt    *time.Time    `json:"updated_at,omitempty" doc:"Of a plan of the tenant's own."`
	Problem      string        `json:"problem,omitempty" doc:"Why a plan of the tenant's own cannot be run."`
	Text         string        `json:"text,omitempty" doc:"Its YAML. Lists are without."`
}

// PlanFeedback says how a plan's answers are judged.
type PlanFeedback struct {
	Least  int    `json:"least" doc:"From this score on, of 10, an answer is good enough."`
	Rounds int    `json:"rounds" doc:"Of selection and generation, at most."`
	Of     string `json:"of" doc:"The stage whose min_k the judgement changes."`
}

// PlanAnswer says how a plan's answers are written.
type PlanAnswer struct {
	Prompt string `json:"prompt" doc:"explain: the answer is explained."`
}

// PlanStage is one stage of a plan, with all parameters, including defaults.
type PlanStage struct {
	Stage      string         `json:"stage"`
	Unit       Unit           `json:"unit" doc:"Of what comes out."`
	Parameters map[string]any `json:"parameters,omitempty"`
}
