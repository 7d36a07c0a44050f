package backup

// This file creates a backup. All of it is from one moment: the source holds a snapshot of the
// database, and keeps files in S3 from being deleted meanwhile.

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"github.com/sluice-rag/sluice/schema"
)

// Object is a file of a tenant that is stored outside of the database.
type Object struct {
	Tenant uuid.UUID
	SHA256 []byte
	Bytes  int64
	ID     uuid.UUID // names the stored object
}

func (o Object) path() string {
	return filepath.Join(objectsDir, o.Tenant.String(), hex.EncodeToString(o.SHA256))
}

// Source is an installation at one moment.
type Source interface {
	About() About
	// Objects calls fn for each file that is stored outside of the database.
	Objects(ctx context.Context, fn func(Object) error) error
	// Open reads such a file.
	Open(ctx context.Context, o Object) (io.ReadCloser, error)
	// Dump writes the database to a directory, which it creates.
	Dump(ctx context.Context, dir string) error
	// Count counts the rows that are dumped.
	Count(ctx context.Context) (Counts, error)
}

// objectsAtOnce is the number of files that are copied concurrently.
const objectsAtOnce = 4

// Create creates a backup in a directory, which is new, or has an interrupted backup. Of that it
// reuses undamaged copies of files in S3.
func Create(ctx context.Context, dir, version string, from Source, tell func(string)) (Manifest, error) {
	m := Manifest{Format: Format, Sluice: version, About: from.About(), StartedAt: time.Now().UTC()}
	if err := prepare(dir); err != nil {
		return m, err
	}
	tell("dumping the database")
	if err := from.Dump(ctx, filepath.Join(dir, databaseDir)); err != nil {
		return m, err
	}
	tell("counting its rows")
	var err error
	if m.Counts, err = from.Count(ctx); err != nil {
		return m, err
	}
	if m.Objects, err = copyObjects(ctx, dir, from, tell); err != nil {
		return m, err
	}
	tell("hashing what was written")
	if m.Files, err = list(ctx, dir); err != nil {
		return m, err
	}
	m.FinishedAt = time.Now().UTC()
	return m, m.write(dir)
}

// prepare creates the directory, or accepts one that is empty or has an unfinished backup.
func prepare(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make the directory of the backup: %w", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("read the directory of the backup: %w", err)
	}
	has := func(name string) bool {
		return slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == name })
	}
	switch {
	case has(manifestFile):
		return schema.Invalid("dir", "%s has a backup already; name a directory that is not there yet", dir)
	case len(entries) > 0 && !has(unfinishedFile):
		return schema.Invalid("dir", "%s is not empty, and has no unfinished backup; name a directory that is not there yet", dir)
	}
	if err := os.Chmod(dir, 0o700); err != nil { // it contains secrets
		return fmt.Errorf("close the directory of the backup to others: %w", err)
	}
	if err := writeFile(filepath.Join(dir, unfinishedFile), []byte("A backup is being made here, or was interrupted.\n")); err != nil {
		return fmt.Errorf("begin the backup: %w", err)
	}
	return os.RemoveAll(filepath.Join(dir, databaseDir))
}

// copyObjects copies the files in S3, and compares each with its hash.
func copyObjects(ctx context.Context, dir string, from Source, tell func(string)) (Tally, error) {
	var mu sync.Mutex
	var done Tally
	wanted := map[string]bool{}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(objectsAtOnce)
	err := from.Objects(ctx, func(o Object) error {
		wanted[o.path()] = true
		group.Go(func() error {
			if err := copyObject(ctx, filepath.Join(dir, o.path()), o, from); err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			done.Files++
			done.Bytes += o.Bytes
			if done.Files%1000 == 0 {
				tell(fmt.Sprintf("copied %d files from S3", done.Files))
			}
			return nil
		})
		return ctx.Err()
	})
	if err = errors.Join(group.Wait(), err); err != nil {
		return done, fmt.Errorf("copy files from S3: %w", err)
	}
	return done, dropOthers(dir, wanted)
}

// dropOthers removes copies of an earlier run that do not belong to this backup.
func dropOthers(dir string, wanted map[string]bool) error {
	err := filepath.WalkDir(filepath.Join(dir, objectsDir), func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		if rel, err := filepath.Rel(dir, path); err != nil || wanted[rel] {
			return err
		}
		return os.Remove(path)
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func copyObject(ctx context.Context, path string, o Object, from Source) (err error) {
	if size, sum, err := hashFile(path, false); err == nil && size == o.Bytes && sum == hex.EncodeToString(o.SHA256) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	r, err := from.Open(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	f, err := os.OpenFile(path+".part", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	h := sha256.New()
	_, err = io.Copy(io.MultiWriter(f, h), r)
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if got := hex.EncodeToString(h.Sum(nil)); got != hex.EncodeToString(o.SHA256) {
		return fmt.Errorf("file %x of tenant %s is damaged in S3: the SHA-256 there is %s; sluice blobs check names all such files", o.SHA256, o.Tenant, got)
	}
	return os.Rename(path+".part", path)
}

// list hashes all files of the backup, and makes them readable for their owner only.
func list(ctx context.Context, dir string) ([]FileSum, error) {
	files := []FileSum{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		switch {
		case e.IsDir():
			return errors.Join(os.Chmod(path, 0o700), syncDir(path))
		case strings.HasPrefix(rel, manifestFile), rel == sumFile, rel == unfinishedFile:
			return nil
		}
		if err := os.Chmod(path, 0o600); err != nil {
			return err
		}
		size, sum, err := hashFile(path, true)
		files = append(files, FileSum{Path: filepath.ToSlash(rel), Bytes: size, SHA256: sum})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("hash what was written: %w", err)
	}
	return files, nil
}
