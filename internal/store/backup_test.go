package store_test

// This file backs up databases and restores them, with Postgres' own tools.

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/backup"
	"github.com/sluice-rag/sluice/internal/dense"
	"github.com/sluice-rag/sluice/internal/local"
	"github.com/sluice-rag/sluice/internal/local/localtest"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/internal/store/backups"
	"github.com/sluice-rag/sluice/schema"
)

// findTools finds tools in a directory; empty: anywhere.
func findTools(dir string) backups.FindTools {
	return func(ctx context.Context, least int) (backups.Tools, error) {
		found, err := local.FindPostgresTools(ctx, dir, least)
		return backups.Tools(found), err
	}
}

// adminURL returns the URL of a login to a test's database that row-level security does not bind.
func adminURL(t testing.TB, url string) string {
	t.Helper()
	conn := connect(t, url)
	defer conn.Close(context.Background()) //nolint:errcheck // a test's
	return localtest.Postgres(t).AdminURL(conn.Config().Database)
}

func (f inS3) source(t *testing.T) *backups.Snapshot {
	t.Helper()
	s, err := backups.OpenSource(t.Context(), backups.SourceOptions{URL: adminURL(t, f.url), Jobs: 2, Objects: f.bucket, Tools: findTools("")})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (f inS3) backUp(t *testing.T, dir string) backup.Manifest {
	t.Helper()
	return create(t, dir, f.source(t))
}

// create writes a backup of a source to a directory, and closes the source.
func create(t *testing.T, dir string, from *backups.Snapshot) backup.Manifest {
	t.Helper()
	m, err := backup.Create(t.Context(), dir, "test", from, func(string) {})
	if err := errors.Join(err, from.Close(t.Context())); err != nil {
		t.Fatal(err)
	}
	return m
}

// restore restores into a new database whose owner has another name, and returns the URL for
// programs.
func restore(t *testing.T, dir string, o store.Options) (string, backup.Restored) {
	t.Helper()
	owner := emptyDatabase(t)
	pg, n := localtest.Postgres(t), serial.Add(1)
	role, name := fmt.Sprintf("owner_%d", n), databaseOf(t, owner)
	execute(t, pg.AdminURL("postgres"), fmt.Sprintf(`CREATE ROLE %s LOGIN CREATEROLE PASSWORD 'secret'; ALTER DATABASE %s OWNER TO %[1]s;
		GRANT sluice_app, sluice_auth, sluice_system, sluice_vectors TO %[1]s WITH ADMIN OPTION`, role, name))
	t.Cleanup(func() {
		execute(t, pg.AdminURL(name), fmt.Sprintf(`REASSIGN OWNED BY %s TO sluice; DROP OWNED BY %[1]s`, role))
		execute(t, pg.AdminURL("postgres"), fmt.Sprintf(`ALTER DATABASE %s OWNER TO sluice; DROP OWNED BY %s; DROP ROLE %[2]s`, name, role))
	})
	to, err := backups.NewTarget(backups.TargetOptions{
		Owner: strings.Replace(owner, userOf(owner), role+":secret@", 1), Program: pg.ProgramURL(name), Vectors: pg.VectorURL(name), Jobs: 2, Store: o, Tools: findTools(""),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	r, err := backup.Restore(t.Context(), dir, to, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	return pg.ProgramURL(name), r
}

func userOf(url string) string {
	_, rest, _ := strings.Cut(url, "://")
	user, _, _ := strings.Cut(rest, "@")
	return user + "@"
}

func databaseOf(t *testing.T, url string) string {
	t.Helper()
	conn := connect(t, url)
	defer conn.Close(context.Background()) //nolint:errcheck // a test's
	return conn.Config().Database
}

func TestBackupsAreRestored(t *testing.T) {
	f := setUpS3(t, store.Options{OwnVectorsAbove: 600, KeepSuperseded: -1})
	contents := []string{"", "x", random(3<<20 + 1)}
	for i, c := range contents { // in S3 and in Postgres
		f.upload(t, f.a, f.collection, text(fmt.Sprint(i), c))
		inPostgres := &fixture{All: open(t, f.url, store.Options{})}
		inPostgres.upload(t, f.b, f.foreign, text(fmt.Sprint(i), c))
	}
	r := rand.New(rand.NewPCG(5, 6))
	about := topics(r, 10)
	var large []*insertedDocument
	for range 50 {
		d := &insertedDocument{}
		for range 20 {
			d.vectors = append(d.vectors, clustered(r, about))
		}
		large = append(large, d)
	}
	f.plant(t, f.a, f.collection, large)
	f.tend(t, f.a, f.collection)
	dir := filepath.Join(t.TempDir(), "backup")
	m := f.backUp(t, dir)
	if m.Objects.Files != 3 || len(m.Tenants) != 2 || m.Documents() != 56 {
		t.Errorf("backed up %+v, %d documents of %+v", m.Objects, m.Documents(), m.Tenants)
	}
	for _, place := range []string{"postgres", "s3"} {
		t.Run(place, func(t *testing.T) {
			o := store.Options{OwnVectorsAbove: 600, KeepSuperseded: -1}
			if place == "s3" {
				o.Objects, o.NewInObjects = f.bucket, true // the same one: no object is shared
			}
			url, report := restore(t, dir, o)
			if report.Files.Files != 6 || report.Objects.Files != 3 || report.Documents != 56 || len(report.Damaged) != 0 {
				t.Errorf("restored %+v", report)
			}
			back := inS3{fixture: &fixture{All: open(t, url, o), url: url, a: f.a, b: f.b, collection: f.collection, foreign: f.foreign}, s3: f.s3, bucket: f.bucket}
			for _, p := range []schema.Principal{f.a, f.b} {
				back.still(t, p, contents)
			}
			want := map[string]string{"postgres": "3 0 2 0", "s3": "0 3 0 0"}[place]
			if got := back.places(t, f.a); got != want {
				t.Errorf("places %s, want %s", got, want)
			}
			v := clustered(r, about)
			hits, err := back.Nearest(t.Context(), dense.NearestQuery{Principal: f.a, Collection: f.collection, Space: space, Vector: v, K: 10})
			if err != nil || recall(hits, exact(large, v, 10, nil)) < 10 {
				t.Errorf("nearest after the restore: %d hits, %v", len(hits), err)
			}
			// Partitions belong to the role that builds indexes, which can build more of them.
			back.plant(t, f.a, f.collection, large[:40])
			if back.tend(t, f.a, f.collection) == 0 {
				t.Error("no index is built of what came after the restore")
			}
			// What is deleted in the restored installation stays in the backed-up one.
			if err := back.DeleteCollection(t.Context(), f.a, f.collection); err != nil {
				t.Fatal(err)
			}
			back.purgeAll(t)
			f.still(t, f.a, contents)
		})
	}
}

func TestUnfinishedBackupsAreSeen(t *testing.T) {
	f := setUpS3(t, store.Options{})
	f.upload(t, f.a, f.collection, text("1", "one"))
	f.upload(t, f.a, f.collection, text("2", "two"))
	dir := filepath.Join(t.TempDir(), "backup")
	f.s3.Stop()
	from := f.source(t)
	_, err := backup.Create(t.Context(), dir, "test", from, func(string) {})
	if err := from.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !errors.Is(err, schema.ErrUnavailable) {
		t.Fatalf("without S3: %v", err)
	}
	if _, err := backup.Verify(t.Context(), dir, nil); err == nil || !strings.Contains(err.Error(), "not finished") {
		t.Errorf("an unfinished backup: %v", err)
	}
	f.s3.Start()
	f.backUp(t, dir)
	if _, err := backup.Verify(t.Context(), dir, nil); err != nil {
		t.Error(err)
	}
	from = f.source(t)
	defer from.Close(t.Context()) //nolint:errcheck // a test's
	if _, err := backup.Create(t.Context(), dir, "test", from, func(string) {}); !errors.Is(err, schema.ErrInvalid) {
		t.Errorf("over a finished backup: %v", err)
	}
	if err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if info.Mode().Perm()&0o077 != 0 {
			t.Errorf("others may read %s: %v", path, info.Mode())
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

func TestDamagedBackupsAreRefused(t *testing.T) {
	f := setUpS3(t, store.Options{})
	f.upload(t, f.a, f.collection, text("1", "one"))
	dir := filepath.Join(t.TempDir(), "backup")
	m := f.backUp(t, dir)
	for _, file := range append([]string{"manifest.json"}, m.Files[0].Path, m.Files[len(m.Files)-1].Path) {
		path := filepath.Join(dir, filepath.FromSlash(file))
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		data[len(data)/2] ^= 1
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		owner := emptyDatabase(t)
		to, err := backups.NewTarget(backups.TargetOptions{Owner: owner, Program: f.url, Tools: findTools("")})
		if err != nil {
			t.Fatal(err)
		}
		var damaged *backup.DamagedError
		if _, err := backup.Restore(t.Context(), dir, to, func(string) {}); !errors.As(err, &damaged) || damaged.Path != path {
			t.Errorf("with a byte of %s changed: %v", file, err)
		}
		data[len(data)/2] ^= 1
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	to, err := backups.NewTarget(backups.TargetOptions{Owner: f.owner, Program: f.url, Tools: findTools("")})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := backup.Restore(t.Context(), dir, to, func(string) {}); !errors.Is(err, schema.ErrInvalid) || !strings.Contains(err.Error(), "CREATE DATABASE") {
		t.Errorf("over a database that is in use: %v", err)
	}
}

func TestBackupsKeepObjects(t *testing.T) {
	f := setUpS3(t, store.Options{KeepSuperseded: -1})
	up := f.upload(t, f.a, f.collection, text("1", "one"))
	from := f.source(t)
	if _, err := backups.OpenSource(t.Context(), backups.SourceOptions{URL: adminURL(t, f.url)}); !errors.Is(err, schema.ErrConflict) {
		t.Errorf("two backups at once: %v", err)
	}
	if err := f.DeleteDocument(t.Context(), f.a, up.Document); err != nil {
		t.Fatal(err)
	}
	f.purgeAll(t)
	if got := f.places(t, f.a); got != "0 0 0 1" || len(f.files(t)) != 1 {
		t.Errorf("during a backup: places %s, %d objects", got, len(f.files(t)))
	}
	dir := filepath.Join(t.TempDir(), "backup")
	m, err := backup.Create(t.Context(), dir, "test", from, func(string) {})
	if err := errors.Join(err, from.Close(t.Context())); err != nil || m.Objects.Files != 1 {
		t.Fatalf("%+v %v", m.Objects, err)
	}
	f.purgeAll(t)
	if got := f.places(t, f.a); got != "0 0 0 0" || len(f.files(t)) != 0 {
		t.Errorf("after the backup: places %s, %d objects", got, len(f.files(t)))
	}
	url, _ := restore(t, dir, store.Options{})
	sum := sha256.Sum256([]byte("one"))
	if got := readBlob(t, &fixture{All: open(t, url, store.Options{})}, f.a, sum[:]); string(got) != "one" {
		t.Errorf("restored %q", got)
	}
}

func TestBackupsNeedWhoSeesAll(t *testing.T) {
	f := setUp(t, store.Options{})
	for _, url := range []string{f.url, f.owner} {
		_, err := backups.OpenSource(t.Context(), backups.SourceOptions{URL: url})
		if !errors.Is(err, schema.ErrInvalid) || !strings.Contains(err.Error(), "BYPASSRLS") {
			t.Errorf("a login that sees no tenant's rows: %v", err)
		}
	}
	if _, err := backups.OpenSource(t.Context(), backups.SourceOptions{URL: adminURL(t, f.url), Tools: findTools(t.TempDir())}); err == nil || !strings.Contains(err.Error(), "SLUICE_POSTGRES_TOOLS") {
		t.Errorf("without tools: %v", err)
	}
}
