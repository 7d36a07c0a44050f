package git

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	gogit "github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/plumbing/transport"
	"github.com/go-git/go-git/v5/utils/merkletrie"

	"github.com/sluice-rag/sluice/internal/source"
)

// place is the position of a listing: after the path After in the files of Commit or, with Since,
// in the files that changed between Since and Commit.
type place struct {
	Commit string `json:"commit,omitempty"`
	Since  string `json:"since,omitempty"`
	After  string `json:"after,omitempty"`
}

// List implements source.Connector. It lists only the changes since the last listing if the server
// can serve commits by hash. Otherwise it lists everything again, which costs no more than fetching
// the commit.
func (r *repository) List(ctx context.Context, cursor string) (source.Listing, error) {
	var at place
	if cursor != "" {
		if err := source.ReadCursor(cursor, &at); err != nil {
			return source.Listing{}, err
		}
	}
	if err := r.take(ctx); err != nil {
		return source.Listing{}, err
	}
	defer r.yield()
	out, err := r.list(ctx, at)
	if err != nil {
		return source.Listing{}, fmt.Errorf("list %s: %w", r.url, err)
	}
	return out, nil
}

func (r *repository) list(ctx context.Context, at place) (source.Listing, error) {
	head, err := r.head(ctx)
	if errors.Is(err, transport.ErrEmptyRemoteRepository) {
		return source.Listing{}, nil
	}
	if err != nil {
		return source.Listing{}, err
	}
	if at.Since == head.String() {
		changes, err := source.Cursor(place{Since: at.Since})
		return source.Listing{Changes: changes}, err
	}
	if at.Commit != "" && at.Commit != head.String() {
		return source.Listing{}, source.ErrCursorExpired // the branch moved during the listing
	}
	found, deleted, skipped, err := r.found(ctx, at.Since)
	if err != nil {
		return source.Listing{}, err
	}
	at.Commit = r.copy.commit.String()
	var out source.Listing
	if at.After == "" {
		out.Deleted, out.Skipped = deleted, skipped
	}
	from, exact := slices.BinarySearchFunc(found, at.After, func(i source.Item, after string) int { return strings.Compare(i.ID, after) })
	if exact {
		from++
	}
	found = found[from:]
	out.Items = found[:min(r.pageItems, len(found))]
	if len(out.Items) < len(found) {
		at.After = out.Items[len(out.Items)-1].ID
		out.Next, err = source.Cursor(at)
		return out, err
	}
	out.Changes, err = source.Cursor(place{Since: at.Commit})
	return out, err
}

// found lists files in the order of their paths: all, or those that changed since a commit.
func (r *repository) found(ctx context.Context, since string) (items []source.Item, deleted []string, skipped []source.Skipped, err error) {
	if since == "" {
		if err := r.refresh(ctx); err != nil {
			return nil, nil, nil, err
		}
		items, skipped, err = r.everything()
	} else {
		items, deleted, skipped, err = r.changed(ctx, plumbing.NewHash(since))
	}
	slices.SortFunc(items, func(a, b source.Item) int { return strings.Compare(a.ID, b.ID) })
	return items, deleted, skipped, err
}

// everything lists all files of the commit.
func (r *repository) everything() (items []source.Item, skipped []source.Skipped, err error) {
	walker := object.NewTreeWalker(r.copy.tree, true, nil)
	defer walker.Close()
	seen := r.path == ""
	for {
		name, entry, err := walker.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, nil, fmt.Errorf("read the commit: %w", err)
		}
		if entry.Mode == filemode.Dir {
			seen = seen || name == r.path
			continue
		}
		if item, reason := r.item(name, entry); reason != "" {
			skipped = append(skipped, source.Skipped{Path: name, Reason: reason})
		} else if item.ID != "" {
			items = append(items, item)
		}
	}
	if !seen {
		return nil, nil, &source.FieldError{Field: "path", Reason: "the branch has no such folder"}
	}
	return items, skipped, nil
}

// item returns the item of a file. It is empty if the file is outside the source's folder. If the
// file is skipped, the string says why.
func (r *repository) item(name string, entry object.TreeEntry) (source.Item, string) {
	inside := name
	if r.path != "" {
		below, ok := strings.CutPrefix(name, r.path+"/")
		if !ok {
			return source.Item{}, ""
		}
		inside = below
	}
	switch {
	case entry.Mode == filemode.Submodule:
		return source.Item{}, "it is another repository (submodule)"
	case entry.Mode == filemode.Symlink:
		return source.Item{}, "it is a symbolic link"
	case len(name) > 1024:
		return source.Item{}, "its path is longer than 1,024 bytes"
	}
	size, err := r.copy.store.EncodedObjectSize(entry.Hash)
	if err != nil {
		size = -1
	}
	return source.Item{ID: name, Path: path.Clean(inside), Version: entry.Hash.String(), Size: size}, ""
}

// changed lists the files that changed since a commit.
func (r *repository) changed(ctx context.Context, since plumbing.Hash) (items []source.Item, deleted []string, skipped []source.Skipped, err error) {
	head, err := r.head(ctx)
	if err != nil {
		return nil, nil, nil, err
	}
	made, err := r.fetchCommit(ctx, head, since)
	if errors.Is(err, gogit.ErrExactSHA1NotSupported) || err != nil && strings.Contains(err.Error(), "not our ref") {
		return nil, nil, nil, source.ErrCursorExpired
	}
	if err != nil {
		return nil, nil, nil, err
	}
	if r.copy != nil {
		if err := r.copy.remove(); err != nil {
			return nil, nil, nil, err
		}
	}
	r.copy = made
	changes, err := object.DiffTreeContext(ctx, made.before, made.tree)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("compare commits: %w", err)
	}
	for _, change := range changes {
		action, err := change.Action()
		if err != nil {
			return nil, nil, nil, err
		}
		if action == merkletrie.Delete {
			if item, _ := r.item(change.From.Name, change.From.TreeEntry); item.ID != "" {
				deleted = append(deleted, item.ID)
			}
			continue
		}
		if item, reason := r.item(change.To.Name, change.To.TreeEntry); reason != "" {
			skipped = append(skipped, source.Skipped{Path: change.To.Name, Reason: reason})
		} else if item.ID != "" {
			items = append(items, item)
		}
	}
	return items, deleted, skipped, nil
}
