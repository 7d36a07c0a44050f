package llm

// Replies kept for the same request: of the same tenant, provider, model and
// words, to the byte.

import (
	"context"
	"crypto/sha256"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/schema/wire"
)

// Cache keeps replies. What it forgets, and when, is its own affair; but with the
// text of a version, the replies made from it are gone.
type Cache interface {
	Load(ctx context.Context, tenant uuid.UUID, key [sha256.Size]byte) (reply wire.LLMReply, found bool, err error)
	Save(ctx context.Context, tenant uuid.UUID, key [sha256.Size]byte, versions []uuid.UUID, reply wire.LLMReply) error
}

// cacheKey is that of a request, for those whose reply may be kept: it is of a
// model behind an API, and it is known which text it is made from. An answer that is
// judged is made from texts that the judgement would outlive.
func (g *Gateway) cacheKey(first *member, r wire.LLMRequest, request [sha256.Size]byte) (key [sha256.Size]byte, ok bool) {
	m, remote := first.Provider.(Remote)
	if g.cache == nil || !remote || r.Task == wire.TaskCorrectness || len(r.Passages) > 0 && len(r.Versions) == 0 {
		return key, false
	}
	return sha256.Sum256(append([]byte(m.Name()+"\x00"+m.Model()+"\x00"), request[:]...)), true
}

// cached answers from the cache, else by answer, whose reply it keeps unless
// another provider stood in. A cache that is out of order costs money, no answers.
func (g *Gateway) cached(ctx context.Context, first *member, r wire.LLMRequest, request [sha256.Size]byte,
	answer func(context.Context) (wire.LLMReply, error)) (wire.LLMReply, error) {
	key, ok := g.cacheKey(first, r, request)
	if !ok {
		return answer(ctx)
	}
	reply, found, err := g.cache.Load(ctx, r.Tenant, key)
	if err != nil {
		g.warn(ctx, "the cache of replies was not read", r.Tenant, err)
	}
	if found {
		reply.Usage.Cached, reply.Usage.Cost, reply.Usage.Millis = true, 0, 0
		return reply, nil
	}
	if reply, err = answer(ctx); err != nil || reply.Usage.Provider != first.Name() {
		return reply, err
	}
	if err := g.cache.Save(context.WithoutCancel(ctx), r.Tenant, key, r.Versions, reply); err != nil {
		g.warn(ctx, "a reply was not cached", r.Tenant, err)
	}
	return reply, nil
}
