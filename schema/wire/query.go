package wire

import (
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/schema"
)

// SearchQuery is a query and its caller.
type SearchQuery struct {
	Principal schema.Principal `json:"principal"`
	schema.Query
	// Question is the stored question under which the language model calls of stages are kept;
	// zero: a search, of whose calls only the usage is recorded.
	Question uuid.UUID `json:"question,omitzero"`
}

// TenantID implements OfTenant.
func (q SearchQuery) TenantID() uuid.UUID { return q.Principal.Tenant }

// SearchRequest asks for ranked passages.
type SearchRequest struct {
	Envelope
	SearchQuery
	Deadline time.Time `json:"deadline,omitzero"`
}

// SearchReply answers SearchRequest.
type SearchReply struct {
	Envelope
	Error *schema.RemoteError `json:"error,omitempty"`
	schema.SearchResult
}

// AskRequest asks for an answer now. Question is the id under which the question is already stored.
type AskRequest struct {
	Envelope
	SearchQuery
	Question uuid.UUID `json:"question"`
	Deadline time.Time `json:"deadline,omitzero"`
	// Stream is where the steps and the answer's text are sent while the answer is made
	// (StreamSubject); empty: nowhere.
	Stream string `json:"stream,omitempty"`
}

// AskReply answers AskRequest.
type AskReply struct {
	Envelope
	Error  *schema.RemoteError `json:"error,omitempty"`
	Answer *schema.Answer      `json:"answer,omitempty"`
}

// QuestionMessage queues an asynchronous question.
type QuestionMessage struct {
	Envelope
	Tenant   uuid.UUID `json:"tenant"`
	Question uuid.UUID `json:"question"`
	Attempt  int       `json:"attempt"`
	Trace    string    `json:"trace,omitempty"`
}

// QuestionInput is the input of the AnswerQuestion workflow, which reads the question's text, plan
// and caller from the store.
type QuestionInput struct {
	Tenant   uuid.UUID `json:"tenant"`
	Question uuid.UUID `json:"question"`
	Attempt  int       `json:"attempt"`
}

// QuestionRound is the input of the activities that run once per round of selection and generation.
type QuestionRound struct {
	QuestionInput
	Round int `json:"round,omitempty"` // from 1; 0: the first
}

// QuestionPlan is the result of ActivityQuestionUnderstand. Workers of older builds returned none.
type QuestionPlan struct {
	// Rounds is the most rounds. If there is more than one, the answer of each is judged.
	Rounds int `json:"rounds"`
}

// QuestionVerdict is the result of ActivityQuestionJudge.
type QuestionVerdict struct {
	Again bool `json:"again"` // generate another round
}

// QuestionResult is the result of AnswerQuestion.
type QuestionResult struct {
	State  schema.JobState `json:"state"`
	Rounds int             `json:"rounds"`
}

// QuestionMessageID is the message id of a question's attempt; see
// IngestMessageID.
func QuestionMessageID(question uuid.UUID, attempt int) string {
	return fmt.Sprintf("%s.%d", question, attempt)
}

// Kinds of events of asynchronous questions: "question." and the state.
const (
	EventQuestionQueued    = "question.queued"
	EventQuestionRunning   = "question.running"
	EventQuestionAnswered  = "question.answered"
	EventQuestionFailed    = "question.failed"
	EventQuestionCancelled = "question.cancelled"
)

// QuestionEventsOf returns the subject pattern of a tenant's events of questions.
func QuestionEventsOf(tenant uuid.UUID) string {
	return "sluice.events." + checkTenant(tenant) + ".question.*"
}

// QuestionEvents returns the subject pattern of one kind of event of all tenants.
func QuestionEvents(kind string) string { return "sluice.events.*." + kind }

// QuestionEvent reports an asynchronous question's change of state, or the end of a synchronous one
// whose worker is gone.
type QuestionEvent struct {
	Envelope
	ID         uuid.UUID       `json:"id"`
	Kind       string          `json:"kind"`
	Tenant     uuid.UUID       `json:"tenant"`
	Collection uuid.UUID       `json:"collection"`
	Question   uuid.UUID       `json:"question"`
	Attempt    int             `json:"attempt"`
	State      schema.JobState `json:"state"`
	Reason     *schema.Reason  `json:"reason,omitempty"`
	At         time.Time       `json:"at"`
}

// Names of the AnswerQuestion workflow in Temporal.
const (
	// WorkflowAnswerQuestion takes a QuestionInput and returns a QuestionResult.
	WorkflowAnswerQuestion = "AnswerQuestion"

	// The steps take the QuestionInput and return nothing, except that understand returns a
	// QuestionPlan, generate and judge take a QuestionRound, and judge returns a QuestionVerdict.
	ActivityQuestionUnderstand = "question-understand"
	ActivityQuestionRetrieve   = "question-retrieve"
	ActivityQuestionGenerate   = "question-generate"
	ActivityQuestionJudge      = "question-judge"
	ActivityQuestionFinish     = "question-finish"
	// ActivityQuestionFail takes a QuestionFailure, ActivityQuestionCancel the
	// QuestionInput; both end the question.
	ActivityQuestionFail   = "question-fail"
	ActivityQuestionCancel = "question-cancel"

	// QueryQuestionStage returns the name of the activity that runs, as text.
	QueryQuestionStage = "stage"

	// ErrorQuestionLost is the error type of a step that found the question ended or owned by
	// another attempt. Its detail is the question's schema.JobState.
	ErrorQuestionLost = "question-lost"
)

// QuestionFailure is the input of ActivityQuestionFail.
type QuestionFailure struct {
	QuestionInput
	Reason schema.Reason `json:"reason"`
}
