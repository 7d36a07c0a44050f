// This file selects the user that PostgreSQL runs as, and checks that this user can access its
// files.

package local

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// account is a user of this machine.
type account struct {
	name     string
	uid, gid uint32
}

// serverAccount returns the user for programs that refuse to run as root: nil unless we are root.
func serverAccount() (*account, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, uidErr := strconv.ParseUint(u.Uid, 10, 32)
		gid, gidErr := strconv.ParseUint(u.Gid, 10, 32)
		if err := errors.Join(uidErr, gidErr); err != nil {
			return nil, fmt.Errorf("user %s: %w", name, err)
		}
		return &account{name: name, uid: uint32(uid), gid: uint32(gid)}, nil
	}
	return nil, fmt.Errorf("PostgreSQL refuses to run as root and there is neither a user postgres nor nobody to run it as: %w", ErrMissing)
}

// canEnter checks that the account may pass through dir and all directories above it.
func (a *account) canEnter(dir string) error {
	if a == nil {
		return nil
	}
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return err
	}
	for {
		info, err := os.Stat(dir)
		if err != nil {
			return err
		}
		if !a.maySearch(info) {
			return fmt.Errorf("PostgreSQL refuses to run as root, so it runs as user %s, who can't enter %s (mode %04o): "+
				"choose a data directory elsewhere, such as /var/lib/sluice/data, or let others pass (chmod o+x %s): %w",
				a.name, dir, info.Mode().Perm(), dir, fs.ErrPermission)
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return nil
		}
		dir = parent
	}
}

// maySearch checks the permission bits, of which exactly one class applies.
func (a *account) maySearch(info fs.FileInfo) bool {
	mode := info.Mode().Perm()
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		switch {
		case stat.Uid == a.uid:
			return mode&0o100 != 0
		case stat.Gid == a.gid:
			return mode&0o010 != 0
		}
	}
	return mode&0o001 != 0
}

// own makes the account the owner of a file or directory.
func (a *account) own(path string) error {
	if a == nil {
		return nil
	}
	return os.Chown(path, int(a.uid), int(a.gid))
}
