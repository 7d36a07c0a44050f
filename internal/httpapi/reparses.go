package httpapi

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/schema"
)

func (s *server) routeReparses() {
	for _, o := range []struct {
		operation huma.Operation
		do        func(Reparses, context.Context, schema.Principal, uuid.UUID) (schema.Reparse, error)
	}{
		{huma.Operation{OperationID: "reparse-collection", Method: http.MethodPost, Summary: "Parse a collection's documents again",
			DefaultStatus: http.StatusAccepted,
			Description: "Parses every live document again from its bytes that are stored. " +
				"One that gives another text, other tables or other places than are stored becomes a new version of its document, " +
				"and the old one answers until that is written; others are left alone. A run that is under way is returned."}, Reparses.StartReparse},
		{huma.Operation{OperationID: "get-reparse", Method: http.MethodGet, Summary: "Show the newest run that parsed a collection's documents again",
			Description: "With the documents that keep the text they had, and why."}, Reparses.Reparse},
		{huma.Operation{OperationID: "cancel-reparse", Method: http.MethodDelete, Summary: "Stop parsing a collection's documents again",
			Description: "Documents that are queued are still written."}, Reparses.CancelReparse},
	} {
		o.operation.Path, o.operation.Tags = "/v1/collections/{collection}/reparse", []string{"Collections"}
		route(s, o.operation, schema.ScopeCurate, func(ctx context.Context, p schema.Principal, in *InCollection) (*reply[schema.Reparse], error) {
			id, err := s.Collections.ResolveCollection(ctx, p, in.Collection)
			if err != nil {
				return nil, err
			}
			return replyTo(o.do(s.Reparses, ctx, p, id))
		})
	}
}
