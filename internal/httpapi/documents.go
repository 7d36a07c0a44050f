package httpapi

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
)

// InDocument is the path parameter of routes under a document.
type InDocument struct {
	Document uuid.UUID `path:"document" format:"uuid"`
}

func (s *server) routeDocuments() {
	tags := []string{"Documents"}
	route(s, huma.Operation{OperationID: "list-documents", Method: http.MethodGet, Path: "/v1/collections/{collection}/documents", Summary: "List documents", Tags: tags},
		"", func(ctx context.Context, p schema.Principal, in *struct {
			InCollection
			Paging
			State  schema.State        `query:"state" enum:"received,queued,processing,ready,failed,superseded,cancelled" doc:"Of the newest version."`
			Prefix string              `query:"prefix" maxLength:"1024" doc:"Of the external id."`
			Part   string              `query:"contains" maxLength:"1024" doc:"A part of the external id, whatever the case of A to Z."`
			Label  string              `query:"label" maxLength:"256" doc:"Of the newest version."`
			Sort   schema.DocumentSort `query:"sort" enum:"oldest,newest,name,largest,smallest,state" default:"oldest" doc:"Sizes and states are the newest version's; a cursor is of one order."`
			Named  string              `query:"external_id" maxLength:"1024" doc:"This document alone; the other parameters do not count."`
		}) (*reply[api.Page[schema.Document]], error) {
			collection, err := s.Collections.ResolveCollection(ctx, p, in.Collection)
			if err != nil {
				return nil, err
			}
			if in.Named != "" {
				d, err := s.Documents.DocumentNamed(ctx, p, collection, in.Named)
				if errors.Is(err, schema.ErrNotFound) {
					return list([]schema.Document{}, "", nil, identity[schema.Document])
				}
				return list([]schema.Document{d}, "", err, identity[schema.Document])
			}
			recordOf(ctx).Collection = collection.String()
			items, next, err := s.Documents.Documents(ctx, p, collection, schema.DocumentQuery{State: in.State, Prefix: in.Prefix, Part: in.Part, Label: in.Label,
				Sort: in.Sort, PageQuery: in.query()})
			return list(items, next, err, identity[schema.Document])
		})
	route(s, huma.Operation{OperationID: "get-document", Method: http.MethodGet, Path: "/v1/documents/{document}", Summary: "Show a document and its versions", Tags: tags},
		"", func(ctx context.Context, p schema.Principal, in *InDocument) (*reply[api.DocumentDetail], error) {
			// In this order the document is never older than its versions.
			versions, err := s.Documents.Versions(ctx, p, in.Document)
			if err != nil {
				return nil, err
			}
			d, err := s.Documents.Document(ctx, p, in.Document)
			return replyTo(api.DocumentDetail{Document: d, Versions: versions}, err)
		})
	route(s, huma.Operation{OperationID: "change-document", Metadata: metadataBody.with(nil), Method: http.MethodPatch, Path: "/v1/documents/{document}", Summary: "Change labels and metadata", Tags: tags},
		schema.ScopeIngest, func(ctx context.Context, p schema.Principal, in *struct {
			InDocument
			Body api.DocumentChange
		}) (*reply[schema.Document], error) {
			return replyTo(s.Documents.UpdateDocument(ctx, p, in.Document, schema.DocumentChange{Labels: in.Body.Labels, Metadata: in.Body.Metadata}))
		})
	route(s, huma.Operation{OperationID: "delete-document", Method: http.MethodDelete, Path: "/v1/documents/{document}", Summary: "Delete a document", Tags: tags, DefaultStatus: http.StatusNoContent,
		Description: "It is hidden at once; what was stored of it is purged soon after."},
		schema.ScopeIngest, func(ctx context.Context, p schema.Principal, in *InDocument) (*struct{}, error) {
			return nil, s.Documents.DeleteDocument(ctx, p, in.Document)
		})
	route(s, huma.Operation{OperationID: "retry-document", Method: http.MethodPost, Path: "/v1/documents/{document}/retry", Summary: "Queue a failed document again", Tags: tags},
		schema.ScopeIngest, func(ctx context.Context, p schema.Principal, in *InDocument) (*reply[schema.Document], error) {
			return replyTo(s.Documents.RetryDocument(ctx, p, in.Document))
		})
	route(s, huma.Operation{OperationID: "list-sections", Method: http.MethodGet, Path: "/v1/documents/{document}/sections", Summary: "Read a document's text as it was cut", Tags: tags,
		Description: "Sections in their order, each with its passages, what they are linked to, and its cluster. " +
			"Citations point at a version, a section and bytes of its text. A page has 100 sections at most."},
		schema.ScopeQuery, func(ctx context.Context, p schema.Principal, in *struct {
			InDocument
			Paging
			Version uuid.UUID `query:"version" format:"uuid" doc:"Of this version; the live one when absent."`
			Section uuid.UUID `query:"section" format:"uuid" doc:"This section alone."`
		}) (*reply[api.Page[schema.DocumentSection]], error) {
			items, next, err := s.Documents.DocumentText(ctx, p, in.Document, schema.TextQuery{Version: in.Version, Section: in.Section, PageQuery: in.query()})
			return list(items, next, err, identity[schema.DocumentSection])
		})
	route(s, huma.Operation{OperationID: "get-place", Method: http.MethodGet, Path: "/v1/documents/{document}/place", Summary: "Find a text on its document's pages", Tags: tags,
		Description: "Where bytes of a section stand: page and boxes, in points of the page's own coordinates, from its lower left. " +
			"Citations have them already; this is for passages of a search and for whole sections."},
		schema.ScopeQuery, func(ctx context.Context, p schema.Principal, in *struct {
			InDocument
			Version uuid.UUID `query:"version" format:"uuid" doc:"Of this version; the live one when absent."`
			Section uuid.UUID `query:"section" format:"uuid" required:"true"`
			Start   int       `query:"start" minimum:"0" doc:"First byte of the section's text."`
			End     int       `query:"end" minimum:"0" doc:"Behind the last byte; the section's end when absent."`
		}) (*reply[schema.Place], error) {
			return replyTo(s.Documents.TextPlace(ctx, p, in.Document, schema.PlaceQuery{Version: in.Version, Section: in.Section, Start: in.Start, End: in.End}))
		})
	route(s, huma.Operation{OperationID: "get-content", Method: http.MethodGet, Path: "/v1/documents/{document}/content", Summary: "Download a document's bytes", Tags: tags,
		Responses: map[string]*huma.Response{"200": {Description: "The bytes as uploaded.", Content: map[string]*huma.MediaType{"application/octet-stream": {}}}}},
		schema.ScopeQuery, func(ctx context.Context, p schema.Principal, in *struct {
			InDocument
			Version uuid.UUID `query:"version" format:"uuid" doc:"Of this version, as long as it is stored; the newest one when absent."`
		}) (*huma.StreamResponse, error) {
			content, err := s.Documents.OpenContent(ctx, p, in.Document, in.Version)
			if err != nil {
				return nil, err
			}
			return &huma.StreamResponse{Body: func(out huma.Context) {
				defer func() { _ = content.Close() }()
				// Never rendered in the API's origin, whatever type it has.
				out.SetHeader("Content-Type", "application/octet-stream")
				out.SetHeader("Content-Disposition", "attachment")
				out.SetHeader("X-Content-Type-Options", "nosniff")
				out.SetHeader("X-Document-Media-Type", content.MediaType)
				out.SetHeader("Content-Length", strconv.FormatInt(content.Bytes, 10))
				_, _ = io.Copy(out.BodyWriter(), content)
			}}, nil
		})
}
