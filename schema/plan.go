package schema

// Plan describes a retrieval plan.
type Plan struct {
	Name        string      `json:"name"`
	Description string      `json:"description,omitempty"`
	Default     bool        `json:"default,omitempty" doc:"It runs when a query names none."`
	Stages      []PlanStage `json:"stages"`
}

// PlanStage is one stage of a plan, with all its parameters, defaults too.
type PlanStage struct {
	Stage      string         `json:"stage"`
	Unit       Unit           `json:"unit" doc:"Of what comes out."`
	Parameters map[string]any `json:"parameters,omitempty"`
}
