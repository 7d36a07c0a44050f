package inference

// This file calls models behind an API for a pack that has no graph for an operation. The calls go
// through llm-gateway, because it holds the API keys and the tenants' budgets.

import (
	"context"
	"fmt"
	"strings"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/inference/batch"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// Gateway calls models behind an API. Its errors are those of NATS; errors of llm-gateway are in
// the replies.
type Gateway interface {
	Encode(ctx context.Context, r wire.RemoteEncodeRequest) (wire.RemoteEncodeReply, error)
	Rerank(ctx context.Context, r wire.RemoteRerankRequest) (wire.RemoteRerankReply, error)
}

// payingTenant returns the tenant that pays for a call to a model behind an API.
func (s *service) payingTenant(caller batch.Caller) (uuid.UUID, error) {
	switch {
	case s.gateway == nil:
		return uuid.Nil, fmt.Errorf("the pack %s has a model behind an API, and this model server asks none: %w", s.model.name(), schema.ErrUnavailable)
	case caller.Tenant == uuid.Nil:
		return uuid.Nil, schema.Invalid("tenant", "is missing: the pack %s has a model behind an API, so the request must say in the header %s who pays",
			s.model.name(), wire.HeaderTenant)
	}
	return caller.Tenant, nil
}

// encodeRemotely answers encode with a model behind an API.
func (s *service) encodeRemotely(ctx context.Context, caller batch.Caller, request wire.EncodeRequest) (wire.EncodeReply, error) {
	tenant, err := s.payingTenant(caller)
	if err != nil {
		return wire.EncodeReply{}, err
	}
	e := s.model.manifest.Encoder
	texts := request.Texts
	if p := e.Prompts; p != nil {
		texts = make([]string, len(request.Texts))
		for i, text := range request.Texts {
			prompt := p.Passage
			if i < request.Queries {
				prompt = p.Query
			}
			if strings.TrimSpace(text) != "" { // a blank text stays blank
				texts[i] = prompt + text
			}
		}
	}
	got, err := s.gateway.Encode(ctx, wire.RemoteEncodeRequest{Envelope: wire.Header(), Tenant: tenant, Lane: request.Lane, Deadline: request.Deadline,
		By: e.by(e.MaxTokens), Dimension: e.Dimension, Shorten: e.Shorten, Texts: texts})
	switch {
	case err != nil:
		return wire.EncodeReply{}, fmt.Errorf("ask llm-gateway for vectors: %w", err)
	case got.Error != nil:
		return wire.EncodeReply{}, remoteFailure(got.Error)
	case got.Vectors.Dimension != e.Dimension || got.Vectors.Len() != len(texts):
		return wire.EncodeReply{}, fmt.Errorf("llm-gateway gave %d vectors of dimension %d for %d texts", got.Vectors.Len(), got.Vectors.Dimension, len(texts))
	}
	return wire.EncodeReply{Envelope: wire.Header(), Space: s.model.manifest.Space, Vectors: got.Vectors, Truncated: got.Truncated}, nil
}

// rerankRemotely answers score with a reranker behind an API. It computes relevance only, and
// returns it as has_answer and llm_prefer too.
func (s *service) rerankRemotely(ctx context.Context, caller batch.Caller, request wire.ScoreRequest) (wire.ScoreReply, error) {
	reply := wire.ScoreReply{Graph: wire.GraphReranker}
	tenant, err := s.payingTenant(caller)
	if err != nil {
		return reply, err
	}
	if strings.TrimSpace(request.Question) == "" {
		return reply, schema.Invalid("question", "has no word to score texts for")
	}
	r := s.model.manifest.Reranker
	got, err := s.gateway.Rerank(ctx, wire.RemoteRerankRequest{Envelope: wire.Header(), Tenant: tenant, Lane: request.Lane, Deadline: request.Deadline,
		By: r.by(r.MaxTextTokens), Question: request.Question, Texts: request.Texts})
	switch {
	case err != nil:
		return reply, fmt.Errorf("ask llm-gateway for scores: %w", err)
	case got.Error != nil:
		return reply, remoteFailure(got.Error)
	case len(got.Scores) != len(request.Texts):
		return reply, fmt.Errorf("llm-gateway gave %d scores for %d texts", len(got.Scores), len(request.Texts))
	}
	reply = wire.ScoreReply{Envelope: wire.Header(), Model: s.model.name(), Scores: make([]wire.PairScore, len(got.Scores)), Truncated: got.Truncated, Graph: reply.Graph}
	for i, x := range got.Scores {
		reply.Scores[i] = wire.PairScore{Relevance: x, HasAnswer: x, LLMPrefer: x}
	}
	return reply, nil
}

// remoteFailure returns the gateway's error. A deadline becomes unavailable: the API was too slow,
// which does not mean that the request's own deadline has passed.
func remoteFailure(e *schema.RemoteError) error {
	converted := *e
	if converted.Code == schema.CodeDeadline {
		converted.Code = schema.CodeUnavailable
	}
	return &converted
}
