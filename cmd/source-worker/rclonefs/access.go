package rclonefs

// Who may see what, in places whose API tells. Every item is asked about by itself: what its
// folders, or a shared drive, let in is in the answer.

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-rag/sluice/internal/source"
)

const (
	// asks is how many items are asked about at once.
	asks = 8
	// askedItems is how many a page has at most, all of which are asked about again when one fails.
	askedItems = 200
)

// readers are what a place tells of who may read its files.
type readers interface {
	// of returns who may read an item. Where the place doesn't tell, the error is an untoldError.
	of(ctx context.Context, id string) ([]source.Principal, error)
	close()
}

// untoldError is the error of an item whose permissions the place doesn't tell to the source's
// account.
type untoldError struct{ error }

// Unwrap is for errors.Is and errors.As.
func (e *untoldError) Unwrap() error { return e.error }

const untold = "the source's account may not read this item's permissions, so nobody can see it here"

// teller is a connector that tells who may see what.
type teller struct {
	*connector
	readers          readers
	include, exclude []string

	mu   sync.Mutex
	told map[string]bool // principals of the listing of them that is under way
}

// newTeller has a connector tell who may see what.
func newTeller(c *connector, s source.Settings) (*teller, error) {
	if c.kind.readers == nil {
		return nil, &source.FieldError{Field: source.PermissionsSetting, Reason: "permissions cannot be read from " + c.kind.name}
	}
	made, err := c.kind.readers(c, s.Values)
	if err != nil {
		return nil, err
	}
	c.page = min(c.page, askedItems)
	return &teller{connector: c, readers: made, include: s.Include, exclude: s.Exclude, told: map[string]bool{}}, nil
}

// List implements source.Connector.
func (t *teller) List(ctx context.Context, cursor string) (source.Listing, error) {
	page, err := t.connector.List(ctx, cursor)
	if err != nil {
		return source.Listing{}, err
	}
	found, err := t.ask(ctx, page.Items)
	if err != nil {
		return source.Listing{}, err
	}
	for i, answer := range found {
		item := &page.Items[i]
		switch {
		case answer.told:
			item.Access = &source.Access{Entries: entries(answer.readers)}
		case answer.asked:
			page.Skipped = append(page.Skipped, source.Skipped{Path: item.Path, Reason: untold})
		}
	}
	return page, nil
}

// entries let readers in.
func entries(readers []source.Principal) []source.AccessEntry {
	out := make([]source.AccessEntry, 0, len(readers))
	for _, p := range readers {
		out = append(out, source.AccessEntry{Principal: p.ID})
	}
	return out
}

// answer is what a place says of an item.
type answer struct {
	asked, told bool
	readers     []source.Principal
}

// ask asks who may read items. What the source's patterns leave out is not asked about.
func (t *teller) ask(ctx context.Context, items []source.Item) ([]answer, error) {
	out := make([]answer, len(items))
	asking, ctx := errgroup.WithContext(ctx)
	asking.SetLimit(asks)
	for i, item := range items {
		if !source.Lets(t.include, t.exclude, item.Path) {
			continue
		}
		asking.Go(func() error {
			var found []source.Principal
			err := t.do(ctx, func(ctx context.Context) (err error) {
				found, err = t.readers.of(ctx, item.ID)
				return err
			})
			var kept *untoldError
			if errors.As(err, &kept) {
				err = nil
			}
			if err != nil {
				return fmt.Errorf("read who may see %s of %s: %w", item.Path, t.kind.name, t.failure(ctx, err))
			}
			out[i] = answer{asked: true, told: kept == nil, readers: found}
			return nil
		})
	}
	return out, asking.Wait()
}

// Principals implements source.Permissions. A drive has no list of the users and groups that its
// files are shared with: they are those of the files.
func (t *teller) Principals(ctx context.Context, cursor string) (source.PrincipalPage, error) {
	listed, err := t.connector.List(ctx, cursor)
	if err != nil {
		return source.PrincipalPage{}, err
	}
	found, err := t.ask(ctx, listed.Items)
	if err != nil {
		return source.PrincipalPage{}, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if cursor == "" {
		clear(t.told)
	}
	page := source.PrincipalPage{Next: listed.Next}
	for _, answer := range found {
		for _, p := range answer.readers {
			if !t.told[p.ID] {
				t.told[p.ID] = true
				page.Principals = append(page.Principals, p)
			}
		}
	}
	return page, nil
}

// Fetch implements source.Connector. Who sees an item was told of what was listed: other content
// waits for the next run.
func (t *teller) Fetch(ctx context.Context, item source.Item) (source.Download, error) {
	down, err := t.connector.Fetch(ctx, item)
	if err == nil && down.Version != item.Version {
		return source.Download{}, errors.Join(&source.ItemError{Reason: "has changed since it was listed; the next run takes it"}, down.Body.Close())
	}
	return down, err
}

// Close implements source.Connector.
func (t *teller) Close() error {
	err := t.connector.Close()
	t.readers.close()
	return err
}
