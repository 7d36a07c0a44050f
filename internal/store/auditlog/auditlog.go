// Package auditlog keeps the audit log: a hash chain of changes and one of reads for each tenant.
// store.Audit writes changes in the transactions that make them, and the database chains them when
// these commit; reads are appended in batches.
package auditlog

import (
	"context"
	"encoding/hex"
	"fmt"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/audit"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema"
)

// AuditStore keeps the audit log.
type AuditStore struct{ db *store.Store }

// New returns the AuditStore of a database.
func New(db *store.Store) *AuditStore { return &AuditStore{db} }

// stored is an entry with its number and hash in its chain.
type stored struct {
	number  int64
	hash    []byte
	written time.Time // of a read
	removed bool      // of a change: retention removed it
	change  *schema.AuditChange
	read    *schema.AuditRead
}

// link returns what a walk over the chain needs of an entry.
func (e stored) link(tenant uuid.UUID) audit.ChainLink {
	l := audit.ChainLink{Number: e.number, Hash: e.hash, Removed: e.removed}
	switch {
	case e.read != nil:
		l.Fields = audit.ReadFields(tenant, e.number, e.written, *e.read)
	case e.change != nil:
		l.Fields = audit.ChangeFields(tenant, e.number, *e.change)
	}
	return l
}

func (e stored) line(chain schema.AuditChain, tenant uuid.UUID) schema.AuditLine {
	l := schema.AuditLine{Chain: chain, Tenant: tenant, Number: e.number, Hash: hex.EncodeToString(e.hash), Change: e.change, Read: e.read}
	if e.read != nil {
		l.Written = &e.written
	}
	return l
}

// numberOf parses a cursor that is an entry's number. An empty cursor is 0.
func numberOf(cursor string) (int64, error) {
	if cursor == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(cursor, 10, 64)
	if err != nil || n < 0 {
		return 0, schema.Invalid("cursor", "is not the cursor of a previous page")
	}
	return n, nil
}

// pageLimit returns the number of entries of a page, bounded as by store.PageOf.
func pageLimit(q schema.PageQuery) (int, error) {
	pg, err := store.PageOf(schema.PageQuery{Limit: q.Limit})
	return pg.Limit, err
}

// zeroIsNull returns nil, NULL in SQL, for the zero time.
func zeroIsNull(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// AuditLines returns up to limit entries of tenant's chain after the entry with number after, in
// the chain's order, for an export.
func (s *AuditStore) AuditLines(ctx context.Context, tenant uuid.UUID, chain schema.AuditChain, after int64, limit int) ([]schema.AuditLine, error) {
	out := []schema.AuditLine{}
	err := s.db.AsTenant(ctx, tenant, func(ctx context.Context, tx pgx.Tx) error {
		for len(out) == 0 { // retention may have removed a whole page
			entries, err := entriesAfter(ctx, tx, tenant, chain, after, limit)
			if err != nil || len(entries) == 0 {
				return err
			}
			for _, e := range entries {
				if !e.removed {
					out = append(out, e.line(chain, tenant))
				}
			}
			after = entries[len(entries)-1].number
		}
		return nil
	})
	return out, store.Wrap(err, "export the audit log")
}

// entriesAfter reads up to limit entries of a chain after the one with number after.
func entriesAfter(ctx context.Context, tx pgx.Tx, tenant uuid.UUID, chain schema.AuditChain, after int64, limit int) ([]stored, error) {
	sql, scan := changesAfterSQL, scanChange
	if chain == schema.AuditReads {
		sql, scan = readsAfterSQL, scanRead
	}
	rows, err := tx.Query(ctx, sql, tenant, after, limit)
	if err != nil {
		return nil, err
	}
	entries, err := pgx.CollectRows(rows, scan)
	if err != nil {
		return nil, fmt.Errorf("read the chain of %s: %w", chain, err)
	}
	return entries, nil
}
