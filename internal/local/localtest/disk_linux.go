package localtest

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// Disk returns a directory on an in-memory file system of its own with size bytes, which a test can
// fill. Only root can mount one.
func Disk(t testing.TB, size int64) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("localtest: a test that fills a disk mounts one of its own: run it as root, or with `unshare --user --map-root-user --mount`")
	}
	dir := Dir(t)
	if err := unix.Mount("sluice-test", dir, "tmpfs", 0, fmt.Sprintf("size=%d", size)); err != nil {
		t.Fatalf("localtest: mount a disk to fill at %s (CAP_SYS_ADMIN): %v", dir, err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Errorf("localtest: unmount %s: %v", dir, err)
		}
	})
	return dir
}

// Fill appends to a file until its disk is full.
func Fill(t testing.TB, path string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatalf("localtest: %v", err)
	}
	defer f.Close() //nolint:errcheck // nothing more fits
	for _, size := range []int{1 << 20, 4 << 10} {
		for err = nil; err == nil; {
			_, err = f.Write(make([]byte, size))
		}
		if !errors.Is(err, unix.ENOSPC) {
			t.Fatalf("localtest: %v", err)
		}
	}
}
