// Package api has the requests and responses of the HTTP API under /v1, shared by the server and
// its clients. Field tags carry the documentation and limits that the OpenAPI description shows and
// the server enforces.
package api

import (
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/schema"
)

// Page is one page of a list. Next is empty on the last.
type Page[T any] struct {
	Items []T    `json:"items"`
	Next  string `json:"next,omitempty" doc:"Cursor of the next page; absent on the last one."`
}

// NewCollection creates a collection.
type NewCollection struct {
	Name        string `json:"name" minLength:"1" maxLength:"128" pattern:"^[a-zA-Z0-9][a-zA-Z0-9._-]*$" doc:"Unique in the tenant."`
	Description string `json:"description,omitempty" maxLength:"2000"`
	Language    string `json:"language,omitempty" maxLength:"35" doc:"BCP 47; en when absent."`

	Segmentation *schema.Segmentation `json:"segmentation,omitempty" doc:"How sections become passages; the segmenter when absent."`

	Plan string `json:"plan,omitempty" maxLength:"64" doc:"Runs when a search or a question names none; the server's default when absent."`
}

// CollectionChange changes a collection; absent fields stay.
type CollectionChange struct {
	Description *string `json:"description,omitempty" maxLength:"2000"`
	Plan        *string `json:"plan,omitempty" maxLength:"64" doc:"Runs when a search or a question names none; empty: the server's default."`
}

// NewRebuild asks for a new generation of a collection. Absent fields stay as they are.
type NewRebuild struct {
	Language string `json:"language,omitempty" maxLength:"35" doc:"BCP 47."`

	Segmentation *schema.Segmentation `json:"segmentation,omitempty" doc:"How sections become passages; settings that are absent have their usual values, not the collection's."`

	Encoder schema.Encoder `json:"encoder,omitempty" enum:"auto,first,second" doc:"Whose vectors: the model pack's (first), the second encoder's (second), or the first's until the second has encoded the collection in the background (auto)."`
}

// NewClusters asks for new clusters of a collection. An absent size stays as it is.
type NewClusters struct {
	ClusterTokens int `json:"cluster_tokens,omitempty" minimum:"1000" maximum:"64000" doc:"The most tokens that the sections of a cluster may have together, from now on; 4,000 at first."`
}

// NewDocument is one document of an upload.
type NewDocument struct {
	ExternalID string          `json:"external_id" minLength:"1" maxLength:"1024" doc:"The user's own name of the document (path, URL, key), unique in its collection."`
	Title      string          `json:"title,omitempty" maxLength:"1000"`
	MediaType  string          `json:"media_type,omitempty" maxLength:"200" doc:"A hint; the content decides."`
	Text       string          `json:"text,omitempty" doc:"The content, when it is text."`
	Content    []byte          `json:"content,omitempty" doc:"The content, base64."`
	Labels     []string        `json:"labels,omitempty" maxItems:"100" doc:"Who may see it: keys with one of these groups. None: everyone in the tenant."`
	Metadata   schema.Metadata `json:"metadata,omitempty" doc:"Scalars and lists of scalars can be filtered on."`
}

// Upload uploads several documents at once: all of them, or none.
type Upload struct {
	Documents []NewDocument `json:"documents" minItems:"1" maxItems:"256"`
}

// Uploaded is the result for one document of an upload.
type Uploaded struct {
	ExternalID string         `json:"external_id"`
	Document   uuid.UUID      `json:"document_id"`
	Version    uuid.UUID      `json:"version_id"`
	State      schema.State   `json:"state"`
	Unchanged  bool           `json:"unchanged" doc:"The document's newest version is this very upload."`
	Reason     *schema.Reason `json:"reason,omitempty"`
}

// UploadResult answers Upload.
type UploadResult struct {
	Documents []Uploaded `json:"documents"`
}

// Fingerprint identifies a client's copy of a document, to ask whether it must be uploaded.
type Fingerprint struct {
	ExternalID  string `json:"external_id" minLength:"1" maxLength:"1024"`
	Fingerprint string `json:"fingerprint" minLength:"64" maxLength:"64" doc:"SHA-256 over the content's SHA-256 (hex) and the canonical JSON of title, labels and metadata."`
}

// Compare asks which of a client's documents differ from the stored ones.
type Compare struct {
	Documents []Fingerprint `json:"documents" minItems:"1" maxItems:"5000"`
}

// CompareResult answers Compare.
type CompareResult struct {
	Changed   []string `json:"changed" doc:"External ids to upload: new, changed, deleted or cancelled ones."`
	Unchanged []string `json:"unchanged"`
	Failed    []string `json:"failed" doc:"Unchanged ones whose processing failed; retry them, uploading again changes nothing."`
}

// DocumentChange changes a document's labels and metadata; absent fields stay. It takes effect at
// once, without new processing.
type DocumentChange struct {
	Labels   *[]string        `json:"labels,omitempty" maxItems:"100"`
	Metadata *schema.Metadata `json:"metadata,omitempty"`
}

// DocumentDetail is a document with its versions, newest first.
type DocumentDetail struct {
	schema.Document
	Versions []schema.Version `json:"versions"`
}

// Retried is how many documents were queued again.
type Retried struct {
	Queued int `json:"queued"`
}

// Query is a search or a question.
type Query struct {
	Collection string        `json:"collection" minLength:"1" maxLength:"128" doc:"Name or id."`
	Query      string        `json:"query" minLength:"1" maxLength:"20000"`
	History    []schema.Turn `json:"history,omitempty" maxItems:"200" doc:"What was said before, oldest first, at most 256 KiB together: a question that follows from it is made whole by rules."`
	Plan       string        `json:"plan,omitempty" maxLength:"64" doc:"The collection's plan when absent, or the server's default."`
	PlanText   string        `json:"plan_text,omitempty" maxLength:"65536" doc:"The YAML of a plan to run instead of one that has a name here."`
	Filter     schema.Filter `json:"filter,omitempty" maxItems:"50"`
	K          int           `json:"k,omitempty" minimum:"0" maximum:"100" doc:"How many candidates to return; the plan's own number when 0. An answer is made from these at most."`
	Documents  int           `json:"documents,omitempty" minimum:"0" maximum:"1000" doc:"Return the ranking of so many documents, too, without text."`
	Explain    bool          `json:"explain,omitempty" doc:"Show in the trace what each stage kept and dropped. The trace of a question always does."`
	Groups     []string      `json:"groups,omitempty" maxItems:"100" doc:"Ask with these groups; needs the impersonate scope. The header X-Sluice-Groups does the same on every route."`
	Choices    []string      `json:"choices,omitempty" minItems:"2" maxItems:"26" doc:"What to choose the answer from, in order; each has 1 to 500 bytes. A search takes no notice of them."`
	Risk       *float64      `json:"risk,omitempty" minimum:"0" maximum:"1" doc:"How likely an answer may be wrong for it to be given; what the model pack was calibrated to when absent. A search takes no notice of it."`
}

// SearchResult is the response to a search.
type SearchResult struct {
	Query      string             `json:"query"` // as it was asked
	Standalone string             `json:"standalone_question,omitempty" doc:"The query as it was made whole from the history and searched with; absent where that changed nothing."`
	Plan       string             `json:"plan"`
	PlanNote   string             `json:"plan_note,omitempty" doc:"Why it was not the collection's plan that ran."`
	Passages   []schema.Candidate `json:"passages" doc:"The ranking, best first."`
	// Context is never null.
	Context   []int                   `json:"context" doc:"Of which passages, in this order, an answer would be made."`
	Documents []schema.RankedDocument `json:"documents,omitempty" doc:"Documents by their best candidate."`
	Trace     []schema.StageReport    `json:"trace"`
	Millis    float64                 `json:"ms"`
}

// PlanText is a retrieval plan as YAML.
type PlanText struct {
	Plan string `json:"plan" minLength:"1" maxLength:"65536" doc:"The plan's YAML."`
}

// NewTenant creates a tenant and its first key.
type NewTenant struct {
	Name         string `json:"name" minLength:"1" maxLength:"63" pattern:"^[a-z0-9][a-z0-9._-]*$"`
	MaxDocuments *int64 `json:"max_documents,omitempty" minimum:"0"`
	MaxBytes     *int64 `json:"max_bytes,omitempty" minimum:"0"`
}

// Quotas limit what a tenant may store. An absent quota is no limit.
type Quotas struct {
	MaxDocuments *int64 `json:"max_documents,omitempty" minimum:"0"`
	MaxBytes     *int64 `json:"max_bytes,omitempty" minimum:"0"`
}

// Tenant is one customer, or department, apart from all others.
type Tenant struct {
	ID           uuid.UUID `json:"id"`
	Name         string    `json:"name"`
	MaxDocuments *int64    `json:"max_documents,omitempty"`
	MaxBytes     *int64    `json:"max_bytes,omitempty"`
	CreatedAt    time.Time `json:"created_at"`
}

// TenantCreated is the response to NewTenant. The key is not shown again.
type TenantCreated struct {
	Tenant
	APIKey string `json:"api_key"`
}

// NewKey creates an API key.
type NewKey struct {
	Name   string         `json:"name" minLength:"1" maxLength:"128"`
	Scopes []schema.Scope `json:"scopes" minItems:"1" enum:"operator,admin,curate,ingest,query,impersonate" doc:"Operators alone give operator on."`
	Groups []string       `json:"groups,omitempty" maxItems:"100" doc:"Labelled documents that the key sees."`
	// Collections limit the scopes to these collections; only query, ingest and curate can be given
	// then.
	Collections []string   `json:"collections,omitempty" maxItems:"100" doc:"Names or ids of collections in which alone the scopes hold: query, ingest and curate can be given so. Absent: in the whole tenant."`
	Addresses   []string   `json:"addresses,omitempty" maxItems:"100" doc:"Addresses and ranges, as 203.0.113.7 and 10.1.0.0/16, from which the key may be used; none: from everywhere."`
	ExpiresAt   *time.Time `json:"expires_at,omitempty"`
}

// RotateKey asks for a key that replaces another.
type RotateKey struct {
	OverlapSeconds *int `json:"overlap_seconds,omitempty" minimum:"0" maximum:"2592000" default:"86400" doc:"How long the old key stays good: a day by default; 0 ends it at once."`
}

// Key is an API key without its secret, or a person who signs in.
type Key struct {
	ID          uuid.UUID                 `json:"id"`
	Kind        string                    `json:"kind" enum:"key,person" doc:"An API key, or a person who signs in at the provider and has no key."`
	Name        string                    `json:"name"`
	Prefix      string                    `json:"prefix"`
	Scopes      []schema.Scope            `json:"scopes" doc:"Of the tenant."`
	Collections []schema.CollectionScopes `json:"collections,omitempty" doc:"Scopes of single collections, beside those of the tenant."`
	Groups      []string                  `json:"groups,omitempty"`
	Addresses   []string                  `json:"addresses,omitempty" doc:"Ranges of addresses from which it may be used; absent: from everywhere."`
	CreatedAt   time.Time                 `json:"created_at"`
	ExpiresAt   *time.Time                `json:"expires_at,omitempty"`
	RevokedAt   *time.Time                `json:"revoked_at,omitempty"`
	// LastUsedAt is missing if the key was last used before Sluice recorded it.
	LastUsedAt *time.Time `json:"last_used_at,omitempty" doc:"To within five minutes; absent: never."`
	Subject    string     `json:"subject,omitempty" doc:"A person's, for good: the provider's issuer, \"|\", and their id there."`
}

// KeyCreated is the response to NewKey. The key is not shown again.
type KeyCreated struct {
	Key
	APIKey string `json:"api_key"`
}

// UsageDays are the tokens and costs of paid language models by day.
type UsageDays struct {
	Days []schema.UsageDay `json:"days"`
}

// AuditEntry is one line of the audit log.
type AuditEntry struct {
	ID     uuid.UUID      `json:"id"`
	At     time.Time      `json:"at"`
	Actor  string         `json:"actor"`
	Action string         `json:"action"`
	Target string         `json:"target"`
	Detail map[string]any `json:"detail,omitempty"`
}

// Identity describes the caller.
type Identity struct {
	Tenant      uuid.UUID                 `json:"tenant_id"`
	Key         uuid.UUID                 `json:"key_id"`
	Name        string                    `json:"name"`
	Scopes      []schema.Scope            `json:"scopes" doc:"Of the tenant."`
	Collections []schema.CollectionScopes `json:"collections,omitempty" doc:"Scopes of single collections, beside those of the tenant."`
	Groups      []string                  `json:"groups,omitempty"`
	Person      string                    `json:"person,omitempty" doc:"For whom the key calls."`
	// TraceURL is the address of a trace, with {trace} in place of the trace's id.
	TraceURL string `json:"trace_url,omitempty"`
}

// Problem is an error as RFC 9457 defines it (application/problem+json).
type Problem struct {
	Status int             `json:"status"`
	Title  string          `json:"title"`
	Detail string          `json:"detail,omitempty"`
	Errors []ProblemDetail `json:"errors,omitempty"`
}

// ProblemDetail names one wrong field.
type ProblemDetail struct {
	Message  string `json:"message"`
	Location string `json:"location,omitempty"`
}

func (p *Problem) Error() string {
	text := p.Detail
	if text == "" {
		text = p.Title
	}
	for _, e := range p.Errors {
		if strings.Contains(text, e.Message) { // the detail contains it already
			continue
		}
		text += "; "
		if e.Location != "" {
			text += e.Location + ": "
		}
		text += e.Message
	}
	return text
}
