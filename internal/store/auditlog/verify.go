package auditlog

// This file verifies a chain as it is stored in the database.

import (
	"context"
	"encoding/hex"
	"fmt"
	"math"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/audit"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema"
)

const (
	changesChainSQL = `SELECT number, hash, kept_after, kept_hash FROM audit_chains WHERE tenant_id = $1`
	readsChainSQL   = `SELECT number, hash, kept_after, kept_hash FROM audit_read_chains WHERE tenant_id = $1`
	shortenedSQL    = `SELECT EXISTS (SELECT FROM audit_read_chains WHERE tenant_id = $1 AND kept_after > $2)`
	// An entry and its link are committed together.
	looseChangesSQL = `
SELECT a.id FROM audit a
WHERE a.tenant_id = $1 AND NOT EXISTS (SELECT FROM audit_links l WHERE l.tenant_id = $1 AND l.entry_id = a.id) ORDER BY a.id LIMIT 1`
)

// verifyBatch is the number of entries that are read at a time.
const verifyBatch = 2000

// VerifyAudit walks one of tenant's chains, as it is now, and reports the first position at which
// it is broken.
func (s *AuditStore) VerifyAudit(ctx context.Context, tenant uuid.UUID, chain schema.AuditChain) (schema.AuditVerdict, error) {
	for {
		var out schema.AuditVerdict
		err := s.db.In(store.Batch).ReadTenant(ctx, tenant, func(ctx context.Context, tx pgx.Tx) (err error) {
			out, err = verify(ctx, tx, tenant, chain)
			return err
		})
		again := false
		if err == nil && out.Break != nil && chain == schema.AuditReads {
			again, err = s.shortened(ctx, tenant, out.KeptAfter)
		}
		if !again {
			return out, store.Wrap(err, "verify the chain of %s", chain)
		}
	}
}

// shortened reports whether the chain of reads no longer begins after the entry with number after.
// When retention drops a month, its entries are missing at once, also for a transaction that sees
// the chain as it was before.
func (s *AuditStore) shortened(ctx context.Context, tenant uuid.UUID, after int64) (yes bool, err error) {
	err = s.db.AsTenant(ctx, tenant, func(ctx context.Context, tx pgx.Tx) error {
		return tx.QueryRow(ctx, shortenedSQL, tenant, after).Scan(&yes)
	})
	return yes, err
}

func verify(ctx context.Context, tx pgx.Tx, tenant uuid.UUID, chain schema.AuditChain) (schema.AuditVerdict, error) {
	out := schema.AuditVerdict{Chain: chain}
	sql := changesChainSQL
	if chain == schema.AuditReads {
		sql = readsChainSQL
	}
	var end, kept []byte
	if err := tx.QueryRow(ctx, sql, tenant).Scan(&out.Number, &end, &out.KeptAfter, &kept); err != nil && !store.IsNoRows(err) {
		return out, fmt.Errorf("read the ends of the chain: %w", err)
	}
	out.Hash = hex.EncodeToString(end)
	walk := audit.Begin(out.KeptAfter, kept)
	for after := int64(math.MinInt64); out.Break == nil; {
		entries, err := entriesAfter(ctx, tx, tenant, chain, after, verifyBatch)
		if err != nil {
			return out, err
		}
		for _, e := range entries {
			if out.Break = walk.Next(e.link(tenant)); out.Break != nil {
				break
			}
		}
		if len(entries) < verifyBatch {
			break
		}
		after = entries[len(entries)-1].number
	}
	if out.Break == nil {
		out.Break = walk.End(out.Number, end)
	}
	out.Entries, out.Removed = walk.Counts()
	if out.Break != nil || chain == schema.AuditReads {
		return out, nil
	}
	var loose uuid.UUID
	err := tx.QueryRow(ctx, looseChangesSQL, tenant).Scan(&loose)
	if store.IsNoRows(err) {
		return out, nil
	}
	out.Break = &schema.AuditBreak{Problem: fmt.Sprintf("the entry %s was inserted: it has no place in the chain", loose)}
	return out, err
}
