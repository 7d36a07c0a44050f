//go:build unix

package local

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/sluice-rag/sluice/schema"
)

// Room returns a schema.ErrStorageFull when less than keep bytes, or a twentieth of the disk where
// that is less, are free where a directory lies.
func Room(dir string, keep int64) error {
	free, all, err := space(dir)
	if keep = min(keep, all/20); err != nil || free >= keep {
		return err
	}
	return fmt.Errorf("the disk of %s has %s left, of which %s are kept free (SLUICE_KEEP_FREE); free some, and upload again: %w",
		dir, schema.FormatBytes(free), schema.FormatBytes(keep), schema.ErrStorageFull)
}

// Free returns how many bytes can be written where a directory lies.
func Free(dir string) (int64, error) {
	free, _, err := space(dir)
	return free, err
}

// space returns what can be written where a directory lies, and how much there is in all.
func space(dir string) (free, all int64, err error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, 0, fmt.Errorf("see how much room %s has: %w", dir, err)
	}
	return int64(s.Bavail) * int64(s.Bsize), int64(s.Blocks) * int64(s.Bsize), nil
}
