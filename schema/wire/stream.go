package wire

// Progress that is sent while a question is answered. It is not stored, and nothing depends on it:
// the answer and the state of a job are sent separately.

import (
	"strings"

	"github.com/google/uuid"
)

// QuestionStage reports that a step of answering a question begins.
type QuestionStage struct {
	Envelope
	Question uuid.UUID `json:"question"`
	Stage    string    `json:"stage"` // understand, retrieve, generate, judge, finish
	Round    int       `json:"round,omitempty"`
	// Candidates is how many candidates for the answer the last retrieval found.
	Candidates int `json:"candidates,omitempty"`
}

// QuestionText is the answer to an asynchronous question as far as it is generated. It has the
// whole text, so that a listener that missed a message gets it with the next. A text that does not
// continue the one before starts again. It has not been checked: the job's result counts.
type QuestionText struct {
	Envelope
	Question uuid.UUID `json:"question"`
	Text     string    `json:"text"`
}

// Parts of a stream: the last token of its subjects.
const (
	PartStage = "stage" // QuestionStage
	PartText  = "text"  // LLMDelta
	PartReply = "reply" // the service's reply, such as AskReply
	PartAlive = "alive" // nothing: the request is held (HeaderAlive)
)

// StreamSubject returns the subject of one part of an AskRequest.Stream. A single subscription to
// all parts receives them in order.
func StreamSubject(stream, part string) string {
	if stream == "" || strings.ContainsAny(stream, " *>\t\r\n") {
		panic("wire: bad stream " + stream)
	}
	return stream + "." + part
}

// StageSubject returns the subject of an asynchronous question's QuestionStage messages.
func StageSubject(tenant, question uuid.UUID) string {
	return "sluice.query.stage." + checkTenant(tenant) + "." + question.String()
}

// TextSubject returns the subject of an asynchronous question's QuestionText messages.
func TextSubject(tenant, question uuid.UUID) string {
	return "sluice.query.text." + checkTenant(tenant) + "." + question.String()
}
