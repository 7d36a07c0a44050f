//go:build unix

package local

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/sluice-rag/sluice/schema"
)

// CheckDisk returns a schema.ErrStorageFull if the disk of a directory has less than keep bytes
// free, or less than a twentieth of its size if that is smaller.
func CheckDisk(dir string, keep int64) error {
	free, all, err := space(dir)
	if keep = min(keep, all/20); err != nil || free >= keep {
		return err
	}
	return fmt.Errorf("the disk of %s has %s left, of which %s are kept free (SLUICE_KEEP_FREE); free some space, and upload again: %w",
		dir, schema.FormatBytes(free), schema.FormatBytes(keep), schema.ErrStorageFull)
}

// Free returns how many bytes can be written to the disk of a directory.
func Free(dir string) (int64, error) {
	free, _, err := space(dir)
	return free, err
}

// space returns the free bytes and the size of the disk of a directory.
func space(dir string) (free, all int64, err error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, 0, fmt.Errorf("look up the free space of %s: %w", dir, err)
	}
	return int64(s.Bavail) * int64(s.Bsize), int64(s.Blocks) * int64(s.Bsize), nil
}
