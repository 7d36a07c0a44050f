package httpapi

// This file streams the changes in a tenant.

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
)

// Events streams changes.
type Events interface {
	// FollowEvents returns the changes in p's tenant from now on, until ctx ends. If they are not
	// read in time the oldest are dropped; the next one has their count.
	FollowEvents(ctx context.Context, p schema.Principal) (<-chan *api.ChangeEvent, error)
}

func (s *server) routeEvents(tags []string) {
	route(s, huma.Operation{OperationID: "follow-events", Method: http.MethodGet, Path: "/v1/events", Summary: "Follow what happens in the tenant", Tags: tags,
		Description: "Server-sent events: `change` is a document's or a job's new state. " +
			"Of more than a client reads, the oldest are dropped, and `dropped` tells how many. " +
			"A stream ends after an hour, or within seconds when its key is revoked or loses a scope or a group, and is asked for again; " +
			"what happened between two is in the documents and jobs themselves.",
		Errors: []int{http.StatusTooManyRequests},
		Responses: map[string]*huma.Response{"200": {Description: http.StatusText(http.StatusOK), Content: map[string]*huma.MediaType{
			eventsType: s.eventsContent(map[string]any{api.EventChange: api.ChangeEvent{}}),
		}}},
	}, schema.ScopeAdmin, s.followEvents)
}

func (s *server) followEvents(ctx context.Context, p schema.Principal, _ *struct{}) (*streamedReply, error) {
	leave, err := s.openStreams.acquire(p.Tenant, 0)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, followTime)
	done := func() { cancel(); leave() }
	changes, err := s.Events.FollowEvents(ctx, p)
	if err != nil {
		done()
		return nil, err
	}
	return &streamedReply{func(hctx huma.Context) {
		defer done()
		_, w := humago.Unwrap(hctx)
		if err := s.streamChanges(ctx, newEvents(w), changes); err != nil {
			slog.DebugContext(ctx, "a client that followed events disconnected", "tenant", p.Tenant, "error", err)
		}
	}}, nil
}

func (s *server) streamChanges(ctx context.Context, out *events, changes <-chan *api.ChangeEvent) error {
	defer out.close()
	heartbeat, credential := time.NewTicker(s.Heartbeat), time.NewTicker(credentialInterval)
	defer heartbeat.Stop()
	defer credential.Stop()
	if err := out.heartbeat(); err != nil { // shows the client that the stream has begun
		return err
	}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.Stopping:
			return nil
		case <-heartbeat.C:
			if err := out.heartbeat(); err != nil {
				return err
			}
		case <-credential.C:
			if err := s.checkCredential(ctx); err != nil {
				return err
			}
		case c := <-changes:
			if err := out.send(api.EventChange, c); err != nil {
				return err
			}
		}
	}
}
