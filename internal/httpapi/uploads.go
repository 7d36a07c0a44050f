package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"reflect"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
)

// rawUpload is one file as the body of a PUT. Its attributes are in the query, because a header
// cannot carry every name.
type rawUpload struct {
	InCollection
	ExternalID string   `query:"external_id" required:"true" minLength:"1" maxLength:"1024" doc:"The user's own name of the document, unique in its collection."`
	Title      string   `query:"title" maxLength:"1000"`
	FileName   string   `query:"file_name" maxLength:"1024" doc:"A hint between formats that look alike."`
	Labels     []string `query:"label,explode" maxItems:"100" doc:"Who may see it; may be repeated."`
	Metadata   string   `query:"metadata" maxLength:"65536" doc:"A JSON object."`
	SHA256     string   `query:"sha256" pattern:"^[0-9a-fA-F]{64}$" doc:"Of the body, when the sender knows it: other bytes are refused."`
	MediaType  string   `header:"Content-Type"`
	content    io.Reader
}

// Resolve implements huma.Resolver. The body is streamed, not read into memory.
func (r *rawUpload) Resolve(ctx huma.Context) []error {
	request, _ := humago.Unwrap(ctx)
	r.content = &content{request.Body}
	return nil
}

// uploadUnknown is the number of bytes that a file of unknown length counts as.
const uploadUnknown = 100 << 20

// content is the body of an upload. Its read errors are the client's errors.
type content struct{ from io.Reader }

// Read implements io.Reader.
func (c *content) Read(p []byte) (int, error) {
	n, err := c.from.Read(p)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		err = huma.NewError(http.StatusRequestTimeout, "the body stopped arriving, or arrived too slowly")
	case errors.Is(err, io.ErrUnexpectedEOF):
		err = huma.Error400BadRequest("the body was cut off")
	}
	return n, err
}

func (s *server) routeUploads() {
	tags := []string{"Documents"}
	route(s, huma.Operation{OperationID: "upload-documents", Method: http.MethodPost, Path: "/v1/collections/{collection}/documents", Summary: "Upload documents", Tags: tags,
		Description: "All documents of one request are taken, or none. A document that is stored already, bytes and attributes alike, is left as it is. " +
			"One of more than 16 MB as JSON goes alone, by PUT.",
		Metadata: uploadBody.with(map[string]any{takesUploads: uploadBody.bytes}), BodyReadTimeout: -1,
		Errors: []int{http.StatusRequestEntityTooLarge, http.StatusTooManyRequests, http.StatusInsufficientStorage}},
		schema.ScopeIngest, s.uploadDocuments)
	// huma does not read this body, so it is described here.
	registry := s.api.OpenAPI().Components.Schemas
	s.api.OpenAPI().Paths["/v1/collections/{collection}/documents"].Post.RequestBody = &huma.RequestBody{Required: true,
		Content: map[string]*huma.MediaType{"application/json": {Schema: registry.Schema(reflect.TypeFor[api.Upload](), true, "Upload")}}}
	route(s, huma.Operation{OperationID: "upload-content", Method: http.MethodPut, Path: "/v1/collections/{collection}/content", Summary: "Upload one file", Tags: tags,
		Description: "The body is the file. One over the size limit is recorded as a failed document, with its reason.",
		RequestBody: &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{"application/octet-stream": {}}},
		Metadata:    map[string]any{takesUploads: int64(uploadUnknown)},
		Errors:      []int{http.StatusRequestEntityTooLarge, http.StatusTooManyRequests}},
		schema.ScopeIngest, s.uploadContent)
	route(s, huma.Operation{OperationID: "compare-documents", Metadata: compareBody.with(repeatRun.metadata()), Method: http.MethodPost, Path: "/v1/collections/{collection}/documents/compare", Summary: "Ask which documents to upload", Tags: tags,
		Description: "Fingerprints are held against the same document's newest version alone: knowing a hash never grants bytes."},
		schema.ScopeIngest, s.compareDocuments)
}

// uploadDocuments stores a batch.
func (s *server) uploadDocuments(ctx context.Context, p schema.Principal, in *InCollection) (*reply[api.UploadResult], error) {
	collection, err := s.Collections.ResolveCollection(ctx, p, in.Collection)
	if err != nil {
		return nil, err
	}
	uploads, err := batchOf(ctx).documents(ctx, s)
	if err != nil {
		return nil, err
	}
	done, err := s.Documents.Upload(ctx, p, collection, uploads)
	if err != nil {
		return nil, err
	}
	out := &reply[api.UploadResult]{Body: api.UploadResult{Documents: make([]api.Uploaded, len(done))}}
	for i, d := range done {
		out.Body.Documents[i] = uploaded(d)
	}
	return out, nil
}

// uploadContent stores one file.
func (s *server) uploadContent(ctx context.Context, p schema.Principal, in *rawUpload) (*reply[api.Uploaded], error) {
	collection, err := s.Collections.ResolveCollection(ctx, p, in.Collection)
	if err != nil {
		return nil, err
	}
	u := schema.Upload{ExternalID: in.ExternalID, Title: in.Title, FileName: in.FileName, MediaType: in.MediaType, Content: in.content, SHA256: in.SHA256, Labels: in.Labels}
	if u.FileName == "" {
		u.FileName = in.ExternalID
	}
	if in.Metadata != "" {
		decoder := json.NewDecoder(strings.NewReader(in.Metadata))
		decoder.UseNumber()
		if err := decoder.Decode(&u.Metadata); err != nil {
			return nil, schema.Invalid("query.metadata", "is not a JSON object: %v", err)
		}
	}
	done, err := s.Documents.Upload(ctx, p, collection, []schema.Upload{u})
	if err != nil {
		return nil, err
	}
	return &reply[api.Uploaded]{uploaded(done[0])}, nil
}

type compareInput struct {
	InCollection
	Body api.Compare
}

// compareDocuments returns which documents differ from what is stored.
func (s *server) compareDocuments(ctx context.Context, p schema.Principal, in *compareInput) (*reply[api.CompareResult], error) {
	collection, err := s.Collections.ResolveCollection(ctx, p, in.Collection)
	if err != nil {
		return nil, err
	}
	known := make([]schema.Known, len(in.Body.Documents))
	for i, d := range in.Body.Documents {
		known[i] = schema.Known{ExternalID: d.ExternalID, Fingerprint: d.Fingerprint}
	}
	r, err := s.Documents.Compare(ctx, p, collection, known)
	return replyTo(api.CompareResult{Changed: nonNil(r.Changed), Unchanged: nonNil(r.Unchanged), Failed: nonNil(r.Failed)}, err)
}

// nonNil returns items, or an empty list for nil, which JSON shows as [].
func nonNil[T any](items []T) []T {
	if items == nil {
		return []T{}
	}
	return items
}

func uploaded(u schema.Uploaded) api.Uploaded {
	return api.Uploaded{ExternalID: u.ExternalID, Document: u.Document, Version: u.Version, State: u.State, Unchanged: u.Unchanged, Reason: u.Reason}
}
