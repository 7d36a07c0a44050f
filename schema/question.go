package schema

import (
	"net/netip"
	"strings"
	"time"

	"github.com/google/uuid"
)

// JobState is the state of a question that runs as a job.
type JobState string

// States of a job. Answered, failed and cancelled are final.
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

// AskedQuestion is a stored question, synchronous or asynchronous.
type AskedQuestion struct {
	Job
	Async    bool      `json:"async" doc:"It runs as a job, which can be followed and cancelled."`
	Key      uuid.UUID `json:"key_id" doc:"The key that asked."`
	Person   string    `json:"person,omitempty" doc:"For whom it asked, as it named them."`
	PlanText string    `json:"plan_text,omitempty" doc:"The YAML of its plan, unless it is one of the server's."`
	Filter   Filter    `json:"filter,omitempty"`
	K        int       `json:"k,omitempty"`
}

// Scope is a permission of an API key.
type Scope string

// Scopes. Operator manages tenants; it is granted only at set-up.
const (
	ScopeOperator    Scope = "operator"
	ScopeAdmin       Scope = "admin"
	ScopeCurate      Scope = "curate"
	ScopeIngest      Scope = "ingest"
	ScopeQuery       Scope = "query"
	ScopeImpersonate Scope = "impersonate"
)

// Principal is the authenticated caller. It is resolved from an API key and passed on inside the
// system.
type Principal struct {
	Tenant uuid.UUID `json:"tenant"`
	Key    uuid.UUID `json:"key"`
	Name   string    `json:"name"`
	Scopes []Scope   `json:"scopes"`
	// Collections are scopes of single collections. They are checked where a request comes in, and
	// not passed on.
	Collections []CollectionScopes `json:"-"`
	// Groups limit which labelled documents are visible: those without labels, and those with a
	// label that is one of the groups.
	Groups []string `json:"groups"`
	// Person is the person that the key asks for, as the key named them; empty: none.
	Person string `json:"person,omitempty"`
	// Addresses are the ranges from which the key may be used; empty: all. They are checked where a
	// request comes in, and not passed on.
	Addresses []netip.Prefix `json:"-"`
	// Acting says that the key asks for somebody else, whose groups replace its own.
	Acting bool `json:"-"`
	// Writes is the source item whose document a worker writes, with the label from the source's
	// permissions. It cannot be sent in a message.
	Writes *SourceWrite `json:"-"`
	// Holds is the source for which a worker writes, and its attempt. Uploads, changes and
	// deletions fail when the source has another attempt by now. It cannot be sent in a message.
	Holds *SourceAttempt `json:"-"`
}

// MayComeFrom reports whether p's key may be used from an address. The zero Addr is an unknown
// address.
func (p Principal) MayComeFrom(at netip.Addr) bool {
	return len(p.Addresses) == 0 || InRanges(at, p.Addresses)
}

// SourceWrite is an item of a source whose permissions are applied.
type SourceWrite struct {
	Source uuid.UUID
	Item   string
}

// SourceAttempt is an attempt to synchronize a source.
type SourceAttempt struct {
	Source  uuid.UUID
	Attempt int
}

// NobodyLabel is the label of versions that nobody may see: the new labels of the document and the
// version's own have none in common, or the permissions of a source are incomplete or exceed its
// limit of access lists. It is never the label of a document or a group.
const NobodyLabel = "sluice:nobody"

// AccessLabel begins labels that name an access list of a source. Only sources give them to
// documents, and people have them as groups only by a source's permissions.
const AccessLabel = "sluice:access:"

// Reserved reports whether label is one of the system's own, which cannot be given to a document or
// a key.
func Reserved(label string) bool {
	return label == NobodyLabel || strings.HasPrefix(label, AccessLabel)
}

// OwnGroups returns p's groups without those from permissions of sources.
func (p Principal) OwnGroups() []string {
	out := make([]string, 0, len(p.Groups))
	for _, group := range p.Groups {
		if !strings.HasPrefix(group, AccessLabel) {
			out = append(out, group)
		}
	}
	return out
}

// Has reports whether p has s; admin implies curate, ingest and query.
func (p Principal) Has(s Scope) bool {
	for _, have := range p.Scopes {
		if have == s || have == ScopeAdmin && (s == ScopeCurate || s == ScopeIngest || s == ScopeQuery) {
			return true
		}
	}
	return false
}
