//go:build linux

package folder

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sluice-rag/sluice/internal/source"
)

// permissionsFixture is a folder whose files belong to the user who runs the test, with files of
// users and groups, so that the test needs no root.
type permissionsFixture struct {
	t         *testing.T
	roots     string
	me, group uint32
}

const (
	mate  = 4_000_001 // a user in the group of the files
	other = 4_000_002
)

func newPermissionsFixture(t *testing.T) permissionsFixture {
	t.Helper()
	f := permissionsFixture{t: t, roots: t.TempDir()}
	var stat unix.Stat_t
	f.ok(errors.Join(os.Mkdir(filepath.Join(f.roots, "docs"), 0o755), os.Chmod(f.roots, 0o755)))
	f.ok(unix.Stat(filepath.Join(f.roots, "docs"), &stat))
	f.me, f.group = stat.Uid, stat.Gid
	f.write("users", fmt.Sprintf("me:x:%d:%d:Me Myself,room 4:/:/bin/sh\nmate:x:%d:4000001::/:/bin/sh\n# nobody else\n\nother:x:%d:4000002::/:/bin/sh\n", f.me, f.group, mate, other))
	f.write("groups", fmt.Sprintf("files:x:%d:mate,gone\nfiles:x:%d:me\n", f.group, f.group))
	return f
}

func (f permissionsFixture) ok(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

func (f permissionsFixture) write(name, text string) {
	f.t.Helper()
	file := filepath.Join(f.roots, name)
	f.ok(errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o644)))
}

func (f permissionsFixture) chmod(name string, mode fs.FileMode) {
	f.t.Helper()
	f.ok(os.Chmod(filepath.Join(f.roots, name), mode))
}

// open opens a folder below the root.
func (f permissionsFixture) open(name string, change ...func(values map[string]string)) (source.Connector, error) {
	f.t.Helper()
	s := source.Settings{Roots: []string{f.roots}, Permissions: true, Values: map[string]string{"path": filepath.Join(f.roots, name),
		"permissions": "follow", "users": filepath.Join(f.roots, "users"), "groups": filepath.Join(f.roots, "groups")}}
	for _, c := range change {
		c(s.Values)
	}
	c, err := Driver().Open(f.t.Context(), s)
	if err == nil {
		f.t.Cleanup(func() { _ = c.Close() })
	}
	return c, err
}

func (f permissionsFixture) principals(c source.Connector) (out []source.Principal, err error) {
	page, err := c.(source.Permissions).Principals(f.t.Context(), "")
	return page.Principals, err
}

// seen returns which users see which files, according to a connector.
func (f permissionsFixture) seen(c source.Connector) map[string][]uint32 {
	f.t.Helper()
	all, err := f.principals(c)
	f.ok(err)
	folders, items := map[string]source.AccessFolder{}, []source.Item{}
	for cursor := ""; ; {
		l, err := c.List(f.t.Context(), cursor)
		f.ok(err)
		for _, folder := range l.Folders {
			folders[folder.ID] = folder
		}
		items = append(items, l.Items...)
		if cursor = l.Next; cursor == "" {
			break
		}
	}
	out := map[string][]uint32{}
	for _, item := range items {
		if item.Access == nil {
			continue
		}
		var chain []source.Access
		for at := item.Folder; at != ""; at = folders[at].Folder {
			chain = append(chain, folders[at].Access)
		}
		list := source.Effective(*item.Access, chain)
		for _, who := range []uint32{f.me, mate, other} {
			holds := func(principal string) bool {
				return principal == source.Everyone || principal == uid(who) || slices.ContainsFunc(all, func(p source.Principal) bool {
					return p.ID == principal && slices.Contains(p.Members, uid(who))
				})
			}
			known := func(principal string) bool {
				return slices.ContainsFunc(all, func(p source.Principal) bool { return p.ID == principal })
			}
			if list.Decide(holds, known).Allowed {
				out[item.ID] = append(out[item.ID], who)
			}
		}
	}
	return out
}

// may reports whether POSIX grants a user bit of a mode.
func (f permissionsFixture) may(who uint32, mode, bit fs.FileMode) bool {
	switch who {
	case f.me:
		bit <<= 6
	case mate:
		bit <<= 3
	}
	return mode&bit != 0
}

func TestModesDecideAccess(t *testing.T) {
	f := newPermissionsFixture(t)
	modes := []fs.FileMode{0o644, 0o640, 0o604, 0o600, 0o660, 0o444, 0o606, 0o404}
	folders := []fs.FileMode{0o755, 0o750, 0o705, 0o700, 0o711}
	for _, above := range folders {
		for _, inner := range folders {
			for _, mode := range modes {
				f.write(fmt.Sprintf("docs/%o/%o/%o", above, inner, mode), "x")
				f.chmod(fmt.Sprintf("docs/%o/%o/%o", above, inner, mode), mode)
			}
			f.chmod(fmt.Sprintf("docs/%o/%o", above, inner), inner)
		}
		f.chmod(fmt.Sprintf("docs/%o", above), above)
	}
	c, err := f.open("docs")
	f.ok(err)
	seen := f.seen(c)
	for _, above := range folders {
		for _, inner := range folders {
			for _, mode := range modes {
				var want []uint32
				for _, who := range []uint32{f.me, mate, other} {
					if f.may(who, above, 1) && f.may(who, inner, 1) && f.may(who, mode, 4) {
						want = append(want, who)
					}
				}
				if name := fmt.Sprintf("%o/%o/%o", above, inner, mode); !slices.Equal(seen[name], want) {
					t.Errorf("%s is seen by %v, want %v", name, seen[name], want)
				}
			}
		}
	}
	// The folder itself counts, too, and so do those between it and the root.
	everybody := []uint32{f.me, mate, other}
	if c, err = f.open("docs/755/755"); err != nil || !slices.Equal(f.seen(c)["644"], everybody) {
		t.Fatalf("%v, %v", f.seen(c), err)
	}
	f.chmod("docs/755/755/644", 0o640)
	if got := f.seen(c)["644"]; !slices.Equal(got, everybody[:2]) {
		t.Errorf("after a chmod of the file it is seen by %v", got)
	}
	f.chmod("docs", 0o700)
	if got := f.seen(c)["644"]; !slices.Equal(got, everybody[:1]) {
		t.Errorf("after a chmod of a folder above it is seen by %v", got)
	}
}

func TestUsersAndGroupsAreThoseOfTheFiles(t *testing.T) {
	f := newPermissionsFixture(t)
	c, err := f.open("docs")
	f.ok(err)
	got, err := f.principals(c)
	f.ok(err)
	members := []string{uid(mate), uid(f.me)}
	slices.Sort(members)
	want := []source.Principal{{ID: uid(f.me), Name: "me, Me Myself"}, {ID: uid(mate), Name: "mate"}, {ID: uid(other), Name: "other"},
		{ID: gid(f.group), Group: true, Name: "files", Members: members},
		{ID: gid(4000001), Group: true, Members: []string{uid(mate)}}, {ID: gid(4000002), Group: true, Members: []string{uid(other)}}}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("the principals are\n%v, want\n%v", got, want)
	}
	for _, x := range []struct{ file, text, want string }{
		{"users", "", "no users"},
		{"users", "me:x:1:1::/:/bin/sh\nmate:x:2:2::/:/bin", "ends within a line"},
		{"users", "secret words\n", "line 1 has 1 fields"},
		{"users", "me:x:-1:1::/:/bin/sh\n", "no numbers"},
		{"users", "me:x:1:1::/:/bin/sh\n+::::::\n", "line 2 is an entry for NIS"},
		{"groups", "files:x:a:me\n", "no number"},
	} {
		t.Run(x.want, func(t *testing.T) {
			f := newPermissionsFixture(t)
			c, err := f.open("docs")
			f.ok(err)
			f.write(x.file, x.text)
			if _, err := f.principals(c); err == nil || !strings.Contains(err.Error(), x.want) || strings.Contains(err.Error(), "secret") {
				t.Errorf("%q is %v, want %q", x.text, err, x.want)
			}
		})
	}
}

func TestPermissionsNeedFilesBelowTheRoots(t *testing.T) {
	f := newPermissionsFixture(t)
	f.ok(errors.Join(os.Symlink("docs", filepath.Join(f.roots, "link")), os.Symlink("/etc/passwd", filepath.Join(f.roots, "out"))))
	for setting, values := range map[string]map[string]string{
		"users":  {"": "is missing", "/etc/passwd": "not below", "users": "whole path", f.roots + "/docs": "not a file", f.roots + "/out": "through a link"},
		"groups": {"": "is missing", "/etc/group": "not below"},
		"path":   {f.roots + "/link": "through a link"},
	} {
		for value, want := range values {
			_, err := f.open("docs", func(v map[string]string) { v[setting] = value })
			var field *source.FieldError
			if !errors.As(err, &field) || field.Field != setting || !strings.Contains(field.Reason, want) {
				t.Errorf("%s %q: %v, want %q", setting, value, err, want)
			}
		}
	}
}

// TestFetchReturnsTheListedFile replaces files and folders between a listing and a fetch.
func TestFetchReturnsTheListedFile(t *testing.T) {
	f := newPermissionsFixture(t)
	for _, name := range []string{"docs/a", "docs/sub/b", "private/b"} {
		f.write(name, "of "+name)
	}
	c, err := f.open("docs")
	f.ok(err)
	l, err := c.List(t.Context(), "")
	f.ok(err)
	fetch := func(i int) error {
		d, err := c.Fetch(t.Context(), l.Items[i])
		if err == nil {
			err = d.Body.Close()
		}
		return err
	}
	if len(l.Items) != 2 {
		t.Fatalf("%+v", l.Items)
	}
	if fetch(0) != nil || fetch(1) != nil {
		t.Fatalf("%+v: %v, %v", l.Items, fetch(0), fetch(1))
	}
	f.ok(errors.Join(os.RemoveAll(f.roots+"/docs/sub"), os.Symlink("../private", f.roots+"/docs/sub")))
	f.write("docs/a", "another file")
	var changed *source.ItemError
	if err := fetch(0); !errors.As(err, &changed) {
		t.Errorf("a file that changed: %v", err)
	}
	if err := fetch(1); err == nil {
		t.Error("a file is fetched through a link")
	}
}

// TestFilesWithAccessControlListsHaveNoAccess: if a file has an access control list, the group bits
// of its mode are a mask.
func TestFilesWithAccessControlListsHaveNoAccess(t *testing.T) {
	f := newPermissionsFixture(t)
	f.write("docs/listed", "x")
	f.write("docs/folder/below", "x")
	f.write("docs/plain", "x")
	list := binary.LittleEndian.AppendUint32(nil, 2)
	for _, e := range []struct{ tag, perm, id uint32 }{{1, 7, ^uint32(0)}, {2, 5, other}, {4, 0, ^uint32(0)}, {16, 5, ^uint32(0)}, {32, 5, ^uint32(0)}} {
		list = binary.LittleEndian.AppendUint16(list, uint16(e.tag))
		list = binary.LittleEndian.AppendUint16(list, uint16(e.perm))
		list = binary.LittleEndian.AppendUint32(list, e.id)
	}
	for _, name := range []string{"docs/listed", "docs/folder"} {
		if err := unix.Setxattr(filepath.Join(f.roots, name), aclName, list, 0); errors.Is(err, unix.ENOTSUP) {
			t.Logf("the file system of %s has no access control lists", f.roots)
			return
		} else if err != nil {
			t.Fatal(err)
		}
	}
	c, err := f.open("docs")
	f.ok(err)
	if seen := f.seen(c); len(seen) != 1 || len(seen["plain"]) != 3 {
		t.Errorf("seen are %v", seen)
	}
}
