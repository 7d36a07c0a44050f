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
	// Authenticate returns who holds key; schema.ErrUnauthorized when no one.
	Authenticate(ctx context.Context, key string) (schema.Principal, error)
}

// Collections keeps collections. Every method sees the principal's tenant
// alone; what is not there gives schema.ErrNotFound. A ref is an id or a name.
// Lists return the cursor of the next page, empty on the last.
type Collections interface {
	ResolveCollection(ctx context.Context, p schema.Principal, ref string) (uuid.UUID, error)
	Collection(ctx context.Context, p schema.Principal, ref string) (schema.Collection, error)
	Collections(ctx context.Context, p schema.Principal, q schema.PageQuery) ([]schema.Collection, string, error)
	CreateCollection(ctx context.Context, p schema.Principal, c schema.NewCollection) (schema.Collection, error)
	UpdateCollection(ctx context.Context, p schema.Principal, id uuid.UUID, c schema.CollectionChange) (schema.Collection, error)
	DeleteCollection(ctx context.Context, p schema.Principal, id uuid.UUID) error
}

// Reparses parses documents again from the bytes that are stored.
type Reparses interface {
	// StartReparse returns the run that is under way, or begins one.
	StartReparse(ctx context.Context, p schema.Principal, collection uuid.UUID) (schema.Reparse, error)
	// Reparse returns the newest one.
	Reparse(ctx context.Context, p schema.Principal, collection uuid.UUID) (schema.Reparse, error)
	CancelReparse(ctx context.Context, p schema.Principal, collection uuid.UUID) (schema.Reparse, error)
}

// Rebuilds makes collections anew from what is stored.
type Rebuilds interface {
	// StartRebuild returns the rebuild of the same recipe that is under way, or
	// begins one; schema.ErrConflict while one of another recipe is.
	StartRebuild(ctx context.Context, p schema.Principal, collection uuid.UUID, n schema.NewRebuild) (schema.Rebuild, error)
	// Rebuild returns the newest one.
	Rebuild(ctx context.Context, p schema.Principal, collection uuid.UUID) (schema.Rebuild, error)
	CancelRebuild(ctx context.Context, p schema.Principal, collection uuid.UUID) (schema.Rebuild, error)
	// Recluster asks for the clusters of a collection to be made anew, of so many
	// tokens at most; 0: as many as before.
	Recluster(ctx context.Context, p schema.Principal, collection uuid.UUID, tokens int) error
}

// Documents keeps documents.
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
	// DocumentText reads the sections of a document as they were cut.
	DocumentText(ctx context.Context, p schema.Principal, id uuid.UUID, q schema.TextQuery) ([]schema.DocumentSection, string, error)
	// TextPlace says where bytes of a section stand on the document's pages.
	TextPlace(ctx context.Context, p schema.Principal, id uuid.UUID, q schema.PlaceQuery) (schema.Place, error)
	// OpenContent reads the bytes of a document's version; of the newest one for
	// uuid.Nil.
	OpenContent(ctx context.Context, p schema.Principal, id, version uuid.UUID) (Content, error)
}

// Content is a document's bytes.
type Content struct {
	io.ReadCloser
	MediaType string
	Bytes     int64
}

// Progress tells of a question that is being answered; one of the three is set.
type Progress struct {
	// Question is what it is stored as. It is told before all else.
	Question uuid.UUID
	Stage    *api.StageEvent
	Delta    *api.DeltaEvent
}

// Plans are the retrieval plans: those of the server, and those of the tenant's
// own, whose names are not the server's.
type Plans interface {
	// Plans lists them by name.
	Plans(ctx context.Context, p schema.Principal, q schema.PageQuery) ([]schema.Plan, string, error)
	// Plan returns one with its text.
	Plan(ctx context.Context, p schema.Principal, name string) (schema.Plan, error)
	// PutPlan stores one of the tenant's own, in the place of the one before.
	PutPlan(ctx context.Context, p schema.Principal, name, text string) (schema.Plan, error)
	DeletePlan(ctx context.Context, p schema.Principal, name string) error
	// CheckPlan reads a plan and says what is wrong with it as a FieldError that
	// names the plan's field.
	CheckPlan(text string) (schema.Plan, error)
}

// Questions searches, answers and keeps jobs. Groups of the principal decide
// what is found.
type Questions interface {
	Search(ctx context.Context, p schema.Principal, q schema.Query) (schema.SearchResult, error)
	// Ask answers now. tell, unless it is nil, gets the progress in order; it does
	// not block. What it told does not count: the answer does.
	Ask(ctx context.Context, p schema.Principal, q schema.Query, tell func(Progress)) (schema.Answer, error)
	StartJob(ctx context.Context, p schema.Principal, q schema.Query) (schema.Job, error)
	// AskedQuestions lists what was asked, as jobs or not, newest first; of one
	// collection, or of all of them for uuid.Nil.
	AskedQuestions(ctx context.Context, p schema.Principal, collection uuid.UUID, q schema.PageQuery) ([]schema.AskedQuestion, string, error)
	AskedQuestion(ctx context.Context, p schema.Principal, id uuid.UUID) (schema.AskedQuestion, error)
	ListJobs(ctx context.Context, p schema.Principal, q schema.PageQuery) ([]schema.Job, string, error)
	Job(ctx context.Context, p schema.Principal, id uuid.UUID) (schema.Job, error)
	// SourcesHidden tells whether p may not see all that was read for a question by
	// now.
	SourcesHidden(ctx context.Context, p schema.Principal, question uuid.UUID) (bool, error)
	// FollowJob returns a channel that has something after a change of a job that
	// may exist, until ctx ends. It may miss one and may tell of none: Job says
	// what is. tell gets what there is so far of the answer while it is made; it
	// does not block.
	FollowJob(ctx context.Context, p schema.Principal, id uuid.UUID, tell func(text string)) (<-chan struct{}, error)
	CancelJob(ctx context.Context, p schema.Principal, id uuid.UUID) (schema.Job, error)
}

// Receipts makes signed receipts of stored answers.
type Receipts interface {
	// Receipt returns that of a question's answer, as it is served. An answer that p may not read
	// now gives schema.ErrForbidden, a question without one schema.ErrConflict.
	Receipt(ctx context.Context, p schema.Principal, question uuid.UUID) ([]byte, error)
	// ReceiptKeys are the public keys by which receipts are checked.
	ReceiptKeys(ctx context.Context) (api.ReceiptKeys, error)
}

// Webhooks keeps what tells tenants' servers of events. Secrets are returned
// once.
type Webhooks interface {
	CreateWebhook(ctx context.Context, p schema.Principal, n schema.NewWebhook) (schema.Webhook, string, error)
	Webhooks(ctx context.Context, p schema.Principal, q schema.PageQuery) ([]schema.Webhook, string, error)
	// RotateWebhook makes another secret; the one before signs, too, for a day.
	RotateWebhook(ctx context.Context, p schema.Principal, id uuid.UUID) (schema.Webhook, string, error)
	DeleteWebhook(ctx context.Context, p schema.Principal, id uuid.UUID) error
	// WebhookDeliveries lists those of a state; an empty one is any.
	WebhookDeliveries(ctx context.Context, p schema.Principal, webhook uuid.UUID, state schema.DeliveryState, q schema.PageQuery) ([]schema.WebhookDelivery, string, error)
	// ReplayDelivery has one that is over sent again; schema.ErrConflict while it
	// waits.
	ReplayDelivery(ctx context.Context, p schema.Principal, webhook, id uuid.UUID) (schema.WebhookDelivery, error)
}

// Tenants keeps tenants, their keys and what they did.
type Tenants interface {
	LLMAccounts
	// CreateTenant also makes an admin key, returned this once.
	CreateTenant(ctx context.Context, p schema.Principal, t schema.NewTenant) (schema.Tenant, string, error)
	Tenants(ctx context.Context, q schema.PageQuery) ([]schema.Tenant, string, error)
	Tenant(ctx context.Context, id uuid.UUID) (schema.Tenant, error)
	// Storage is what a tenant has stored.
	Storage(ctx context.Context, tenant uuid.UUID) (schema.Storage, error)
	// SetQuotas replaces both quotas; nil is no limit.
	SetQuotas(ctx context.Context, p schema.Principal, tenant uuid.UUID, maxDocuments, maxBytes *int64) (schema.Tenant, error)
	// CreateKey returns the key this once.
	CreateKey(ctx context.Context, p schema.Principal, k schema.NewKey) (schema.Key, string, error)
	Keys(ctx context.Context, p schema.Principal, q schema.PageQuery) ([]schema.Key, string, error)
	// NameCollections leaves out those that were deleted.
	NameCollections(ctx context.Context, tenant uuid.UUID, scopes []schema.CollectionScopes) ([]schema.CollectionScopes, error)
	RevokeKey(ctx context.Context, p schema.Principal, id uuid.UUID) error
	// RotateKey returns a key in place of another, which is good for the overlap.
	RotateKey(ctx context.Context, p schema.Principal, id uuid.UUID, overlap time.Duration) (schema.Key, string, error)
}

// AuditLog tells who changed and who read what.
type AuditLog interface {
	Audit(ctx context.Context, p schema.Principal, q schema.AuditQuery) ([]schema.AuditEntry, string, error)
	Reads(ctx context.Context, tenant uuid.UUID, q schema.AuditQuery) ([]schema.AuditRead, string, error)
	// AuditLines returns entries of a chain after one, in its order.
	AuditLines(ctx context.Context, tenant uuid.UUID, chain schema.AuditChain, after int64, limit int) ([]schema.AuditLine, error)
	// VerifyAudit tells the first place where a chain is not whole.
	VerifyAudit(ctx context.Context, tenant uuid.UUID, chain schema.AuditChain) (schema.AuditVerdict, error)
}

// Idempotency keeps replies, so that a repeated POST gets the first one's.
type Idempotency interface {
	// Once runs act for the first request with key and keeps its reply, together
	// with all that act did under its context or not at all; no reply undoes what
	// act did. act may run several times, and the last one counts. An equal request
	// later gets the reply kept, and nil of it means that act ran.
	// schema.ErrInProgress means that an equal request runs, schema.ErrConflict that
	// key was used for another.
	Once(ctx context.Context, p schema.Principal, key, route string, hash []byte,
		act func(context.Context) *schema.Reply) (*schema.Reply, error)
}
