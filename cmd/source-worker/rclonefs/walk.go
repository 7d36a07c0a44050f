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
	// heldEntries is the maximum number of entries of folders in memory. The rest of a larger
	// folder is listed again when they are used up.
	heldEntries = 50_000
	// idBytes is the maximum length of an id.
	idBytes = 1024
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

// level has the remaining entries of a folder.
type level struct {
	entries []entry
	more    bool // the folder has more entries than these
}

// walk is a listing in progress.
type walk struct {
	place  *connector
	at     position
	levels map[string]*level
	held   int
	listed int // number of folders listed for the current page
}

func newWalk(c *connector, at position) *walk {
	return &walk{place: c, at: at, levels: map[string]*level{}}
}

// page returns the next page, which ends when it is full or everything is listed.
func (w *walk) page(ctx context.Context) (source.Listing, error) {
	var out source.Listing
	w.listed = 0
	for len(out.Items)+len(out.Skipped) < w.place.page && w.listed < pageFolders {
		here, err := w.level(ctx)
		var refused *folderRefusedError
		switch {
		case errors.As(err, &refused):
			out.Skipped = append(out.Skipped, source.Skipped{Path: w.at.Dir + "/", Reason: "the place refuses access to the folder"})
			here = &level{}
		case err != nil:
			return source.Listing{}, err
		}
		if len(here.entries) == 0 {
			if w.at.Dir == "" {
				return out, nil
			}
			delete(w.levels, w.at.Dir)
			w.at = above(w.at.Dir)
			continue
		}
		next := here.entries[0]
		here.entries = here.entries[1:]
		w.held--
		again := !next.folder && next.key == w.at.After
		w.at.After = next.key
		switch {
		case next.folder:
			w.at = position{Dir: path.Join(w.at.Dir, strings.TrimSuffix(next.key, "/"))}
		case again:
			out.Skipped = append(out.Skipped, source.Skipped{Path: next.item.Path, Reason: "the folder has another file of this name"})
		case len(next.item.ID) > idBytes:
			out.Skipped = append(out.Skipped, source.Skipped{Path: next.item.Path, Reason: "its path is longer than 1,024 bytes"})
		default:
			out.Items = append(out.Items, next.item)
		}
	}
	next, err := source.Cursor(w.at)
	out.Next = next
	return out, err
}

// above returns the position after a folder in its parent.
func above(dir string) position {
	parent := path.Dir(dir)
	if parent == "." {
		parent = ""
	}
	return position{Dir: parent, After: path.Base(dir) + "/"}
}

// level returns the remaining entries of the current folder. It lists the folder if they are not in
// memory.
func (w *walk) level(ctx context.Context) (*level, error) {
	if here := w.levels[w.at.Dir]; here != nil && (len(here.entries) > 0 || !here.more) {
		return here, nil
	}
	w.listed++
	here, err := w.place.folder(ctx, w.at)
	if err != nil {
		return nil, err
	}
	if w.held+len(here.entries) > heldEntries {
		clear(w.levels)
		w.held = 0
	}
	w.levels[w.at.Dir] = here
	w.held += len(here.entries)
	return here, nil
}

// folderRefusedError is the error of a subfolder that may not be listed.
type folderRefusedError struct{ error }

// folder lists the entries of a folder after a position, at most heldEntries.
func (c *connector) folder(ctx context.Context, at position) (*level, error) {
	here := &level{}
	take := func(found fs.DirEntries) error {
		for _, e := range found {
			if made, ok := c.entry(ctx, e); ok && made.key > at.After {
				here.entries = append(here.entries, made)
			}
		}
		if len(here.entries) > 2*heldEntries {
			here.cut()
		}
		return nil
	}
	err := c.do(ctx, func(ctx context.Context) error {
		if list := c.fs.Features().ListP; list != nil {
			return list(ctx, at.Dir, take)
		}
		found, err := c.fs.List(ctx, at.Dir)
		if err != nil {
			return err
		}
		return take(found)
	})
	switch {
	case err == nil:
		here.cut()
		return here, nil
	case errors.Is(err, fs.ErrorDirNotFound) && at.Dir != "":
		return &level{}, nil // deleted during the listing
	case errors.Is(err, fs.ErrorDirNotFound):
		return nil, &source.FieldError{Field: c.kind.rootField, Reason: "the place has no such folder"}
	}
	err = c.failure(ctx, err)
	if at.Dir != "" && errors.Is(err, errForbidden) {
		return nil, &folderRefusedError{err}
	}
	return nil, err
}

// cut sorts the entries, and keeps the first heldEntries.
func (l *level) cut() {
	slices.SortFunc(l.entries, func(a, b entry) int {
		if by := strings.Compare(a.key, b.key); by != 0 {
			return by
		}
		return strings.Compare(a.item.ID, b.item.ID)
	})
	if len(l.entries) > heldEntries {
		clear(l.entries[heldEntries:])
		l.entries, l.more = l.entries[:heldEntries], true
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
