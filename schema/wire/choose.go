package wire

import "github.com/google/uuid"

// PlanChoice is the input of the ChoosePlan workflow and of its activities. Plans,
// questions and figures are in the store.
type PlanChoice struct {
	Tenant uuid.UUID `json:"tenant"`
	Choice uuid.UUID `json:"choice"`
}

// ChoiceStep is the result of one step of a choice.
type ChoiceStep struct {
	// More says that the choice has not ended.
	More bool `json:"more,omitempty"`
}

// ChoiceWorkflowID is the workflow id of a choice.
func ChoiceWorkflowID(choice uuid.UUID) string { return "choose-" + choice.String() }
