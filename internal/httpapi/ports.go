package httpapi

import (
	"context"
	"io"
	"time"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
)

// Authenticator resolves API keys.
type Authenticator interface {
	// Authenticate returns the principal of key; schema.ErrUnauthorized if there is none.
	Authenticate(ctx context.Context, key string) (schema.Principal, error)
}

// Collections stores collections. Every method sees only the principal's tenant; a missing
// collection is schema.ErrNotFound. A ref is an id or a name. Lists return the cursor of the next
// page, empty on the last.
type Collections interface {
	ResolveCollection(ctx context.Context, p schema.Principal, ref string) (uuid.UUID, error)
	Collection(ctx context.Context, p schema.Principal, ref string) (schema.Collection, error)
	Collections(ctx context.Context, p schema.Principal, q schema.PageQuery) ([]schema.Collection, string, error)
	CreateCollection(ctx context.Context, p schema.Principal, c schema.NewCollection) (schema.Collection, error)
	UpdateCollection(ctx context.Context, p schema.Principal, id uuid.UUID, c schema.CollectionChange) (schema.Collection, error)
	DeleteCollection(ctx context.Context, p schema.Principal, id uuid.UUID) error
}

// Reparses parses documents again from their stored bytes.
type Reparses interface {
	// StartReparse returns the running reparse, or starts one.
	StartReparse(ctx context.Context, p schema.Principal, collection uuid.UUID) (schema.Reparse, error)
	// Reparse returns the newest reparse.
	Reparse(ctx context.Context, p schema.Principal, collection uuid.UUID) (schema.Reparse, error)
	CancelReparse(ctx context.Context, p schema.Principal, collection uuid.UUID) (schema.Reparse, error)
}

// Rebuilds rebuilds collections from what is stored.
type Rebuilds interface {
	// StartRebuild returns the running rebuild of the same recipe, or starts one. It returns
	// schema.ErrConflict while a rebuild of another recipe is running.
	StartRebuild(ctx context.Context, p schema.Principal, collection uuid.UUID, n schema.NewRebuild) (schema.Rebuild, error)
	// Rebuild returns the newest rebuild.
	Rebuild(ctx context.Context, p schema.Principal, collection uuid.UUID) (schema.Rebuild, error)
	CancelRebuild(ctx context.Context, p schema.Principal, collection uuid.UUID) (schema.Rebuild, error)
	// Recluster requests new clusters of a collection, with at most tokens tokens each; 0: as
	// before.
	Recluster(ctx context.Context, p schema.Principal, collection uuid.UUID, tokens int) error
}

// Documents stores documents.
type Documents interface {
	Upload(ctx context.Context, p schema.Principal, collection uuid.UUID, uploads []schema.Upload) ([]schema.Uploaded, error)
	Compare(ctx context.Context, p schema.Principal, collection uuid.UUID, known []schema.Known) (schema.Comparison, error)
	Documents(ctx context.Context, p schema.Principal, collection uuid.UUID, q schema.DocumentQuery) ([]schema.Document, string, error)
	Document(ctx context.Context, p schema.Principal, id uuid.UUID) (schema.Document, error)
	DocumentNamed(ctx context.Context, p schema.Principal, collection uuid.UUID, externalID string) (schema.Document, error)
	Versions(ctx context.Context, p schema.Principal, document uuid.UUID) ([]schema.Version, error)
	UpdateDocument(ctx context.Context, p schema.Principal, id uuid.UUID, c schema.DocumentChange) (schema.Document, error)
	DeleteDocument(ctx context.Context, p schema.Principal, id uuid.UUID) error
	RetryDocument(ctx context.Context, p schema.Principal, id uuid.UUID) (schema.Document, error)
	RetryFailed(ctx context.Context, p schema.Principal, collection uuid.UUID) (int, error)
	// DocumentText returns the sections of a document.
	DocumentText(ctx context.Context, p schema.Principal, id uuid.UUID, q schema.TextQuery) ([]schema.DocumentSection, string, error)
	// TextPlace returns the position of a section's bytes on the document's pages.
	TextPlace(ctx context.Context, p schema.Principal, id uuid.UUID, q schema.PlaceQuery) (schema.Place, error)
	// OpenContent opens the bytes of a document's version; uuid.Nil is the newest one.
	OpenContent(ctx context.Context, p schema.Principal, id, version uuid.UUID) (Content, error)
}

// Content is a document's bytes.
type Content struct {
	io.ReadCloser
	MediaType string
	Bytes     int64
}

// Progress is a step in answering a question. One of its three fields is set.
type Progress struct {
	// Question is the id of the stored question. It is reported first.
	Question uuid.UUID
	Stage    *api.StageEvent
	Delta    *api.DeltaEvent
}

// Plans are the retrieval plans: those of the server, and those of the tenant, whose names differ
// from the server's.
type Plans interface {
	// Plans lists plans by name.
	Plans(ctx context.Context, p schema.Principal, q schema.PageQuery) ([]schema.Plan, string, error)
	// Plan returns a plan with its text.
	Plan(ctx context.Context, p schema.Principal, name string) (schema.Plan, error)
	// PutPlan stores a plan of the tenant, and replaces the one of that name.
	PutPlan(ctx context.Context, p schema.Principal, name, text string) (schema.Plan, error)
	DeletePlan(ctx context.Context, p schema.Principal, name string) error
	// CheckPlan parses a plan. Its error is a FieldError that names the plan's invalid field.
	CheckPlan(text string) (schema.Plan, error)
}

// Questions searches, answers questions and keeps jobs. The principal's groups decide what is
// found.
type Questions interface {
	Search(ctx context.Context, p schema.Principal, q schema.Query) (schema.SearchResult, error)
	// Ask answers now. progress, unless nil, is called with the progress in order; it does not
	// block. Only the returned answer counts.
	Ask(ctx context.Context, p schema.Principal, q schema.Query, progress func(Progress)) (schema.Answer, error)
	StartJob(ctx context.Context, p schema.Principal, q schema.Query) (schema.Job, error)
	// AskedQuestions lists questions, jobs included, newest first, of one collection, or of all for
	// uuid.Nil.
	AskedQuestions(ctx context.Context, p schema.Principal, collection uuid.UUID, q schema.PageQuery) ([]schema.AskedQuestion, string, error)
	AskedQuestion(ctx context.Context, p schema.Principal, id uuid.UUID) (schema.AskedQuestion, error)
	ListJobs(ctx context.Context, p schema.Principal, q schema.PageQuery) ([]schema.Job, string, error)
	Job(ctx context.Context, p schema.Principal, id uuid.UUID) (schema.Job, error)
	// SourcesHidden reports whether p may not see everything that has been read for a question so
	// far.
	SourcesHidden(ctx context.Context, p schema.Principal, question uuid.UUID) (bool, error)
	// FollowJob returns a channel that signals changes of a job, until ctx ends. It may miss
	// changes and may signal without one: call Job for the state. onText gets the answer's text so
	// far while it is made; it does not block.
	FollowJob(ctx context.Context, p schema.Principal, id uuid.UUID, onText func(text string)) (<-chan struct{}, error)
	CancelJob(ctx context.Context, p schema.Principal, id uuid.UUID) (schema.Job, error)
}

// Receipts makes signed receipts of stored answers.
type Receipts interface {
	// Receipt returns the receipt of a question's answer, as it is served. It returns
	// schema.ErrForbidden if p may not read the answer now, schema.ErrConflict if the question has
	// none.
	Receipt(ctx context.Context, p schema.Principal, question uuid.UUID) ([]byte, error)
	// ReceiptKeys returns the public keys that verify receipts.
	ReceiptKeys(ctx context.Context) (api.ReceiptKeys, error)
}

// Webhooks stores the webhooks of tenants. A secret is returned only once.
type Webhooks interface {
	CreateWebhook(ctx context.Context, p schema.Principal, n schema.NewWebhook) (schema.Webhook, string, error)
	Webhooks(ctx context.Context, p schema.Principal, q schema.PageQuery) ([]schema.Webhook, string, error)
	// RotateWebhook makes a new secret. The old one signs, too, for a day.
	RotateWebhook(ctx context.Context, p schema.Principal, id uuid.UUID) (schema.Webhook, string, error)
	DeleteWebhook(ctx context.Context, p schema.Principal, id uuid.UUID) error
	// WebhookDeliveries lists the deliveries in a state; an empty state is any.
	WebhookDeliveries(ctx context.Context, p schema.Principal, webhook uuid.UUID, state schema.DeliveryState, q schema.PageQuery) ([]schema.WebhookDelivery, string, error)
	// ReplayDelivery sends a finished delivery again; schema.ErrConflict while it is waiting.
	ReplayDelivery(ctx context.Context, p schema.Principal, webhook, id uuid.UUID) (schema.WebhookDelivery, error)
}

// Tenants stores tenants and their keys.
type Tenants interface {
	LLMAccounts
	// CreateTenant also makes an admin key, which is returned only here.
	CreateTenant(ctx context.Context, p schema.Principal, t schema.NewTenant) (schema.Tenant, string, error)
	Tenants(ctx context.Context, q schema.PageQuery) ([]schema.Tenant, string, error)
	Tenant(ctx context.Context, id uuid.UUID) (schema.Tenant, error)
	// Storage returns what a tenant has stored.
	Storage(ctx context.Context, tenant uuid.UUID) (schema.Storage, error)
	// SetQuotas replaces both quotas; nil is no limit.
	SetQuotas(ctx context.Context, p schema.Principal, tenant uuid.UUID, maxDocuments, maxBytes *int64) (schema.Tenant, error)
	// CreateKey returns the secret key, only here.
	CreateKey(ctx context.Context, p schema.Principal, k schema.NewKey) (schema.Key, string, error)
	Keys(ctx context.Context, p schema.Principal, q schema.PageQuery) ([]schema.Key, string, error)
	// NameCollections adds the names of collections, and leaves out deleted ones.
	NameCollections(ctx context.Context, tenant uuid.UUID, scopes []schema.CollectionScopes) ([]schema.CollectionScopes, error)
	RevokeKey(ctx context.Context, p schema.Principal, id uuid.UUID) error
	// RotateKey returns a new key in place of another one. The old key stays valid for overlap.
	RotateKey(ctx context.Context, p schema.Principal, id uuid.UUID, overlap time.Duration) (schema.Key, string, error)
}

// AuditLog returns who changed what and who read what.
type AuditLog interface {
	Audit(ctx context.Context, p schema.Principal, q schema.AuditQuery) ([]schema.AuditEntry, string, error)
	Reads(ctx context.Context, tenant uuid.UUID, q schema.AuditQuery) ([]schema.AuditRead, string, error)
	// AuditLines returns at most limit entries of a chain with numbers above after, in order.
	AuditLines(ctx context.Context, tenant uuid.UUID, chain schema.AuditChain, after int64, limit int) ([]schema.AuditLine, error)
	// VerifyAudit returns the first place where a chain is broken.
	VerifyAudit(ctx context.Context, tenant uuid.UUID, chain schema.AuditChain) (schema.AuditVerdict, error)
}

// Idempotency stores replies, so that a repeated POST gets the first one's reply.
type Idempotency interface {
	// Once runs act for the first request with key, and stores its reply in one transaction with
	// all that act did under its context. If act returns nil, what it did is undone. act may run
	// several times; the last run counts. A later equal request gets the stored reply; a nil reply
	// means that act ran. schema.ErrInProgress means that an equal request is running,
	// schema.ErrConflict that key was used for another request.
	Once(ctx context.Context, p schema.Principal, key, route string, hash []byte,
		act func(context.Context) *schema.Reply) (*schema.Reply, error)
}
