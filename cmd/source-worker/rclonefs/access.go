package rclonefs

// Read permissions from services whose API has them. Each item is queried separately; the answer
// includes permissions inherited from its folders or a shared drive.

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-rag/sluice/internal/source"
)

const (
	// asks is how many items are queried at once.
	asks = 8
	// askedItems is the maximum number of items on a page. If the query of one item fails, all of
	// the page are queried again.
	askedItems = 200
)

// readers returns who may read files of a service.
type readers interface {
	// of returns who may read an item. If the service doesn't say, the error is an untoldError.
	of(ctx context.Context, id string) ([]source.Principal, error)
	close()
}

// untoldError is the error of an item whose permissions the service doesn't show to the source's
// account.
type untoldError struct{ error }

// Unwrap supports errors.Is and errors.As.
func (e *untoldError) Unwrap() error { return e.error }

const untold = "the source's account may not read this item's permissions, so nobody can see it here"

// teller is a connector that also returns permissions.
type teller struct {
	*connector
	readers          readers
	include, exclude []string

	mu   sync.Mutex
	told map[string]bool // principals that the current listing of principals has returned
}

// newTeller returns a teller for a connector.
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

// entries returns access entries that allow readers.
func entries(readers []source.Principal) []source.AccessEntry {
	out := make([]source.AccessEntry, 0, len(readers))
	for _, p := range readers {
		out = append(out, source.AccessEntry{Principal: p.ID})
	}
	return out
}

// answer is the result of querying the permissions of an item.
type answer struct {
	asked, told bool
	readers     []source.Principal
}

// ask queries who may read items. Items that the source's patterns exclude are not queried.
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

// Principals implements source.Permissions. A drive has no list of all users and groups, so they
// are collected from the permissions of the files.
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

// Fetch implements source.Connector. The permissions were read for the listed version, so a file
// that has changed since waits for the next run.
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
