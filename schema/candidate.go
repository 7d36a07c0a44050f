package schema

import "github.com/google/uuid"

// Candidate is a piece of text that a plan considers. It carries one or more
// spans, a score per scorer, and where it comes from.
type Candidate struct {
	Passage     uuid.UUID          `json:"passage"` // the passage it began as
	Document    uuid.UUID          `json:"document_id"`
	ExternalID  string             `json:"document"`
	Title       string             `json:"title"`
	HeadingPath []string           `json:"heading_path,omitempty"`
	Page        int                `json:"page,omitempty"`
	Location    string             `json:"location"` // for people: page or heading path
	Spans       []Span             `json:"spans"`
	Text        string             `json:"text"`
	Tokens      int                `json:"tokens"`
	Score       float64            `json:"score"`  // of the stage that ran last
	Scores      map[string]float64 `json:"scores"` // by scorer
	Origin      string             `json:"origin"` // the stage that found it
}

// StageReport is what one stage of a plan did: the explanation of a search.
type StageReport struct {
	Stage  string  `json:"stage"`
	In     int     `json:"in"`
	Out    int     `json:"out"`
	Millis float64 `json:"ms"`
	Why    string  `json:"why,omitempty"`
}

// Citation is a verbatim span of stored text that supports an answer.
type Citation struct {
	Document   string    `json:"document"` // external id
	DocumentID uuid.UUID `json:"document_id"`
	Title      string    `json:"title"`
	Location   string    `json:"location"`
	Quote      string    `json:"quote"`
	Span       Span      `json:"span"`
}

// Usage is what an answer cost.
type Usage struct {
	Provider     string  `json:"provider,omitempty"`
	Model        string  `json:"model,omitempty"`
	InputTokens  int     `json:"input_tokens"`
	OutputTokens int     `json:"output_tokens"`
	Millis       float64 `json:"ms"`
}

// Answer is the result of a question.
type Answer struct {
	Question  string        `json:"question"`
	Answer    string        `json:"answer"`
	Supported bool          `json:"supported"` // false: the documents do not say
	Citations []Citation    `json:"citations"`
	Plan      string        `json:"plan"`
	Trace     []StageReport `json:"trace"`
	Usage     Usage         `json:"usage"`
}
