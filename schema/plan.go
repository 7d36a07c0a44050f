package schema

// Plan describes a retrieval plan.
type Plan struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	Default     bool   `json:"default,omitempty" doc:"It runs when a query names none."`
	// Segmentation is how a collection's text is to be cut for it.
	Segmentation *Segmentation `json:"segmentation,omitempty" doc:"It is meant for collections that are cut so, and says in its explanation when one is not; absent: any."`
	Stages       []PlanStage   `json:"stages"`
}

// PlanStage is one stage of a plan, with all its parameters, defaults too.
type PlanStage struct {
	Stage      string         `json:"stage"`
	Unit       Unit           `json:"unit" doc:"Of what comes out."`
	Parameters map[string]any `json:"parameters,omitempty"`
}
