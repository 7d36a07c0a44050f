package schema

import (
	"time"

	"github.com/google/uuid"
)

// Activity is the current and recent activity of one tenant or of all.
type Activity struct {
	At time.Time `json:"at"`
	// Minutes are the last 60; the last of them is not over yet.
	Minutes []IngestMinute `json:"minutes"`
	// Waiting is the versions to be ingested, by state. WaitingSince is when the oldest of them was
	// queued.
	Waiting      map[State]int64    `json:"waiting"`
	WaitingSince *time.Time         `json:"waiting_since,omitempty"`
	Jobs         map[JobState]int64 `json:"jobs" doc:"Questions that run as jobs and have not ended, by state."`
	JobsSince    *time.Time         `json:"jobs_since,omitempty" doc:"When the oldest of the jobs that wait was queued."`
	Failures     []FailureCount     `json:"failures" doc:"What failed within the last 24 hours, most often first."`
}

// IngestMinute is the versions whose ingestion finished in a minute, without those that were
// replaced since.
type IngestMinute struct {
	At        time.Time `json:"at"`
	Documents int64     `json:"documents" doc:"That became ready."`
	Bytes     int64     `json:"bytes"`
	Failed    int64     `json:"failed"`
}

// FailureCount is how often something failed for a reason.
type FailureCount struct {
	What  string `json:"what" enum:"document,question"`
	Code  string `json:"code"`
	Count int64  `json:"count"`
}

// SlowKind is the kind of a slow query.
type SlowKind string

// Kinds of slow queries.
const (
	SlowSearch SlowKind = "search"
	SlowAsk    SlowKind = "ask" // a question whose caller waited
	SlowJob    SlowKind = "job"
)

// SlowQuery is a search or question that took long.
type SlowQuery struct {
	ID         uuid.UUID   `json:"id" doc:"Of a job or a question: its own."`
	Tenant     uuid.UUID   `json:"tenant_id"`
	Kind       SlowKind    `json:"kind" enum:"search,ask,job"`
	Collection uuid.UUID   `json:"collection_id,omitzero"`
	Question   string      `json:"question,omitempty" doc:"Shown to the tenant's own admins."`
	Plan       string      `json:"plan,omitempty"`
	Millis     float64     `json:"ms" doc:"From its coming in to its end; a job's with its time in the queue."`
	Stages     []StageTime `json:"stages"`
	Code       string      `json:"code,omitempty" doc:"Of its error, when it failed."`
	Trace      string      `json:"trace,omitempty" doc:"Id of its trace."`
	At         time.Time   `json:"at" doc:"When it ended."`
}

// StageTime is the time that a stage of a plan took.
type StageTime struct {
	Stage  string  `json:"stage"`
	Millis float64 `json:"ms"`
}

// TenantActivity is a tenant's ingestion now and in the last hour.
type TenantActivity struct {
	Tenant    uuid.UUID `json:"tenant_id"`
	Name      string    `json:"name"`
	Waiting   int64     `json:"waiting" doc:"Versions that are to be ingested."`
	Documents int64     `json:"documents" doc:"That became ready within the last hour."`
	Bytes     int64     `json:"bytes"`
	Failed    int64     `json:"failed"`
}

// QueueState is the state of a stream of messages for workers.
type QueueState struct {
	Name      string          `json:"name"`
	Messages  uint64          `json:"messages"`
	Bytes     uint64          `json:"bytes"`
	Subjects  uint64          `json:"subjects" doc:"With messages: one of each tenant, in a stream of work."`
	Oldest    *time.Time      `json:"oldest,omitempty" doc:"When the oldest message came."`
	Consumers []ConsumerState `json:"consumers"`
}

// ConsumerState is the progress of a consumer of a stream.
type ConsumerState struct {
	Name        string     `json:"name"`
	Lag         uint64     `json:"lag" doc:"Messages that nobody has been given yet."`
	Unconfirmed int        `json:"unconfirmed" doc:"Messages that are worked on."`
	Redelivered int        `json:"redelivered" doc:"Of these, those that were given before."`
	Delivered   uint64     `json:"delivered" doc:"Ever."`
	Asking      int        `json:"asking" doc:"Requests for more that wait: of workers with nothing to do."`
	Last        *time.Time `json:"last,omitempty" doc:"When a message was last given."`
}

// TaskQueue is a Temporal task queue and the processes that poll it.
type TaskQueue struct {
	Name    string   `json:"name"`
	Kind    string   `json:"kind" enum:"workflow,activity"`
	Backlog int64    `json:"backlog" doc:"Tasks that wait, about."`
	Age     float64  `json:"age_seconds" doc:"Of the oldest of them, about."`
	Added   float64  `json:"added_per_second"`
	Taken   float64  `json:"taken_per_second"`
	Workers []Poller `json:"workers"`
}

// Poller is a process that polls a task queue.
type Poller struct {
	Name string    `json:"name"`
	Seen time.Time `json:"seen"`
}

// ServiceState is the state of one process that answers requests of a service.
type ServiceState struct {
	ID      uuid.UUID `json:"id" doc:"Of this run of it; counts begin with it."`
	Service string    `json:"service" doc:"Such as sluice.query.search."`
	Program string    `json:"program"`
	Host    string    `json:"host"`
	PID     int       `json:"pid"`
	Since   time.Time `json:"since"`
	Places  int       `json:"places" doc:"Requests that run at once at most."`
	Running int       `json:"running" doc:"Requests; of a model server batches."`
	Waiting int       `json:"waiting" doc:"Requests; of a model server all that it holds."`
	Served  int64     `json:"served" doc:"Since it began."`
	Refused int64     `json:"refused" doc:"Since it began, for too much waited."`
	Millis  float64   `json:"ms" doc:"That the served ones ran, all together."`
	// Model is set only for a model server.
	Model *ModelState `json:"model,omitempty"`
}

// ModelState is what a model server holds and what it did.
type ModelState struct {
	Pack          string       `json:"pack"`
	Provider      string       `json:"provider"`
	HeldBytes     int          `json:"held_bytes" doc:"Of the requests that it holds."`
	HeldSequences int          `json:"held_sequences" doc:"Texts and sentences of the requests that it holds."`
	MaxSequences  int          `json:"max_sequences" doc:"Beyond which it refuses."`
	Graphs        []GraphState `json:"graphs"`
}

// GraphState is what one graph of a model server did since the server started, and what waits for
// it.
type GraphState struct {
	Graph       string  `json:"graph"`
	Interactive int     `json:"interactive" doc:"Items that wait and somebody waits for."`
	Bulk        int     `json:"bulk" doc:"Other items that wait."`
	Batches     int64   `json:"batches"`
	Items       int64   `json:"items"`
	Tokens      int64   `json:"tokens" doc:"Without padding."`
	Padding     int64   `json:"padding" doc:"Tokens of it."`
	Millis      float64 `json:"ms" doc:"That it ran."`
}

// Installation is the state of everything that runs, for operators.
type Installation struct {
	Activity Activity         `json:"activity"`
	Tenants  []TenantActivity `json:"tenants" doc:"The 20 that have most waiting or did most in the last hour."`
	Outbox   OutboxState      `json:"outbox"`
	Queues   []QueueState     `json:"queues"`
	Tasks    []TaskQueue      `json:"tasks"`
	Services []ServiceState   `json:"services"`
	Slow     []SlowQuery      `json:"slow" doc:"The slowest 10 of each kind of the last 24 hours, without their text."`
	// Problems are the parts whose state could not be read, and why.
	Problems []string `json:"problems,omitempty"`
}

// OutboxState is the messages in the outbox that are not published yet.
type OutboxState struct {
	Messages int64      `json:"messages"`
	Oldest   *time.Time `json:"oldest,omitempty"`
}

// TenantQueue is the messages of a tenant that wait in a stream.
type TenantQueue struct {
	Name     string `json:"name"`
	Messages uint64 `json:"messages"`
}

// Operations is the state of everything that runs for one tenant, for its admins.
type Operations struct {
	Activity Activity      `json:"activity"`
	Queues   []TenantQueue `json:"queues"`
	Slow     []SlowQuery   `json:"slow" doc:"The slowest 10 of each kind of the last 24 hours."`
}

// UsageDay is the tokens and costs of paid language models on a day.
type UsageDay struct {
	Day          time.Time `json:"day" doc:"Its beginning (UTC)."`
	Calls        int64     `json:"calls"`
	Cached       int64     `json:"cached"`
	InputTokens  int64     `json:"input_tokens"`
	OutputTokens int64     `json:"output_tokens"`
	Dollars      float64   `json:"dollars"`
}
