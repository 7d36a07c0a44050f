package backup

// This file restores a backup, and verifies that it is complete.

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/schema"
)

// Target is an empty database into which a backup is restored.
type Target interface {
	// Known returns the highest migration of this version.
	Known() int64
	// CheckEmpty returns an error for a database that is not empty or cannot hold m.
	CheckEmpty(ctx context.Context, m Manifest) error
	// Load creates the tables and loads their rows.
	Load(ctx context.Context, m Manifest, dir string) error
	// Count counts the loaded rows.
	Count(ctx context.Context) (Counts, error)
	// Finish creates indexes, constraints, policies and logins, and migrates the schema to this
	// version.
	Finish(ctx context.Context, m Manifest, dir string) error
	// PutObjects stores the files that were kept in S3, where the settings say.
	PutObjects(ctx context.Context, open func(tenant uuid.UUID, sha256 []byte) (io.ReadCloser, error)) (Tally, error)
	// CheckBytes reads the original bytes of all documents and compares them with their hashes.
	CheckBytes(ctx context.Context) (read Tally, damaged []string, err error)
}

// Restored describes what was restored.
type Restored struct {
	Tenants int   `json:"tenants"`
	Tables  int   `json:"tables"`
	Rows    int64 `json:"rows"`
	// Documents is the number of documents of all tenants.
	Documents int64 `json:"documents"`
	// Files are the original bytes of documents.
	Files Tally `json:"files"`
	// Objects are those of the files that were kept in S3.
	Objects Tally `json:"objects"`
	// Damaged are the files that do not match their hashes, in the backup or since.
	Damaged []string `json:"damaged"`
}

// Restore restores a backup, after comparing its files with their hashes. If it fails, the database
// is incomplete and must not be used.
func Restore(ctx context.Context, dir string, to Target, tell func(string)) (Restored, error) {
	tell("comparing the backup with its hashes")
	m, err := Verify(ctx, dir, nil)
	if err != nil {
		return Restored{}, err
	}
	if err := m.checkReadable(to.Known()); err != nil {
		return Restored{}, err
	}
	if err := to.CheckEmpty(ctx, m); err != nil {
		return Restored{}, err
	}
	tell("loading tables")
	database := filepath.Join(dir, databaseDir)
	if err := to.Load(ctx, m, database); err != nil {
		return Restored{}, err
	}
	r := Restored{Tenants: len(m.Tenants), Tables: len(m.Tables), Documents: m.Documents()}
	tell("counting rows")
	counts, err := to.Count(ctx)
	if err != nil {
		return Restored{}, err
	}
	if err := m.Counts.compare(counts); err != nil {
		return Restored{}, err
	}
	for _, t := range m.Tables {
		r.Rows += t.Rows
	}
	tell("making indexes and logins")
	if err := to.Finish(ctx, m, database); err != nil {
		return Restored{}, err
	}
	tell("storing files")
	if r.Objects, err = to.PutObjects(ctx, func(tenant uuid.UUID, sha256 []byte) (io.ReadCloser, error) {
		return openObject(dir, tenant, sha256)
	}); err != nil {
		return Restored{}, err
	}
	tell("comparing documents with their hashes")
	r.Files, r.Damaged, err = to.CheckBytes(ctx)
	return r, err
}

// openObject opens a file that was kept in S3.
func openObject(dir string, tenant uuid.UUID, sha256 []byte) (io.ReadCloser, error) {
	f, err := os.Open(filepath.Join(dir, Object{Tenant: tenant, SHA256: sha256}.path()))
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("the backup has no file %s of tenant %s: %w", hex.EncodeToString(sha256), tenant, schema.ErrNotFound)
	}
	return f, err
}

// compare returns an error for each count that is different now.
func (c Counts) compare(now Counts) error {
	rows := map[string]int64{}
	for _, t := range now.Tables {
		rows[t.Name] = t.Rows
	}
	var wrong []error
	for _, t := range c.Tables {
		if n, there := rows[t.Name]; !there || n != t.Rows {
			wrong = append(wrong, fmt.Errorf("table %s has %d rows, and had %d when it was backed up", t.Name, n, t.Rows))
		}
	}
	documents := map[uuid.UUID]int64{}
	for _, t := range now.Tenants {
		documents[t.ID] = t.Documents
	}
	for _, t := range c.Tenants {
		if n, there := documents[t.ID]; !there || n != t.Documents {
			wrong = append(wrong, fmt.Errorf("tenant %s has %d documents, and had %d when it was backed up", t.Name, n, t.Documents))
		}
	}
	return errors.Join(wrong...)
}
