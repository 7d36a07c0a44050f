// Package backup creates backups of an installation, or exports one of its tenants, in a directory,
// checks them, and restores or imports them. Its callers read and write the database (Source,
// Target, Importer).
//
// A directory contains: database/, which pg_dump wrote in its directory format, or the tenant's
// rows by table; objects/TENANT/SHA256, the files that were kept in S3; manifest.json, which lists
// all files with their hashes and is written last; and manifest.sha256, the hash of the manifest.
package backup

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/schema"
)

// Format is the version of a directory's layout.
const Format = 1

const (
	manifestFile = "manifest.json"
	sumFile      = "manifest.sha256"
	// unfinishedFile exists while a backup is being created.
	unfinishedFile = "unfinished"
	databaseDir    = "database"
	objectsDir     = "objects"
)

// Manifest describes the contents of a backup.
type Manifest struct {
	Format int    `json:"format"`
	Sluice string `json:"sluice"` // version that made it
	About
	StartedAt  time.Time `json:"started_at"`
	FinishedAt time.Time `json:"finished_at"`
	Counts
	Objects Tally     `json:"objects"` // files that were kept in S3
	Files   []FileSum `json:"files"`   // by path
}

// About says with which versions a database was written.
type About struct {
	Schema     int64  `json:"schema"`   // highest migration
	Postgres   string `json:"postgres"` // server's version
	Major      int    `json:"postgres_major"`
	DumpMajor  int    `json:"pg_dump_major"`
	Owner      string `json:"database_owner"`
	Extensions string `json:"extensions"` // as "vector 0.8.0"
	// Tenant is the name of the exported tenant; empty: the whole installation was backed up.
	Tenant string `json:"tenant,omitempty"`
}

// Counts are the rows and documents of a database.
type Counts struct {
	Tables  []TableCount  `json:"tables"`  // by name
	Tenants []TenantCount `json:"tenants"` // by id
}

// TableCount counts the rows of a table or partition.
type TableCount struct {
	Name string `json:"name"` // with its schema
	Rows int64  `json:"rows"`
}

// TenantCount counts the documents of a tenant.
type TenantCount struct {
	ID        uuid.UUID `json:"id"`
	Name      string    `json:"name"`
	Documents int64     `json:"documents"`
}

// Tally counts files.
type Tally struct {
	Files int64 `json:"files"`
	Bytes int64 `json:"bytes"`
}

// FileSum is the size and hash of a file of a backup.
type FileSum struct {
	Path   string `json:"path"` // below the directory, with slashes
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
}

// Size returns the total size of the files in bytes.
func (m Manifest) Size() int64 {
	var n int64
	for _, f := range m.Files {
		n += f.Bytes
	}
	return n
}

// Documents returns the number of documents of all tenants.
func (m Manifest) Documents() int64 {
	var n int64
	for _, t := range m.Tenants {
		n += t.Documents
	}
	return n
}

// Read reads the manifest of a backup, which must be finished.
func Read(dir string) (Manifest, error) {
	var m Manifest
	path := filepath.Join(dir, manifestFile)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Stat(filepath.Join(dir, unfinishedFile)); err == nil {
			return m, schema.Invalid("backup", "%s is not finished; run sluice backup with this directory again, which goes on with it", dir)
		}
		return m, schema.Invalid("backup", "%s has no %s: it is no backup, or one that is not finished", dir, manifestFile)
	}
	if err != nil {
		return m, fmt.Errorf("read the manifest: %w", err)
	}
	sum, err := os.ReadFile(filepath.Join(dir, sumFile))
	if err != nil {
		return m, fmt.Errorf("read the hash of the manifest: %w", err)
	}
	if got := sha256.Sum256(text); strings.TrimSpace(string(sum)) != hex.EncodeToString(got[:]) {
		return m, &DamagedError{Path: path, Problem: "has another SHA-256 than " + sumFile + " says"}
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	var format struct{ Format int }
	if err := json.Unmarshal(text, &format); err != nil {
		return m, &DamagedError{Path: path, Problem: err.Error()}
	}
	if format.Format != Format {
		return m, schema.Invalid("backup", "%s has format %d, and this version reads %d; restore it with the version that made it", dir, format.Format, Format)
	}
	if err := d.Decode(&m); err != nil {
		return m, &DamagedError{Path: path, Problem: err.Error()}
	}
	for _, f := range m.Files {
		if !filepath.IsLocal(filepath.FromSlash(f.Path)) {
			return m, &DamagedError{Path: path, Problem: fmt.Sprintf("names %q, which is outside of it", f.Path)}
		}
	}
	return m, nil
}

// write writes the manifest, and so finishes the backup.
func (m Manifest) write(dir string) error {
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the manifest: %w", err)
	}
	text = append(text, '\n')
	sum := sha256.Sum256(text)
	if err := writeFile(filepath.Join(dir, sumFile), []byte(hex.EncodeToString(sum[:])+"\n")); err != nil {
		return err
	}
	part := filepath.Join(dir, manifestFile+".part")
	if err := writeFile(part, text); err != nil {
		return err
	}
	if err := os.Rename(part, filepath.Join(dir, manifestFile)); err != nil {
		return fmt.Errorf("finish the backup: %w", err)
	}
	if err := syncDir(dir); err != nil {
		return err
	}
	return os.Remove(filepath.Join(dir, unfinishedFile))
}

// DamagedError names a file of a backup that is missing or changed.
type DamagedError struct{ Path, Problem string }

func (e *DamagedError) Error() string {
	return fmt.Sprintf("the backup is damaged: %s %s; take another backup", e.Path, e.Problem)
}

// writeFile writes a file that only its owner may read, and returns when it is on the disk.
func writeFile(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Sync(), f.Close())
}

// syncDir syncs the names in a directory to the disk.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// hashFile hashes a file, and syncs it to the disk if sync is set.
func hashFile(path string, sync bool) (size int64, sum string, err error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, "", err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	h := sha256.New()
	if size, err = io.Copy(h, f); err != nil {
		return 0, "", err
	}
	if sync {
		err = f.Sync()
	}
	return size, hex.EncodeToString(h.Sum(nil)), err
}
