package backup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/sluice-rag/sluice/schema"
)

// Verify reads all files of a backup, compares them with the manifest, and returns the manifest.
// The error joins a DamagedError for each file that is missing or changed.
func Verify(ctx context.Context, dir string, tell func(done, all Tally)) (Manifest, error) {
	m, err := Read(dir)
	if err != nil {
		return m, err
	}
	all := Tally{Files: int64(len(m.Files)), Bytes: m.Size()}
	var done Tally
	var damaged []error
	for _, f := range m.Files {
		if err := ctx.Err(); err != nil {
			return m, err
		}
		path := filepath.Join(dir, filepath.FromSlash(f.Path))
		size, sum, err := hashFile(path, false)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			damaged = append(damaged, &DamagedError{path, "is missing"})
		case err != nil:
			return m, fmt.Errorf("read the backup: %w", err)
		case size != f.Bytes:
			damaged = append(damaged, &DamagedError{path, fmt.Sprintf("has %d bytes, and had %d", size, f.Bytes)})
		case sum != f.SHA256:
			damaged = append(damaged, &DamagedError{path, "has another SHA-256 than when it was written"})
		}
		done.Files++
		done.Bytes += f.Bytes
		if tell != nil {
			tell(done, all)
		}
	}
	return m, errors.Join(damaged...)
}

// checkReadable returns an error for an exported tenant, and for a backup that a newer version
// made.
func (m Manifest) checkReadable(known int64) error {
	if m.Tenant != "" {
		return schema.Invalid("backup", "it has tenant %s alone, which sluice tenants import adds to an installation", m.Tenant)
	}
	if m.Schema > known {
		return schema.Invalid("backup", "it has the database's schema at migration %d, which Sluice %s made, and this version knows %d; "+
			"restore it with that version or a newer one",
			m.Schema, m.Sluice, known)
	}
	return nil
}
