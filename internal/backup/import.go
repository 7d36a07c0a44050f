package backup

// This file adds an exported tenant to an installation.

import (
	"context"
	"io"
	"path/filepath"

	"github.com/sluice-rag/sluice/schema"
)

// Importer is an installation that a tenant is added to.
type Importer interface {
	// Import adds the tenant of m, whose rows lie in a directory, in one transaction. open
	// reads a file that was kept in S3.
	Import(ctx context.Context, m Manifest, dir string, open func(sha256 []byte) (io.ReadCloser, error)) (Imported, error)
}

// Imported is what was added.
type Imported struct {
	Tenant  TenantCount `json:"tenant"` // with the name that it has now
	Tables  int         `json:"tables"`
	Rows    int64       `json:"rows"`
	Files   Tally       `json:"files"`        // original bytes of documents, which all have their hashes
	Revoked int64       `json:"revoked_keys"` // API keys of operators, which were for the other installation
	Objects Tally       `json:"objects"`      // of the files, those that were kept in S3
}

// Import adds an exported tenant, whose files it compares with their hashes first. When it
// fails, the installation is as it was.
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
