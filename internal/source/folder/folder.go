// Package folder is the driver for folders of the worker's machine.
package folder

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/sluice-rag/sluice/internal/source"
)

// pageItems is the maximum number of items in a page; folders that are read count, too.
const pageItems = 500

// Driver opens folders below the roots that the operator allows.
func Driver() source.Driver {
	return source.Driver{
		Name: "folder", Summary: "A folder of the machine that source-worker runs on, below those that its operator allows.",
		Fields: []source.Field{
			{Name: "path", Summary: "The folder, as /srv/documents/handbook.", Required: true},
			{Name: source.PermissionsSetting, Values: []string{source.IgnorePermissions, source.FollowPermissions},
				Summary: "Whether owners, groups and modes of files and folders decide who sees the documents. It doesn't change."},
			{Name: usersField, Summary: "With permissions=follow, a file in the form of /etc/passwd, as getent passwd writes it, " +
				"below the folders that may be read, too."},
			{Name: groupsField, Summary: "The same in the form of /etc/group."},
		},
		Open: open,
	}
}

// connector reads only below root: the system refuses links that lead out of it.
type connector struct {
	root *os.Root
	at   string   // the folder, below root
	skip []string // patterns of folders that are not read

	permissions   bool // whether permissions are asked for
	roots         []string
	users, groups string // files

	mu      sync.Mutex
	begun   string // the folder that the previous page listed in part
	entries []fs.DirEntry
}

func open(_ context.Context, s source.Settings) (source.Connector, error) {
	wanted := s.Values["path"]
	root, at, err := below(s.Roots, "path", wanted)
	if err != nil {
		return nil, err
	}
	c := &connector{root: root, at: at}
	for _, pattern := range s.Exclude {
		if strings.HasSuffix(pattern, "/**") {
			c.skip = append(c.skip, pattern)
		}
	}
	info, err := root.Stat(c.at)
	switch {
	case err == nil && !info.IsDir():
		err = &source.FieldError{Field: "path", Reason: "is not a folder"}
	case err != nil && leadsOut(root.Name(), filepath.Clean(wanted)):
		err = &source.FieldError{Field: "path", Reason: "leads through a link out of the folders that may be read; name the folder itself"}
	}
	if err != nil {
		return nil, errors.Join(c.failure("open", "", err), root.Close())
	}
	if s.Permissions {
		if err := c.follow(s); err != nil {
			return nil, errors.Join(err, root.Close())
		}
	}
	return c, nil
}

// below opens the first root that contains the path of a setting. at is the path relative to it,
// with slashes.
func below(roots []string, field, wanted string) (root *os.Root, at string, err error) {
	wanted = filepath.Clean(wanted)
	if !filepath.IsAbs(wanted) {
		return nil, "", &source.FieldError{Field: field, Reason: "is not a whole path, as /srv/documents"}
	}
	for _, allowed := range roots {
		at, err := filepath.Rel(filepath.Clean(allowed), wanted)
		if err != nil || !filepath.IsLocal(at) {
			continue
		}
		root, err := os.OpenRoot(allowed)
		if err != nil {
			return nil, "", fmt.Errorf("open the folder %s (SLUICE_SOURCE_ROOTS): %w", allowed, err)
		}
		return root, filepath.ToSlash(at), nil
	}
	return nil, "", &source.FieldError{Field: field, Reason: "is not below a folder that may be read; the operator allows folders with SLUICE_SOURCE_ROOTS"}
}

// leadsOut reports whether links on the way to a folder lead out of what is allowed. It only serves
// the error message: root itself refuses such links.
func leadsOut(allowed, wanted string) bool {
	led, err := filepath.EvalSymlinks(wanted)
	if err != nil {
		return false
	}
	if allowed, err = filepath.EvalSymlinks(allowed); err != nil {
		return false
	}
	at, err := filepath.Rel(allowed, led)
	return err != nil || !filepath.IsLocal(at)
}

// Close implements source.Connector.
func (c *connector) Close() error { return c.root.Close() }

// cursor has the folders that have still to be listed, the next one last, and the last listed entry
// of that one.
type cursor struct {
	Folders []string `json:"folders"`
	After   string   `json:"after,omitempty"`
}

// List implements source.Connector. Links are skipped, because their targets may be listed
// themselves.
func (c *connector) List(ctx context.Context, text string) (source.Listing, error) {
	at := cursor{Folders: []string{""}}
	if text != "" {
		if err := source.ReadCursor(text, &at); err != nil {
			return source.Listing{}, err
		}
	}
	var out source.Listing
	for looked := 0; len(at.Folders) > 0 && looked < pageItems; looked++ {
		if err := ctx.Err(); err != nil {
			return source.Listing{}, err
		}
		folder := at.Folders[len(at.Folders)-1]
		entries, err := c.read(&out, folder, at.After != "")
		if errors.Is(err, fs.ErrNotExist) && folder != "" { // it was deleted meanwhile
			entries, err = nil, nil
		}
		if err != nil {
			return source.Listing{}, c.failure("list", folder, err)
		}
		at.Folders = at.Folders[:len(at.Folders)-1]
		begin, _ := slices.BinarySearchFunc(entries, at.After, func(e fs.DirEntry, name string) int { return strings.Compare(e.Name(), name) })
		if at.After != "" && begin < len(entries) && entries[begin].Name() == at.After {
			begin++
		}
		at.After = ""
		var below []string
		for i, e := range entries {
			name := path.Join(folder, e.Name())
			excluded := e.IsDir() && slices.ContainsFunc(c.skip, func(p string) bool { return source.Matches(p, name) })
			if e.IsDir() && !excluded {
				below = append(below, name)
			}
			if i < begin {
				continue
			}
			if looked >= pageItems {
				at.Folders, at.After, below = append(at.Folders, folder), entries[i-1].Name(), nil
				c.keep(folder, entries)
				break
			}
			looked++
			if excluded {
				out.Skipped = append(out.Skipped, source.Skipped{Path: name, Reason: "excluded by the source's patterns"})
				continue
			}
			c.add(&out, name, e)
		}
		slices.Reverse(below) // so that they come in order
		at.Folders = append(at.Folders, below...)
	}
	if len(at.Folders) == 0 {
		return out, nil
	}
	next, err := source.Cursor(at)
	out.Next = next
	return out, err
}

// keep keeps the entries of a folder that a page lists in part, so that a large folder is not read
// again for every page.
func (c *connector) keep(folder string, entries []fs.DirEntry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.begun, c.entries = folder, entries
}

// takeEntries returns the kept entries and forgets them. It returns nil if they are of another
// folder.
func (c *connector) takeEntries(folder string) (entries []fs.DirEntry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.begun == folder {
		entries = c.entries
	}
	c.begun, c.entries = "", nil
	return entries
}

// read returns a folder's entries, sorted by name, and adds the folder to the listing if
// permissions are asked for. goOn says that the previous page listed a part of them.
func (c *connector) read(out *source.Listing, folder string, goOn bool) ([]fs.DirEntry, error) {
	if kept := c.takeEntries(folder); goOn && kept != nil {
		return kept, nil
	}
	f, err := c.open(path.Join(c.at, folder))
	if err != nil {
		return nil, err
	}
	entries, err := f.ReadDir(-1)
	if err == nil && c.permissions {
		var passing source.AccessFolder
		if passing, err = c.passing(folder, f); err == nil {
			out.Folders = append(out.Folders, passing)
		}
	}
	if closing := f.Close(); err == nil {
		err = closing
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, err
}

// add adds an entry to the listing, unless it is a folder.
func (c *connector) add(out *source.Listing, name string, e fs.DirEntry) {
	switch {
	case e.IsDir():
		return
	case e.Type()&fs.ModeSymlink != 0:
		out.Skipped = append(out.Skipped, source.Skipped{Path: name, Reason: "is a link"})
		return
	case !e.Type().IsRegular():
		out.Skipped = append(out.Skipped, source.Skipped{Path: name, Reason: "is not a file"})
		return
	}
	info, err := e.Info()
	if err != nil { // it was deleted meanwhile
		return
	}
	item := source.Item{ID: name, Path: name, Size: info.Size(), Modified: info.ModTime().UTC(), Version: version(info)}
	if c.permissions {
		item.Folder, item.Access = in(name), c.file(name)
	}
	out.Items = append(out.Items, item)
}

// version returns a text that changes with a file's size or modification time.
func version(info fs.FileInfo) string {
	return strconv.FormatInt(info.Size(), 10) + "-" + strconv.FormatInt(info.ModTime().UnixNano(), 10)
}

// Fetch implements source.Connector.
func (c *connector) Fetch(_ context.Context, item source.Item) (source.Download, error) {
	name := path.Join(c.at, item.ID)
	info, err := c.root.Lstat(name)
	if err == nil && !info.Mode().IsRegular() {
		return source.Download{}, &source.ItemError{Reason: "is not a file any more"}
	}
	var f *os.File
	if err == nil {
		f, err = c.open(name)
	}
	if err == nil && c.permissions {
		if err = unchanged(f, item); err != nil {
			err = errors.Join(err, f.Close())
		}
	}
	var changed *source.ItemError
	switch {
	case errors.As(err, &changed):
		return source.Download{}, changed
	case errors.Is(err, fs.ErrNotExist):
		return source.Download{}, source.ErrGone
	case errors.Is(err, fs.ErrPermission):
		return source.Download{}, &source.ItemError{Reason: "may not be read by source-worker"}
	case err != nil:
		return source.Download{}, c.failure("read", item.ID, err)
	}
	return source.Download{Body: f}, nil
}

// failure wraps the system's error about a path. A missing permission becomes source.ErrRefused,
// because a folder that may not be read must not look empty.
func (c *connector) failure(doing, name string, err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("%s %q: source-worker may not read it: %w", doing, name, source.ErrRefused)
	}
	return fmt.Errorf("%s %q: %w", doing, name, err)
}
