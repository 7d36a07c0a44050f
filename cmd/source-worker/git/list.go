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

// position is the position of a listing: after the path After in the files of Commit or, with
// Since, in the files that changed between Since and Commit.
type position struct {
	Commit string `json:"commit,omitempty"`
	Since  string `json:"since,omitempty"`
	After  string `json:"after,omitempty"`
}

// List implements source.Connector. It lists only the changes since the last listing if the server
// can serve commits by hash. Otherwise it lists everything again, which costs no more than fetching
// the commit.
func (r *repository) List(ctx context.Context, cursor string) (source.Listing, error) {
	var pos position
	if cursor != "" {
		if err := source.ReadCursor(cursor, &pos); err != nil {
			return source.Listing{}, err
		}
	}
	if err := r.acquire(ctx); err != nil {
		return source.Listing{}, err
	}
	defer r.release()
	out, err := r.list(ctx, pos)
	if err != nil {
		return source.Listing{}, fmt.Errorf("list %s: %w", r.url, err)
	}
	return out, nil
}

func (r *repository) list(ctx context.Context, pos position) (source.Listing, error) {
	head, err := r.head(ctx)
	if errors.Is(err, transport.ErrEmptyRemoteRepository) {
		return source.Listing{}, nil
	}
	if err != nil {
		return source.Listing{}, err
	}
	if pos.Since == head.String() {
		changes, err := source.Cursor(position{Since: pos.Since})
		return source.Listing{Changes: changes}, err
	}
	if pos.Commit != "" && pos.Commit != head.String() {
		return source.Listing{}, source.ErrCursorExpired // the branch moved during the listing
	}
	files, deleted, skipped, err := r.listFiles(ctx, pos.Since)
	if err != nil {
		return source.Listing{}, err
	}
	pos.Commit = r.snapshot.commit.String()
	var out source.Listing
	if pos.After == "" {
		out.Deleted, out.Skipped = deleted, skipped
	}
	from, exact := slices.BinarySearchFunc(files, pos.After, func(i source.Item, after string) int { return strings.Compare(i.ID, after) })
	if exact {
		from++
	}
	files = files[from:]
	out.Items = files[:min(r.pageItems, len(files))]
	if len(out.Items) < len(files) {
		pos.After = out.Items[len(out.Items)-1].ID
		out.Next, err = source.Cursor(pos)
		return out, err
	}
	out.Changes, err = source.Cursor(position{Since: pos.Commit})
	return out, err
}

// listFiles lists files in the order of their paths: all, or those that changed since a commit.
func (r *repository) listFiles(ctx context.Context, since string) (items []source.Item, deleted []string, skipped []source.Skipped, err error) {
	if since == "" {
		if err := r.refresh(ctx); err != nil {
			return nil, nil, nil, err
		}
		items, skipped, err = r.allFiles()
	} else {
		items, deleted, skipped, err = r.changedFiles(ctx, plumbing.NewHash(since))
	}
	slices.SortFunc(items, func(a, b source.Item) int { return strings.Compare(a.ID, b.ID) })
	return items, deleted, skipped, err
}

// allFiles lists all files of the commit.
func (r *repository) allFiles() (items []source.Item, skipped []source.Skipped, err error) {
	walker := object.NewTreeWalker(r.snapshot.tree, true, nil)
	defer walker.Close()
	folderFound := r.path == ""
	for {
		name, entry, err := walker.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, nil, fmt.Errorf("read the commit: %w", err)
		}
		if entry.Mode == filemode.Dir {
			folderFound = folderFound || name == r.path
			continue
		}
		if item, reason := r.item(name, entry); reason != "" {
			skipped = append(skipped, source.Skipped{Path: name, Reason: reason})
		} else if item.ID != "" {
			items = append(items, item)
		}
	}
	if !folderFound {
		return nil, nil, &source.FieldError{Field: "path", Reason: "the branch has no such folder"}
	}
	return items, skipped, nil
}

// item returns the item of a file. It is empty if the file is outside the source's folder. If the
// file is skipped, the string says why.
func (r *repository) item(name string, entry object.TreeEntry) (source.Item, string) {
	relative := name
	if r.path != "" {
		below, ok := strings.CutPrefix(name, r.path+"/")
		if !ok {
			return source.Item{}, ""
		}
		relative = below
	}
	switch {
	case entry.Mode == filemode.Submodule:
		return source.Item{}, "it is another repository (submodule)"
	case entry.Mode == filemode.Symlink:
		return source.Item{}, "it is a symbolic link"
	case len(name) > 1024:
		return source.Item{}, "its path is longer than 1,024 bytes"
	}
	size, err := r.snapshot.store.EncodedObjectSize(entry.Hash)
	if err != nil {
		size = -1
	}
	return source.Item{ID: name, Path: path.Clean(relative), Version: entry.Hash.String(), Size: size}, ""
}

// changedFiles lists the files that changed since a commit.
func (r *repository) changedFiles(ctx context.Context, since plumbing.Hash) (items []source.Item, deleted []string, skipped []source.Skipped, err error) {
	head, err := r.head(ctx)
	if err != nil {
		return nil, nil, nil, err
	}
	fetched, err := r.fetchCommit(ctx, head, since)
	if errors.Is(err, gogit.ErrExactSHA1NotSupported) || err != nil && strings.Contains(err.Error(), "not our ref") {
		return nil, nil, nil, source.ErrCursorExpired
	}
	if err != nil {
		return nil, nil, nil, err
	}
	if r.snapshot != nil {
		if err := r.snapshot.remove(); err != nil {
			return nil, nil, nil, err
		}
	}
	r.snapshot = fetched
	changes, err := object.DiffTreeContext(ctx, fetched.before, fetched.tree)
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
