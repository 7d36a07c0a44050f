package httpapi

// Following a job until it ends.

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

const (
	// followTime bounds one stream of a job: who follows for longer comes again,
	// with a key that is still good.
	followTime = time.Hour
	// followLook is how often a job is looked at though nothing was told of it.
	followLook = 5 * time.Second
)

func (s *server) routeFollowJob(tags []string) {
	route(s, huma.Operation{OperationID: "follow-job", Method: http.MethodGet, Path: "/v1/jobs/{job}/events", Summary: "Follow a job until it ends", Tags: tags,
		Description: "Server-sent events: `job` has the job as it is, at first and after every change of its state or stage; changes that follow each other at once may be one. " +
			"The last one has its end and the result. `error` is a problem. A stream that ends before its job, as every one does after an hour, is asked for again.",
		Errors: []int{http.StatusTooManyRequests},
		Responses: map[string]*huma.Response{"200": {Description: http.StatusText(http.StatusOK), Content: map[string]*huma.MediaType{
			eventsType: s.eventsContent(map[string]any{api.EventJob: schema.Job{}, api.EventError: huma.ErrorModel{}}),
		}}},
	}, schema.ScopeQuery, s.followJob)
}

func (s *server) followJob(ctx context.Context, p schema.Principal, in *InJob) (*written, error) {
	leave, err := s.held.enter(p.Tenant)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, followTime)
	done := func() { cancel(); leave() }
	// First listen, then look: a change between the two is heard.
	hints, err := s.Questions.FollowJob(ctx, p, in.Job)
	var job schema.Job
	if err == nil {
		job, err = s.Questions.Job(ctx, p, in.Job)
	}
	if err != nil {
		done()
		return nil, err
	}
	return &written{func(hctx huma.Context) {
		defer done()
		_, w := humago.Unwrap(hctx)
		if err := s.tellJob(ctx, newEvents(w), p, job, hints); err != nil {
			slog.DebugContext(ctx, "a client left before its job ended", "tenant", p.Tenant, "job", in.Job, "error", err)
		}
	}}, nil
}

// tellJob writes a job as it is now and as it changes, until it ends.
func (s *server) tellJob(ctx context.Context, out *events, p schema.Principal, job schema.Job, hints <-chan struct{}) error {
	defer out.close()
	beat, look := time.NewTicker(s.Heartbeat), time.NewTicker(followLook)
	defer beat.Stop()
	defer look.Stop()
	if err := out.send(api.EventJob, job); err != nil {
		return err
	}
	for !job.State.Final() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.Stopping:
			return nil
		case <-beat.C:
			if err := out.beat(); err != nil {
				return err
			}
			continue
		case <-hints:
		case <-look.C:
		}
		now, err := s.Questions.Job(ctx, p, job.ID)
		if err != nil {
			return out.send(api.EventError, problemModel(problem(ctx, err)))
		}
		if now.State != job.State || now.Stage != job.Stage {
			if err := out.send(api.EventJob, now); err != nil {
				return err
			}
		}
		job = now
	}
	return nil
}
