package backups

// This file writes the rows of one tenant, table by table, in the format of COPY.

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/backup"
	"github.com/sluice-rag/sluice/internal/store"
)

// contentsFile lists the tables of a tenant's rows.
const contentsFile = "contents.json"

// contents describe a tenant's exported directory.
type contents struct {
	Tables []table `json:"tables"` // in the order in which they are loaded
	Spaces []space `json:"spaces"`
}

// table is a table that has rows of a tenant.
type table struct {
	Name    string   `json:"name"`
	Columns []string `json:"columns"` // those that are written
	Rows    int64    `json:"rows"`
}

// file returns the path of the compressed rows.
func (t table) file(dir string) string { return filepath.Join(dir, t.Name+".copy.gz") }

func (t table) sanitized() string { return pgx.Identifier{"public", t.Name}.Sanitize() }

// tenantColumn returns the column that has the tenant's id.
func (t table) tenantColumn() string {
	if t.Name == "tenants" {
		return "id"
	}
	return "tenant_id"
}

func (t table) columns() string {
	names := make([]string, len(t.Columns))
	for i, c := range t.Columns {
		names[i] = pgx.Identifier{c}.Sanitize()
	}
	return strings.Join(names, ", ")
}

// space is a space of vectors. Its number differs between installations.
type space struct {
	ID        int    `json:"id"`
	Name      string `json:"name"`
	Dimension int    `json:"dimension"`
}

const (
	// Leaves out what belongs to one installation only: queued and running work, which the other
	// one queues again, caches, sessions, who read what, webhook deliveries, and which vectors have
	// partitions, which curation recreates.
	exportedSQL = `
SELECT c.relname, array_agg(a.attname::text ORDER BY a.attnum)
FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = '' AND a.attidentity <> 'a'
WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition
  AND (c.relname = 'tenants' OR EXISTS (SELECT FROM pg_attribute t WHERE t.attrelid = c.oid AND t.attname = 'tenant_id' AND NOT t.attisdropped))
  AND c.relname <> ALL ('{outbox, leases, artifacts, idempotency, llm_cache, llm_cache_versions, llm_reservations, llm_leases, loose_objects,
    sessions, webhook_deliveries, vector_shards, audit_read_chains, audit_reads, audit_sent}')
GROUP BY c.relname ORDER BY c.relname <> 'tenants', c.relname`
	findTenantSQL = `SELECT id, name FROM public.tenants WHERE name = $1 OR id::text = $1`
	spacesSQL     = `SELECT id, name, dimension FROM public.spaces ORDER BY id`
)

// find looks up the tenant that is exported.
func (s *Snapshot) find(ctx context.Context, tenant string) error {
	var id uuid.UUID
	err := s.conn.QueryRow(ctx, findTenantSQL, tenant).Scan(&id, &s.about.Tenant)
	s.tenant = &id
	return store.Wrap(store.Named(err, "tenant", tenant), "find the tenant")
}

// dumpTenant writes the tenant's rows into a directory.
func (s *Snapshot) dumpTenant(ctx context.Context, dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return fmt.Errorf("make the directory of the rows: %w", err)
	}
	rows, err := s.conn.Query(ctx, exportedSQL)
	if err != nil {
		return fmt.Errorf("list tables: %w", err)
	}
	var c contents
	if c.Tables, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (t table, err error) {
		err = row.Scan(&t.Name, &t.Columns)
		return t, err
	}); err != nil {
		return fmt.Errorf("list tables: %w", err)
	}
	if rows, err = s.conn.Query(ctx, spacesSQL); err != nil {
		return fmt.Errorf("list spaces of vectors: %w", err)
	}
	if c.Spaces, err = pgx.CollectRows(rows, pgx.RowToStructByPos[space]); err != nil {
		return fmt.Errorf("list spaces of vectors: %w", err)
	}
	for i := range c.Tables {
		t := &c.Tables[i]
		if err := s.writeRows(ctx, t, dir); err != nil {
			return fmt.Errorf("write the rows of %s: %w", t.Name, store.Translate(err))
		}
		s.counted.Tables = append(s.counted.Tables, backup.TableCount{Name: "public." + t.Name, Rows: t.Rows})
	}
	text, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return fmt.Errorf("list what was written: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, contentsFile), append(text, '\n'), 0o600); err != nil {
		return fmt.Errorf("list what was written: %w", err)
	}
	s.counted.Tenants, err = countDocuments(ctx, s.conn, s.tenant)
	return err
}

func (s *Snapshot) writeRows(ctx context.Context, t *table, dir string) (err error) {
	f, err := os.OpenFile(t.file(dir), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	z, err := gzip.NewWriterLevel(f, gzip.BestSpeed)
	if err != nil {
		return err
	}
	if t.Rows, err = copyOut(ctx, s.conn, *t, *s.tenant, z); err != nil {
		return err
	}
	return z.Close()
}

// copyOut copies a tenant's rows of a table. All vectors are written as belonging to the shared
// partition.
func copyOut(ctx context.Context, conn *pgx.Conn, t table, tenant uuid.UUID, w io.Writer) (int64, error) {
	columns := t.columns()
	if strings.HasPrefix(t.Name, "vectors_") {
		columns = strings.Replace(columns, `"shard"`, store.SharedShard, 1)
	}
	// COPY takes no parameters; a UUID is hexadecimal digits.
	tag, err := conn.PgConn().CopyTo(ctx, w, fmt.Sprintf(`COPY (SELECT %s FROM %s WHERE %s = '%s') TO STDOUT (FORMAT binary)`,
		columns, t.sanitized(), t.tenantColumn(), tenant))
	return tag.RowsAffected(), err
}
