package folder

// Permissions by the owner, the group and the mode of files, as in POSIX, and by the right to
// traverse the folders above. For the owner only the owner's bits count, for members of the group
// the group's, and for everybody else the others'.

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strconv"
	"syscall"

	"github.com/sluice-rag/sluice/internal/source"
)

// Settings of followed permissions.
const (
	usersField  = "users"
	groupsField = "groups"
)

// rootID is the id of the source's own folder. No path below it is ".".
const rootID = "."

// Bits of the others' class; those of the group and of the owner are 3 and 6 bits further left.
const (
	readBit     fs.FileMode = 0o4
	traverseBit fs.FileMode = 0o1
)

func uid(n uint32) string { return "uid:" + strconv.FormatUint(uint64(n), 10) }
func gid(n uint32) string { return "gid:" + strconv.FormatUint(uint64(n), 10) }

// ownership is the owner, group and mode of a file or a folder.
type ownership struct {
	uid, gid uint32
	mode     fs.FileMode
}

// entries returns entries that admit those to whom the mode grants bit. If it is granted to all,
// the owner and the group are not named, so that there are fewer distinct lists. Denials at the end
// are left out, because a principal without an entry is denied anyway.
func (o ownership) entries(bit fs.FileMode) []source.AccessEntry {
	if all := bit<<6 | bit<<3 | bit; o.mode&all == all {
		return []source.AccessEntry{{Principal: source.Everyone}}
	}
	all := []source.AccessEntry{
		{Principal: uid(o.uid), Rank: 0, Deny: o.mode&(bit<<6) == 0},
		{Principal: gid(o.gid), Rank: 1, Deny: o.mode&(bit<<3) == 0},
		{Principal: source.Everyone, Rank: 2, Deny: o.mode&bit == 0},
	}
	for len(all) > 0 && all[len(all)-1].Deny {
		all = all[:len(all)-1]
	}
	return all
}

// statOwnership returns the owner, group and mode of an open file or folder. If it also has an
// access control list, the error is errHasACL, because its mode doesn't say who has access.
func statOwnership(f *os.File) (ownership, error) {
	info, err := f.Stat()
	if err != nil {
		return ownership{}, err
	}
	return ownershipOf(f, info)
}

var errHasACL = errors.New("it has an access control list")

// file returns who may read a file, or nil if that is unknown.
func (c *connector) file(name string) *source.Access {
	f, err := c.open(path.Join(c.dir, name))
	if err != nil {
		return nil
	}
	defer f.Close() //nolint:errcheck // nothing was written
	o, err := statOwnership(f)
	if err != nil {
		return nil
	}
	return &source.Access{Entries: o.entries(readBit), Inherits: true}
}

// checkUnchanged returns an ItemError if a file is not the one that was listed, because others may
// be allowed to see it.
func checkUnchanged(f *os.File, item source.Item) error {
	info, err := f.Stat()
	if err == nil && (!info.Mode().IsRegular() || version(info) != item.Version) {
		err = &source.ItemError{Reason: "has changed since it was listed; the next run takes it"}
	}
	return err
}

// folderAccess returns who may traverse a folder, which is required for seeing what is below.
func (c *connector) folderAccess(folder string, f *os.File) (source.AccessFolder, error) {
	out := source.AccessFolder{ID: folder, Access: source.Access{Inherits: true}}
	list, err := traverseEntries(f)
	if err != nil {
		return out, err
	}
	out.Access.Requires = append(out.Access.Requires, list)
	if folder != "" {
		out.Folder = parentID(folder)
		return out, nil
	}
	out.ID = rootID
	// Add the folders between it and the root that the operator allows.
	for dir := c.dir; dir != "."; {
		dir = path.Dir(dir)
		above, err := c.open(dir)
		if err != nil {
			return out, err
		}
		list, err := traverseEntries(above)
		if err = errors.Join(err, above.Close()); err != nil {
			return out, err
		}
		out.Access.Requires = append(out.Access.Requires, list)
	}
	return out, nil
}

// traverseEntries returns entries for those who may traverse a folder. If that is unknown, nobody
// may.
func traverseEntries(f *os.File) ([]source.AccessEntry, error) {
	o, err := statOwnership(f)
	if errors.Is(err, errHasACL) {
		return []source.AccessEntry{}, nil
	}
	return o.entries(traverseBit), err
}

// open opens a file or folder below root. If permissions are asked for, it follows no links, so
// that access is decided by exactly the folders in the name.
func (c *connector) open(name string) (*os.File, error) {
	if c.permissions {
		return openNoFollow(c.root, name)
	}
	return c.root.Open(name)
}

// parentID returns the id of the folder of an item or folder.
func parentID(name string) string { return path.Dir(name) }

// enablePermissions makes the connector report permissions.
func (c *connector) enablePermissions(s source.Settings) error {
	if !ownershipSupported {
		return &source.FieldError{Field: source.PermissionsSetting, Reason: "can be followed on Linux only"}
	}
	c.permissions, c.roots, c.users, c.groups = true, s.Roots, s.Values[usersField], s.Values[groupsField]
	if f, err := c.open(c.dir); errors.Is(err, syscall.ELOOP) || errors.Is(err, syscall.ENOTDIR) {
		return &source.FieldError{Field: "path", Reason: "leads through a link, above which nobody would look; name the folder itself"}
	} else if err != nil {
		return c.failure("open", "", err)
	} else if err := f.Close(); err != nil {
		return fmt.Errorf("close the folder: %w", err)
	}
	for field, file := range map[string]string{usersField: c.users, groupsField: c.groups} {
		if file == "" {
			return &source.FieldError{Field: field, Reason: fmt.Sprintf("is missing, which permissions=follow needs: "+
				"a file in the form of /etc/%s, as getent %s writes it", systemFiles[field], systemFiles[field])}
		}
		f, err := c.openFile(field, file)
		if err != nil {
			return err
		}
		if err := f.Close(); err != nil {
			return fmt.Errorf("close %s: %w", file, err)
		}
	}
	return nil
}

// systemFiles are the files in /etc whose formats the files of the settings have.
var systemFiles = map[string]string{usersField: "passwd", groupsField: "group"}

// openFile opens the file of a setting, which must be below the roots.
func (c *connector) openFile(field, file string) (*os.File, error) {
	root, rel, err := openRoot(c.roots, field, file)
	if err != nil {
		return nil, err
	}
	info, err := root.Stat(rel)
	if err == nil && !info.Mode().IsRegular() {
		err = &source.FieldError{Field: field, Reason: "is not a file"}
	} else if err != nil && escapesRoot(root.Name(), file) {
		err = &source.FieldError{Field: field, Reason: "leads through a link out of the folders that may be read; name the file itself"}
	}
	var f *os.File
	if err == nil {
		f, err = root.Open(rel)
	}
	if closeErr := root.Close(); err == nil && closeErr != nil {
		return nil, errors.Join(closeErr, f.Close())
	}
	if err != nil {
		return nil, c.failure("read the setting "+field, file, err)
	}
	return f, nil
}

// Principals implements source.Permissions. It returns all principals in one page.
func (c *connector) Principals(_ context.Context, _ string) (source.PrincipalPage, error) {
	users, err := readTable(c, usersField, c.users, parseUser)
	if err != nil {
		return source.PrincipalPage{}, err
	}
	if len(users) == 0 { // it is being written, or the wrong file; without this error the mappings of all users would be deleted
		return source.PrincipalPage{}, fmt.Errorf("the file of the setting %s has no users", usersField)
	}
	groups, err := readTable(c, groupsField, c.groups, parseGroup)
	if err != nil {
		return source.PrincipalPage{}, err
	}
	return source.PrincipalPage{Principals: principals(users, groups)}, nil
}
