package apiserver

// Access to documents of sources. Changes made here take effect at once in this process, and in
// other processes when they next read the permissions.

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/auth"
	"github.com/sluice-rag/sluice/internal/source/follow"
	"github.com/sluice-rag/sluice/internal/store/access"
	"github.com/sluice-rag/sluice/internal/store/sources"
	"github.com/sluice-rag/sluice/schema"
)

// Limits of the relabelling that is done before a push is answered: documents, and time.
const (
	pushedDocuments = 500
	pushedTime      = 5 * time.Second
)

// accessAPI implements httpapi.SourceAccess.
type accessAPI struct {
	*access.AccessStore
	sources   *sources.SourceStore
	documents follow.Documents
	permits   *auth.Permits
}

// MapPrincipal implements httpapi.SourceAccess.
func (a accessAPI) MapPrincipal(ctx context.Context, p schema.Principal, source uuid.UUID, principal string, subject schema.AccessSubject) (
	schema.AccessMapping, error) {
	defer a.permits.Forget(p.Tenant)
	return a.AccessStore.MapPrincipal(ctx, p, source, principal, subject)
}

// UnmapPrincipal implements httpapi.SourceAccess.
func (a accessAPI) UnmapPrincipal(ctx context.Context, p schema.Principal, source uuid.UUID, principal string, subject schema.AccessSubject) error {
	defer a.permits.Forget(p.Tenant)
	return a.AccessStore.UnmapPrincipal(ctx, p, source, principal, subject)
}

// PushAccess implements httpapi.SourceAccess.
func (a accessAPI) PushAccess(ctx context.Context, p schema.Principal, source uuid.UUID, push schema.AccessPush) (
	out schema.AccessPushed, err error) {
	defer a.permits.Forget(p.Tenant)
	if err := a.AccessStore.PushAccess(ctx, p, source, push); err != nil {
		return out, err
	}
	a.permits.Forget(p.Tenant)
	for checked, began := 0, time.Now(); checked < pushedDocuments && time.Since(began) < pushedTime; {
		some, changed, err := follow.Relabel(ctx, a.sources, a.documents, p, source, 50)
		if err != nil { // the push is stored; the source relabels the rest
			slog.WarnContext(ctx, "cannot update documents' labels after permissions were pushed; the next run of the source does so", "tenant", p.Tenant, "source", source, "error", err)
			break
		}
		if some == 0 {
			return out, nil
		}
		checked, out.Documents = checked+some, out.Documents+changed
	}
	left, err := a.sources.StaleItems(ctx, p.Tenant, source, 1)
	if err != nil || len(left) == 0 {
		return out, err
	}
	out.Waiting = true
	// A source that is paused or stopped relabels them when it runs again.
	if _, err := a.sources.RunSource(ctx, p, source); err != nil && !errors.Is(err, schema.ErrConflict) {
		return out, err
	}
	return out, nil
}
