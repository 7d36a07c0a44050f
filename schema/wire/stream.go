package wire

// What is told while a question is answered. Nothing of it is kept, and nothing
// depends on it: the answer and the state of a job come from elsewhere.

import (
	"strings"

	"github.com/google/uuid"
)

// QuestionStage tells that a step of answering a question begins.
type QuestionStage struct {
	Envelope
	Question uuid.UUID `json:"question"`
	Stage    string    `json:"stage"` // understand, retrieve, generate, judge, finish
	Round    int       `json:"round,omitempty"`
	// Candidates are how many the last retrieval found to answer from.
	Candidates int `json:"candidates,omitempty"`
}

// Parts of a stream, as they end its subjects.
const (
	PartStage = "stage" // QuestionStage
	PartText  = "text"  // LLMDelta
	PartReply = "reply" // AskReply
)

// StreamSubject is where one part of an AskRequest.Stream goes. Whoever listens
// to all of them with one subscription gets them in order.
func StreamSubject(stream, part string) string {
	if stream == "" || strings.ContainsAny(stream, " *>\t\r\n") {
		panic("wire: bad stream " + stream)
	}
	return stream + "." + part
}

// StageSubject is where the steps of an asynchronous question are told.
func StageSubject(tenant, question uuid.UUID) string {
	return "sluice.query.stage." + checkTenant(tenant) + "." + question.String()
}
