package follow

// Permissions of sources that follow them: the source's users and groups, which are listed once in
// a run, and the label of each document.

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/source"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

const (
	// maxPrincipals bounds the users and groups of a source, which are in memory while they are
	// listed.
	maxPrincipals = 500_000
	// maxPrincipalID bounds a principal's id, in bytes.
	maxPrincipalID = 512
)

// listPrincipals lists all users and groups of a source and stores them.
func (f *Follower) listPrincipals(ctx context.Context, in wire.SourceSync, job SourceJob, c source.Connector) error {
	permissions, ok := c.(source.Permissions)
	if !ok {
		return fmt.Errorf("the driver %s does not list permissions", job.Driver)
	}
	var all []source.Principal
	for cursor := ""; ; {
		page, err := permissions.Principals(ctx, cursor)
		if err != nil {
			return &connectorError{err}
		}
		for _, p := range page.Principals {
			if p.ID == "" || p.ID == source.Everyone || len(p.ID) > maxPrincipalID || text(p.ID) != p.ID {
				return &connectorError{fmt.Errorf("the source has a user or a group with the id %q, which can't be one", text(p.ID))}
			}
			p.Name, p.Email = text(p.Name), text(p.Email)
			all = append(all, p)
		}
		if len(all) > maxPrincipals {
			return &connectorError{fmt.Errorf("the source has more than %d users and groups", maxPrincipals)}
		}
		if cursor = page.Next; cursor == "" {
			return ignoreConflict(ctx, job, f.store.SetPrincipals(ctx, in, job.Pushed, all))
		}
	}
}

// ignoreConflict drops the error that says that permissions were pushed after something was listed.
// The next iteration then lists it again.
func ignoreConflict(ctx context.Context, job SourceJob, err error) error {
	if !errors.Is(err, schema.ErrConflict) {
		return err
	}
	slog.DebugContext(ctx, "permissions were pushed meanwhile; listing them again", "tenant", job.Tenant, "source", job.ID)
	return nil
}

// relabel updates the labels of some documents to what permissions say now, and reports whether
// there were any to update.
func (f *Follower) relabel(ctx context.Context, job SourceJob) (bool, error) {
	if !job.Permissions {
		return false, nil
	}
	checked, _, err := Relabel(ctx, f.store, f.documents, principal(job), job.ID, batch)
	return checked > 0, err
}

// Labels finds documents whose labels differ from what permissions say.
type Labels interface {
	StaleItems(ctx context.Context, tenant, source uuid.UUID, limit int) ([]RelabelledItem, error)
	MarkDocumentDeleted(ctx context.Context, tenant, source uuid.UUID, item RelabelledItem) error
}

// Relabel makes p update the labels of up to limit documents of a source to what permissions say
// now. It returns how many it checked, and how many it changed.
func Relabel(ctx context.Context, l Labels, d Documents, p schema.Principal, sourceID uuid.UUID, limit int) (checked, changed int, err error) {
	stale, err := l.StaleItems(ctx, p.Tenant, sourceID, limit)
	if err != nil {
		return 0, 0, err
	}
	for _, s := range stale {
		p.Writes = &schema.SourceWrite{Source: sourceID, Item: s.Item}
		labels := []string{s.Label}
		_, err := d.UpdateDocument(ctx, p, s.Document, schema.DocumentChange{Labels: &labels})
		switch {
		case err == nil:
			changed++
		case errors.Is(err, schema.ErrNotFound):
			err = l.MarkDocumentDeleted(ctx, p.Tenant, sourceID, s)
		case errors.Is(err, schema.ErrConflict): // its label changes again
			err = nil
		}
		if err != nil {
			return len(stale), changed, fmt.Errorf("change who may see the document of %q: %w", s.Item, err)
		}
	}
	return len(stale), changed, nil
}

// principalAndLabels returns the principal that a source acts as for an item, and the labels of the
// item's document.
func (f *Follower) principalAndLabels(ctx context.Context, job SourceJob, item string) (schema.Principal, []string, error) {
	p := principal(job)
	if !job.Permissions {
		return p, append([]string{}, job.Labels...), nil
	}
	label, err := f.store.ItemLabel(ctx, job.Tenant, job.ID, item)
	p.Writes = &schema.SourceWrite{Source: job.ID, Item: item}
	return p, []string{label}, err
}
