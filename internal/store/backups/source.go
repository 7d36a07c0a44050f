// Package backups reads and writes whole databases for backups, with pg_dump and
// pg_restore, and single tenants, past row-level security.
package backups

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/backup"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema"
)

// AdminSetting is the setting with the URL of a login that row-level security does not bind.
const AdminSetting = "SLUICE_DATABASE_ADMIN_URL"

// SourceOptions say what is backed up, and how.
type SourceOptions struct {
	URL     string        // of AdminSetting
	Tools   FindTools     // not used for one tenant
	Jobs    int           // tables that are dumped at once
	Objects store.Objects // nil: none
	Tenant  string        // name or id of the only tenant that is read; empty: all are
}

// Snapshot is a database at one moment: a transaction whose snapshot the transactions of pg_dump
// use too. While it is open no file in S3 is deleted.
type Snapshot struct {
	options SourceOptions
	conn    *pgx.Conn
	tools   Tools
	about   backup.About
	id      string        // of the snapshot
	tenant  *uuid.UUID    // the only one that is read; nil: all are
	counted backup.Counts // of what was written for a single tenant
}

var _ backup.Source = (*Snapshot)(nil)

const (
	bypassesSQL = `SELECT rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = current_user`
	aboutSQL    = `
SELECT (SELECT max(version_id) FROM public.goose_db_version WHERE is_applied), current_setting('server_version'),
       current_setting('server_version_num')::int / 10000, (SELECT pg_get_userbyid(relowner)::text FROM pg_class WHERE oid = 'public.tenants'::regclass),
       (SELECT string_agg(extname || ' ' || extversion, ', ' ORDER BY extname) FROM pg_extension WHERE extname <> 'plpgsql'),
       pg_export_snapshot()`
	tablesSQL = `
SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname IN ('public', 'sluice_vectors') AND c.relkind = 'r'
  AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e')
ORDER BY 1, 2`
	tenantsSQL = `
SELECT t.id, t.name, (SELECT count(*) FROM public.documents d WHERE d.tenant_id = t.id AND d.deleted_at IS NULL) FROM public.tenants t
WHERE $1::uuid IS NULL OR t.id = $1 ORDER BY t.id`
	objectsSQL = `
SELECT tenant_id, sha256, bytes, object FROM public.blobs WHERE object IS NOT NULL AND ($1::uuid IS NULL OR tenant_id = $1) ORDER BY tenant_id, sha256`
	anyObjectsSQL = `SELECT EXISTS (SELECT FROM public.blobs WHERE object IS NOT NULL AND ($1::uuid IS NULL OR tenant_id = $1))`
)

// OpenSource takes a snapshot. Close releases it.
func OpenSource(ctx context.Context, o SourceOptions) (_ *Snapshot, err error) {
	if _, _, err := toolAddress(AdminSetting, o.URL); err != nil {
		return nil, err
	}
	s := &Snapshot{options: o}
	if s.conn, err = connect(ctx, AdminSetting, o.URL, "sluice backup"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close(context.WithoutCancel(ctx)))
		}
	}()
	if err := checkBypass(ctx, s.conn); err != nil {
		return nil, err
	}
	// Before the snapshot: objects that it refers to are not deleted until it is closed.
	var alone bool
	if err := s.conn.QueryRow(ctx, `SELECT pg_try_advisory_lock($1)`, store.ObjectsLock).Scan(&alone); err != nil {
		return nil, fmt.Errorf("keep files in S3 from being deleted: %w", err)
	}
	if !alone {
		return nil, fmt.Errorf("another backup of this database runs, or files in S3 are being deleted; try again when it is done: %w", schema.ErrConflict)
	}
	if _, err := s.conn.Exec(ctx, `BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY`); err != nil {
		return nil, fmt.Errorf("take a snapshot: %w", err)
	}
	if err := s.conn.QueryRow(ctx, aboutSQL).Scan(&s.about.Schema, &s.about.Postgres, &s.about.Major, &s.about.Owner, &s.about.Extensions, &s.id); err != nil {
		return nil, fmt.Errorf("take a snapshot: %w", store.Translate(err))
	}
	if err := checkErased(ctx, s.conn); err != nil {
		return nil, err
	}
	if o.Tenant != "" {
		if err := s.find(ctx, o.Tenant); err != nil {
			return nil, err
		}
	} else if s.tools, err = o.Tools(ctx, s.about.Major); err != nil {
		return nil, err
	}
	s.about.DumpMajor = s.tools.Major
	var objects bool
	if err := s.conn.QueryRow(ctx, anyObjectsSQL, s.tenant).Scan(&objects); err != nil {
		return nil, fmt.Errorf("look for files in S3: %w", err)
	}
	if objects && o.Objects == nil {
		return nil, schema.Invalid("SLUICE_S3_ENDPOINT", "must be set: bytes of documents are in S3, and belong to the backup")
	}
	return s, nil
}

// connect opens a connection without time limits.
func connect(ctx context.Context, setting, address, name string) (*pgx.Conn, error) {
	config, err := pgx.ParseConfig(address)
	if err != nil {
		return nil, &schema.FieldError{Field: setting, Problem: err.Error()}
	}
	for name, value := range map[string]string{
		"application_name": name, "statement_timeout": "0", "idle_in_transaction_session_timeout": "0", "timezone": "UTC",
	} {
		config.RuntimeParams[name] = value
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("connect (%s): %w", setting, store.Translate(err))
	}
	return conn, nil
}

func checkBypass(ctx context.Context, conn *pgx.Conn) error {
	var bypasses, migrated bool
	if err := conn.QueryRow(ctx, bypassesSQL).Scan(&bypasses); err != nil {
		return fmt.Errorf("look up the rights of the login: %w", err)
	}
	if !bypasses {
		return schema.Invalid(AdminSetting, "login %q sees no tenant's rows; it needs to be a superuser, or a role with BYPASSRLS that may read all tables: "+
			"CREATE ROLE sluice_backup LOGIN BYPASSRLS PASSWORD '...'; GRANT pg_read_all_data TO sluice_backup", conn.Config().User)
	}
	if err := conn.QueryRow(ctx, `SELECT to_regclass('public.tenants') IS NOT NULL`).Scan(&migrated); err != nil {
		return fmt.Errorf("look for the schema: %w", err)
	}
	if !migrated {
		return schema.Invalid(AdminSetting, "database %q has no tables of Sluice; name the one that the programs work with", conn.Config().Database)
	}
	return nil
}

// checkErased refuses a database with a partly erased tenant, which could not be restored.
func checkErased(ctx context.Context, conn *pgx.Conn) error {
	var name string
	err := conn.QueryRow(ctx, `SELECT name FROM public.erasures WHERE finished_at IS NULL LIMIT 1`).Scan(&name)
	switch {
	case store.IsNoRows(err):
		return nil
	case err != nil:
		return fmt.Errorf("look for tenants that are being erased: %w", store.Translate(err))
	}
	return fmt.Errorf("tenant %s is erased in part; run sluice tenants erase of it to its end first: %w", name, schema.ErrConflict)
}

// Close releases the snapshot.
func (s *Snapshot) Close(ctx context.Context) error { return s.conn.Close(ctx) }

// About implements backup.Source.
func (s *Snapshot) About() backup.About { return s.about }

// Dump implements backup.Source.
func (s *Snapshot) Dump(ctx context.Context, dir string) error {
	if s.tenant != nil {
		return s.dumpTenant(ctx, dir)
	}
	address, password, err := toolAddress(AdminSetting, s.options.URL)
	if err != nil {
		return err
	}
	return runTool(ctx, nil, s.tools.Dump, password, "--dbname="+address, "--no-password", "--format=directory", "--file="+dir,
		"--jobs="+strconv.Itoa(max(s.options.Jobs, 1)), "--snapshot="+s.id, "--compress=1", "--no-comments", "--no-publications", "--no-subscriptions")
}

// Count implements backup.Source.
func (s *Snapshot) Count(ctx context.Context) (backup.Counts, error) {
	if s.tenant != nil {
		return s.counted, nil
	}
	return count(ctx, s.conn)
}

// count counts the rows of all tables. conn must not be bound by row-level security.
func count(ctx context.Context, conn *pgx.Conn) (backup.Counts, error) {
	var c backup.Counts
	rows, err := conn.Query(ctx, tablesSQL)
	if err != nil {
		return c, fmt.Errorf("list tables: %w", err)
	}
	names, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (pgx.Identifier, error) {
		name := make(pgx.Identifier, 2)
		err := row.Scan(&name[0], &name[1])
		return name, err
	})
	if err != nil {
		return c, fmt.Errorf("list tables: %w", err)
	}
	for _, name := range names {
		t := backup.TableCount{Name: name[0] + "." + name[1]}
		if err := conn.QueryRow(ctx, `SELECT count(*) FROM `+name.Sanitize()).Scan(&t.Rows); err != nil {
			return c, fmt.Errorf("count the rows of %s: %w", t.Name, err)
		}
		c.Tables = append(c.Tables, t)
	}
	c.Tenants, err = countDocuments(ctx, conn, nil)
	return c, err
}

// countDocuments counts the documents of one tenant, or of all when tenant is nil.
func countDocuments(ctx context.Context, conn *pgx.Conn, tenant *uuid.UUID) ([]backup.TenantCount, error) {
	rows, err := conn.Query(ctx, tenantsSQL, tenant)
	if err != nil {
		return nil, fmt.Errorf("count documents: %w", err)
	}
	counts, err := pgx.CollectRows(rows, pgx.RowToStructByPos[backup.TenantCount])
	return counts, store.Wrap(err, "count documents")
}

// Objects implements backup.Source.
func (s *Snapshot) Objects(ctx context.Context, fn func(backup.Object) error) error {
	rows, err := s.conn.Query(ctx, objectsSQL, s.tenant)
	if err != nil {
		return fmt.Errorf("list files in S3: %w", err)
	}
	var o backup.Object
	_, err = pgx.ForEachRow(rows, []any{&o.Tenant, &o.SHA256, &o.Bytes, &o.ID}, func() error {
		one := o
		one.SHA256 = slices.Clone(o.SHA256)
		return fn(one)
	})
	return store.Wrap(err, "list files in S3")
}

// Open implements backup.Source.
func (s *Snapshot) Open(ctx context.Context, o backup.Object) (io.ReadCloser, error) {
	r, err := s.options.Objects.Open(ctx, store.Object{Tenant: o.Tenant, SHA256: o.SHA256, Bytes: o.Bytes, ID: o.ID}, 0)
	if errors.Is(err, schema.ErrNotFound) {
		return nil, fmt.Errorf("file %x of tenant %s is missing in S3; sluice blobs check names all such files: %w", o.SHA256, o.Tenant, err)
	}
	return r, err
}
