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
	// maxPermissionQueries is how many items are queried at once.
	maxPermissionQueries = 8
	// permissionPageItems is the maximum number of items on a page. If the query of one item fails,
	// all of the page are queried again.
	permissionPageItems = 200
)

// permissionReader returns who may read files of a service.
type permissionReader interface {
	// readers returns who may read an item. If the service doesn't say, the error is a
	// permissionsDeniedError.
	readers(ctx context.Context, id string) ([]source.Principal, error)
	close()
}

// permissionsDeniedError is the error of an item whose permissions the service doesn't show to the
// source's account.
type permissionsDeniedError struct{ error }

// Unwrap supports errors.Is and errors.As.
func (e *permissionsDeniedError) Unwrap() error { return e.error }

const permissionsDeniedReason = "the source's account may not read this item's permissions, so nobody can see it here"

// accessConnector is a connector that also returns permissions.
type accessConnector struct {
	*connector
	permissionReader permissionReader
	include, exclude []string

	mu   sync.Mutex
	seen map[string]bool // principals that the current listing of principals has returned
}

// newAccessConnector returns a connector that also reads permissions.
func newAccessConnector(c *connector, s source.Settings) (*accessConnector, error) {
	if c.kind.newPermissionReader == nil {
		return nil, &source.FieldError{Field: source.PermissionsSetting, Reason: "permissions cannot be read from " + c.kind.name}
	}
	reader, err := c.kind.newPermissionReader(c, s.Values)
	if err != nil {
		return nil, err
	}
	c.page = min(c.page, permissionPageItems)
	return &accessConnector{connector: c, permissionReader: reader, include: s.Include, exclude: s.Exclude, seen: map[string]bool{}}, nil
}

// List implements source.Connector.
func (a *accessConnector) List(ctx context.Context, cursor string) (source.Listing, error) {
	page, err := a.connector.List(ctx, cursor)
	if err != nil {
		return source.Listing{}, err
	}
	found, err := a.queryPermissions(ctx, page.Items)
	if err != nil {
		return source.Listing{}, err
	}
	for i, result := range found {
		item := &page.Items[i]
		switch {
		case result.known:
			item.Access = &source.Access{Entries: entries(result.readers)}
		case result.queried:
			page.Skipped = append(page.Skipped, source.Skipped{Path: item.Path, Reason: permissionsDeniedReason})
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

// permissionResult is the result of querying the permissions of an item.
type permissionResult struct {
	queried, known bool
	readers        []source.Principal
}

// queryPermissions queries who may read items. Items that the source's patterns exclude are not
// queried.
func (a *accessConnector) queryPermissions(ctx context.Context, items []source.Item) ([]permissionResult, error) {
	out := make([]permissionResult, len(items))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(maxPermissionQueries)
	for i, item := range items {
		if !source.Included(a.include, a.exclude, item.Path) {
			continue
		}
		group.Go(func() error {
			var found []source.Principal
			err := a.do(ctx, func(ctx context.Context) (err error) {
				found, err = a.permissionReader.readers(ctx, item.ID)
				return err
			})
			var denied *permissionsDeniedError
			if errors.As(err, &denied) {
				err = nil
			}
			if err != nil {
				return fmt.Errorf("read who may see %s of %s: %w", item.Path, a.kind.name, a.failure(ctx, err))
			}
			out[i] = permissionResult{queried: true, known: denied == nil, readers: found}
			return nil
		})
	}
	return out, group.Wait()
}

// Principals implements source.Permissions. A drive has no list of all users and groups, so they
// are collected from the permissions of the files.
func (a *accessConnector) Principals(ctx context.Context, cursor string) (source.PrincipalPage, error) {
	listed, err := a.connector.List(ctx, cursor)
	if err != nil {
		return source.PrincipalPage{}, err
	}
	found, err := a.queryPermissions(ctx, listed.Items)
	if err != nil {
		return source.PrincipalPage{}, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if cursor == "" {
		clear(a.seen)
	}
	page := source.PrincipalPage{Next: listed.Next}
	for _, result := range found {
		for _, p := range result.readers {
			if !a.seen[p.ID] {
				a.seen[p.ID] = true
				page.Principals = append(page.Principals, p)
			}
		}
	}
	return page, nil
}

// Fetch implements source.Connector. The permissions were read for the listed version, so a file
// that has changed since waits for the next run.
func (a *accessConnector) Fetch(ctx context.Context, item source.Item) (source.Download, error) {
	download, err := a.connector.Fetch(ctx, item)
	if err == nil && download.Version != item.Version {
		return source.Download{}, errors.Join(&source.ItemError{Reason: "has changed since it was listed; the next run takes it"}, download.Body.Close())
	}
	return download, err
}

// Close implements source.Connector.
func (a *accessConnector) Close() error {
	err := a.connector.Close()
	a.permissionReader.close()
	return err
}
