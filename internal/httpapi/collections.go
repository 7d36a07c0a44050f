package httpapi

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
)

// Paging has the parameters of every list. It and similar structs are exported because huma reads
// embedded structs only then.
type Paging struct {
	Cursor string `query:"cursor" maxLength:"512" doc:"The next of the page before."`
	Limit  int    `query:"limit" minimum:"1" maximum:"500" default:"50"`
}

func (p Paging) query() schema.PageQuery { return schema.PageQuery{Cursor: p.Cursor, Limit: p.Limit} }

type reply[T any] struct{ Body T }

// list returns a page of items as show converts them. The items are never null in JSON.
func list[Item, Shown any](items []Item, next string, err error, show func(Item) Shown) (*reply[api.Page[Shown]], error) {
	if err != nil {
		return nil, err
	}
	out := &reply[api.Page[Shown]]{Body: api.Page[Shown]{Items: make([]Shown, len(items)), Next: next}}
	for i, item := range items {
		out.Body.Items[i] = show(item)
	}
	return out, nil
}

func identity[T any](t T) T { return t }

func replyTo[T any](body T, err error) (*reply[T], error) {
	if err != nil {
		return nil, err
	}
	return &reply[T]{body}, nil
}

// valueOrZero returns the value of an optional field, or the zero value.
func valueOrZero[T any](field *T) (value T) {
	if field != nil {
		value = *field
	}
	return value
}

// InCollection is the path parameter of routes under a collection.
type InCollection struct {
	Collection string `path:"collection" maxLength:"128" doc:"Name or id."`
}

func (s *server) routeCollections() {
	route(s, huma.Operation{OperationID: "list-collections", Method: http.MethodGet, Path: "/v1/collections", Summary: "List collections", Tags: []string{"Collections"}},
		"", func(ctx context.Context, p schema.Principal, in *struct{ Paging }) (*reply[api.Page[schema.Collection]], error) {
			items, next, err := s.Collections.Collections(ctx, p, in.query())
			return list(items, next, err, identity[schema.Collection])
		})
	route(s, huma.Operation{OperationID: "create-collection", Method: http.MethodPost, Path: "/v1/collections", Summary: "Create a collection", Tags: []string{"Collections"}, DefaultStatus: http.StatusCreated},
		schema.ScopeIngest, func(ctx context.Context, p schema.Principal, in *struct{ Body api.NewCollection }) (*reply[schema.Collection], error) {
			return replyTo(s.Collections.CreateCollection(ctx, p, schema.NewCollection{Name: in.Body.Name, Description: in.Body.Description, Language: in.Body.Language,
				Segmentation: valueOrZero(in.Body.Segmentation), Plan: in.Body.Plan}))
		})
	route(s, huma.Operation{OperationID: "get-collection", Method: http.MethodGet, Path: "/v1/collections/{collection}", Summary: "Show a collection", Tags: []string{"Collections"}},
		"", func(ctx context.Context, p schema.Principal, in *InCollection) (*reply[schema.Collection], error) {
			return replyTo(s.Collections.Collection(ctx, p, in.Collection))
		})
	route(s, huma.Operation{OperationID: "change-collection", Method: http.MethodPatch, Path: "/v1/collections/{collection}", Summary: "Change a collection", Tags: []string{"Collections"}},
		schema.ScopeCurate, func(ctx context.Context, p schema.Principal, in *struct {
			InCollection
			Body api.CollectionChange
		}) (*reply[schema.Collection], error) {
			id, err := s.Collections.ResolveCollection(ctx, p, in.Collection)
			if err != nil {
				return nil, err
			}
			return replyTo(s.Collections.UpdateCollection(ctx, p, id, schema.CollectionChange{Description: in.Body.Description, Plan: in.Body.Plan}))
		})
	route(s, huma.Operation{OperationID: "delete-collection", Method: http.MethodDelete, Path: "/v1/collections/{collection}", Summary: "Delete a collection and its documents", Tags: []string{"Collections"}, DefaultStatus: http.StatusNoContent},
		schema.ScopeAdmin, func(ctx context.Context, p schema.Principal, in *InCollection) (*struct{}, error) {
			id, err := s.Collections.ResolveCollection(ctx, p, in.Collection)
			if err != nil {
				return nil, err
			}
			return nil, s.Collections.DeleteCollection(ctx, p, id)
		})
	route(s, huma.Operation{OperationID: "retry-collection", Method: http.MethodPost, Path: "/v1/collections/{collection}/retry", Summary: "Queue all failed documents again", Tags: []string{"Documents"}},
		schema.ScopeIngest, func(ctx context.Context, p schema.Principal, in *InCollection) (*reply[api.Retried], error) {
			id, err := s.Collections.ResolveCollection(ctx, p, in.Collection)
			if err != nil {
				return nil, err
			}
			n, err := s.Documents.RetryFailed(ctx, p, id)
			return replyTo(api.Retried{Queued: n}, err)
		})
}
