package folder

// Who may see what: the owner, the group and the mode of files, as POSIX has them, and who may pass
// the folders above. An owner is asked by the owner's bits alone, who is in the group by the
// group's, and everybody else by the others'.

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

// The settings by which permissions are followed.
const (
	usersField  = "users"
	groupsField = "groups"
)

// top is the id of the folder that is followed. No path below it is ".".
const top = "."

// Bits of the others' class; the group's and the owner's are 3 and 6 further left.
const (
	mayRead fs.FileMode = 0o4
	mayPass fs.FileMode = 0o1
)

func uid(n uint32) string { return "uid:" + strconv.FormatUint(uint64(n), 10) }
func gid(n uint32) string { return "gid:" + strconv.FormatUint(uint64(n), 10) }

// owned is what decides on a file or a folder.
type owned struct {
	uid, gid uint32
	mode     fs.FileMode
}

// entries let in whom a bit lets. What is open to all is so whoever owns it, so that there are
// fewer lists. A denial that nothing follows is left out: who has no entry is kept out, too.
func (o owned) entries(bit fs.FileMode) []source.AccessEntry {
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

// ask looks at an open file or folder. What has more than a mode, an access control list, is
// errMore: its bits don't say who is let in.
func ask(f *os.File) (owned, error) {
	info, err := f.Stat()
	if err != nil {
		return owned{}, err
	}
	return ownedBy(f, info)
}

var errMore = errors.New("it has an access control list")

// file returns who may read a file. nil: nobody knows.
func (c *connector) file(name string) *source.Access {
	f, err := c.open(path.Join(c.at, name))
	if err != nil {
		return nil
	}
	defer f.Close() //nolint:errcheck // nothing was written
	o, err := ask(f)
	if err != nil {
		return nil
	}
	return &source.Access{Entries: o.entries(mayRead), Inherits: true}
}

// unchanged is an ItemError for a file that is another than was listed, which others may see.
func unchanged(f *os.File, item source.Item) error {
	info, err := f.Stat()
	if err == nil && (!info.Mode().IsRegular() || version(info) != item.Version) {
		err = &source.ItemError{Reason: "has changed since it was listed; the next run takes it"}
	}
	return err
}

// passing returns who may pass a folder: whoever sees what is below has to.
func (c *connector) passing(folder string, f *os.File) (source.AccessFolder, error) {
	out := source.AccessFolder{ID: folder, Access: source.Access{Inherits: true}}
	list, err := pass(f)
	if err != nil {
		return out, err
	}
	out.Access.Requires = append(out.Access.Requires, list)
	if folder != "" {
		out.Folder = in(folder)
		return out, nil
	}
	out.ID = top
	// And those between it and what the operator allows.
	for at := c.at; at != "."; {
		at = path.Dir(at)
		above, err := c.open(at)
		if err != nil {
			return out, err
		}
		list, err := pass(above)
		if err = errors.Join(err, above.Close()); err != nil {
			return out, err
		}
		out.Access.Requires = append(out.Access.Requires, list)
	}
	return out, nil
}

// pass are the entries of those who may pass a folder; nobody may where that is not known.
func pass(f *os.File) ([]source.AccessEntry, error) {
	o, err := ask(f)
	if errors.Is(err, errMore) {
		return []source.AccessEntry{}, nil
	}
	return o.entries(mayPass), err
}

// open opens something below root. Where permissions are asked for, it leads through no link: only
// the folders that its name says are looked at.
func (c *connector) open(name string) (*os.File, error) {
	if c.permissions {
		return openPlain(c.root, name)
	}
	return c.root.Open(name)
}

// in is the id of the folder that something is in.
func in(name string) string { return path.Dir(name) }

// follow has the connector tell who may see what.
func (c *connector) follow(s source.Settings) error {
	if !canAsk {
		return &source.FieldError{Field: source.PermissionsSetting, Reason: "can be followed on Linux alone"}
	}
	c.permissions, c.roots, c.users, c.groups = true, s.Roots, s.Values[usersField], s.Values[groupsField]
	if f, err := c.open(c.at); errors.Is(err, syscall.ELOOP) || errors.Is(err, syscall.ENOTDIR) {
		return &source.FieldError{Field: "path", Reason: "leads through a link, above which nobody would look; name the folder itself"}
	} else if err != nil {
		return c.failure("open", "", err)
	} else if err := f.Close(); err != nil {
		return fmt.Errorf("close the folder: %w", err)
	}
	for field, file := range map[string]string{usersField: c.users, groupsField: c.groups} {
		if file == "" {
			return &source.FieldError{Field: field, Reason: fmt.Sprintf("is missing, which permissions=follow needs: "+
				"a file in the form of /etc/%s, as getent %s writes it", forms[field], forms[field])}
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

// forms are the files in whose form the settings' are.
var forms = map[string]string{usersField: "passwd", groupsField: "group"}

// openFile opens the file of a setting, below the roots.
func (c *connector) openFile(field, file string) (*os.File, error) {
	root, at, err := below(c.roots, field, file)
	if err != nil {
		return nil, err
	}
	info, err := root.Stat(at)
	if err == nil && !info.Mode().IsRegular() {
		err = &source.FieldError{Field: field, Reason: "is not a file"}
	} else if err != nil && leadsOut(root.Name(), file) {
		err = &source.FieldError{Field: field, Reason: "leads through a link out of what may be read; name the file itself"}
	}
	var f *os.File
	if err == nil {
		f, err = root.Open(at)
	}
	if closing := root.Close(); err == nil && closing != nil {
		return nil, errors.Join(closing, f.Close())
	}
	if err != nil {
		return nil, c.failure("read the setting "+field, file, err)
	}
	return f, nil
}

// Principals implements source.Permissions: all on one page.
func (c *connector) Principals(_ context.Context, _ string) (source.PrincipalPage, error) {
	users, err := readTable(c, usersField, c.users, parseUser)
	if err != nil {
		return source.PrincipalPage{}, err
	}
	if len(users) == 0 { // it is being written, or another file: mappings go with users that are gone
		return source.PrincipalPage{}, fmt.Errorf("the file of the setting %s has no users", usersField)
	}
	groups, err := readTable(c, groupsField, c.groups, parseGroup)
	if err != nil {
		return source.PrincipalPage{}, err
	}
	return source.PrincipalPage{Principals: principals(users, groups)}, nil
}
