package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
)

// rawUpload is one file as the body of a PUT. Its own fields are read from the
// query: a header cannot carry every name.
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

// Resolve implements huma.Resolver: the body is streamed, not read into memory.
func (r *rawUpload) Resolve(ctx huma.Context) []error {
	request, _ := humago.Unwrap(ctx)
	r.content = request.Body
	return nil
}

func (s *server) routeUploads() {
	tags := []string{"Documents"}
	route(s, huma.Operation{OperationID: "upload-documents", Method: http.MethodPost, Path: "/v1/collections/{collection}/documents", Summary: "Upload documents", Tags: tags,
		Description: "All documents of one request are taken, or none. A document that is stored already, bytes and attributes alike, is left as it is.",
		Metadata:    uploadBody.with(nil), BodyReadTimeout: -1},
		schema.ScopeIngest, func(ctx context.Context, p schema.Principal, in *struct {
			InCollection
			Body api.Upload
		}) (*reply[api.UploadResult], error) {
			collection, err := s.Collections.ResolveCollection(ctx, p, in.Collection)
			if err != nil {
				return nil, err
			}
			uploads := make([]schema.Upload, len(in.Body.Documents))
			for i, d := range in.Body.Documents {
				content := d.Content
				switch {
				case d.Text != "" && len(content) > 0:
					return nil, schema.Invalid(fmt.Sprintf("body.documents[%d]", i), "has both text and content; send one")
				case d.Text != "":
					content = []byte(d.Text)
				}
				uploads[i] = schema.Upload{ExternalID: d.ExternalID, Title: d.Title, MediaType: d.MediaType,
					Content: bytes.NewReader(content), Labels: d.Labels, Metadata: d.Metadata}
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
		})
	route(s, huma.Operation{OperationID: "upload-content", Method: http.MethodPut, Path: "/v1/collections/{collection}/content", Summary: "Upload one file", Tags: tags,
		Description: "The body is the file. One over the size limit is recorded as a failed document, with its reason.",
		RequestBody: &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{"application/octet-stream": {}}},
		Errors:      []int{http.StatusRequestEntityTooLarge}},
		schema.ScopeIngest, func(ctx context.Context, p schema.Principal, in *rawUpload) (*reply[api.Uploaded], error) {
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
		})
	route(s, huma.Operation{OperationID: "compare-documents", Metadata: compareBody.with(repeatRun.metadata()), Method: http.MethodPost, Path: "/v1/collections/{collection}/documents/compare", Summary: "Ask which documents to upload", Tags: tags,
		Description: "Fingerprints are held against the same document's newest version alone: knowing a hash never grants bytes."},
		schema.ScopeIngest, func(ctx context.Context, p schema.Principal, in *struct {
			InCollection
			Body api.Compare
		}) (*reply[api.CompareResult], error) {
			collection, err := s.Collections.ResolveCollection(ctx, p, in.Collection)
			if err != nil {
				return nil, err
			}
			known := make([]schema.Known, len(in.Body.Documents))
			for i, d := range in.Body.Documents {
				known[i] = schema.Known{ExternalID: d.ExternalID, Fingerprint: d.Fingerprint}
			}
			r, err := s.Documents.Compare(ctx, p, collection, known)
			return replyTo(api.CompareResult{Changed: some(r.Changed), Unchanged: some(r.Unchanged), Failed: some(r.Failed)}, err)
		})
}

// some returns a list that JSON shows as [] when empty.
func some[T any](items []T) []T {
	if items == nil {
		return []T{}
	}
	return items
}

func uploaded(u schema.Uploaded) api.Uploaded {
	return api.Uploaded{ExternalID: u.ExternalID, Document: u.Document, Version: u.Version, State: u.State, Unchanged: u.Unchanged, Reason: u.Reason}
}
