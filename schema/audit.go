package schema

import (
	"time"

	"github.com/google/uuid"
)

// Nobody is the tenant of entries of the audit log about requests whose key is no
// tenant's. There is no such tenant; operators read its entries.
var Nobody = uuid.Max

// AuditChain names one of a tenant's two chains of entries.
type AuditChain string

// The chains.
const (
	AuditChanges AuditChain = "changes"
	AuditReads   AuditChain = "reads"
)

// AuditEntry tells who did what to what. Entries are never changed.
type AuditEntry struct {
	ID     uuid.UUID
	At     time.Time
	Actor  string // "key:<id>" or "system"
	Action string // "document.delete"
	Target string
	Detail map[string]any
}

// AuditRead tells who read what, or was refused. Entries are never changed.
type AuditRead struct {
	ID uuid.UUID `json:"id"`
	At time.Time `json:"at"`
	// Action is the operation, as the API's document names it.
	Action string `json:"action"`
	// Status is that of HTTP.
	Status int `json:"status"`
	// Via is "mcp"; empty: the API.
	Via     string     `json:"via,omitempty"`
	Key     *uuid.UUID `json:"key_id,omitempty"`
	KeyName string     `json:"key_name,omitempty"`
	Person  string     `json:"person,omitempty"`
	Address string     `json:"address,omitempty"`
	Agent   string     `json:"user_agent,omitempty"`
	Trace   string     `json:"trace_id,omitempty"`
	// Collection is an id, or what the request named when it was refused.
	Collection string `json:"collection,omitempty"`
	// Target is the id of a document, a question, a key, whatever the operation is about.
	Target string `json:"target,omitempty"`
	Query  string `json:"query,omitempty"`
	// Documents are those that were shown.
	Documents []uuid.UUID `json:"documents,omitempty"`
}

// AuditQuery says which entries of the audit log are asked for. What is empty
// does not count.
type AuditQuery struct {
	PageQuery
	From, To time.Time // To is excluded
	Action   string
	// Actor is a key's id or name, or a person.
	Actor      string
	Document   uuid.UUID
	Collection uuid.UUID
}

// AuditLine is an entry of either chain as it is exported: Change or Read is set.
type AuditLine struct {
	Chain  AuditChain `json:"chain"`
	Tenant uuid.UUID  `json:"tenant_id"`
	Number int64      `json:"number"`
	Hash   string     `json:"hash"` // hexadecimal
	// Written is when a read was written; it is a part of what is hashed.
	Written *time.Time   `json:"written,omitempty"`
	Change  *AuditChange `json:"change,omitempty"`
	Read    *AuditRead   `json:"read,omitempty"`
}

// AuditChange is an AuditEntry as it is exported. Detail is JSON as it is hashed.
type AuditChange struct {
	ID     uuid.UUID `json:"id"`
	At     time.Time `json:"at"`
	Actor  string    `json:"actor"`
	Action string    `json:"action"`
	Target string    `json:"target"`
	Detail string    `json:"detail,omitempty"`
}

// AuditVerdict is what a walk over a chain found.
type AuditVerdict struct {
	Chain AuditChain `json:"chain"`
	// Entries is how many were read and are as they were written.
	Entries int64 `json:"entries"`
	// Removed is how many between them retention removed.
	Removed int64 `json:"removed"`
	// KeptAfter is the number of the last entry before those that are kept.
	KeptAfter int64 `json:"kept_after"`
	// Number and Hash are the chain's end.
	Number int64  `json:"number"`
	Hash   string `json:"hash"`
	// Break is the first place where the chain is not whole; nil: it is.
	Break *AuditBreak `json:"break,omitempty"`
}

// AuditBreak is where a chain is not whole, and what is wrong there.
type AuditBreak struct {
	Number  int64  `json:"number"`
	Problem string `json:"problem"`
}

// AuditBacklog is a chain with entries that were not sent yet: those after Sent.
type AuditBacklog struct {
	Tenant uuid.UUID
	Chain  AuditChain
	Sent   int64
}
