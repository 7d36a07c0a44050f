package schema

import (
	"cmp"

	"github.com/google/uuid"
)

// Turn is what was said in a conversation.
type Turn struct {
	Role    Role   `json:"role" enum:"user,assistant"`
	Content string `json:"content" maxLength:"20000"`
}

// Role says who speaks in a conversation.
type Role string

// Roles.
const (
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
)

// Query is what a search or a question asks of a collection. Of a question, Documents and Explain
// are not kept.
type Query struct {
	Collection uuid.UUID `json:"collection"`
	Text       string    `json:"text"`
	// Asked is what was asked, where Text was made whole from a conversation; else empty.
	Asked string `json:"asked,omitempty"`
	Plan  string `json:"plan,omitempty"` // empty: the collection's, or the server's default
	// PlanText is the YAML of the plan to run instead of one that has a name.
	PlanText string `json:"plan_text,omitempty"`
	Filter   Filter `json:"filter,omitempty"`
	K        int    `json:"k,omitempty"` // 0: the plan's
	// Choices make it a multiple-choice question: what to choose from, in order.
	Choices []string `json:"choices,omitempty"`
	// Risk is how likely an answer may be wrong, from 0 to 1, for it to be given; nil:
	// what the model pack was calibrated to.
	Risk *float64 `json:"risk,omitempty"`
	// Documents asks for the ranking of that many documents too.
	Documents int `json:"documents,omitempty"`
	// Explain asks for what each stage kept and dropped.
	Explain bool `json:"explain,omitempty"`
}

// Original is the question as its asker knows it.
func (q Query) Original() string { return cmp.Or(q.Asked, q.Text) }

// SearchResult is what a plan found for a query.
type SearchResult struct {
	Plan       string      `json:"plan,omitempty"`      // its name
	PlanNote   string      `json:"plan_note,omitempty"` // why it was not the collection's plan
	Candidates []Candidate `json:"candidates"`          // the ranking, best first
	// Context are the candidates that an answer would be made from, in the order
	// in which a language model would read them: indices into Candidates.
	Context   []int            `json:"context,omitempty"`
	Documents []RankedDocument `json:"documents,omitempty"` // as many as the query asked for
	Trace     []StageReport    `json:"trace"`
}
