package api

import (
	"time"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/schema"
)

// Names of the server-sent events of a question that is answered while its caller waits. The last
// is an answer (schema.Answer) or an error (Problem).
const (
	EventStage  = "stage"
	EventDelta  = "delta"
	EventAnswer = "answer"
	EventError  = "error"
)

// EventJob is the event of a job's stream, with the job's current state (schema.Job). The stream
// ends when the job does.
const EventJob = "job"

// EventChange is the event of a change in a tenant.
const EventChange = "change"

// ChangeEvent reports the new state of a document or a job.
type ChangeEvent struct {
	At         time.Time      `json:"at"`
	Kind       string         `json:"kind" doc:"Such as version.ready or question.answered."`
	Collection uuid.UUID      `json:"collection_id"`
	Document   uuid.UUID      `json:"document_id,omitzero"`
	ExternalID string         `json:"external_id,omitempty"`
	Job        uuid.UUID      `json:"job_id,omitzero"`
	State      string         `json:"state"`
	Reason     *schema.Reason `json:"reason,omitempty"`
	Dropped    int            `json:"dropped,omitempty" doc:"How many before it were dropped, for the client read too slowly."`
}

// StageEvent reports that a step of answering begins.
type StageEvent struct {
	Stage      string `json:"stage" doc:"understand, retrieve, generate, judge or finish."`
	Round      int    `json:"round,omitempty" doc:"From 1, when the plan may go through several."`
	Candidates int    `json:"candidates,omitempty" doc:"What the last retrieval found to answer from."`
}

// DeltaEvent is the next part of an answer that is being generated. It has not been checked, unless
// it says so; the text of the answer event counts.
type DeltaEvent struct {
	Text    string `json:"text"`
	Restart bool   `json:"restart,omitempty" doc:"What came before is void: the answer begins again."`
	Checked bool   `json:"checked,omitempty" doc:"The text is the whole answer, checked, in the place of what came before; with an error to follow it is empty."`
}
