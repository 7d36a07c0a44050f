package schema

import (
	"net/netip"
	"slices"
	"time"

	"github.com/google/uuid"
)

// JobState is the state of a question that runs as a job.
type JobState string

// States of a job. Answered, failed and cancelled are ends.
const (
	JobQueued    JobState = "queued"
	JobRunning   JobState = "running"
	JobAnswered  JobState = "answered"
	JobFailed    JobState = "failed"
	JobCancelled JobState = "cancelled"
)

// Final reports whether the job has ended.
func (s JobState) Final() bool { return s == JobAnswered || s == JobFailed || s == JobCancelled }

// Job is an asynchronous question.
type Job struct {
	ID         uuid.UUID  `json:"id"`
	Collection uuid.UUID  `json:"collection_id"`
	Question   string     `json:"question"`
	Choices    []string   `json:"choices,omitempty"`
	Plan       string     `json:"plan"`
	State      JobState   `json:"state"`
	Stage      string     `json:"stage,omitempty"` // understand, retrieve, generate, judge, finish
	Reason     *Reason    `json:"reason,omitempty"`
	Trace      string     `json:"trace,omitempty"` // id of its trace
	CreatedAt  time.Time  `json:"created_at"`
	FinishedAt *time.Time `json:"finished_at,omitempty"`
	Result     *Answer    `json:"result,omitempty"`
}

// AskedQuestion is a question as it was asked, whether somebody waited for its
// answer or not.
type AskedQuestion struct {
	Job
	Async    bool      `json:"async" doc:"It runs as a job, which can be followed and cancelled."`
	Key      uuid.UUID `json:"key_id" doc:"The key that asked."`
	Person   string    `json:"person,omitempty" doc:"For whom it asked, as it named them."`
	PlanText string    `json:"plan_text,omitempty" doc:"The YAML of its plan, unless it is one of the server's."`
	Filter   Filter    `json:"filter,omitempty"`
	K        int       `json:"k,omitempty"`
}

// Scope is what an API key may do.
type Scope string

// Scopes. Operator manages tenants and is given only at set-up.
const (
	ScopeOperator    Scope = "operator"
	ScopeAdmin       Scope = "admin"
	ScopeCurate      Scope = "curate"
	ScopeIngest      Scope = "ingest"
	ScopeQuery       Scope = "query"
	ScopeImpersonate Scope = "impersonate"
)

// Principal is who calls: resolved from an API key, carried inside the system.
type Principal struct {
	Tenant uuid.UUID `json:"tenant"`
	Key    uuid.UUID `json:"key"`
	Name   string    `json:"name"`
	Scopes []Scope   `json:"scopes"`
	// Groups limit labelled documents: one is visible when it carries no label
	// or one of these.
	Groups []string `json:"groups"`
	// Person is who the key asks for, as it named them; empty: for itself.
	Person string `json:"person,omitempty"`
	// Addresses are those from which the key may be used; none: from every one. They are
	// looked at where the request comes in, and go no further.
	Addresses []netip.Prefix `json:"-"`
}

// MayComeFrom reports whether p's key may be used from an address; an unknown one is the
// zero Addr.
func (p Principal) MayComeFrom(at netip.Addr) bool {
	at = at.Unmap().WithZone("")
	return len(p.Addresses) == 0 || slices.ContainsFunc(p.Addresses, func(of netip.Prefix) bool { return of.Contains(at) })
}

// NobodyLabel is the label of what nobody may see: a version whose document got
// labels that have none in common with its own. It is no document's, and no group.
const NobodyLabel = "sluice:nobody"

// Has reports whether p holds s; admin implies curate, ingest and query.
func (p Principal) Has(s Scope) bool {
	for _, have := range p.Scopes {
		if have == s || have == ScopeAdmin && (s == ScopeCurate || s == ScopeIngest || s == ScopeQuery) {
			return true
		}
	}
	return false
}
