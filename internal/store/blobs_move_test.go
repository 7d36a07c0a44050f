package store_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/sluice-rag/sluice/internal/local/localtest"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/internal/store/blobs"
	"github.com/sluice-rag/sluice/internal/store/objects"
	"github.com/sluice-rag/sluice/schema"
)

// still checks that what is stored is what was uploaded.
func (f inS3) still(t *testing.T, p schema.Principal, contents []string) {
	t.Helper()
	for i, c := range contents {
		sum := sha256.Sum256([]byte(c))
		if got := readBlob(t, f.fixture, p, sum[:]); string(got) != c {
			t.Errorf("content %d of tenant %s: %d other bytes", i, p.Name, len(got))
		}
	}
}

func (f inS3) move(t *testing.T, intoObjects bool) blobs.Tally {
	t.Helper()
	p, err := f.Move(t.Context(), intoObjects, &blobs.Run{Damage: func(d *store.DamagedError) { t.Error(d) }})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestBlobsMoveThereAndBack(t *testing.T) {
	f := setUpS3(t, store.Options{KeepSuperseded: -1})
	before := open(t, f.url, store.Options{}) // keeps them in Postgres
	contents := []string{"", "x", random(1 << 20), random(3<<20 + 1)}
	for i, c := range contents {
		for _, of := range []struct {
			p          schema.Principal
			collection int
		}{{f.a, 0}, {f.b, 1}} {
			collection := f.collection
			if of.collection == 1 {
				collection = f.foreign
			}
			if _, err := (&fixture{All: before}).Upload(t.Context(), of.p, collection, []schema.Upload{text(fmt.Sprint(i), c)}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got := f.places(t, f.a); got != "4 0 3 0" {
		t.Fatalf("places %s", got)
	}
	f.still(t, f.a, contents)

	if p := f.move(t, true); p.Blobs != 8 || p.AllBlobs != 8 || p.Bytes != p.AllBytes || p.Damaged != 0 {
		t.Errorf("moved %+v", p)
	}
	for _, p := range []schema.Principal{f.a, f.b} {
		if got := f.places(t, p); got != "0 4 0 0" {
			t.Errorf("in S3: places %s", got)
		}
		f.still(t, p, contents)
	}
	if n := len(f.files(t)); n != 8 {
		t.Errorf("%d objects", n)
	}
	if p := f.move(t, true); p.Blobs != 0 || p.AllBlobs != 0 {
		t.Errorf("moved again: %+v", p)
	}
	// A program without S3 settings reports that.
	sum := sha256.Sum256([]byte("x"))
	if _, err := before.OpenBlob(t.Context(), f.a.Tenant, sum[:]); !errors.Is(err, schema.ErrUnavailable) || !strings.Contains(err.Error(), "SLUICE_S3_ENDPOINT") {
		t.Errorf("without settings: %v", err)
	}

	if p := f.move(t, false); p.Blobs != 8 {
		t.Errorf("moved back %+v", p)
	}
	f.purgeAll(t)
	for _, p := range []schema.Principal{f.a, f.b} {
		if got := f.places(t, p); got != "4 0 3 0" {
			t.Errorf("back in Postgres: places %s", got)
		}
		f.still(t, p, contents)
	}
	if n := len(f.files(t)); n != 0 {
		t.Errorf("%d objects are left", n)
	}
}

// stopping ends a move after a number of objects were written.
type stopping struct {
	store.Objects
	mu   sync.Mutex
	left int
}

func (s *stopping) Put(ctx context.Context, o store.Object, r io.Reader) error {
	err := s.Objects.Put(ctx, o, r)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.left--; s.left < 0 {
		return errors.Join(errCrashed, err)
	}
	return err
}

func (s *stopping) Open(ctx context.Context, o store.Object, from int64) (io.ReadCloser, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.left--; s.left < 0 {
		return nil, errCrashed
	}
	return s.Objects.Open(ctx, o, from)
}

func TestAnInterruptedMoveGoesOn(t *testing.T) {
	f := setUpS3(t, store.Options{KeepSuperseded: -1})
	plain := open(t, f.url, store.Options{})
	var contents []string
	for i := range 20 {
		contents = append(contents, random(1000+i))
		if _, err := (&fixture{All: plain}).Upload(t.Context(), f.a, f.collection, []schema.Upload{text(fmt.Sprint(i), contents[i])}); err != nil {
			t.Fatal(err)
		}
	}
	for _, intoObjects := range []bool{true, false} {
		dying := open(t, f.url, store.Options{Objects: &stopping{Objects: f.bucket, left: 11}})
		p, err := dying.Move(t.Context(), intoObjects, &blobs.Run{})
		if !errors.Is(err, errCrashed) || p.Blobs == 0 || p.Blobs == 20 {
			t.Fatalf("interrupted after %d of 20: %v", p.Blobs, err)
		}
		f.still(t, f.a, contents)
		if rest := f.move(t, intoObjects); rest.Blobs != 20-p.Blobs {
			t.Errorf("%d were moved, then %d of 20", p.Blobs, rest.Blobs)
		}
		f.still(t, f.a, contents)
		f.purgeAll(t)
		if n, want := len(f.files(t)), map[bool]int{true: 20, false: 0}[intoObjects]; n != want {
			t.Errorf("%d objects, want %d", n, want)
		}
	}
}

// Uploads, reads and deletions continue during moves, and are not affected.
func TestMovesDuringUploadsAndReads(t *testing.T) {
	f := setUpS3(t, store.Options{KeepSuperseded: -1})
	plain := open(t, f.url, store.Options{})
	var contents []string
	for i := range 12 {
		contents = append(contents, random(2<<20+i))
		if _, err := (&fixture{All: plain}).Upload(t.Context(), f.a, f.collection, []schema.Upload{text(fmt.Sprint(i), contents[i])}); err != nil {
			t.Fatal(err)
		}
	}
	done := make(chan struct{})
	var meanwhile sync.WaitGroup
	meanwhile.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-done:
				return
			default:
			}
			c := contents[i%len(contents)]
			sum := sha256.Sum256([]byte(c))
			b, err := f.OpenBlob(t.Context(), f.a.Tenant, sum[:])
			if err != nil {
				t.Errorf("open: %v", err)
				return
			}
			data, err := io.ReadAll(b)
			_ = b.Close()
			if err != nil || string(data) != c {
				t.Errorf("read %d bytes: %v", len(data), err)
				return
			}
		}
	})
	meanwhile.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-done:
				return
			default:
			}
			id := fmt.Sprintf("new-%d", i)
			got, err := f.Upload(t.Context(), f.a, f.collection, []schema.Upload{text(id, id)})
			if err == nil && i%2 == 0 {
				err = f.DeleteDocument(t.Context(), f.a, got[0].Document)
			}
			if err == nil && i%3 == 0 {
				_, err = f.PurgeOnce(t.Context(), 10)
			}
			if err != nil {
				t.Errorf("upload, delete, purge: %v", err)
				return
			}
		}
	})
	for range 3 {
		f.move(t, true)
		f.move(t, false)
	}
	close(done)
	meanwhile.Wait()
	f.move(t, true)
	f.purgeAll(t)
	f.still(t, f.a, contents)
	rows := one[int](t, f.fixture, f.a, `SELECT count(*) FROM blobs WHERE object IS NOT NULL`)
	if n := len(f.files(t)); n != rows {
		t.Errorf("%d objects, and %d rows that name one", n, rows)
	}
}

// damaging changes the bytes of reads, like a bad disk.
type damaging struct{ store.Objects }

func (d damaging) Open(ctx context.Context, o store.Object, from int64) (io.ReadCloser, error) {
	r, err := d.Objects.Open(ctx, o, from)
	if err != nil {
		return nil, err
	}
	return struct {
		io.Reader
		io.Closer
	}{io.MultiReader(strings.NewReader("!"), io.LimitReader(r, o.Bytes-1)), r}, nil
}

func TestWhatIsDamagedIsNotMoved(t *testing.T) {
	f := setUpS3(t, store.Options{KeepSuperseded: -1})
	plain := open(t, f.url, store.Options{})
	contents := []string{random(1 << 21), random(5000)}
	for i, c := range contents {
		if _, err := (&fixture{All: plain}).Upload(t.Context(), f.a, f.collection, []schema.Upload{text(fmt.Sprint(i), c)}); err != nil {
			t.Fatal(err)
		}
	}
	// If the bytes that are read after writing differ, the blob stays in Postgres.
	bad := open(t, f.url, store.Options{Objects: damaging{f.bucket}})
	p, err := bad.Move(t.Context(), true, &blobs.Run{})
	if err != nil || p.Damaged != 2 || p.Blobs != 0 {
		t.Errorf("%+v, %v", p, err)
	}
	if got := f.places(t, f.a); !strings.HasPrefix(got, "2 0 2 ") {
		t.Errorf("places %s", got)
	}
	f.still(t, f.a, contents)

	f.move(t, true)
	f.purgeAll(t)
	for _, path := range f.files(t) { // change one byte of each
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		data[0] ^= 1
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var named []string
	p, err = f.Move(t.Context(), false, &blobs.Run{Damage: func(d *store.DamagedError) { named = append(named, d.Where) }})
	if err != nil || p.Damaged != 2 || len(named) != 2 || !strings.HasPrefix(named[0], "object sluice/"+f.a.Tenant.String()) {
		t.Errorf("%+v, %v, %q", p, err, named)
	}
	if got := f.places(t, f.a); got != "0 2 0 0" {
		t.Errorf("places %s", got)
	}
}

func TestSettingsOfS3ThatAreWrong(t *testing.T) {
	f := setUpS3(t, store.Options{})
	for name, c := range map[string]struct {
		options objects.Options
		message string
	}{
		"no such bucket": {objects.Options{Bucket: "elsewhere"}, `there is no bucket "elsewhere"`},
		"a wrong key":    {objects.Options{AccessKey: "nobody", SecretKey: f.s3.SecretKey}, "SLUICE_S3_ACCESS_KEY"},
		"a wrong secret": {objects.Options{AccessKey: f.s3.AccessKey, SecretKey: "wrong"}, "SLUICE_S3_SECRET_KEY"},
		"nobody answers": {objects.Options{}, "SLUICE_S3_ENDPOINT"},
	} {
		t.Run(name, func(t *testing.T) {
			s3 := f.s3
			if c.options == (objects.Options{}) {
				s3 = localtest.NewS3(t)
				s3.Stop()
			}
			b := bucketOf(t, s3, c.options)
			wrong := open(t, f.url, store.Options{Objects: b, NewInObjects: true})
			_, uploading := (&fixture{All: wrong}).Upload(t.Context(), f.a, f.collection, []schema.Upload{text("a", "a")})
			for what, err := range map[string]error{"check": b.Check(t.Context()), "try": b.Try(t.Context()), "upload": uploading} {
				if !errors.Is(err, schema.ErrUnavailable) || !strings.Contains(err.Error(), c.message) {
					t.Errorf("%s says %v", what, err)
				}
			}
		})
	}
	if err := errors.Join(f.bucket.Check(t.Context()), f.bucket.Try(t.Context())); err != nil {
		t.Error(err)
	}
	if n := len(f.files(t)); n != 0 {
		t.Errorf("the trial left %d objects", n)
	}
}

// The service gets the hash, and refuses other bytes.
func TestS3RefusesOtherBytesThanTheirHash(t *testing.T) {
	f := setUpS3(t, store.Options{})
	sum := sha256.Sum256([]byte("right"))
	o := store.Object{Tenant: f.a.Tenant, SHA256: sum[:], ID: schema.NewID(), Bytes: 5}
	if err := f.bucket.Put(t.Context(), o, strings.NewReader("wrong")); err == nil {
		t.Error("other bytes were taken")
	}
	if err := f.bucket.Put(t.Context(), o, strings.NewReader("rig")); err == nil {
		t.Error("fewer bytes were taken")
	}
	if n := len(f.files(t)); n != 0 {
		t.Errorf("%d objects", n)
	}
}
