package rclonefs

// A listing goes through folders in the order of their names, and into each folder where its name
// stands. So where it is fits into a few bytes, however many files and folders there are, and
// another process goes on from there: it lists the folder again, and leaves out what comes before.
// The process that began keeps what it listed.

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
	// pageItems is how many items a page has at most.
	pageItems = 1000
	// pageFolders is how many folders are listed for a page at most, so that empty folders can't
	// make one endless.
	pageFolders = 200
	// heldEntries is how many entries of folders are kept in memory. What a larger folder has
	// beyond them is listed again when they are through.
	heldEntries = 50_000
	// idBytes is how long an id may be.
	idBytes = 1024
)

// position is where a listing stands: in Dir, everything up to After, and with it, is done.
type position struct {
	Dir   string `json:"dir,omitempty"`
	After string `json:"after,omitempty"`
}

// entry is a file or a folder of a folder.
type entry struct {
	key    string // the name; with a slash behind it, where it is a folder
	folder bool
	item   source.Item
}

// level is what is still to come of a folder.
type level struct {
	entries []entry
	more    bool // the folder has more than is here
}

// walk is a listing under way.
type walk struct {
	place  *connector
	at     position
	levels map[string]*level
	held   int
	listed int // folders, for the page at hand
}

func newWalk(c *connector, at position) *walk {
	return &walk{place: c, at: at, levels: map[string]*level{}}
}

// page goes on until a page is full or everything is listed.
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

// above is where a listing goes on when a folder is through.
func above(dir string) position {
	parent := path.Dir(dir)
	if parent == "." {
		parent = ""
	}
	return position{Dir: parent, After: path.Base(dir) + "/"}
}

// level is what is to come of the folder where the listing stands. It lists the folder where that
// isn't known.
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

// folderRefusedError is the error of a folder below the root that may not be listed.
type folderRefusedError struct{ error }

// folder lists what a folder has after a position, up to heldEntries of it.
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
		return &level{}, nil // it went while the listing was under way
	case errors.Is(err, fs.ErrorDirNotFound):
		return nil, &source.FieldError{Field: c.kind.rootField, Reason: "the place has no such folder"}
	}
	err = c.failure(ctx, err)
	if at.Dir != "" && errors.Is(err, errForbidden) {
		return nil, &folderRefusedError{err}
	}
	return nil, err
}

// cut sorts what was listed, and keeps the first of it.
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

// entry makes an entry of what rclone listed.
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
