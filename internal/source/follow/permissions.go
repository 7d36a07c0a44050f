package follow

// Who may see what in a place whose permissions are followed: its users and groups, once in a run,
// and the label that each document gets.

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
	// maxPrincipals bounds the users and groups of a place, which are in memory while they are
	// listed.
	maxPrincipals = 500_000
	// maxPrincipalID bounds a principal's id, in bytes.
	maxPrincipalID = 512
)

// listPrincipals lists the users and groups of a place, all of them.
func (f *Follower) listPrincipals(ctx context.Context, in wire.SourceSync, job SourceJob, c source.Connector) error {
	place, tells := c.(source.Permissions)
	if !tells {
		return fmt.Errorf("the driver %s does not tell who may see what", job.Driver)
	}
	var all []source.Principal
	for cursor := ""; ; {
		page, err := place.Principals(ctx, cursor)
		if err != nil {
			return &connectorError{err}
		}
		for _, p := range page.Principals {
			if p.ID == "" || p.ID == source.Everyone || len(p.ID) > maxPrincipalID || text(p.ID) != p.ID {
				return &connectorError{fmt.Errorf("the place has a user or a group with the id %q, which can't be one", text(p.ID))}
			}
			p.Name, p.Email = text(p.Name), text(p.Email)
			all = append(all, p)
		}
		if len(all) > maxPrincipals {
			return &connectorError{fmt.Errorf("the place has more than %d users and groups", maxPrincipals)}
		}
		if cursor = page.Next; cursor == "" {
			return overtaken(ctx, job, f.store.SetPrincipals(ctx, in, job.Pushed, all))
		}
	}
}

// overtaken has what was listed before permissions were pushed listed once more, by the next turn.
func overtaken(ctx context.Context, job SourceJob, err error) error {
	if !errors.Is(err, schema.ErrConflict) {
		return err
	}
	slog.DebugContext(ctx, "permissions were pushed; list again", "tenant", job.Tenant, "source", job.ID)
	return nil
}

// relabel gives documents the labels that permissions give them by now, some of them, and tells
// whether there were any.
func (f *Follower) relabel(ctx context.Context, job SourceJob) (bool, error) {
	if !job.Permissions {
		return false, nil
	}
	looked, _, err := Relabel(ctx, f.store, f.documents, principal(job), job.ID, batch)
	return looked > 0, err
}

// Labels knows which labels documents of sources should have.
type Labels interface {
	StaleItems(ctx context.Context, tenant, source uuid.UUID, limit int) ([]RelabelledItem, error)
	LabelGone(ctx context.Context, tenant, source uuid.UUID, item string) error
}

// Relabel has p give documents of a source the labels that permissions give them by now, limit at
// most. It tells at how many it looked, and how many it changed.
func Relabel(ctx context.Context, l Labels, d Documents, p schema.Principal, of uuid.UUID, limit int) (looked, changed int, err error) {
	stale, err := l.StaleItems(ctx, p.Tenant, of, limit)
	if err != nil {
		return 0, 0, err
	}
	for _, s := range stale {
		p.Writes = &schema.SourceWrite{Source: of, Item: s.Item}
		labels := []string{s.Label}
		_, err := d.UpdateDocument(ctx, p, s.Document, schema.DocumentChange{Labels: &labels})
		switch {
		case err == nil:
			changed++
		case errors.Is(err, schema.ErrNotFound):
			err = l.LabelGone(ctx, p.Tenant, of, s.Item)
		case errors.Is(err, schema.ErrConflict): // it gets yet another one
			err = nil
		}
		if err != nil {
			return len(stale), changed, fmt.Errorf("change who may see the document of %q: %w", s.Item, err)
		}
	}
	return len(stale), changed, nil
}

// labelled returns who a source acts as for an item, and the labels that its document gets.
func (f *Follower) labelled(ctx context.Context, job SourceJob, item string) (schema.Principal, []string, error) {
	p := principal(job)
	if !job.Permissions {
		return p, append([]string{}, job.Labels...), nil
	}
	label, err := f.store.ItemLabel(ctx, job.Tenant, job.ID, item)
	p.Writes = &schema.SourceWrite{Source: job.ID, Item: item}
	return p, []string{label}, err
}
