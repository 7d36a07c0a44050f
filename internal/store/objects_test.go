package store_test

// This file stores bytes of documents in a real S3 server.

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/sluice-rag/sluice/internal/local/localtest"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/internal/store/blobs"
	"github.com/sluice-rag/sluice/internal/store/objects"
	"github.com/sluice-rag/sluice/schema"
)

// inS3 is a fixture whose new bytes become objects.
type inS3 struct {
	*fixture
	s3     *localtest.S3
	bucket *objects.Bucket
}

const bucketName = "documents"

func setUpS3(t *testing.T, o store.Options) inS3 {
	t.Helper()
	s3 := localtest.NewS3(t)
	s3.MakeBucket(bucketName)
	bucket := bucketOf(t, s3, objects.Options{})
	o.Objects, o.NewInObjects = bucket, true
	return inS3{setUp(t, o), s3, bucket}
}

func bucketOf(t *testing.T, s3 *localtest.S3, o objects.Options) *objects.Bucket {
	t.Helper()
	o.Endpoint, o.Prefix, o.Region = "http://"+s3.Address, "sluice", "us-east-1"
	if o.Bucket == "" {
		o.Bucket = bucketName
	}
	if o.AccessKey == "" {
		o.AccessKey, o.SecretKey = s3.AccessKey, s3.SecretKey
	}
	b, err := objects.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// files returns the objects of the bucket, by their names below the prefix.
func (f inS3) files(t *testing.T) map[string]string {
	t.Helper()
	root := filepath.Join(f.s3.Bucket(bucketName), "sluice")
	out := map[string]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil && !d.IsDir() {
			name, _ := filepath.Rel(root, path)
			out[name] = path
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

const placesSQL = `SELECT concat_ws(' ', (SELECT count(*) FROM blobs WHERE object IS NULL), (SELECT count(*) FROM blobs WHERE object IS NOT NULL),
	(SELECT count(DISTINCT sha256) FROM blob_chunks), (SELECT count(*) FROM loose_objects))`

// places counts a tenant's blobs in Postgres and in objects, those with chunks, and the loose
// objects.
func (f inS3) places(t *testing.T, p schema.Principal) string {
	t.Helper()
	return one[string](t, f.fixture, p, placesSQL)
}

func random(n int) string {
	data := make([]byte, n)
	rng := rand.New(rand.NewPCG(1, uint64(n)))
	for i := range data {
		data[i] = byte(rng.Uint32())
	}
	return string(data)
}

func TestUploadsBecomeObjects(t *testing.T) {
	f := setUpS3(t, store.Options{KeepSuperseded: -1})
	contents := []string{"", "profits rose", random(1 << 20), random(9<<20 + 7)} // in memory and in a file
	var ups []schema.Upload
	for i, c := range contents {
		ups = append(ups, text(fmt.Sprintf("%d.txt", i), c))
	}
	ups = append(ups, text("same.txt", "profits rose"))
	done, err := f.Upload(t.Context(), f.a, f.collection, ups)
	if err != nil {
		t.Fatal(err)
	}
	if got := f.places(t, f.a); got != "0 4 0 0" {
		t.Errorf("places %s", got)
	}
	files := f.files(t)
	if len(files) != 4 {
		t.Errorf("%d objects", len(files))
	}
	for name, path := range files {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(data)
		if !strings.HasPrefix(name, f.a.Tenant.String()+"/"+hex.EncodeToString(sum[:])+"/") {
			t.Errorf("object %s has a file with hash %x", name, sum)
		}
	}
	for i, c := range contents {
		sum := sha256.Sum256([]byte(c))
		if got := readBlob(t, f.fixture, f.a, sum[:]); string(got) != c {
			t.Errorf("content %d: %d other bytes", i, len(got))
		}
		if _, err := f.OpenBlob(t.Context(), f.b.Tenant, sum[:]); !errors.Is(err, schema.ErrNotFound) {
			t.Errorf("another tenant opens content %d: %v", i, err)
		}
	}
	content, _, err := f.OpenContent(t.Context(), f.a, done[1].Document, uuid.Nil)
	if err != nil {
		t.Fatal(err)
	}
	if data, err := io.ReadAll(content); err != nil || string(data) != "profits rose" {
		t.Errorf("content %q, %v", data, err)
	}
	if err := content.Close(); err != nil {
		t.Error(err)
	}

	// The same bytes of another document are not written again; another tenant stores its own.
	f.upload(t, f.a, f.collection, text("again.txt", "profits rose"))
	f.upload(t, f.b, f.foreign, text("theirs.txt", "profits rose"))
	if n := len(f.files(t)); n != 5 {
		t.Errorf("%d objects, want 5", n)
	}

	// An object is deleted with the last version that has its bytes, after its row.
	for _, up := range []schema.Uploaded{done[1], done[3]} {
		if err := f.DeleteDocument(t.Context(), f.a, up.Document); err != nil {
			t.Fatal(err)
		}
	}
	f.purgeAll(t)
	if got := f.places(t, f.a); got != "0 3 0 0" {
		t.Errorf("after the purge: places %s", got)
	}
	if n := len(f.files(t)); n != 4 {
		t.Errorf("%d objects, want 4", n)
	}
	sum := sha256.Sum256([]byte("profits rose"))
	if got := readBlob(t, f.fixture, f.a, sum[:]); string(got) != "profits rose" {
		t.Errorf("bytes that another document has: %q", got)
	}
}

func TestUploadsOfOneContentAtOnce(t *testing.T) {
	f := setUpS3(t, store.Options{KeepSuperseded: -1})
	var together sync.WaitGroup
	for i := range 8 {
		together.Go(func() {
			if _, err := f.Upload(t.Context(), f.a, f.collection, []schema.Upload{text(fmt.Sprint(i), "the same")}); err != nil {
				t.Error(err)
			}
		})
	}
	together.Wait()
	f.purgeAll(t)
	if got := f.places(t, f.a); got != "0 1 0 0" {
		t.Errorf("places %s", got)
	}
	if n := len(f.files(t)); n != 1 {
		t.Errorf("%d objects", n)
	}
	sum := sha256.Sum256([]byte("the same"))
	if got := readBlob(t, f.fixture, f.a, sum[:]); string(got) != "the same" {
		t.Errorf("bytes %q", got)
	}
}

// An upload with an idempotency key is a nested transaction.
func TestObjectsOfARequestThatIsUndoneArePurged(t *testing.T) {
	f := setUpS3(t, store.Options{})
	once := func(key string, reply *schema.Reply) {
		_, err := f.Store.Once(t.Context(), f.a, key, "upload", []byte(key), func(ctx context.Context) *schema.Reply {
			if _, err := f.Upload(ctx, f.a, f.collection, []schema.Upload{text(key, key)}); err != nil {
				t.Error(err)
			}
			if reply == nil { // the object is listed as loose until its row is committed
				if n := len(f.files(t)); n != 2 {
					t.Errorf("%d objects", n)
				}
			}
			return reply
		})
		if err != nil {
			t.Error(err)
		}
	}
	once("kept", &schema.Reply{Status: 200})
	once("undone", nil)
	if got := f.places(t, f.a); got != "0 1 0 1" {
		t.Errorf("places %s", got)
	}
	execAs(t, f.fixture, f.a, `UPDATE loose_objects SET due_at = now()`)
	f.purgeAll(t)
	if got, n := f.places(t, f.a), len(f.files(t)); got != "0 1 0 0" || n != 1 {
		t.Errorf("places %s, %d objects", got, n)
	}
}

func TestUploadsWhileS3IsAway(t *testing.T) {
	f := setUpS3(t, store.Options{KeepSuperseded: -1})
	kept := f.upload(t, f.a, f.collection, text("a.txt", "kept"))
	f.s3.Stop()
	_, err := f.Upload(t.Context(), f.a, f.collection, []schema.Upload{text("b.txt", "new")})
	if !errors.Is(err, schema.ErrUnavailable) || !strings.Contains(err.Error(), "SLUICE_S3_ENDPOINT") {
		t.Errorf("an upload says %v", err)
	}
	sum := sha256.Sum256([]byte("kept"))
	if _, err := f.OpenBlob(t.Context(), f.a.Tenant, sum[:]); !errors.Is(err, schema.ErrUnavailable) {
		t.Errorf("a download says %v", err)
	}
	if _, err := f.Blobs(t.Context(), f.a.Tenant, [][]byte{sum[:]}); !errors.Is(err, schema.ErrUnavailable) {
		t.Errorf("a parser's read says %v", err)
	}
	if n := one[int](t, f.fixture, f.a, `SELECT count(*) FROM documents`); n != 1 {
		t.Errorf("%d documents", n)
	}
	// Deleting a document needs no S3; its object is deleted later.
	if err := f.DeleteDocument(t.Context(), f.a, kept.Document); err != nil {
		t.Fatal(err)
	}
	for { // one look at the list shows that it fails
		if _, err := f.PurgeOnce(t.Context(), 10); errors.Is(err, schema.ErrUnavailable) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if got := f.places(t, f.a); !strings.HasPrefix(got, "0 0 0 ") {
		t.Errorf("places %s", got)
	}
	if n := len(f.files(t)); n != 1 {
		t.Errorf("%d objects", n)
	}
	f.s3.Start()
	execAs(t, f.fixture, f.a, `UPDATE loose_objects SET due_at = now()`)
	f.purgeAll(t)
	if got, n := f.places(t, f.a), len(f.files(t)); got != "0 0 0 0" || n != 0 {
		t.Errorf("places %s, %d objects", got, n)
	}
	f.upload(t, f.a, f.collection, text("b.txt", "new"))
}

// crashingObjects fails after an object was written, as if the process died.
type crashingObjects struct{ store.Objects }

var errCrashed = errors.New("cut off")

func (c crashingObjects) Put(ctx context.Context, o store.Object, r io.Reader) error {
	return errors.Join(c.Objects.Put(ctx, o, r), errCrashed)
}

func TestAnObjectWithoutARowIsPurged(t *testing.T) {
	f := setUpS3(t, store.Options{})
	dying := open(t, f.url, store.Options{Objects: crashingObjects{f.bucket}, NewInObjects: true})
	_, err := (&fixture{All: dying}).Upload(t.Context(), f.a, f.collection, []schema.Upload{text("a.txt", "lost")})
	if !errors.Is(err, errCrashed) {
		t.Fatalf("the upload says %v", err)
	}
	if n := len(f.files(t)); n != 1 {
		t.Fatalf("%d objects: nothing is proved", n)
	}
	f.purgeAll(t)
	if got, n := f.places(t, f.a), len(f.files(t)); got != "0 0 0 0" || n != 0 {
		t.Errorf("places %s, %d objects", got, n)
	}
	f.upload(t, f.a, f.collection, text("a.txt", "lost"))
}

// purgingObjects runs a purge between the writing of an object and its row.
type purgingObjects struct {
	store.Objects
	once sync.Once
	do   func()
}

func (l *purgingObjects) Put(ctx context.Context, o store.Object, r io.Reader) error {
	err := l.Objects.Put(ctx, o, r)
	l.once.Do(l.do)
	return err
}

func TestAnObjectThatWasPurgedIsWrittenAgain(t *testing.T) {
	f := setUpS3(t, store.Options{})
	slow := open(t, f.url, store.Options{NewInObjects: true, Objects: &purgingObjects{Objects: f.bucket, do: func() {
		execAs(t, f.fixture, f.a, `UPDATE loose_objects SET due_at = now()`)
		f.purgeAll(t)
		if n := len(f.files(t)); n != 0 {
			t.Errorf("%d objects: nothing is proved", n)
		}
	}}})
	if _, err := (&fixture{All: slow}).Upload(t.Context(), f.a, f.collection, []schema.Upload{text("a.txt", "slow")}); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte("slow"))
	if got := readBlob(t, f.fixture, f.a, sum[:]); string(got) != "slow" {
		t.Errorf("bytes %q", got)
	}
	if got := f.places(t, f.a); got != "0 1 0 0" {
		t.Errorf("places %s", got)
	}
}

func TestDamagedObjectsAreNoticedAndNamed(t *testing.T) {
	f := setUpS3(t, store.Options{})
	good, bad, short, gone := random(100), random(2<<20), random(3000), random(200)
	for i, c := range []string{good, bad, short, gone} {
		f.upload(t, f.a, f.collection, text(fmt.Sprint(i), c))
	}
	path := func(content string) string {
		sum := sha256.Sum256([]byte(content))
		for name, path := range f.files(t) {
			if strings.Contains(name, hex.EncodeToString(sum[:])) {
				return path
			}
		}
		t.Fatal("no such object")
		return ""
	}
	other := []byte(bad)
	other[1<<20] ^= 1
	for file, data := range map[string][]byte{path(bad): other, path(short): []byte(short[:2999])} {
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(path(gone)); err != nil {
		t.Fatal(err)
	}
	var hashes [][]byte
	for i, c := range []string{good, bad, short, gone} {
		sum := sha256.Sum256([]byte(c))
		hashes = append(hashes, sum[:])
		b, err := f.OpenBlob(t.Context(), f.a.Tenant, sum[:])
		var data []byte
		if err == nil {
			data, err = io.ReadAll(b)
			_ = b.Close()
		}
		if i == 0 {
			if err != nil || string(data) != c {
				t.Errorf("the good one: %v", err)
			}
			continue
		}
		var damaged *store.DamagedError
		if !errors.As(err, &damaged) || !strings.Contains(err.Error(), "object sluice/"+f.a.Tenant.String()+"/"+hex.EncodeToString(sum[:])) {
			t.Errorf("content %d: %v", i, err)
		}
		if len(data) == len(c) {
			t.Errorf("content %d: all of it was given out", i)
		}
	}
	read, err := f.Blobs(t.Context(), f.a.Tenant, hashes)
	if err != nil {
		t.Fatal(err)
	}
	for i, h := range hashes {
		if b := read[string(h)]; (b.Problem == "") != (i == 0) || (i == 0) != (string(b.Data) == good) {
			t.Errorf("content %d for a parser: %d bytes, %q", i, len(b.Data), b.Problem)
		}
	}
	var reported []string
	p, err := f.Check(t.Context(), &blobs.Run{Damage: func(d *store.DamagedError) { reported = append(reported, d.Error()) }})
	if err != nil || p.Damaged != 3 || p.Blobs != 1 || p.AllBlobs != 4 || len(reported) != 3 {
		t.Errorf("check: %+v, %v, %q", p, err, reported)
	}
}
