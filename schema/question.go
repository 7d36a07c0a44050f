package schema

import (
	"net/netip"
	"strings"
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
	// Collections are scopes of single collections. They are looked at where the request comes in
	// and go no further.
	Collections []CollectionScopes `json:"-"`
	// Groups limit labelled documents: one is visible when it carries no label
	// or one of these.
	Groups []string `json:"groups"`
	// Person is who the key asks for, as it named them; empty: for itself.
	Person string `json:"person,omitempty"`
	// Addresses are those from which the key may be used; none: from every one. They are
	// looked at where the request comes in, and go no further.
	Addresses []netip.Prefix `json:"-"`
	// Acting is true where a request for somebody else replaced the key's own groups.
	Acting bool `json:"-"`
	// Writes is the item of a source whose document a worker writes, with the label that
	// the source's permissions give it. Nobody can send it.
	Writes *SourceWrite `json:"-"`
}

// MayComeFrom reports whether p's key may be used from an address; an unknown one is the
// zero Addr.
func (p Principal) MayComeFrom(at netip.Addr) bool {
	return len(p.Addresses) == 0 || InRanges(at, p.Addresses)
}

// SourceWrite is an item of a source whose permissions are followed.
type SourceWrite struct {
	Source uuid.UUID
	Item   string
}

// NobodyLabel is the label of what nobody may see: a version whose document got
// labels that have none in common with its own. It is no document's, and no group.
const NobodyLabel = "sluice:nobody"

// AccessLabel begins labels that name who may see a document in its source.
// Sources alone give them to documents; people have them as groups by the source's
// permissions alone.
const AccessLabel = "sluice:access:"

// Reserved reports whether label is one of the system's own, which nobody may give
// to a document or to a key.
func Reserved(label string) bool {
	return label == NobodyLabel || strings.HasPrefix(label, AccessLabel)
}

// OwnGroups are p's groups without those that permissions of sources gave it.
func (p Principal) OwnGroups() []string {
	out := make([]string, 0, len(p.Groups))
	for _, group := range p.Groups {
		if !strings.HasPrefix(group, AccessLabel) {
			out = append(out, group)
		}
	}
	return out
}

// Has reports whether p holds s; admin implies curate, ingest and query.
func (p Principal) Has(s Scope) bool {
	for _, have := range p.Scopes {
		if have == s || have == ScopeAdmin && (s == ScopeCurate || s == ScopeIngest || s == ScopeQuery) {
			return true
		}
	}
	return false
}
