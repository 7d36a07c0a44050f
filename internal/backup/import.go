package backup

// This file adds an exported tenant to an installation.

import (
	"context"
	"io"
	"path/filepath"

	"github.com/sluice-rag/sluice/schema"
)

// Importer is an installation into which a tenant is imported.
type Importer interface {
	// Import adds the tenant of m, whose rows are in a directory, in one transaction. open reads a
	// file that the export's installation kept in S3.
	Import(ctx context.Context, m Manifest, dir string, open func(sha256 []byte) (io.ReadCloser, error)) (Imported, error)
}

// Imported describes what was imported.
type Imported struct {
	Tenant  TenantCount `json:"tenant"` // with its name in this installation
	Tables  int         `json:"tables"`
	Rows    int64       `json:"rows"`
	Files   Tally       `json:"files"`        // original bytes of documents; all match their hashes
	Revoked int64       `json:"revoked_keys"` // operators' API keys, which were for the other installation
	Objects Tally       `json:"objects"`      // those of the files that were kept in S3
}

// Import imports an exported tenant, after comparing its files with their hashes. If it fails, the
// installation is unchanged.
func Import(ctx context.Context, dir string, to Importer, tell func(string)) (Imported, error) {
	tell("comparing the export with its hashes")
	m, err := Verify(ctx, dir, nil)
	if err != nil {
		return Imported{}, err
	}
	if m.Tenant == "" || len(m.Tenants) != 1 {
		return Imported{}, schema.Invalid("dir", "%s is a backup of an installation; sluice restore restores it", dir)
	}
	tell("loading rows")
	return to.Import(ctx, m, filepath.Join(dir, databaseDir), func(sha256 []byte) (io.ReadCloser, error) {
		return openObject(dir, m.Tenants[0].ID, sha256)
	})
}
