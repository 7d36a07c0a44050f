package ledger

// This file caches replies of language models for equal requests of the same tenant, bounded by age
// and number, until a version that they were made from is purged.

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/llm"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema/wire"
)

// ReplyCache implements llm.Cache.
type ReplyCache struct {
	db    *store.Store
	age   time.Duration
	limit int
}

// NewReplyCache returns a cache that keeps replies for age, and at most the newest limit of each
// tenant.
func NewReplyCache(db *store.Store, age time.Duration, limit int) ReplyCache {
	return ReplyCache{db, age, limit}
}

var _ llm.Cache = ReplyCache{}

const (
	cachedSQL = `SELECT reply FROM llm_cache WHERE tenant_id = $1 AND key = $2 AND created_at > now() - $3::interval`

	// Purge locks versions before it removes what was made from them. So it either waits for this
	// transaction and then finds the reply, or this transaction sees that the version is purged.
	lockCachedVersionsSQL = `SELECT id FROM versions WHERE tenant_id = $1 AND id = ANY ($2) AND purged_at IS NULL ORDER BY id FOR KEY SHARE`

	cacheSQL = `
INSERT INTO llm_cache (tenant_id, key, reply) VALUES ($1, $2, $3)
ON CONFLICT (tenant_id, key) DO UPDATE SET reply = excluded.reply, created_at = now()`
	cacheVersionsSQL = `
INSERT INTO llm_cache_versions (tenant_id, version_id, key) SELECT $1, unnest($3::uuid[]), $2 ON CONFLICT DO NOTHING`
	boundCacheSQL = `
DELETE FROM llm_cache WHERE tenant_id = $1 AND (created_at <= now() - $2::interval
    OR created_at <= (SELECT created_at FROM llm_cache WHERE tenant_id = $1 ORDER BY created_at DESC OFFSET $3 LIMIT 1))`
)

// Load implements llm.Cache.
func (c ReplyCache) Load(ctx context.Context, tenant uuid.UUID, key [sha256.Size]byte) (reply wire.LLMReply, found bool, err error) {
	err = c.db.AsTenant(ctx, tenant, func(ctx context.Context, tx pgx.Tx) error {
		reply, found = wire.LLMReply{}, false
		err := tx.QueryRow(ctx, cachedSQL, tenant, key[:], c.age).Scan(&reply)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		found = err == nil
		return err
	})
	return reply, found, store.Wrap(err, "look for a cached reply")
}

// Save implements llm.Cache. It does not store a reply that was made from a purged version.
func (c ReplyCache) Save(ctx context.Context, tenant uuid.UUID, key [sha256.Size]byte, versions []uuid.UUID, reply wire.LLMReply) error {
	encoded, err := json.Marshal(reply)
	if err != nil {
		return fmt.Errorf("encode a reply: %w", err)
	}
	versions = slices.Clone(versions)
	slices.SortFunc(versions, func(a, b uuid.UUID) int { return slices.Compare(a[:], b[:]) })
	versions = slices.Compact(versions)
	err = c.db.AsTenant(ctx, tenant, func(ctx context.Context, tx pgx.Tx) error {
		existing, err := store.IDs(tx.Query(ctx, lockCachedVersionsSQL, tenant, versions))
		if err != nil {
			return fmt.Errorf("lock versions: %w", err)
		}
		if len(existing) != len(versions) {
			return nil
		}
		b := &pgx.Batch{}
		b.Queue(cacheSQL, tenant, key[:], encoded)
		b.Queue(cacheVersionsSQL, tenant, key[:], versions)
		b.Queue(boundCacheSQL, tenant, c.age, c.limit)
		return tx.SendBatch(ctx, b).Close()
	})
	return store.Wrap(err, "cache a reply")
}
