package httpapi

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
)

func (s *server) routeRebuilds() {
	const path = "/v1/collections/{collection}/rebuild"
	route(s, huma.Operation{OperationID: "rebuild-collection", Method: http.MethodPost, Path: path,
		Summary: "Cut, encode and index a collection anew", Tags: []string{"Collections"}, DefaultStatus: http.StatusAccepted,
		Description: "Makes a new generation beside the live one, from the text that is stored, and puts it in the live one's place " +
			"when it is complete. One of the same recipe that is being built already is returned."},
		schema.ScopeCurate, func(ctx context.Context, p schema.Principal, in *struct {
			InCollection
			Body api.NewRebuild
		}) (*reply[schema.Rebuild], error) {
			id, err := s.Collections.ResolveCollection(ctx, p, in.Collection)
			if err != nil {
				return nil, err
			}
			return replyTo(s.Rebuilds.StartRebuild(ctx, p, id, schema.NewRebuild{Language: in.Body.Language, Segmentation: valueOrZero(in.Body.Segmentation), Encoder: in.Body.Encoder}))
		})
	route(s, huma.Operation{OperationID: "get-rebuild", Method: http.MethodGet, Path: path,
		Summary: "Show a collection's newest rebuild", Tags: []string{"Collections"}},
		schema.ScopeCurate, func(ctx context.Context, p schema.Principal, in *InCollection) (*reply[schema.Rebuild], error) {
			id, err := s.Collections.ResolveCollection(ctx, p, in.Collection)
			if err != nil {
				return nil, err
			}
			return replyTo(s.Rebuilds.Rebuild(ctx, p, id))
		})
	route(s, huma.Operation{OperationID: "cancel-rebuild", Method: http.MethodDelete, Path: path,
		Summary: "Cancel a collection's rebuild", Tags: []string{"Collections"}},
		schema.ScopeCurate, func(ctx context.Context, p schema.Principal, in *InCollection) (*reply[schema.Rebuild], error) {
			id, err := s.Collections.ResolveCollection(ctx, p, in.Collection)
			if err != nil {
				return nil, err
			}
			return replyTo(s.Rebuilds.CancelRebuild(ctx, p, id))
		})
	route(s, huma.Operation{OperationID: "recluster-collection", Method: http.MethodPost, Path: "/v1/collections/{collection}/recluster",
		Summary: "Cluster a collection anew", Tags: []string{"Collections"}, DefaultStatus: http.StatusAccepted,
		Description: "Curation makes the clusters of all sections anew in the background; " +
			"queries see the old ones until all of the new ones are there. " +
			"Asking again before it was done changes nothing but the size of clusters, where another one is given."},
		schema.ScopeCurate, func(ctx context.Context, p schema.Principal, in *struct {
			InCollection
			Body *api.NewClusters
		}) (*struct{}, error) {
			id, err := s.Collections.ResolveCollection(ctx, p, in.Collection)
			if err != nil {
				return nil, err
			}
			tokens := 0
			if in.Body != nil {
				tokens = in.Body.ClusterTokens
			}
			return nil, s.Rebuilds.Recluster(ctx, p, id, tokens)
		})
}
