package httpapi

// This file streams a job until it ends.

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
)

const (
	// followTime bounds one stream of a job. A client that follows for longer connects again, with
	// a key that is still valid.
	followTime = time.Hour
	// pollInterval is how often a job is read when no change of it was signalled.
	pollInterval = 5 * time.Second
)

func (s *server) routeFollowJob(tags []string) {
	route(s, huma.Operation{OperationID: "follow-job", Method: http.MethodGet, Path: "/v1/jobs/{job}/events", Summary: "Follow a job until it ends", Tags: tags,
		Description: "Server-sent events: `job` has the job as it is, at first and after every change of its state or stage; " +
			"changes that follow each other at once may be one. " +
			"The last one has its end and the result. `delta` is a piece of the answer's text while it is made, which has not been checked; the first one of a stream has all there is so far, and `restart`. " +
			"When what they told is not the answer that counts, a `delta` with `restart` and `checked` before the last `job` takes it back and has the text that is. " +
			"`error` is a problem. A stream that ends before its job, as every one does after an hour, is asked for again. " +
			"One whose key is revoked, or loses a scope or a group, ends within seconds.",
		Errors: []int{http.StatusTooManyRequests},
		Responses: map[string]*huma.Response{"200": {Description: http.StatusText(http.StatusOK), Content: map[string]*huma.MediaType{
			eventsType: s.eventsContent(map[string]any{api.EventJob: schema.Job{}, api.EventDelta: api.DeltaEvent{}, api.EventError: huma.ErrorModel{}}),
		}}},
	}, schema.ScopeQuery, s.followJob)
}

func (s *server) followJob(ctx context.Context, p schema.Principal, in *InJob) (*streamedReply, error) {
	leave, err := s.openStreams.acquire(p.Tenant, 0)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, followTime)
	done := func() { cancel(); leave() }
	// Subscribe before reading, so that no change in between is missed.
	text := &answerText{wake: make(chan struct{}, 1)}
	hints, err := s.Questions.FollowJob(ctx, p, in.Job, text.set)
	var job schema.Job
	if err == nil {
		job, err = s.Questions.Job(ctx, p, in.Job)
	}
	if err != nil {
		done()
		return nil, err
	}
	return &streamedReply{func(hctx huma.Context) {
		defer done()
		_, w := humago.Unwrap(hctx)
		if err := s.streamJob(ctx, newEvents(w), p, job, hints, text); err != nil {
			slog.DebugContext(ctx, "a client disconnected before its job ended", "tenant", p.Tenant, "job", in.Job, "error", err)
		}
	}}, nil
}

// answerText is the text of an answer that is being made, with the part that was sent to the
// client.
type answerText struct {
	wake chan struct{} // the text has changed

	mu   sync.Mutex
	text string

	sent    string
	started bool // something was sent
}

// set sets the text. It does not block; a newer text replaces one that was not read.
func (g *answerText) set(text string) {
	g.mu.Lock()
	g.text = text
	g.mu.Unlock()
	select {
	case g.wake <- struct{}{}:
	default:
	}
}

// next returns the event that brings the client to the current text; nil: it has it. The first
// event restarts, to void what another stream sent.
func (g *answerText) next() *api.DeltaEvent {
	g.mu.Lock()
	text := g.text
	g.mu.Unlock()
	if text == g.sent {
		return nil
	}
	d := api.DeltaEvent{Text: text, Restart: true}
	if rest, continues := strings.CutPrefix(text, g.sent); continues && g.started {
		d = api.DeltaEvent{Text: rest}
	}
	g.sent, g.started = text, true
	return &d
}

// retract voids what was sent to the client.
func (g *answerText) retract(out *events) error {
	if g.sent == "" {
		return nil
	}
	g.sent, g.started = "", false
	return out.send(api.EventDelta, api.DeltaEvent{Restart: true})
}

// send sends what the client has not got of the text. If a source of the answer is hidden from it,
// it gets the answer with the job's end, if at all.
func (g *answerText) send(ctx context.Context, out *events, from *sources) error {
	if from.hidden(ctx) {
		return g.retract(out)
	}
	if d := g.next(); d != nil {
		return out.send(api.EventDelta, d)
	}
	return nil
}

// streamJob writes a job now and after each change, and its answer's text while it grows, until the
// job ends.
func (s *server) streamJob(ctx context.Context, out *events, p schema.Principal, job schema.Job, hints <-chan struct{}, text *answerText) error {
	defer out.close()
	heartbeat, poll, keys := time.NewTicker(s.Heartbeat), time.NewTicker(pollInterval), time.NewTicker(credentialInterval)
	defer heartbeat.Stop()
	defer poll.Stop()
	defer keys.Stop()
	sources := sources{server: s, p: p, question: job.ID}
	if err := out.send(api.EventJob, job); err != nil {
		return err
	}
	recordOf(ctx).answered(job.Result)
	for !job.State.Final() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.Stopping:
			return nil
		case <-heartbeat.C:
			if err := out.heartbeat(); err != nil {
				return err
			}
			continue
		case <-keys.C:
			if err := s.checkCredential(ctx); err != nil {
				return out.send(api.EventError, problemModel(huma.Error401Unauthorized(err.Error())))
			}
			continue
		case <-text.wake:
			if err := text.send(ctx, out, &sources); err != nil {
				return err
			}
			continue
		case <-hints:
		case <-poll.C:
		}
		var now schema.Job
		p, err := s.permit(ctx, p)
		if err == nil {
			now, err = s.Questions.Job(ctx, p, job.ID)
		}
		if err != nil {
			return out.send(api.EventError, problemModel(problem(ctx, err)))
		}
		if now.State.Final() {
			select {
			case <-text.wake: // it came at the same time
				if err := text.send(ctx, out, &sources); err != nil {
					return err
				}
			default:
			}
			if err := correct(out, text.sent, answerOf(now)); err != nil {
				return err
			}
		}
		recordOf(ctx).answered(now.Result)
		if now.State != job.State || now.Stage != job.Stage {
			if err := out.send(api.EventJob, now); err != nil {
				return err
			}
		}
		job = now
	}
	return nil
}

// answerOf returns the text of a job's result; empty without one.
func answerOf(j schema.Job) string {
	if j.Result == nil {
		return ""
	}
	return j.Result.Answer
}
