package local

import (
	"errors"
	"syscall"
	"testing"
)

func TestAReleasedDirectoryIsFreeThoughAStartingProcessHasItsDescriptor(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	lock, err := lockDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lockDir(dir); !errors.Is(err, ErrInUse) {
		t.Errorf("a second lock: got %v, want ErrInUse", err)
	}
	// A process between fork and exec has such a copy.
	held, err := syscall.Dup(int(lock.file.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Close(held) }()
	if err := lock.release(); err != nil {
		t.Fatal(err)
	}
	again, err := lockDir(dir)
	if err != nil {
		t.Fatalf("locking after a release: %v", err)
	}
	if err := again.release(); err != nil {
		t.Error(err)
	}
}
