package apiserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"

	"github.com/sluice-rag/sluice/internal/auth"
	"github.com/sluice-rag/sluice/internal/bus"
	"github.com/sluice-rag/sluice/internal/documents"
	"github.com/sluice-rag/sluice/internal/httpapi"
	"github.com/sluice-rag/sluice/internal/signature"
	"github.com/sluice-rag/sluice/internal/store"
	storedocuments "github.com/sluice-rag/sluice/internal/store/documents"
	"github.com/sluice-rag/sluice/internal/store/ledger"
	"github.com/sluice-rag/sluice/internal/store/questions"
	"github.com/sluice-rag/sluice/internal/store/tenants"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// documentAPI adapts the document store to httpapi.Documents.
type documentAPI struct {
	*storedocuments.DocumentStore
	*documents.Uploads
}

// OpenContent implements httpapi.Documents.
func (d documentAPI) OpenContent(ctx context.Context, p schema.Principal, id, version uuid.UUID) (httpapi.Content, error) {
	blob, mediaType, err := d.DocumentStore.OpenContent(ctx, p, id, version)
	if err != nil {
		return httpapi.Content{}, translateBlobError(ctx, err)
	}
	return httpapi.Content{ReadCloser: blob, MediaType: mediaType, Bytes: blob.Size()}, nil
}

// Upload implements httpapi.Documents.
func (d documentAPI) Upload(ctx context.Context, p schema.Principal, collection uuid.UUID, uploads []schema.Upload) ([]schema.Uploaded, error) {
	done, err := d.Uploads.Upload(ctx, p, collection, uploads)
	return done, translateBlobError(ctx, err)
}

var errBlobsUnavailable = fmt.Errorf("the blob storage does not answer; try again: %w", schema.ErrUnavailable)

// translateBlobError logs an error of S3, and returns one without its details.
func translateBlobError(ctx context.Context, err error) error {
	var of *store.ObjectsUnavailableError
	if !errors.As(err, &of) {
		return err
	}
	slog.WarnContext(ctx, "cannot reach the blob storage", "error", err)
	return errBlobsUnavailable
}

// tenantAPI creates, revokes and rotates keys through auth; everything else is read from the store.
type tenantAPI struct {
	*tenants.TenantStore
	*ledger.LedgerStore
	auth        *auth.Auth
	tenantCache *tenantCache
}

// CreateTenant implements httpapi.Tenants.
func (t tenantAPI) CreateTenant(ctx context.Context, p schema.Principal, n schema.NewTenant) (schema.Tenant, string, error) {
	return t.auth.CreateTenant(ctx, p, n)
}

// CreateKey implements httpapi.Tenants.
func (t tenantAPI) CreateKey(ctx context.Context, p schema.Principal, k schema.NewKey) (schema.Key, string, error) {
	return t.auth.CreateKey(ctx, p, k)
}

// RevokeKey implements httpapi.Tenants.
func (t tenantAPI) RevokeKey(ctx context.Context, p schema.Principal, id uuid.UUID) error {
	err := t.auth.RevokeKey(ctx, p, id)
	if err == nil {
		t.tenantCache.changed(ctx, p.Tenant)
	}
	return err
}

// RotateKey implements httpapi.Tenants.
func (t tenantAPI) RotateKey(ctx context.Context, p schema.Principal, id uuid.UUID, overlap time.Duration) (schema.Key, string, error) {
	next, key, err := t.auth.RotateKey(ctx, p, id, overlap)
	if err == nil {
		t.tenantCache.changed(ctx, p.Tenant)
	}
	return next, key, err
}

// questionAPI sends questions to the query workers; jobs are kept in the store.
type questionAPI struct {
	*questions.QuestionStore
	nats    *nats.Conn
	workers *bus.Workers
	signer  *signature.Signer
	plans   planAPI
	// waiting ends when the server stops and requests that wait for an answer have had their time.
	waiting context.Context
}

func deadline(ctx context.Context) time.Time {
	d, _ := ctx.Deadline()
	return d
}

// Search implements httpapi.Questions.
func (a questionAPI) Search(ctx context.Context, p schema.Principal, q schema.Query) (schema.SearchResult, error) {
	plan, err := a.plans.resolve(ctx, p, q)
	if err != nil {
		return schema.SearchResult{}, err
	}
	q.Plan, q.PlanText = plan.name, plan.text
	ctx, cancel := a.waitContext(ctx)
	defer cancel()
	request := wire.SearchRequest{Envelope: wire.Header(), SearchQuery: wire.SearchQuery{Principal: p, Query: q}, Deadline: deadline(ctx)}
	reply, err := bus.Route(a.workers, wire.SearchSubject, q.Collection, func(at string) (wire.SearchReply, error) {
		return bus.Request[wire.SearchReply](ctx, a.nats, at, request, bus.SignedBy(a.signer))
	})
	if err != nil {
		return schema.SearchResult{}, clientError(ctx, err)
	}
	if reply.Error != nil {
		return schema.SearchResult{}, reply.Error
	}
	reply.PlanNote = plan.note
	return reply.SearchResult, nil
}

// create stores a question. A question that names an unknown plan is refused before it is stored.
// note says why the plan isn't the collection's.
func (a questionAPI) create(ctx context.Context, p schema.Principal, q schema.Query, async bool) (_ schema.Job, note string, _ error) {
	plan, err := a.plans.resolve(ctx, p, q)
	if err != nil {
		return schema.Job{}, "", err
	}
	q.Plan, q.PlanText = plan.name, plan.text
	job, err := a.CreateQuestion(ctx, p, questions.NewQuestion{Query: q, Async: async, Until: deadline(ctx), Trace: bus.Traceparent(ctx)})
	return job, plan.note, err
}

// StartJob implements httpapi.Questions.
func (a questionAPI) StartJob(ctx context.Context, p schema.Principal, q schema.Query) (schema.Job, error) {
	job, _, err := a.create(ctx, p, q, true)
	return job, err
}
