package auditlog

// This file appends and queries the audit entries of reads.

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sluice-rag/sluice/internal/audit"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema"
)

const (
	// A writer locks the end of the chain until it commits.
	readsEndSQL = `
SELECT number, hash, greatest(written, clock_timestamp()) FROM audit_read_chains WHERE tenant_id = $1 FOR UPDATE`
	// Reads of an erased tenant may still wait in a process: they begin no chain.
	beginReadsSQL = `
INSERT INTO audit_read_chains (tenant_id) SELECT $1::uuid WHERE $1 = $2::uuid OR EXISTS (SELECT FROM tenants WHERE id = $1) ON CONFLICT DO NOTHING`

	insertReadsSQL = `
INSERT INTO audit_reads (tenant_id, written, number, hash, id, at, action, status, via, key_id, key_name, person, address, agent, trace,
    collection, target, query, documents)
SELECT $1, $2, number, hash, id, at, action, status, via, nullif(key_id, '')::uuid, key_name, person, address, agent, trace,
    collection, target, query, ('{' || documents || '}')::uuid[]
FROM unnest($3::bigint[], $4::bytea[], $5::uuid[], $6::timestamptz[], $7::text[], $8::int[], $9::text[], $10::text[], $11::text[], $12::text[],
    $13::text[], $14::text[], $15::text[], $16::text[], $17::text[], $18::text[], $19::text[])
    AS r (number, hash, id, at, action, status, via, key_id, key_name, person, address, agent, trace, collection, target, query, documents)`
	endReadsSQL = `UPDATE audit_read_chains SET number = $2, hash = $3, written = $4 WHERE tenant_id = $1`

	readColumns = `number, hash, written, id, at, action, status, via, key_id, key_name, person, address, agent, trace, collection, target, query, documents`

	readPageSQL = `
SELECT ` + readColumns + ` FROM audit_reads
WHERE tenant_id = $1 AND ($2 = 0 OR number < $2)
  AND ($4::timestamptz IS NULL OR at >= $4) AND ($5::timestamptz IS NULL OR at < $5) AND ($6 = '' OR action = $6)
  AND ($7 = '' OR key_id::text = $7 OR key_name = $7 OR person = $7)
  AND ($8::uuid IS NULL OR target = $8::text OR $8 = ANY (documents)) AND ($9::uuid IS NULL OR collection = $9::text)
ORDER BY number DESC LIMIT $3`
	readsAfterSQL = `
SELECT ` + readColumns + ` FROM audit_reads WHERE tenant_id = $1 AND number > $2 ORDER BY number, written LIMIT $3`
)

// monthsAhead is the number of coming months for which partitions are created in advance.
const monthsAhead = 2

// AppendReads appends reads to tenant's chain, in their order. Processes that write for one tenant
// wait for each other only. The error is schema.ErrNotFound when there is no such tenant.
func (s *AuditStore) AppendReads(ctx context.Context, tenant uuid.UUID, reads []schema.AuditRead) error {
	err := s.appendReads(ctx, tenant, reads)
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.Code == "23514" { // this month's partition is missing
		if err := s.MakeAuditMonths(ctx); err != nil {
			return err
		}
		err = s.appendReads(ctx, tenant, reads)
	}
	return store.Wrap(err, "append %d reads to the audit log of tenant %s", len(reads), tenant)
}

func (s *AuditStore) appendReads(ctx context.Context, tenant uuid.UUID, reads []schema.AuditRead) error {
	return s.db.AsTenant(ctx, tenant, func(ctx context.Context, tx pgx.Tx) error {
		var number int64
		var hash []byte
		var written time.Time
		err := tx.QueryRow(ctx, readsEndSQL, tenant).Scan(&number, &hash, &written)
		if store.IsNoRows(err) {
			if _, err := tx.Exec(ctx, beginReadsSQL, tenant, schema.Nobody); err != nil {
				return err
			}
			err = tx.QueryRow(ctx, readsEndSQL, tenant).Scan(&number, &hash, &written)
		}
		if err != nil {
			return fmt.Errorf("take the end of the chain: %w", err)
		}
		c := newColumns(len(reads))
		for _, r := range reads {
			number++
			hash = audit.Hash(hash, audit.ReadFields(tenant, number, written, r))
			c.add(number, hash, r)
		}
		b := &pgx.Batch{}
		b.Queue(insertReadsSQL, tenant, written, c.numbers, c.hashes, c.ids, c.at, c.text[0], c.statuses, c.text[1], c.text[2], c.text[3], c.text[4],
			c.text[5], c.text[6], c.text[7], c.text[8], c.text[9], c.text[10], c.text[11])
		b.Queue(endReadsSQL, tenant, number, hash, written)
		return tx.SendBatch(ctx, b).Close()
	})
}

// columns are reads as one array per column.
type columns struct {
	numbers  []int64
	hashes   [][]byte
	ids      []uuid.UUID
	at       []time.Time
	statuses []int32
	text     [12][]string
}

func newColumns(n int) *columns {
	c := &columns{numbers: make([]int64, 0, n), hashes: make([][]byte, 0, n), ids: make([]uuid.UUID, 0, n), at: make([]time.Time, 0, n), statuses: make([]int32, 0, n)}
	for i := range c.text {
		c.text[i] = make([]string, 0, n)
	}
	return c
}

func (c *columns) add(number int64, hash []byte, r schema.AuditRead) {
	key := ""
	if r.Key != nil {
		key = r.Key.String()
	}
	c.numbers, c.hashes, c.ids = append(c.numbers, number), append(c.hashes, hash), append(c.ids, r.ID)
	c.at, c.statuses = append(c.at, r.At), append(c.statuses, int32(r.Status))
	for i, text := range [...]string{r.Action, r.Via, key, r.KeyName, r.Person, r.Address, r.Agent, r.Trace, r.Collection, r.Target, r.Query, audit.Documents(r.Documents)} {
		c.text[i] = append(c.text[i], text)
	}
}

// Reads returns a page of tenant's audited reads, the last written first, and the cursor of the
// next page, which is empty on the last.
func (s *AuditStore) Reads(ctx context.Context, tenant uuid.UUID, q schema.AuditQuery) ([]schema.AuditRead, string, error) {
	limit, err := pageLimit(q.PageQuery)
	if err != nil {
		return nil, "", err
	}
	before, err := numberOf(q.Cursor)
	if err != nil {
		return nil, "", err
	}
	var found []stored
	err = s.db.AsTenant(ctx, tenant, func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, readPageSQL, tenant, before, limit+1,
			zeroIsNull(q.From), zeroIsNull(q.To), q.Action, q.Actor, store.NilIsNull(q.Document), store.NilIsNull(q.Collection))
		if err != nil {
			return err
		}
		found, err = pgx.CollectRows(rows, scanRead)
		return err
	})
	if err != nil {
		return nil, "", fmt.Errorf("list who read what: %w", err)
	}
	next := ""
	if len(found) > limit {
		found = found[:limit]
		next = strconv.FormatInt(found[limit-1].number, 10)
	}
	out := make([]schema.AuditRead, len(found))
	for i, e := range found {
		out[i] = *e.read
	}
	return out, next, nil
}

func scanRead(row pgx.CollectableRow) (e stored, err error) {
	var r schema.AuditRead
	err = row.Scan(&e.number, &e.hash, &e.written, &r.ID, &r.At, &r.Action, &r.Status, &r.Via, &r.Key, &r.KeyName, &r.Person, &r.Address, &r.Agent, &r.Trace,
		&r.Collection, &r.Target, &r.Query, &r.Documents)
	r.At, e.written, e.read = r.At.UTC(), e.written.UTC(), &r
	return e, err
}
