package schema

import (
	"time"

	"github.com/google/uuid"
)

// Nobody is the tenant of audit log entries about requests whose key belongs to no tenant. No such
// tenant exists; operators read its entries.
var Nobody = uuid.Max

// AuditChain names one of a tenant's two chains of entries.
type AuditChain string

// The chains.
const (
	AuditChanges AuditChain = "changes"
	AuditReads   AuditChain = "reads"
)

// AuditEntry records who changed what. Entries are never changed.
type AuditEntry struct {
	ID     uuid.UUID
	At     time.Time
	Actor  string // "key:<id>" or "system"
	Action string // "document.delete"
	Target string
	Detail map[string]any
}

// AuditRead records who read what, or was refused. Entries are never changed.
type AuditRead struct {
	ID uuid.UUID `json:"id"`
	At time.Time `json:"at"`
	// Action is the operation's name in the OpenAPI document.
	Action string `json:"action"`
	// Status is the HTTP status.
	Status int `json:"status"`
	// Via is "mcp"; empty: the API.
	Via     string     `json:"via,omitempty"`
	Key     *uuid.UUID `json:"key_id,omitempty"`
	KeyName string     `json:"key_name,omitempty"`
	Person  string     `json:"person,omitempty"`
	Address string     `json:"address,omitempty"`
	Agent   string     `json:"user_agent,omitempty"`
	Trace   string     `json:"trace_id,omitempty"`
	// Collection is an id or, if the request was refused, the name in the request.
	Collection string `json:"collection,omitempty"`
	// Target is the id of the document, question, key or other object of the operation.
	Target string `json:"target,omitempty"`
	Query  string `json:"query,omitempty"`
	// Documents are the documents that were shown.
	Documents []uuid.UUID `json:"documents,omitempty"`
}

// AuditQuery selects entries of the audit log. Empty fields select all.
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
	// Written is when a read was written. The hash covers it.
	Written *time.Time   `json:"written,omitempty"`
	Change  *AuditChange `json:"change,omitempty"`
	Read    *AuditRead   `json:"read,omitempty"`
}

// AuditChange is an AuditEntry as it is exported. Detail is the JSON that the hash covers.
type AuditChange struct {
	ID     uuid.UUID `json:"id"`
	At     time.Time `json:"at"`
	Actor  string    `json:"actor"`
	Action string    `json:"action"`
	Target string    `json:"target"`
	Detail string    `json:"detail,omitempty"`
}

// AuditVerdict is the result of verifying a chain.
type AuditVerdict struct {
	Chain AuditChain `json:"chain"`
	// Entries is how many entries were read and are unchanged.
	Entries int64 `json:"entries"`
	// Removed is how many entries between them were removed by retention.
	Removed int64 `json:"removed"`
	// KeptAfter is the number of the last entry before the ones that are kept.
	KeptAfter int64 `json:"kept_after"`
	// Number and Hash are those of the chain's last entry.
	Number int64  `json:"number"`
	Hash   string `json:"hash"`
	// Break is the first break in the chain; nil: the chain is intact.
	Break *AuditBreak `json:"break,omitempty"`
}

// AuditBreak is where a chain is broken, and why.
type AuditBreak struct {
	Number  int64  `json:"number"`
	Problem string `json:"problem"`
}

// AuditBacklog is a chain with entries after Sent, which were not sent yet.
type AuditBacklog struct {
	Tenant uuid.UUID
	Chain  AuditChain
	Sent   int64
}
