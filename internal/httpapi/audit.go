package httpapi

// The audit log: who changed what, who read what, its export, and the verification of its hash
// chains.

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
)

// AuditFilter selects entries of the audit log. It is exported because huma reads fields of
// exported types only.
type AuditFilter struct {
	Paging
	From       time.Time `query:"from" doc:"Not before this time."`
	To         time.Time `query:"to" doc:"Before this time."`
	Action     string    `query:"action" maxLength:"100"`
	Actor      string    `query:"actor" maxLength:"256" doc:"Id or name of a key, or a person."`
	Document   uuid.UUID `query:"document" format:"uuid" doc:"About this document, or one that showed it."`
	Collection string    `query:"collection" maxLength:"128" doc:"Name or id."`
}

// AuditOf selects the tenant whose reads are listed.
type AuditOf struct {
	Unknown bool `query:"unknown" doc:"Those of requests with unknown keys; needs the operator scope."`
}

func (a AuditOf) tenant(p schema.Principal) (uuid.UUID, error) {
	switch {
	case !a.Unknown:
		return p.Tenant, nil
	case !p.Has(schema.ScopeOperator):
		return uuid.Nil, huma.Error403Forbidden("listing requests with unknown keys needs the operator scope")
	}
	return schema.Nobody, nil
}

func (s *server) auditQuery(ctx context.Context, p schema.Principal, f AuditFilter) (schema.AuditQuery, error) {
	q := schema.AuditQuery{PageQuery: f.query(), From: f.From, To: f.To, Action: f.Action, Actor: f.Actor, Document: f.Document}
	if f.Collection == "" {
		return q, nil
	}
	if id, err := uuid.Parse(f.Collection); err == nil { // a deleted collection has only its id
		q.Collection = id
		return q, nil
	}
	var err error
	q.Collection, err = s.Collections.ResolveCollection(ctx, p, f.Collection)
	return q, err
}

// maxExported is the most entries that one request exports.
const maxExported = 1000

func (s *server) routeAudit() {
	tags := []string{"Audit"}
	route(s, huma.Operation{OperationID: "list-audit", Method: http.MethodGet, Path: "/v1/audit", Summary: "List who did what", Tags: tags},
		schema.ScopeAdmin, func(ctx context.Context, p schema.Principal, in *struct{ AuditFilter }) (*reply[api.Page[api.AuditEntry]], error) {
			q, err := s.auditQuery(ctx, p, in.AuditFilter)
			if err != nil {
				return nil, err
			}
			items, next, err := s.Audit.Audit(ctx, p, q)
			return list(items, next, err, func(e schema.AuditEntry) api.AuditEntry { return api.AuditEntry(e) })
		})
	route(s, huma.Operation{OperationID: "list-audit-reads", Method: http.MethodGet, Path: "/v1/audit/reads", Summary: "List who read what", Tags: tags,
		Description: "Searches, questions, documents that were opened or downloaded, sign-ins, and requests that were refused; the last written first."},
		schema.ScopeAdmin, func(ctx context.Context, p schema.Principal, in *struct {
			AuditFilter
			AuditOf
		}) (*reply[api.Page[schema.AuditRead]], error) {
			tenant, err := in.tenant(p)
			if err != nil {
				return nil, err
			}
			q, err := s.auditQuery(ctx, p, in.AuditFilter)
			if err != nil {
				return nil, err
			}
			items, next, err := s.Audit.Reads(ctx, tenant, q)
			return list(items, next, err, identity[schema.AuditRead])
		})
	route(s, huma.Operation{OperationID: "export-audit", Method: http.MethodGet, Path: "/v1/audit/export", Summary: "Export a chain of the audit log", Tags: tags,
		Description: "JSON Lines in the chain's order, each with its number and hash; 1,000 at most. Ask again after the last number until none comes.",
		Responses: map[string]*huma.Response{"200": {Description: "An entry a line.",
			Content: map[string]*huma.MediaType{"application/x-ndjson": {}}}}},
		schema.ScopeAdmin, func(ctx context.Context, p schema.Principal, in *struct {
			AuditOf
			Chain schema.AuditChain `query:"chain" enum:"changes,reads" default:"reads"`
			After int64             `query:"after" minimum:"0" doc:"The number of the last entry that is known."`
		}) (*huma.StreamResponse, error) {
			tenant, err := in.tenant(p)
			if err != nil {
				return nil, err
			}
			lines, err := s.Audit.AuditLines(ctx, tenant, in.Chain, in.After, maxExported)
			if err != nil {
				return nil, err
			}
			return &huma.StreamResponse{Body: func(out huma.Context) {
				out.SetHeader("Content-Type", "application/x-ndjson")
				encoder := json.NewEncoder(out.BodyWriter())
				for _, l := range lines {
					if encoder.Encode(l) != nil {
						return // the client is gone
					}
				}
			}}, nil
		})
	route(s, huma.Operation{OperationID: "verify-audit", Method: http.MethodGet, Path: "/v1/audit/verify", Summary: "Verify a chain of the audit log", Tags: tags,
		Description: "Walks the chain and tells the first place where an entry was changed, removed, inserted or moved."},
		schema.ScopeAdmin, func(ctx context.Context, p schema.Principal, in *struct {
			AuditOf
			Chain schema.AuditChain `query:"chain" enum:"changes,reads" default:"reads"`
		}) (*reply[schema.AuditVerdict], error) {
			tenant, err := in.tenant(p)
			if err != nil {
				return nil, err
			}
			return replyTo(s.Audit.VerifyAudit(ctx, tenant, in.Chain))
		})
}
