package apiclient

import (
	"context"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
)

func get[T any](ctx context.Context, c *Client, path string, query url.Values) (T, error) {
	var out T
	return out, c.json(ctx, http.MethodGet, path, query, nil, &out)
}

func post[T any](ctx context.Context, c *Client, path string, in any) (T, error) {
	var out T
	return out, c.json(ctx, http.MethodPost, path, nil, in, &out)
}

// pages iterates over a list to its end.
func pages[T any](ctx context.Context, c *Client, path string, query url.Values) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		if query == nil {
			query = url.Values{}
		}
		query.Set("limit", "500")
		for {
			page, err := get[api.Page[T]](ctx, c, path, query)
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, item := range page.Items {
				if !yield(item, nil) {
					return
				}
			}
			if page.Next == "" {
				return
			}
			query.Set("cursor", page.Next)
		}
	}
}

func collectionPath(collection string) string { return "/v1/collections/" + url.PathEscape(collection) }

func documentPath(id uuid.UUID) string { return "/v1/documents/" + id.String() }

// Answers makes one request, without retries, and returns its error.
func (c *Client) Answers(ctx context.Context) error {
	_, err := c.once(ctx, call{method: http.MethodGet, path: "/v1/whoami", header: http.Header{}}, nil)
	return err
}

// WhoAmI returns the identity of the client's key.
func (c *Client) WhoAmI(ctx context.Context) (api.Identity, error) {
	return get[api.Identity](ctx, c, "/v1/whoami", nil)
}

// Collections lists collections.
func (c *Client) Collections(ctx context.Context) iter.Seq2[schema.Collection, error] {
	return pages[schema.Collection](ctx, c, "/v1/collections", nil)
}

// Collection returns a collection by name or id.
func (c *Client) Collection(ctx context.Context, name string) (schema.Collection, error) {
	return get[schema.Collection](ctx, c, collectionPath(name), nil)
}

// CreateCollection makes a collection.
func (c *Client) CreateCollection(ctx context.Context, n api.NewCollection) (schema.Collection, error) {
	return post[schema.Collection](ctx, c, "/v1/collections", n)
}

// ChangeCollection changes a collection.
func (c *Client) ChangeCollection(ctx context.Context, name string, change api.CollectionChange) (schema.Collection, error) {
	var out schema.Collection
	return out, c.json(ctx, http.MethodPatch, collectionPath(name), nil, change, &out)
}

// DeleteCollection deletes a collection.
func (c *Client) DeleteCollection(ctx context.Context, name string) error {
	return c.json(ctx, http.MethodDelete, collectionPath(name), nil, nil, nil)
}

// RetryCollection queues all failed documents of a collection again.
func (c *Client) RetryCollection(ctx context.Context, name string) (api.Retried, error) {
	return post[api.Retried](ctx, c, collectionPath(name)+"/retry", struct{}{})
}

// StartRebuild starts a rebuild of a collection.
func (c *Client) StartRebuild(ctx context.Context, collection string, n api.NewRebuild) (schema.Rebuild, error) {
	return post[schema.Rebuild](ctx, c, collectionPath(collection)+"/rebuild", n)
}

// Rebuild returns a collection's newest rebuild.
func (c *Client) Rebuild(ctx context.Context, collection string) (schema.Rebuild, error) {
	return get[schema.Rebuild](ctx, c, collectionPath(collection)+"/rebuild", nil)
}

// StartReparse starts parsing a collection's documents again.
func (c *Client) StartReparse(ctx context.Context, collection string) (schema.Reparse, error) {
	return post[schema.Reparse](ctx, c, collectionPath(collection)+"/reparse", nil)
}

// Reparse returns the newest run that parsed a collection's documents again.
func (c *Client) Reparse(ctx context.Context, collection string) (schema.Reparse, error) {
	return get[schema.Reparse](ctx, c, collectionPath(collection)+"/reparse", nil)
}

// CancelReparse cancels parsing a collection's documents again.
func (c *Client) CancelReparse(ctx context.Context, collection string) (schema.Reparse, error) {
	var out schema.Reparse
	return out, c.json(ctx, http.MethodDelete, collectionPath(collection)+"/reparse", nil, nil, &out)
}

// CancelRebuild cancels a collection's rebuild.
func (c *Client) CancelRebuild(ctx context.Context, collection string) (schema.Rebuild, error) {
	var out schema.Rebuild
	return out, c.json(ctx, http.MethodDelete, collectionPath(collection)+"/rebuild", nil, nil, &out)
}

// Recluster requests new clusters of a collection.
func (c *Client) Recluster(ctx context.Context, collection string, n api.NewClusters) error {
	return c.json(ctx, http.MethodPost, collectionPath(collection)+"/recluster", nil, n, nil)
}

// Compare asks the server which documents need uploading.
func (c *Client) Compare(ctx context.Context, collection string, documents []api.Fingerprint) (api.CompareResult, error) {
	return post[api.CompareResult](ctx, c, collectionPath(collection)+"/documents/compare", api.Compare{Documents: documents})
}

// Upload uploads several documents in one request.
func (c *Client) Upload(ctx context.Context, collection string, documents []api.NewDocument) ([]api.Uploaded, error) {
	out, err := post[api.UploadResult](ctx, c, collectionPath(collection)+"/documents", api.Upload{Documents: documents})
	return out.Documents, err
}

// File is a file to upload alone.
type File struct {
	ExternalID string
	FileName   string
	Title      string
	MediaType  string
	Labels     []string
	Metadata   string // JSON
	SHA256     string // hex
	Bytes      int64
	Open       func() (io.ReadCloser, error)
}

// UploadFile streams one file.
func (c *Client) UploadFile(ctx context.Context, collection string, f File) (api.Uploaded, error) {
	query := url.Values{"external_id": {f.ExternalID}, "file_name": {f.FileName}, "label": f.Labels}
	for name, value := range map[string]string{"title": f.Title, "sha256": f.SHA256} {
		if value != "" {
			query.Set(name, value)
		}
	}
	if f.Metadata != "" {
		query.Set("metadata", f.Metadata)
	}
	header := http.Header{"Content-Type": {"application/octet-stream"}}
	if f.MediaType != "" {
		header.Set("Content-Type", f.MediaType)
	}
	var out api.Uploaded
	return out, c.do(ctx, call{method: http.MethodPut, path: collectionPath(collection) + "/content",
		query: query, header: header, body: f.Open, size: f.Bytes}, &out)
}

// Documents lists a collection's documents; state and prefix may be empty.
func (c *Client) Documents(ctx context.Context, collection string, state schema.State, prefix string) iter.Seq2[schema.Document, error] {
	query := url.Values{}
	if state != "" {
		query.Set("state", string(state))
	}
	if prefix != "" {
		query.Set("prefix", prefix)
	}
	return pages[schema.Document](ctx, c, collectionPath(collection)+"/documents", query)
}

// DocumentNamed returns a collection's document by its external id.
func (c *Client) DocumentNamed(ctx context.Context, collection, externalID string) (schema.Document, error) {
	page, err := get[api.Page[schema.Document]](ctx, c, collectionPath(collection)+"/documents", url.Values{"external_id": {externalID}})
	if err != nil {
		return schema.Document{}, err
	}
	if len(page.Items) == 0 {
		return schema.Document{}, schema.ErrNotFound
	}
	return page.Items[0], nil
}

// Document returns a document with its versions.
func (c *Client) Document(ctx context.Context, id uuid.UUID) (api.DocumentDetail, error) {
	return get[api.DocumentDetail](ctx, c, documentPath(id), nil)
}

// Sections lists the sections of a document's live version.
func (c *Client) Sections(ctx context.Context, document uuid.UUID) iter.Seq2[schema.DocumentSection, error] {
	return pages[schema.DocumentSection](ctx, c, documentPath(document)+"/sections", url.Values{})
}

// TextPage selects a page of a document's text; empty fields are ignored.
type TextPage struct {
	Version, Section, Cursor string
	Limit                    int
}

// SectionPage returns a page of a document's text.
func (c *Client) SectionPage(ctx context.Context, document uuid.UUID, p TextPage) (api.Page[schema.DocumentSection], error) {
	query := url.Values{"limit": {strconv.Itoa(p.Limit)}}
	for name, value := range map[string]string{"version": p.Version, "section": p.Section, "cursor": p.Cursor} {
		if value != "" {
			query.Set(name, value)
		}
	}
	return get[api.Page[schema.DocumentSection]](ctx, c, documentPath(document)+"/sections", query)
}

// DocumentPage returns a page of a collection's documents in a state.
func (c *Client) DocumentPage(ctx context.Context, collection string, state schema.State, cursor string) (api.Page[schema.Document], error) {
	query := url.Values{"state": {string(state)}}
	if cursor != "" {
		query.Set("cursor", cursor)
	}
	return get[api.Page[schema.Document]](ctx, c, collectionPath(collection)+"/documents", query)
}

// ChangeDocument changes a document's labels or metadata; nil fields stay as they are.
func (c *Client) ChangeDocument(ctx context.Context, id uuid.UUID, change api.DocumentChange) (schema.Document, error) {
	var out schema.Document
	return out, c.json(ctx, http.MethodPatch, documentPath(id), nil, change, &out)
}

// RetryDocument queues a failed document again.
func (c *Client) RetryDocument(ctx context.Context, id uuid.UUID) (schema.Document, error) {
	return post[schema.Document](ctx, c, documentPath(id)+"/retry", struct{}{})
}

// DeleteDocument deletes a document.
func (c *Client) DeleteDocument(ctx context.Context, id uuid.UUID) error {
	return c.json(ctx, http.MethodDelete, documentPath(id), nil, nil, nil)
}

// Search finds passages.
func (c *Client) Search(ctx context.Context, q api.Query) (api.SearchResult, error) {
	return post[api.SearchResult](ctx, c, "/v1/search", q)
}

// Plans lists the retrieval plans.
func (c *Client) Plans(ctx context.Context) ([]schema.Plan, error) {
	var out []schema.Plan
	for p, err := range pages[schema.Plan](ctx, c, "/v1/plans", nil) {
		if err != nil {
			return out, err
		}
		out = append(out, p)
	}
	return out, nil
}

// Plan returns a plan with its text.
func (c *Client) Plan(ctx context.Context, name string) (schema.Plan, error) {
	return get[schema.Plan](ctx, c, planPath(name), nil)
}

// PutPlan stores a plan of the tenant.
func (c *Client) PutPlan(ctx context.Context, name, yaml string) (schema.Plan, error) {
	var out schema.Plan
	return out, c.json(ctx, http.MethodPut, planPath(name), nil, api.PlanText{Plan: yaml}, &out)
}

// DeletePlan deletes a plan of the tenant.
func (c *Client) DeletePlan(ctx context.Context, name string) error {
	return c.json(ctx, http.MethodDelete, planPath(name), nil, nil, nil)
}

func planPath(name string) string { return "/v1/plans/" + url.PathEscape(name) }

// CheckPlan has the server check a plan.
func (c *Client) CheckPlan(ctx context.Context, yaml string) (schema.Plan, error) {
	return post[schema.Plan](ctx, c, "/v1/plans/check", api.PlanText{Plan: yaml})
}

// Ask waits for an answer.
func (c *Client) Ask(ctx context.Context, q api.Query) (schema.Answer, error) {
	return post[schema.Answer](ctx, c, "/v1/ask", q)
}

// StartJob asks a question as a job.
func (c *Client) StartJob(ctx context.Context, q api.Query) (schema.Job, error) {
	return post[schema.Job](ctx, c, "/v1/jobs", q)
}

// Jobs lists at most limit jobs, newest first; 0: all.
func (c *Client) Jobs(ctx context.Context, limit int) ([]schema.Job, error) {
	if limit > 0 && limit <= 500 {
		page, err := get[api.Page[schema.Job]](ctx, c, "/v1/jobs", url.Values{"limit": {strconv.Itoa(limit)}})
		return page.Items, err
	}
	var out []schema.Job
	for job, err := range pages[schema.Job](ctx, c, "/v1/jobs", nil) {
		if err != nil {
			return nil, err
		}
		out = append(out, job)
	}
	return out, nil
}

// Job returns a job with its result.
func (c *Client) Job(ctx context.Context, id uuid.UUID) (schema.Job, error) {
	return get[schema.Job](ctx, c, "/v1/jobs/"+id.String(), nil)
}

// CancelJob cancels a job.
func (c *Client) CancelJob(ctx context.Context, id uuid.UUID) (schema.Job, error) {
	return post[schema.Job](ctx, c, "/v1/jobs/"+id.String()+"/cancel", struct{}{})
}

// Tenants lists tenants; needs the operator scope.
func (c *Client) Tenants(ctx context.Context) iter.Seq2[api.Tenant, error] {
	return pages[api.Tenant](ctx, c, "/v1/tenants", nil)
}

// CreateTenant makes a tenant and its first key.
func (c *Client) CreateTenant(ctx context.Context, t api.NewTenant) (api.TenantCreated, error) {
	return post[api.TenantCreated](ctx, c, "/v1/tenants", t)
}

// SetQuotas replaces a tenant's quotas; needs the operator scope.
func (c *Client) SetQuotas(ctx context.Context, tenant uuid.UUID, q api.Quotas) (api.Tenant, error) {
	var out api.Tenant
	return out, c.json(ctx, http.MethodPatch, "/v1/tenants/"+tenant.String(), nil, q, &out)
}

// Keys lists the tenant's keys.
func (c *Client) Keys(ctx context.Context) iter.Seq2[api.Key, error] {
	return pages[api.Key](ctx, c, "/v1/keys", nil)
}

// TenantKeys lists a tenant's keys. For a tenant other than the key's own it needs the operator
// scope.
func (c *Client) TenantKeys(ctx context.Context, tenant uuid.UUID) iter.Seq2[api.Key, error] {
	return pages[api.Key](ctx, c, "/v1/tenants/"+tenant.String()+"/keys", nil)
}

// RevokeTenantKey revokes a tenant's key. For a tenant other than the key's own it needs the
// operator scope.
func (c *Client) RevokeTenantKey(ctx context.Context, tenant, id uuid.UUID) error {
	return c.json(ctx, http.MethodDelete, "/v1/tenants/"+tenant.String()+"/keys/"+id.String(), nil, nil, nil)
}

// CreateKey makes a key.
func (c *Client) CreateKey(ctx context.Context, k api.NewKey) (api.KeyCreated, error) {
	return post[api.KeyCreated](ctx, c, "/v1/keys", k)
}

// RotateKey makes a new key in place of another.
func (c *Client) RotateKey(ctx context.Context, id uuid.UUID, r api.RotateKey) (api.KeyCreated, error) {
	return post[api.KeyCreated](ctx, c, "/v1/keys/"+id.String()+"/rotate", r)
}

// RevokeKey revokes a key.
func (c *Client) RevokeKey(ctx context.Context, id uuid.UUID) error {
	return c.json(ctx, http.MethodDelete, "/v1/keys/"+id.String(), nil, nil, nil)
}
