package llm

// This file reuses the stored reply to an identical request: of the same tenant, provider and
// model, with the same bytes.

import (
	"context"
	"crypto/sha256"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/schema/wire"
)

// Cache keeps replies. It may drop them at any time. When the text of a version is removed, the
// replies made from it are removed with it.
type Cache interface {
	Load(ctx context.Context, tenant uuid.UUID, key [sha256.Size]byte) (reply wire.LLMReply, found bool, err error)
	Save(ctx context.Context, tenant uuid.UUID, key [sha256.Size]byte, versions []uuid.UUID, reply wire.LLMReply) error
}

// cacheKey returns the key of a request whose reply may be cached: the model is behind an API, and
// the versions that the passages come from are known. Correctness judgements are not cached,
// because they would outlive the texts that the answer was made from.
func (g *Gateway) cacheKey(first *pricedProvider, r wire.LLMRequest, request [sha256.Size]byte) (key [sha256.Size]byte, ok bool) {
	m, remote := first.Provider.(Remote)
	if g.cache == nil || !remote || r.Task == wire.TaskCorrectness || len(r.Passages) > 0 && len(r.Versions) == 0 {
		return key, false
	}
	return sha256.Sum256(append([]byte(m.Name()+"\x00"+m.Model()+"\x00"), request[:]...)), true
}

// cached returns the cached reply, or else calls answer and caches its reply unless a fallback made
// it. Errors of the cache are logged only.
func (g *Gateway) cached(ctx context.Context, first *pricedProvider, r wire.LLMRequest, request [sha256.Size]byte,
	answer func(context.Context) (wire.LLMReply, error)) (wire.LLMReply, error) {
	key, ok := g.cacheKey(first, r, request)
	if !ok {
		return answer(ctx)
	}
	reply, found, err := g.cache.Load(ctx, r.Tenant, key)
	if err != nil {
		g.warn(ctx, "cannot read the cache of replies", r.Tenant, err)
	}
	if found {
		reply.Usage.Cached, reply.Usage.Cost, reply.Usage.Millis = true, 0, 0
		return reply, nil
	}
	if reply, err = answer(ctx); err != nil || reply.Usage.Provider != first.Name() {
		return reply, err
	}
	if err := g.cache.Save(context.WithoutCancel(ctx), r.Tenant, key, r.Versions, reply); err != nil {
		g.warn(ctx, "cannot cache a reply", r.Tenant, err)
	}
	return reply, nil
}
