package httpapi

// Receipts of stored answers.

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
)

func (s *server) routeReceipts() {
	tags := []string{"Questions"}
	route(s, huma.Operation{OperationID: "get-receipt", Method: http.MethodGet, Path: "/v1/questions/{question}/receipt", Summary: "Get a signed receipt of an answer", Tags: tags,
		Description: "What was asked and answered, by which plan and model pack, and from which bytes of which versions; `sluice verify` proves it from these " +
			"bytes. It is for those who may read the answer.",
		Responses: map[string]*huma.Response{"200": {Description: "The receipt; its bytes are what is signed.", Content: map[string]*huma.MediaType{"application/json": {}}}}},
		schema.ScopeQuery, func(ctx context.Context, p schema.Principal, in *struct {
			Question uuid.UUID `path:"question" format:"uuid"`
		}) (*huma.StreamResponse, error) {
			receipt, err := s.Receipts.Receipt(ctx, p, in.Question)
			if err != nil {
				return nil, err
			}
			return &huma.StreamResponse{Body: func(out huma.Context) {
				out.SetHeader("Content-Type", "application/json")
				_, _ = out.BodyWriter().Write(receipt)
			}}, nil
		})
	route(s, huma.Operation{OperationID: "list-receipt-keys", Method: http.MethodGet, Path: "/v1/receipts/keys", Summary: "List the public keys of receipts", Tags: tags,
		Description: "Whoever checks receipts keeps these, from a server that they trust."},
		schema.ScopeQuery, func(ctx context.Context, _ schema.Principal, _ *struct{}) (*reply[api.ReceiptKeys], error) {
			return replyTo(s.Receipts.ReceiptKeys(ctx))
		})
}
