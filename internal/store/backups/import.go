package backups

// This file adds an exported tenant to an installation, in one transaction. Rows are loaded with
// the rights of a superuser, so the contents of the directory are checked: each row must be the
// tenant's, and no key of the tenant may do what only this installation's operators may.

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/backup"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/internal/store/blobs"
	"github.com/sluice-rag/sluice/schema"
)

// ImportOptions say into which installation a tenant is imported.
type ImportOptions struct {
	URL      string // of AdminSetting, for a superuser
	Name     string // of the tenant in the installation; empty: its name in the export
	Progress func(string)
}

// Importer is a database into which a tenant is imported.
type Importer struct{ options ImportOptions }

var _ backup.Importer = (*Importer)(nil)

// NewImporter returns an Importer with these options.
func NewImporter(o ImportOptions) *Importer {
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	return &Importer{o}
}

const (
	hereTenantSQL = `
SELECT rolsuper, (SELECT max(version_id) FROM public.goose_db_version WHERE is_applied),
       (SELECT name FROM public.tenants WHERE id = $1), (SELECT name FROM public.tenants WHERE name = $2)
FROM pg_roles WHERE rolname = current_user`
	// The exporting database has checked foreign keys; triggers record changes whose rows are part
	// of the export.
	loadingSQL    = `SET LOCAL session_replication_role = replica`
	makeSpaceSQL  = `INSERT INTO public.spaces (name, dimension) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING`
	findSpaceSQL  = `SELECT id, dimension FROM public.spaces WHERE name = $1`
	spaceMapSQL   = `CREATE TEMPORARY TABLE imported_spaces (id int PRIMARY KEY, here int NOT NULL) ON COMMIT DROP`
	mapSpaceSQL   = `INSERT INTO imported_spaces VALUES ($1, $2)`
	revokedSQL    = `SELECT count(*) FROM public.api_keys WHERE tenant_id = $1 AND 'operator' = ANY (scopes)`
	inObjectsSQL  = `SELECT sha256, bytes FROM imported_rows WHERE object IS NOT NULL ORDER BY sha256`
	countFilesSQL = `SELECT count(*), coalesce(sum(bytes), 0)::bigint FROM public.blobs WHERE tenant_id = $1`
	// The chunks of a file are concatenated for hashing; their total is at most schema.MaxUpload.
	damagedSQL = `
SELECT encode(b.sha256, 'hex') FROM public.blobs b
WHERE b.tenant_id = $1 AND b.sha256 <> sha256(coalesce((
    SELECT string_agg(c.data, ''::bytea ORDER BY c.ordinal) FROM public.blob_chunks c WHERE c.tenant_id = b.tenant_id AND c.sha256 = b.sha256), ''))
ORDER BY 1 LIMIT 10`
)

// changed returns the columns that are not loaded as they were, each with the expression that is
// loaded in its place from a table imported_rows.
func changed(t table) map[string]string {
	out := map[string]string{}
	switch t.Name {
	case "tenants":
		out["name"] = "$1::text"
	case "api_keys":
		out["revoked_at"] = `CASE WHEN 'operator' = ANY (scopes) THEN coalesce(revoked_at, now()) ELSE revoked_at END`
	case "blobs":
		out["object"] = "NULL" // the bytes are stored in the database
	case "sources": // may be out of reach here; their secrets have another installation's key
		out["state"] = `CASE WHEN state = 'removing' THEN state ELSE 'paused' END`
		out["due_at"] = `CASE WHEN state = 'removing' THEN now() END`
	}
	if slices.Contains(t.Columns, "space_id") {
		out["space_id"] = `(SELECT here FROM imported_spaces s WHERE s.id = space_id)`
	}
	return out
}

// Import implements backup.Importer.
func (i *Importer) Import(ctx context.Context, m backup.Manifest, dir string, open func(sha256 []byte) (io.ReadCloser, error)) (_ backup.Imported, err error) {
	conn, err := connect(ctx, AdminSetting, i.options.URL, "sluice tenants import")
	if err != nil {
		return backup.Imported{}, err
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	l := &loading{importer: i, manifest: m, dir: dir, open: open, tenant: m.Tenants[0].ID, name: i.options.Name}
	if l.name == "" {
		l.name = m.Tenant
	}
	if err := l.check(ctx, conn); err != nil {
		return backup.Imported{}, err
	}
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error { return l.run(ctx, tx) })
	return l.done, store.Wrap(store.Translate(err), "import tenant %s; nothing was added", m.Tenant)
}

// loading is one import in progress.
type loading struct {
	importer *Importer
	manifest backup.Manifest
	dir      string
	open     func(sha256 []byte) (io.ReadCloser, error)
	tenant   uuid.UUID
	name     string
	contents contents
	done     backup.Imported
}

// check refuses what can't be imported, before anything is loaded.
func (l *loading) check(ctx context.Context, conn *pgx.Conn) error {
	text, err := os.ReadFile(filepath.Join(l.dir, contentsFile))
	if err != nil {
		return fmt.Errorf("read which tables the export has: %w", err)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&l.contents); err != nil {
		return &backup.DamagedError{Path: filepath.Join(l.dir, contentsFile), Problem: err.Error()}
	}
	var super bool
	var migration int64
	var sameID, sameName *string
	if err := conn.QueryRow(ctx, hereTenantSQL, l.tenant, l.name).Scan(&super, &migration, &sameID, &sameName); err != nil {
		return fmt.Errorf("look at the installation: %w", store.Translate(err))
	}
	switch {
	case !super:
		return schema.Invalid(AdminSetting, "login %q is not a superuser; only a superuser may load rows as they are", conn.Config().User)
	case migration != l.manifest.Schema:
		return schema.Invalid("dir", "the export is of the database's schema at migration %d (Sluice %s), and this installation at %d: "+
			"bring both to one version, and export again",
			l.manifest.Schema, l.manifest.Sluice, migration)
	case sameID != nil:
		return fmt.Errorf("the tenant is here already, as %s: %w", *sameID, schema.ErrConflict)
	case sameName != nil:
		return fmt.Errorf("a tenant named %s is here already; give this one another name (--name): %w", *sameName, schema.ErrConflict)
	}
	return l.checkTables(ctx, conn)
}

// checkTables refuses tables and columns that no export has.
func (l *loading) checkTables(ctx context.Context, conn *pgx.Conn) error {
	rows, err := conn.Query(ctx, exportedSQL)
	if err != nil {
		return fmt.Errorf("list tables: %w", err)
	}
	here := map[string][]string{}
	var name string
	var columns []string
	if _, err := pgx.ForEachRow(rows, []any{&name, &columns}, func() error {
		here[name] = slices.Clone(columns)
		return nil
	}); err != nil {
		return fmt.Errorf("list tables: %w", err)
	}
	for _, t := range l.contents.Tables {
		columns, ok := here[t.Name]
		delete(here, t.Name)
		for _, c := range t.Columns {
			ok = ok && slices.Contains(columns, c)
		}
		if !ok || len(t.Columns) == 0 {
			return &backup.DamagedError{Path: filepath.Join(l.dir, contentsFile), Problem: fmt.Sprintf("names table %q with the columns %q", t.Name, t.Columns)}
		}
	}
	if len(here) > 0 {
		return &backup.DamagedError{Path: filepath.Join(l.dir, contentsFile), Problem: fmt.Sprintf("lacks %d tables", len(here))}
	}
	return nil
}

func (l *loading) run(ctx context.Context, tx pgx.Tx) error {
	if _, err := tx.Exec(ctx, loadingSQL); err != nil {
		return err
	}
	if err := l.mapSpaces(ctx, tx); err != nil {
		return err
	}
	for _, t := range l.contents.Tables {
		if err := l.load(ctx, tx, t); err != nil {
			return fmt.Errorf("load the rows of %s: %w", t.Name, err)
		}
		l.done.Tables++
		l.done.Rows += t.Rows
	}
	l.importer.options.Progress("comparing documents with their hashes")
	rows, err := tx.Query(ctx, damagedSQL, l.tenant)
	if err != nil {
		return err
	}
	damaged, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}
	if len(damaged) > 0 {
		return fmt.Errorf("the bytes of documents are not those of their SHA-256 %s; sluice blobs check, where the tenant was exported, names all such files: %w",
			strings.Join(damaged, ", "), schema.ErrConflict)
	}
	if err := tx.QueryRow(ctx, countFilesSQL, l.tenant).Scan(&l.done.Files.Files, &l.done.Files.Bytes); err != nil {
		return err
	}
	counts, err := countDocuments(ctx, tx.Conn(), &l.tenant)
	if err != nil {
		return err
	}
	if want := l.manifest.Tenants[0].Documents; len(counts) != 1 || counts[0].Documents != want {
		return fmt.Errorf("the tenant has %+v, and had %d documents", counts, want)
	}
	l.done.Tenant = counts[0]
	return tx.QueryRow(ctx, revokedSQL, l.tenant).Scan(&l.done.Revoked)
}

// mapSpaces finds or creates the spaces of the tenant's vectors.
func (l *loading) mapSpaces(ctx context.Context, tx pgx.Tx) error {
	if _, err := tx.Exec(ctx, spaceMapSQL); err != nil {
		return err
	}
	for _, s := range l.contents.Spaces {
		if _, err := tx.Exec(ctx, makeSpaceSQL, s.Name, s.Dimension); err != nil {
			return fmt.Errorf("make space %s: %w", s.Name, err)
		}
		var here, dimension int
		if err := tx.QueryRow(ctx, findSpaceSQL, s.Name).Scan(&here, &dimension); err != nil {
			return fmt.Errorf("find space %s: %w", s.Name, err)
		}
		if dimension != s.Dimension {
			return schema.Invalid("dir", "space %s has %d dimensions there and %d here", s.Name, s.Dimension, dimension)
		}
		if _, err := tx.Exec(ctx, mapSpaceSQL, s.ID, here); err != nil {
			return err
		}
	}
	return nil
}

// load loads the rows of a table, all of which must be the tenant's.
func (l *loading) load(ctx context.Context, tx pgx.Tx, t table) error {
	load := l.loadAs
	if replaced := changed(t); len(replaced) > 0 {
		load = func(ctx context.Context, tx pgx.Tx, t table) (int64, error) {
			return l.loadChanged(ctx, tx, t, replaced)
		}
	}
	n, err := load(ctx, tx, t)
	if err != nil {
		return err
	}
	var own int64
	if err := tx.QueryRow(ctx, `SELECT count(*) FROM `+t.sanitized()+` WHERE `+t.tenantColumn()+` = $1`, l.tenant).Scan(&own); err != nil {
		return err
	}
	if n != t.Rows || own != n {
		return fmt.Errorf("%d rows were loaded, %d of them the tenant's, and the export has %d: %w", n, own, t.Rows, schema.ErrConflict)
	}
	if n > 0 {
		l.importer.options.Progress(fmt.Sprintf("loaded %d rows of %s", n, t.Name))
	}
	return nil
}

// loadAs loads rows as they are.
func (l *loading) loadAs(ctx context.Context, tx pgx.Tx, t table) (int64, error) {
	return l.copyIn(ctx, tx.Conn(), t, t.sanitized())
}

// loadChanged loads rows with replaced values in some columns.
func (l *loading) loadChanged(ctx context.Context, tx pgx.Tx, t table, replaced map[string]string) (int64, error) {
	if _, err := tx.Exec(ctx, `CREATE TEMPORARY TABLE imported_rows ON COMMIT DROP AS SELECT `+t.columns()+` FROM `+t.sanitized()+` LIMIT 0`); err != nil {
		return 0, err
	}
	n, err := l.copyIn(ctx, tx.Conn(), t, "imported_rows")
	if err != nil {
		return 0, err
	}
	var args []any
	switch t.Name {
	case "tenants":
		args = append(args, l.name)
	case "blobs":
		if err := l.addObjects(ctx, tx); err != nil {
			return 0, err
		}
	}
	values := make([]string, len(t.Columns))
	for i, c := range t.Columns {
		if values[i] = replaced[c]; values[i] == "" {
			values[i] = pgx.Identifier{c}.Sanitize()
		}
	}
	if _, err := tx.Exec(ctx, `INSERT INTO `+t.sanitized()+` (`+t.columns()+`) SELECT `+strings.Join(values, ", ")+` FROM imported_rows`, args...); err != nil {
		return 0, err
	}
	_, err = tx.Exec(ctx, `DROP TABLE imported_rows`)
	return n, err
}

func (l *loading) copyIn(ctx context.Context, conn *pgx.Conn, t table, into string) (_ int64, err error) {
	f, err := os.Open(t.file(l.dir))
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	z, err := gzip.NewReader(f)
	if err != nil {
		return 0, fmt.Errorf("read %s: %w", f.Name(), err)
	}
	tag, err := conn.PgConn().CopyFrom(ctx, z, `COPY `+into+` (`+t.columns()+`) FROM STDIN (FORMAT binary)`)
	return tag.RowsAffected(), err
}

// addObjects writes files that the export's installation kept in S3 into the database.
func (l *loading) addObjects(ctx context.Context, tx pgx.Tx) error {
	rows, err := tx.Query(ctx, inObjectsSQL)
	if err != nil {
		return err
	}
	type object struct {
		SHA256 []byte
		Bytes  int64
	}
	objects, err := pgx.CollectRows(rows, pgx.RowToStructByPos[object])
	if err != nil {
		return err
	}
	for _, o := range objects {
		if err := l.addObject(ctx, tx, o.SHA256); err != nil {
			return fmt.Errorf("add file %x: %w", o.SHA256, err)
		}
		l.done.Objects.Files++
		l.done.Objects.Bytes += o.Bytes
	}
	return nil
}

func (l *loading) addObject(ctx context.Context, tx pgx.Tx, sum []byte) (err error) {
	r, err := l.open(sum)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	return blobs.WriteChunks(ctx, tx, l.tenant, sum, r)
}
