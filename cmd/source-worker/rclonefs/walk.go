package rclonefs

// A listing walks folders in the order of their names, and descends into each folder at its place
// in the order. So its position fits into a few bytes, however many files and folders there are,
// and another process can continue from it: it lists the folder again and skips the entries before
// the position. The process that began the listing keeps the entries in memory.

import (
	"context"
	"errors"
	"path"
	"slices"
	"strings"

	"github.com/rclone/rclone/fs"

	"github.com/sluice-rag/sluice/internal/source"
)

const (
	// pageItems is the maximum number of items on a page.
	pageItems = 1000
	// pageFolders is the maximum number of folders listed for one page, so that empty folders
	// cannot make a page endless.
	pageFolders = 200
	// maxBufferedEntries is the maximum number of entries of folders in memory. The rest of a
	// larger folder is listed again when they are used up.
	maxBufferedEntries = 50_000
	// maxIDBytes is the maximum length of an id.
	maxIDBytes = 1024
)

// position is where a listing stands: in Dir, all entries up to and including After are done.
type position struct {
	Dir   string `json:"dir,omitempty"`
	After string `json:"after,omitempty"`
}

// entry is a file or a folder in a folder.
type entry struct {
	key    string // the name; folders have a slash at the end
	folder bool
	item   source.Item
}

// folderEntries has the remaining entries of a folder.
type folderEntries struct {
	entries []entry
	more    bool // the folder has more entries than these
}

// walk is a listing in progress.
type walk struct {
	connector *connector
	pos       position
	folders   map[string]*folderEntries
	buffered  int
	listed    int // number of folders listed for the current page
}

func newWalk(c *connector, pos position) *walk {
	return &walk{connector: c, pos: pos, folders: map[string]*folderEntries{}}
}

// page returns the next page, which ends when it is full or everything is listed.
func (w *walk) page(ctx context.Context) (source.Listing, error) {
	var out source.Listing
	w.listed = 0
	for len(out.Items)+len(out.Skipped) < w.connector.page && w.listed < pageFolders {
		folder, err := w.remainingEntries(ctx)
		var denied *folderDeniedError
		switch {
		case errors.As(err, &denied):
			out.Skipped = append(out.Skipped, source.Skipped{Path: w.pos.Dir + "/", Reason: "the source's server refuses access to the folder"})
			folder = &folderEntries{}
		case err != nil:
			return source.Listing{}, err
		}
		if len(folder.entries) == 0 {
			if w.pos.Dir == "" {
				return out, nil
			}
			delete(w.folders, w.pos.Dir)
			w.pos = positionAfter(w.pos.Dir)
			continue
		}
		next := folder.entries[0]
		folder.entries = folder.entries[1:]
		w.buffered--
		duplicate := !next.folder && next.key == w.pos.After
		w.pos.After = next.key
		switch {
		case next.folder:
			w.pos = position{Dir: path.Join(w.pos.Dir, strings.TrimSuffix(next.key, "/"))}
		case duplicate:
			out.Skipped = append(out.Skipped, source.Skipped{Path: next.item.Path, Reason: "the folder has another file of this name"})
		case len(next.item.ID) > maxIDBytes:
			out.Skipped = append(out.Skipped, source.Skipped{Path: next.item.Path, Reason: "its path is longer than 1,024 bytes"})
		default:
			out.Items = append(out.Items, next.item)
		}
	}
	next, err := source.Cursor(w.pos)
	out.Next = next
	return out, err
}

// positionAfter returns the position after a folder in its parent.
func positionAfter(dir string) position {
	parent := path.Dir(dir)
	if parent == "." {
		parent = ""
	}
	return position{Dir: parent, After: path.Base(dir) + "/"}
}

// remainingEntries returns the remaining entries of the current folder. It lists the folder if they
// are not in memory.
func (w *walk) remainingEntries(ctx context.Context) (*folderEntries, error) {
	if folder := w.folders[w.pos.Dir]; folder != nil && (len(folder.entries) > 0 || !folder.more) {
		return folder, nil
	}
	w.listed++
	folder, err := w.connector.folder(ctx, w.pos)
	if err != nil {
		return nil, err
	}
	if w.buffered+len(folder.entries) > maxBufferedEntries {
		clear(w.folders)
		w.buffered = 0
	}
	w.folders[w.pos.Dir] = folder
	w.buffered += len(folder.entries)
	return folder, nil
}

// folderDeniedError is the error of a subfolder that may not be listed.
type folderDeniedError struct{ error }

// folder lists the entries of a folder after a position, at most maxBufferedEntries.
func (c *connector) folder(ctx context.Context, pos position) (*folderEntries, error) {
	folder := &folderEntries{}
	collect := func(found fs.DirEntries) error {
		for _, e := range found {
			if converted, ok := c.entry(ctx, e); ok && converted.key > pos.After {
				folder.entries = append(folder.entries, converted)
			}
		}
		if len(folder.entries) > 2*maxBufferedEntries {
			folder.truncate()
		}
		return nil
	}
	err := c.do(ctx, func(ctx context.Context) error {
		if list := c.fs.Features().ListP; list != nil {
			return list(ctx, pos.Dir, collect)
		}
		found, err := c.fs.List(ctx, pos.Dir)
		if err != nil {
			return err
		}
		return collect(found)
	})
	switch {
	case err == nil:
		folder.truncate()
		return folder, nil
	case errors.Is(err, fs.ErrorDirNotFound) && pos.Dir != "":
		return &folderEntries{}, nil // deleted during the listing
	case errors.Is(err, fs.ErrorDirNotFound):
		return nil, &source.FieldError{Field: c.kind.rootField, Reason: "the source's server has no such folder"}
	}
	err = c.failure(ctx, err)
	if pos.Dir != "" && errors.Is(err, errForbidden) {
		return nil, &folderDeniedError{err}
	}
	return nil, err
}

// truncate sorts the entries, and keeps the first maxBufferedEntries.
func (f *folderEntries) truncate() {
	slices.SortFunc(f.entries, func(a, b entry) int {
		if order := strings.Compare(a.key, b.key); order != 0 {
			return order
		}
		return strings.Compare(a.item.ID, b.item.ID)
	})
	if len(f.entries) > maxBufferedEntries {
		clear(f.entries[maxBufferedEntries:])
		f.entries, f.more = f.entries[:maxBufferedEntries], true
	}
}

// entry converts an entry of rclone's listing.
func (c *connector) entry(ctx context.Context, e fs.DirEntry) (entry, bool) {
	name := path.Base(e.Remote())
	switch e := e.(type) {
	case fs.Directory:
		return entry{key: name + "/", folder: true}, true
	case fs.Object:
		return entry{key: name, item: c.item(ctx, e)}, true
	default:
		return entry{}, false
	}
}
