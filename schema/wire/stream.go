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

// QuestionText tells what there is so far of the answer to an asynchronous question
// that is being made. It is the whole text, so that who has missed some has it with
// the next one; one that does not go on where the one before ended begins again. It
// has not been checked: what counts is the job's result.
type QuestionText struct {
	Envelope
	Question uuid.UUID `json:"question"`
	Text     string    `json:"text"`
}

// Parts of a stream, as they end its subjects.
const (
	PartStage = "stage" // QuestionStage
	PartText  = "text"  // LLMDelta
	PartReply = "reply" // the service's reply, such as AskReply
	PartAlive = "alive" // nothing: the request is held (HeaderAlive)
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

// TextSubject is where the text of an asynchronous question's answer is told while it
// is made, as QuestionText.
func TextSubject(tenant, question uuid.UUID) string {
	return "sluice.query.text." + checkTenant(tenant) + "." + question.String()
}
