package store_test

// This file moves a tenant from one installation to another.

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/backup"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/internal/store/backups"
	"github.com/sluice-rag/sluice/schema"
)

// notExported are the tables that are not exported.
var notExported = []string{
	"outbox", "leases", "artifacts", "idempotency", "llm_cache", "llm_cache_versions", "llm_reservations", "llm_leases", "loose_objects",
	"sessions", "webhook_deliveries", "vector_shards", "audit_read_chains", "audit_reads", "audit_sent",
}

// digests returns hashes of a tenant's rows by table, without the columns that an import sets.
func (f *fixture) digests(t *testing.T, p schema.Principal) map[string]string {
	t.Helper()
	conn := connect(t, adminURL(t, f.url))
	defer conn.Close(context.Background()) //nolint:errcheck // a test's
	out := map[string]string{}
	for _, tb := range tenantTables(t, f.owner) {
		name := strings.TrimPrefix(tb.name, "public.")
		if slices.Contains(notExported, name) {
			continue
		}
		set := map[string]string{"tenants": "{name}", "api_keys": "{revoked_at}", "blobs": "{object}", "collection_changes": "{id}", "tenant_changes": "{id}",
			"sources": "{state,due_at}"}[name]
		if set == "" {
			set = "{space_id,shard}"
		}
		if name == "blob_chunks" { // chunks of files in S3 are added
			continue
		}
		var text string
		if err := conn.QueryRow(t.Context(), `
			SELECT count(*) || ' ' || coalesce(md5(string_agg(x, ' ' ORDER BY x)), '') FROM (
			    SELECT (to_jsonb(r) - $2::text[])::text AS x FROM `+tb.name+` r WHERE `+tb.tenant+` = $1) rows`, p.Tenant, set).Scan(&text); err != nil {
			t.Fatal(err)
		}
		out[tb.name] = text
	}
	return out
}

// export exports a tenant.
func (f inS3) export(t *testing.T, tenant, dir string) backup.Manifest {
	t.Helper()
	from, err := backups.OpenSource(t.Context(), backups.SourceOptions{URL: adminURL(t, f.url), Objects: f.bucket, Tenant: tenant})
	if err != nil {
		t.Fatal(err)
	}
	return create(t, dir, from)
}

// importInto imports the tenant in dir into the installation of f.
func (f *fixture) importInto(t *testing.T, dir, name string) (backup.Imported, error) {
	t.Helper()
	return backup.Import(t.Context(), dir, backups.NewImporter(backups.ImportOptions{URL: adminURL(t, f.url), Name: name}), func(string) {})
}

func TestTenantsMove(t *testing.T) {
	f := setUpS3(t, store.Options{KeepSuperseded: -1})
	here := &fixture{All: open(t, f.url, store.Options{})} // new files go into the database
	contents := []string{"", "in S3", random(2<<20 + 5)}
	for i, c := range contents {
		f.upload(t, f.a, f.collection, text(fmt.Sprint(i), c))
	}
	here.upload(t, f.a, f.collection, text("chunks", "in the database"))
	f.upload(t, f.b, f.foreign, text("b.txt", "of b"))
	execAs(t, f.fixture, f.a, `INSERT INTO spaces (name, dimension) VALUES ('test', 256)`)
	for _, tb := range tenantTables(t, f.owner) {
		if tb.name == "tenants" || slices.Contains(madeByTriggers, tb.name) {
			continue
		}
		if err := f.AsTenant(t.Context(), f.a.Tenant, func(ctx context.Context, tx pgx.Tx) error {
			return insertRow(ctx, tx, tb, f.a.Tenant)
		}); err != nil {
			t.Fatalf("cannot make a row of %s: %v", tb.name, err)
		}
	}
	// Files of generated rows do not match their hash. One key is an operator's.
	execute(t, adminURL(t, f.url), `SET session_replication_role = replica; DELETE FROM blob_chunks WHERE data = '\x01';
		DELETE FROM blobs WHERE bytes = 1; UPDATE api_keys SET scopes = '{operator,query}' WHERE tenant_id = '`+f.a.Tenant.String()+`' AND name = 'x'`)
	dir := filepath.Join(t.TempDir(), "export")
	m := f.export(t, "tenant-a", dir)
	if m.Tenant != "tenant-a" || len(m.Tenants) != 1 || m.Objects.Files != 3 {
		t.Fatalf("exported %+v, %+v", m.About, m.Objects)
	}
	before := f.digests(t, f.a)
	for table, digest := range before {
		if strings.HasPrefix(digest, "0 ") {
			t.Errorf("the tenant has no row in %s: nothing is proved of it", table)
		}
	}
	if _, err := f.importInto(t, dir, ""); !errors.Is(err, schema.ErrConflict) {
		t.Errorf("where it came from: %v", err)
	}

	// Another installation: its tenants have the same names, and its first space is a different
	// one.
	to := setUp(t, store.Options{})
	execAs(t, to, to.a, `INSERT INTO spaces (name, dimension) VALUES ('other', 384)`)
	others := to.digests(t, to.b)
	if _, err := to.importInto(t, dir, ""); !errors.Is(err, schema.ErrConflict) || !strings.Contains(err.Error(), "--name") {
		t.Errorf("a name that is taken: %v", err)
	}
	if _, err := to.importInto(t, dir, "No Name"); !errors.Is(err, schema.ErrInvalid) {
		t.Errorf("a name that is none: %v", err)
	}
	r, err := to.importInto(t, dir, "moved")
	if err != nil {
		t.Fatal(err)
	}
	if r.Tenant.Name != "moved" || r.Tenant.Documents != m.Documents() || r.Files.Files != 4 || r.Objects.Files != 3 || r.Revoked != 1 {
		t.Errorf("imported %+v", r)
	}
	after := to.digests(t, f.a)
	for _, table := range slices.Sorted(maps.Keys(before)) {
		if before[table] != after[table] {
			t.Errorf("%s: %s was exported, %s is there", table, before[table], after[table])
		}
	}
	if now := to.digests(t, to.b); fmt.Sprint(now) != fmt.Sprint(others) {
		t.Errorf("another tenant had %v and has %v", others, now)
	}
	for _, c := range append(contents, "in the database") {
		sum := sha256.Sum256([]byte(c))
		if got := readBlob(t, to, f.a, sum[:]); string(got) != c {
			t.Errorf("a file of %d bytes has %d", len(c), len(got))
		}
	}
	var spaces []string
	if err := to.AsTenant(t.Context(), f.a.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, `SELECT DISTINCT s.name FROM vectors_256 v JOIN spaces s ON s.id = v.space_id`)
		if err != nil {
			return err
		}
		spaces, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	}); err != nil || !slices.Equal(spaces, []string{"test"}) {
		t.Errorf("vectors are in the spaces %v: %v", spaces, err)
	}
	if _, err := to.importInto(t, dir, "again"); !errors.Is(err, schema.ErrConflict) {
		t.Errorf("a second time: %v", err)
	}
	// It can be used: new rows are numbered after the imported ones.
	to.upload(t, f.a, f.collection, text("new", "after the move"))
}

// An export comes from another installation: its contents are not trusted.
func TestImportsAreOneTenants(t *testing.T) {
	f := setUpS3(t, store.Options{})
	f.upload(t, f.a, f.collection, text("a", "of a"))
	f.upload(t, f.b, f.foreign, text("b", "of b"))
	dirs := map[string]string{}
	for _, tenant := range []string{"tenant-a", "tenant-b"} {
		dirs[tenant] = filepath.Join(t.TempDir(), tenant)
		f.export(t, tenant, dirs[tenant])
	}
	m, err := backup.Read(dirs["tenant-a"])
	if err != nil {
		t.Fatal(err)
	}
	// Rows of another tenant, under this one's name.
	foreign, err := os.ReadFile(filepath.Join(dirs["tenant-b"], "database", "documents.copy.gz"))
	if err != nil {
		t.Fatal(err)
	}
	documents := filepath.Join(dirs["tenant-a"], "database", "documents.copy.gz")
	if err := os.WriteFile(documents, foreign, 0o600); err != nil {
		t.Fatal(err)
	}
	to := setUp(t, store.Options{})
	var damaged *backup.DamagedError
	if _, err := to.importInto(t, dirs["tenant-a"], "moved"); !errors.As(err, &damaged) || damaged.Path != documents {
		t.Errorf("a file that was changed: %v", err)
	}
	before := to.rowsOf(t, f.b)
	importer := backups.NewImporter(backups.ImportOptions{URL: adminURL(t, to.url), Name: "moved"})
	open := func(sum []byte) (io.ReadCloser, error) {
		return os.Open(filepath.Join(dirs["tenant-a"], "objects", f.a.Tenant.String(), fmt.Sprintf("%x", sum)))
	}
	if _, err := importer.Import(t.Context(), m, filepath.Join(dirs["tenant-a"], "database"), open); err == nil || !strings.Contains(err.Error(), "documents") {
		t.Errorf("rows of another tenant: %v", err)
	}
	if now := to.rowsOf(t, f.b); fmt.Sprint(now) != fmt.Sprint(before) {
		t.Errorf("of the other tenant there was %v and is %v", before, now)
	}
	if now := to.rowsOf(t, f.a); now["tenants"] != 0 {
		t.Errorf("of the refused tenant there is %v", now)
	}
	if _, err := backups.OpenSource(t.Context(), backups.SourceOptions{URL: adminURL(t, f.url), Tenant: "nobody"}); !errors.Is(err, schema.ErrNotFound) {
		t.Errorf("an unknown tenant: %v", err)
	}
	if _, err := importer.Import(t.Context(), backup.Manifest{About: backup.About{Schema: 1, Tenant: "x"}, Counts: m.Counts}, filepath.Join(dirs["tenant-b"], "database"), open); !errors.Is(err, schema.ErrInvalid) {
		t.Errorf("an export of another version: %v", err)
	}
	owner := backups.NewImporter(backups.ImportOptions{URL: to.owner, Name: "moved"})
	if _, err := owner.Import(t.Context(), m, filepath.Join(dirs["tenant-a"], "database"), open); !errors.Is(err, schema.ErrInvalid) || !strings.Contains(err.Error(), "superuser") {
		t.Errorf("as the owner: %v", err)
	}
	// A backup of the whole installation cannot be imported, and an export cannot be restored.
	whole := filepath.Join(t.TempDir(), "whole")
	f.backUp(t, whole)
	if _, err := to.importInto(t, whole, ""); !errors.Is(err, schema.ErrInvalid) || !strings.Contains(err.Error(), "sluice restore") {
		t.Errorf("a backup of all: %v", err)
	}
	target, err := backups.NewTarget(backups.TargetOptions{Owner: emptyDatabase(t), Program: f.url, Tools: findTools("")})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := backup.Restore(t.Context(), dirs["tenant-b"], target, func(string) {}); !errors.Is(err, schema.ErrInvalid) || !strings.Contains(err.Error(), "tenants import") {
		t.Errorf("restoring one tenant: %v", err)
	}
}
