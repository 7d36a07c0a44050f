package folder

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// canAsk says that the system reports the owner of a file.
const canAsk = true

// openPlain opens a file or a folder below root without following any link, so that the folders
// above it are exactly those in its name.
func openPlain(root *os.Root, name string) (*os.File, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	at, err := root.Open(".")
	if err != nil {
		return nil, err
	}
	parts := strings.Split(name, "/")
	for i, part := range parts {
		flags := unix.O_PATH | unix.O_DIRECTORY
		if i == len(parts)-1 {
			flags = unix.O_RDONLY | unix.O_NONBLOCK
		}
		fd, err := unix.Openat(int(at.Fd()), part, flags|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		_ = at.Close()
		if err != nil {
			return nil, &fs.PathError{Op: "open", Path: name, Err: err}
		}
		at = os.NewFile(uintptr(fd), filepath.Join(root.Name(), name)) // the name by which its entries are looked up
	}
	return at, nil
}

// aclName is the extended attribute of files with an access control list. The group bits of their
// mode are the list's mask, not the group's rights.
const aclName = "system.posix_acl_access"

func ownedBy(f *os.File, info fs.FileInfo) (owned, error) {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return owned{}, fmt.Errorf("the system doesn't tell who owns %s", f.Name())
	}
	_, err := unix.Fgetxattr(int(f.Fd()), aclName, nil)
	switch {
	case err == nil:
		return owned{}, errMore
	case !errors.Is(err, unix.ENODATA) && !errors.Is(err, unix.ENOTSUP):
		return owned{}, fmt.Errorf("look whether %s has an access control list: %w", f.Name(), err)
	}
	return owned{uid: stat.Uid, gid: stat.Gid, mode: info.Mode().Perm()}, nil
}
