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

// ownershipSupported says that the system reports the owner of a file.
const ownershipSupported = true

// openNoFollow opens a file or a folder below root without following any link, so that the folders
// above it are exactly those in its name.
func openNoFollow(root *os.Root, name string) (*os.File, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	f, err := root.Open(".")
	if err != nil {
		return nil, err
	}
	parts := strings.Split(name, "/")
	for i, part := range parts {
		flags := unix.O_PATH | unix.O_DIRECTORY
		if i == len(parts)-1 {
			flags = unix.O_RDONLY | unix.O_NONBLOCK
		}
		fd, err := unix.Openat(int(f.Fd()), part, flags|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		_ = f.Close()
		if err != nil {
			return nil, &fs.PathError{Op: "open", Path: name, Err: err}
		}
		f = os.NewFile(uintptr(fd), filepath.Join(root.Name(), name)) // the name by which its entries are looked up
	}
	return f, nil
}

// aclName is the extended attribute of files with an access control list. The group bits of their
// mode are the list's mask, not the group's rights.
const aclName = "system.posix_acl_access"

func ownershipOf(f *os.File, info fs.FileInfo) (ownership, error) {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return ownership{}, fmt.Errorf("the system doesn't report who owns %s", f.Name())
	}
	_, err := unix.Fgetxattr(int(f.Fd()), aclName, nil)
	switch {
	case err == nil:
		return ownership{}, errHasACL
	case !errors.Is(err, unix.ENODATA) && !errors.Is(err, unix.ENOTSUP):
		return ownership{}, fmt.Errorf("look whether %s has an access control list: %w", f.Name(), err)
	}
	return ownership{uid: stat.Uid, gid: stat.Gid, mode: info.Mode().Perm()}, nil
}
