package backups

// This file restores a dump into an empty database, as its owner, who need not be a superuser.
// Row-level security is enabled with the indexes, after the rows: until then the owner sees and
// counts all rows.

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/backup"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/internal/store/blobs"
	"github.com/sluice-rag/sluice/schema"
)

// OwnerSetting is the setting with the URL of the database's owner.
const OwnerSetting = "SLUICE_DATABASE_OWNER_URL"

// TargetOptions say where a backup is restored.
type TargetOptions struct {
	Owner   string // URLs of the database, as for store.Migrate
	Program string
	Vectors string
	Tools   FindTools
	Jobs    int // tables that are loaded, and indexes that are built, at once
	// Store are the options with which the restored database is opened: they say where files go
	// that were kept in S3.
	Store    store.Options
	Progress func(string)
}

// Target is a database into which a backup is restored.
type Target struct {
	options TargetOptions
	tools   Tools
	db      *store.Store // opened once it is restored
}

var _ backup.Target = (*Target)(nil)

// NewTarget checks the options. The caller must close the target.
func NewTarget(o TargetOptions) (*Target, error) {
	if _, _, err := toolAddress(OwnerSetting, o.Owner); err != nil {
		return nil, err
	}
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	return &Target{options: o}, nil
}

// Close closes the restored database, if it was opened.
func (t *Target) Close() {
	if t.db != nil {
		t.db.Close()
	}
}

const (
	hereSQL = `
SELECT current_setting('server_version_num')::int / 10000,
       (SELECT n.nspname || '.' || c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname IN ('public', 'sluice_vectors') AND c.relkind IN ('r', 'p')
          AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e')
        ORDER BY c.relname = 'documents' DESC, 1 LIMIT 1),
       pg_has_role(current_user, (SELECT datdba FROM pg_database WHERE datname = current_database()), 'MEMBER')`

	// Policies for the owner name the role that owned the backed-up database.
	ownersPoliciesSQL = `
SELECT p.polname, c.oid::regclass::text FROM pg_policy p JOIN pg_class c ON c.oid = p.polrelid
WHERE p.polroles = ARRAY[(SELECT oid FROM pg_roles WHERE rolname = $1)]`
	partitionsSQL = `
SELECT c.relname FROM pg_class c WHERE c.relnamespace = 'sluice_vectors'::regnamespace AND c.relkind = 'r' ORDER BY 1`
	// The rows name objects that the backed-up installation may still use.
	dropLooseSQL = `TRUNCATE public.loose_objects`
)

// Known implements backup.Target.
func (t *Target) Known() int64 { return store.HighestMigration() }

// CheckEmpty implements backup.Target.
func (t *Target) CheckEmpty(ctx context.Context, m backup.Manifest) (err error) {
	conn, err := connect(ctx, OwnerSetting, t.options.Owner, "sluice restore")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	var major int
	var table *string
	var owns bool
	if err := conn.QueryRow(ctx, hereSQL).Scan(&major, &table, &owns); err != nil {
		return fmt.Errorf("look at the database: %w", store.Translate(err))
	}
	name := conn.Config().Database
	switch {
	case table != nil:
		return schema.Invalid(OwnerSetting, "database %q is not empty: it has the table %s. Restore into a new one, as by CREATE DATABASE restored OWNER %s; "+
			"what an interrupted restore has left goes with DROP DATABASE", name, *table, pgx.Identifier{conn.Config().User}.Sanitize())
	case !owns:
		return schema.Invalid(OwnerSetting, "login %q does not own database %q", conn.Config().User, name)
	case major < m.Major:
		return schema.Invalid(OwnerSetting, "the server is PostgreSQL %d, and the backup of PostgreSQL %d; restore it into that version or a newer one", major, m.Major)
	}
	t.tools, err = t.options.Tools(ctx, max(m.DumpMajor, major))
	return err
}

// Load implements backup.Target.
func (t *Target) Load(ctx context.Context, m backup.Manifest, dir string) error {
	if err := store.MakeRoles(ctx, t.options.Owner); err != nil {
		return err
	}
	return t.withOwner(ctx, m.Owner, func() error {
		return t.run(ctx, dir, "--section=pre-data", "--section=data")
	})
}

// run runs pg_restore, which stops at its first error.
func (t *Target) run(ctx context.Context, dir string, args ...string) error {
	address, password, err := toolAddress(OwnerSetting, t.options.Owner)
	if err != nil {
		return err
	}
	return runTool(ctx, nil, t.tools.Restore, password, append(args, "--dbname="+address, "--no-password", "--exit-on-error", "--no-owner", "--no-comments",
		"--jobs="+strconv.Itoa(max(t.options.Jobs, 1)), dir)...)
}

// finish restores what comes after the rows. Row-level security comes last: it also binds the
// owner, who validates foreign keys.
func (t *Target) finish(ctx context.Context, dir string) (err error) {
	var list bytes.Buffer
	if err := runTool(ctx, &list, t.tools.Restore, "", "--list", "--section=post-data", dir); err != nil {
		return err
	}
	var before, after []byte
	for line := range bytes.Lines(list.Bytes()) {
		if bytes.Contains(line, []byte(" ROW SECURITY ")) {
			after = append(after, line...)
		} else {
			before = append(before, line...)
		}
	}
	temporary, err := os.MkdirTemp("", "sluice-restore-*")
	if err != nil {
		return fmt.Errorf("keep the list of what is restored: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temporary)) }()
	path := filepath.Join(temporary, "list")
	for _, part := range [][]byte{before, after} {
		if err := os.WriteFile(path, part, 0o600); err != nil {
			return fmt.Errorf("keep the list of what is restored: %w", err)
		}
		if err := t.run(ctx, dir, "--use-list="+path); err != nil {
			return err
		}
	}
	return nil
}

// Count implements backup.Target.
func (t *Target) Count(ctx context.Context) (_ backup.Counts, err error) {
	conn, err := connect(ctx, OwnerSetting, t.options.Owner, "sluice restore")
	if err != nil {
		return backup.Counts{}, err
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	return count(ctx, conn)
}

// Finish implements backup.Target.
func (t *Target) Finish(ctx context.Context, m backup.Manifest, dir string) error {
	if err := t.asOwner(ctx, dropLooseSQL); err != nil {
		return err
	}
	if err := t.withOwner(ctx, m.Owner, func() error { return t.finish(ctx, dir) }); err != nil {
		return err
	}
	if err := t.transferPartitions(ctx); err != nil {
		return err
	}
	if err := t.asOwner(ctx, `ANALYZE`); err != nil {
		return err
	}
	return store.Migrate(ctx, t.options.Owner, t.options.Program, t.options.Vectors)
}

// withOwner runs f while the role exists that owned the backed-up database, because policies name
// it, and then gives those policies to the owner of this database.
func (t *Target) withOwner(ctx context.Context, role string, f func() error) (err error) {
	conn, err := connect(ctx, OwnerSetting, t.options.Owner, "sluice restore")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	if role == conn.Config().User {
		return f()
	}
	name := pgx.Identifier{role}.Sanitize()
	var exists bool
	if err := conn.QueryRow(ctx, `SELECT to_regrole($1) IS NOT NULL`, name).Scan(&exists); err != nil {
		return fmt.Errorf("look for role %q: %w", role, err)
	}
	if !exists {
		if _, err := conn.Exec(ctx, `CREATE ROLE `+name+` NOLOGIN`); err != nil {
			return fmt.Errorf("make role %q, which owned the database that was backed up, for as long as its policies are read: %w", role, store.Translate(err))
		}
		defer func() {
			_, dropping := conn.Exec(context.WithoutCancel(ctx), `DROP ROLE `+name)
			err = errors.Join(err, store.Wrap(dropping, "drop role %q again", role))
		}()
	}
	if err := f(); err != nil {
		return err
	}
	rows, err := conn.Query(ctx, ownersPoliciesSQL, role)
	if err != nil {
		return fmt.Errorf("list the owner's policies: %w", err)
	}
	type policy struct{ Name, Table string }
	policies, err := pgx.CollectRows(rows, pgx.RowToStructByPos[policy])
	if err != nil {
		return fmt.Errorf("list the owner's policies: %w", err)
	}
	for _, p := range policies {
		if _, err := conn.Exec(ctx, `ALTER POLICY `+pgx.Identifier{p.Name}.Sanitize()+` ON `+p.Table+` TO CURRENT_USER`); err != nil {
			return fmt.Errorf("give policy %s of %s to the owner: %w", p.Name, p.Table, err)
		}
	}
	return nil
}

// transferPartitions gives partitions of vectors to the role that owns them and builds their
// indexes.
func (t *Target) transferPartitions(ctx context.Context) (err error) {
	conn, err := connect(ctx, OwnerSetting, t.options.Owner, "sluice restore")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	rows, err := conn.Query(ctx, partitionsSQL)
	if err != nil {
		return fmt.Errorf("list partitions of vectors: %w", err)
	}
	partitions, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return fmt.Errorf("list partitions of vectors: %w", err)
	}
	for _, name := range partitions {
		if _, err := conn.Exec(ctx, `ALTER TABLE sluice_vectors.`+pgx.Identifier{name}.Sanitize()+` OWNER TO sluice_vectors`); err != nil {
			return fmt.Errorf("give partition %s to its owner: %w", name, store.Translate(err))
		}
	}
	return nil
}

func (t *Target) asOwner(ctx context.Context, sql string) (err error) {
	conn, err := connect(ctx, OwnerSetting, t.options.Owner, "sluice restore")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	return store.Execute(ctx, conn, sql)
}

// open opens the restored database with the rights of the program.
func (t *Target) open(ctx context.Context) (*blobs.BlobStore, error) {
	if t.db == nil {
		db, err := store.Open(ctx, t.options.Program, t.options.Store)
		if err != nil {
			return nil, err
		}
		t.db = db
		if err := db.CheckSchema(ctx); err != nil {
			return nil, err
		}
	}
	return blobs.New(t.db), nil
}

// PutObjects implements backup.Target.
func (t *Target) PutObjects(ctx context.Context, open func(uuid.UUID, []byte) (io.ReadCloser, error)) (backup.Tally, error) {
	b, err := t.open(ctx)
	if err != nil {
		return backup.Tally{}, err
	}
	done, err := b.PutAgain(ctx, &blobs.Run{Progress: t.progress("stored")}, func(o store.Object) (io.ReadCloser, error) { return open(o.Tenant, o.SHA256) })
	return backup.Tally{Files: done.Blobs, Bytes: done.Bytes}, err
}

// CheckBytes implements backup.Target.
func (t *Target) CheckBytes(ctx context.Context) (backup.Tally, []string, error) {
	b, err := t.open(ctx)
	if err != nil {
		return backup.Tally{}, nil, err
	}
	damaged := []string{}
	done, err := b.Check(ctx, &blobs.Run{
		Damage:   func(d *store.DamagedError) { damaged = append(damaged, d.Error()) },
		Progress: t.progress("compared"),
	})
	return backup.Tally{Files: done.Blobs, Bytes: done.Bytes}, damaged, err
}

// progressInterval is the least time between two lines of progress.
const progressInterval = 2 * time.Second

func (t *Target) progress(what string) func(blobs.Tally) {
	lastPrinted := time.Now()
	return func(p blobs.Tally) {
		if time.Since(lastPrinted) < progressInterval {
			return
		}
		lastPrinted = time.Now()
		t.options.Progress(fmt.Sprintf("%s %d of %d files", what, p.Blobs, p.AllBlobs))
	}
}
