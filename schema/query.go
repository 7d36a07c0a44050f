package schema

import (
	"cmp"

	"github.com/google/uuid"
)

// Turn is one message of a conversation.
type Turn struct {
	Role    Role   `json:"role" enum:"user,assistant"`
	Content string `json:"content" maxLength:"20000"`
}

// Role is the author of a Turn.
type Role string

// Roles.
const (
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
)

// Query is the request of a search or a question to a collection. Documents and Explain of a
// question are not stored.
type Query struct {
	Collection uuid.UUID `json:"collection"`
	Text       string    `json:"text"`
	// Asked is the original question if Text was rephrased to be complete without the conversation,
	// else empty.
	Asked string `json:"asked,omitempty"`
	Plan  string `json:"plan,omitempty"` // empty: the collection's, or the server's default
	// PlanText is the YAML of a plan to run instead of a named one.
	PlanText string `json:"plan_text,omitempty"`
	Filter   Filter `json:"filter,omitempty"`
	K        int    `json:"k,omitempty"` // 0: the plan's
	// Choices make it a multiple-choice question: they are its choices, in order.
	Choices []string `json:"choices,omitempty"`
	// Risk is the highest probability, from 0 to 1, that a given answer may have of being wrong;
	// nil: the one that the model pack was calibrated for.
	Risk *float64 `json:"risk,omitempty"`
	// Documents is how many documents are ranked as well; 0: none.
	Documents int `json:"documents,omitempty"`
	// Explain asks which candidates each stage kept and dropped.
	Explain bool `json:"explain,omitempty"`
}

// Original returns the question as the caller asked it.
func (q Query) Original() string { return cmp.Or(q.Asked, q.Text) }

// SearchResult is what a plan found for a query.
type SearchResult struct {
	Plan       string      `json:"plan,omitempty"`      // its name
	PlanNote   string      `json:"plan_note,omitempty"` // why another plan than the collection's ran
	Candidates []Candidate `json:"candidates"`          // the ranking, best first
	// Context are the candidates that an answer would be made from, in the order in which a
	// language model would read them, as indices into Candidates.
	Context   []int            `json:"context,omitempty"`
	Documents []RankedDocument `json:"documents,omitempty"` // as many as the query asked for
	Trace     []StageReport    `json:"trace"`
}
