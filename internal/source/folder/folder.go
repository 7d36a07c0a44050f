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
	root            *os.Root
	dir             string   // the folder, below root
	excludedFolders []string // patterns of folders that are not read

	permissions   bool // whether permissions are asked for
	roots         []string
	users, groups string // files

	mu            sync.Mutex
	partialFolder string // the folder that the previous page listed in part
	entries       []fs.DirEntry
}

func open(_ context.Context, s source.Settings) (source.Connector, error) {
	wanted := s.Values["path"]
	root, dir, err := openRoot(s.Roots, "path", wanted)
	if err != nil {
		return nil, err
	}
	c := &connector{root: root, dir: dir}
	for _, pattern := range s.Exclude {
		if strings.HasSuffix(pattern, "/**") {
			c.excludedFolders = append(c.excludedFolders, pattern)
		}
	}
	info, err := root.Stat(c.dir)
	switch {
	case err == nil && !info.IsDir():
		err = &source.FieldError{Field: "path", Reason: "is not a folder"}
	case err != nil && escapesRoot(root.Name(), filepath.Clean(wanted)):
		err = &source.FieldError{Field: "path", Reason: "leads through a link out of the folders that may be read; name the folder itself"}
	}
	if err != nil {
		return nil, errors.Join(c.failure("open", "", err), root.Close())
	}
	if s.Permissions {
		if err := c.enablePermissions(s); err != nil {
			return nil, errors.Join(err, root.Close())
		}
	}
	return c, nil
}

// openRoot opens the first root that contains the path of a setting. rel is the path relative to
// it, with slashes.
func openRoot(roots []string, field, name string) (root *os.Root, rel string, err error) {
	name = filepath.Clean(name)
	if !filepath.IsAbs(name) {
		return nil, "", &source.FieldError{Field: field, Reason: "is not a whole path, as /srv/documents"}
	}
	for _, allowed := range roots {
		rel, err := filepath.Rel(filepath.Clean(allowed), name)
		if err != nil || !filepath.IsLocal(rel) {
			continue
		}
		root, err := os.OpenRoot(allowed)
		if err != nil {
			return nil, "", fmt.Errorf("open the folder %s (SLUICE_SOURCE_ROOTS): %w", allowed, err)
		}
		return root, filepath.ToSlash(rel), nil
	}
	return nil, "", &source.FieldError{Field: field, Reason: "is not below a folder that may be read; the operator allows folders with SLUICE_SOURCE_ROOTS"}
}

// escapesRoot reports whether links on the way to a folder lead out of what is allowed. It only
// serves the error message: root itself refuses such links.
func escapesRoot(allowed, name string) bool {
	resolved, err := filepath.EvalSymlinks(name)
	if err != nil {
		return false
	}
	if allowed, err = filepath.EvalSymlinks(allowed); err != nil {
		return false
	}
	rel, err := filepath.Rel(allowed, resolved)
	return err != nil || !filepath.IsLocal(rel)
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
	pos := cursor{Folders: []string{""}}
	if text != "" {
		if err := source.ReadCursor(text, &pos); err != nil {
			return source.Listing{}, err
		}
	}
	var out source.Listing
	for entryCount := 0; len(pos.Folders) > 0 && entryCount < pageItems; entryCount++ {
		if err := ctx.Err(); err != nil {
			return source.Listing{}, err
		}
		folder := pos.Folders[len(pos.Folders)-1]
		entries, err := c.read(&out, folder, pos.After != "")
		if errors.Is(err, fs.ErrNotExist) && folder != "" { // it was deleted meanwhile
			entries, err = nil, nil
		}
		if err != nil {
			return source.Listing{}, c.failure("list", folder, err)
		}
		pos.Folders = pos.Folders[:len(pos.Folders)-1]
		begin, _ := slices.BinarySearchFunc(entries, pos.After, func(e fs.DirEntry, name string) int { return strings.Compare(e.Name(), name) })
		if pos.After != "" && begin < len(entries) && entries[begin].Name() == pos.After {
			begin++
		}
		pos.After = ""
		var subfolders []string
		for i, e := range entries {
			name := path.Join(folder, e.Name())
			excluded := e.IsDir() && slices.ContainsFunc(c.excludedFolders, func(p string) bool { return source.Matches(p, name) })
			if e.IsDir() && !excluded {
				subfolders = append(subfolders, name)
			}
			if i < begin {
				continue
			}
			if entryCount >= pageItems {
				pos.Folders, pos.After, subfolders = append(pos.Folders, folder), entries[i-1].Name(), nil
				c.saveEntries(folder, entries)
				break
			}
			entryCount++
			if excluded {
				out.Skipped = append(out.Skipped, source.Skipped{Path: name, Reason: "excluded by the source's patterns"})
				continue
			}
			c.add(&out, name, e)
		}
		slices.Reverse(subfolders) // so that they come in order
		pos.Folders = append(pos.Folders, subfolders...)
	}
	if len(pos.Folders) == 0 {
		return out, nil
	}
	next, err := source.Cursor(pos)
	out.Next = next
	return out, err
}

// saveEntries keeps the entries of a folder that a page lists in part, so that a large folder is
// not read again for every page.
func (c *connector) saveEntries(folder string, entries []fs.DirEntry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.partialFolder, c.entries = folder, entries
}

// takeEntries returns the kept entries and forgets them. It returns nil if they are of another
// folder.
func (c *connector) takeEntries(folder string) (entries []fs.DirEntry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.partialFolder == folder {
		entries = c.entries
	}
	c.partialFolder, c.entries = "", nil
	return entries
}

// read returns a folder's entries, sorted by name, and adds the folder to the listing if
// permissions are asked for. continued says that the previous page listed a part of them.
func (c *connector) read(out *source.Listing, folder string, continued bool) ([]fs.DirEntry, error) {
	if kept := c.takeEntries(folder); continued && kept != nil {
		return kept, nil
	}
	f, err := c.open(path.Join(c.dir, folder))
	if err != nil {
		return nil, err
	}
	entries, err := f.ReadDir(-1)
	if err == nil && c.permissions {
		var access source.AccessFolder
		if access, err = c.folderAccess(folder, f); err == nil {
			out.Folders = append(out.Folders, access)
		}
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
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
		item.Folder, item.Access = parentID(name), c.file(name)
	}
	out.Items = append(out.Items, item)
}

// version returns a text that changes with a file's size or modification time.
func version(info fs.FileInfo) string {
	return strconv.FormatInt(info.Size(), 10) + "-" + strconv.FormatInt(info.ModTime().UnixNano(), 10)
}

// Fetch implements source.Connector.
func (c *connector) Fetch(_ context.Context, item source.Item) (source.Download, error) {
	name := path.Join(c.dir, item.ID)
	info, err := c.root.Lstat(name)
	if err == nil && !info.Mode().IsRegular() {
		return source.Download{}, &source.ItemError{Reason: "is not a file any more"}
	}
	var f *os.File
	if err == nil {
		f, err = c.open(name)
	}
	if err == nil && c.permissions {
		if err = checkUnchanged(f, item); err != nil {
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
