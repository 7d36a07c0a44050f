package api

// Names of the server-sent events of a question that is answered while its
// asker listens. The last is an answer (schema.Answer), or an error (Problem).
const (
	EventStage  = "stage"
	EventDelta  = "delta"
	EventAnswer = "answer"
	EventError  = "error"
)

// EventJob is the event of a job's stream: the job (schema.Job) as it is then.
// The stream ends with the job.
const EventJob = "job"

// StageEvent tells that a step of answering begins.
type StageEvent struct {
	Stage      string `json:"stage" doc:"understand, retrieve, generate, judge or finish."`
	Round      int    `json:"round,omitempty" doc:"From 1, when the plan may go through several."`
	Candidates int    `json:"candidates,omitempty" doc:"What the last retrieval found to answer from."`
}

// DeltaEvent is the next piece of an answer that is being made. It has not been
// checked; the answer event has the text that counts.
type DeltaEvent struct {
	Text    string `json:"text"`
	Restart bool   `json:"restart,omitempty" doc:"What came before is void: the answer begins again."`
}
