package httpapi

// POST /v1/ask: the answer as one JSON document, or as server-sent events while it is generated.

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"reflect"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
)

type askInput struct {
	queryInput
	streams bool
}

// Resolve implements huma.Resolver. The Accept header says whether the answer is streamed.
func (a *askInput) Resolve(ctx huma.Context) []error {
	for _, part := range strings.Split(ctx.Header("Accept"), ",") {
		kind, _, _ := strings.Cut(part, ";")
		a.streams = a.streams || strings.EqualFold(strings.TrimSpace(kind), eventsType)
	}
	return nil
}

// streamedReply is a reply whose body is written by a function.
type streamedReply struct{ Body func(huma.Context) }

func (s *server) routeAsk(tags []string) {
	schemas := s.api.OpenAPI().Components.Schemas
	route(s, huma.Operation{OperationID: "ask", Metadata: queryBody.with(repeatRun.metadata()), Method: http.MethodPost, Path: "/v1/ask", Summary: "Ask a question and wait for the answer", Tags: tags,
		Description: "With `Accept: text/event-stream` the answer comes as server-sent events while it is made: " +
			"`stage` for every step, `delta` for every piece of text, " +
			"and last `answer`, the same document as without, or `error`, a problem. Only the last counts: the pieces have not been checked. " +
			"When what they told is not the answer that counts, a `delta` with `restart` and `checked` before the last takes it back and has the text that is. " +
			"What goes wrong before the first event is a problem as everywhere.",
		Errors: []int{http.StatusTooManyRequests, http.StatusBadGateway},
		Responses: map[string]*huma.Response{"200": {Description: http.StatusText(http.StatusOK), Content: map[string]*huma.MediaType{
			"application/json": {Schema: schemas.Schema(reflect.TypeFor[schema.Answer](), true, "Answer")},
			eventsType: s.eventsContent(map[string]any{api.EventStage: api.StageEvent{}, api.EventDelta: api.DeltaEvent{},
				api.EventAnswer: schema.Answer{}, api.EventError: huma.ErrorModel{}}),
		}}},
	}, schema.ScopeQuery, s.ask)
}

func (s *server) ask(ctx context.Context, p schema.Principal, in *askInput) (*streamedReply, error) {
	return s.answer(ctx, p, in.Body, answerFormat{streams: in.streams, document: func(a schema.Answer) any { return a },
		answerWriter: func(out *events, p schema.Principal, question uuid.UUID) answerWriter {
			return &eventWriter{out: out, sources: sources{server: s, p: p, question: question}}
		}})
}

// answerFormat is the format of an answer: one document, or a stream of events.
type answerFormat struct {
	streams      bool
	document     func(schema.Answer) any
	answerWriter func(*events, schema.Principal, uuid.UUID) answerWriter
}

// answerWriter writes the answer to a question to a client's stream.
type answerWriter interface {
	// progress writes stages and deltas of text.
	progress(context.Context, []Progress) error
	// final is called before the end with the checked text; it is empty if there is none.
	final(text string) error
	answer(schema.Answer) error
	problem(*huma.ErrorModel) error
}

// answer asks a question and replies with the answer in a format.
func (s *server) answer(ctx context.Context, p schema.Principal, query api.Query, format answerFormat) (*streamedReply, error) {
	release, err := s.openQuestions.acquire(p.Tenant, 0)
	if err != nil {
		return nil, err
	}
	q, err := s.resolve(ctx, &p, query)
	if err != nil {
		release()
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.AskTime)
	done := func() { cancel(); release() }
	if format.streams {
		return s.stream(ctx, done, p, q, format)
	}
	defer done()
	answer, err := s.askNow(ctx, p, q, nil)
	if err != nil {
		return nil, err
	}
	recordOf(ctx).addAnswer(answer)
	if err := s.checkCredential(ctx); err != nil {
		return nil, huma.Error401Unauthorized(err.Error())
	}
	return &streamedReply{func(hctx huma.Context) {
		hctx.SetHeader("Content-Type", "application/json")
		hctx.SetStatus(http.StatusOK)
		if err := s.api.Marshal(hctx.BodyWriter(), "application/json", format.document(answer)); err != nil {
			slog.WarnContext(ctx, "could not write an answer", "tenant", p.Tenant, "error", err)
		}
	}}, nil
}

// stream replies with events. It returns when there is a first event, so that an error before it
// has its own HTTP status. done is called at the end.
func (s *server) stream(ctx context.Context, done func(), p schema.Principal, q schema.Query, format answerFormat) (*streamedReply, error) {
	f := newFeed()
	go func() {
		defer func() {
			if p := recover(); p != nil { // the handler's own recovery does not reach here
				slog.ErrorContext(ctx, "a request handler panicked", "question", f.question(), "panic", p)
				f.end(schema.Answer{}, errors.New("a panic"))
			}
		}()
		f.end(s.askNow(ctx, p, q, f.add))
	}()
	<-f.ready // askNow ends with ctx at the latest
	pending, ended := f.drain()
	if ended && len(pending) == 0 && f.err != nil {
		done()
		return nil, f.err
	}
	return &streamedReply{func(hctx huma.Context) {
		defer done()
		_, w := humago.Unwrap(hctx)
		out := newEvents(w)
		if err := s.streamFeed(ctx, out, format.answerWriter(out, p, f.question()), f, pending, ended); err != nil {
			slog.DebugContext(ctx, "the client disconnected before the answer", "tenant", p.Tenant, "error", err)
		}
	}}, nil
}

// streamFeed writes a feed to the client until the question ends. An error here does not end the
// question, since the feed does not block.
func (s *server) streamFeed(ctx context.Context, out *events, w answerWriter, f *feed, pending []Progress, ended bool) error {
	defer out.close()
	heartbeat, credential := time.NewTicker(s.Heartbeat), time.NewTicker(credentialInterval)
	defer heartbeat.Stop()
	defer credential.Stop()
	for {
		if err := w.progress(ctx, pending); err != nil {
			return err
		}
		if ended {
			answer := f.answer.Answer
			if f.err != nil {
				answer = ""
			}
			if err := w.final(answer); err != nil {
				return err
			}
		}
		switch {
		case ended && f.err != nil:
			return w.problem(problemModel(problem(ctx, f.err)))
		case ended:
			recordOf(ctx).addAnswer(f.answer)
			return w.answer(f.answer)
		}
		select {
		case <-f.ready:
			pending, ended = f.drain()
		case <-heartbeat.C:
			if err := out.heartbeat(); err != nil {
				return err
			}
			pending = nil
		case <-credential.C:
			if err := s.checkCredential(ctx); err != nil {
				return w.problem(problemModel(huma.Error401Unauthorized(err.Error())))
			}
			pending = nil
		}
	}
}

// eventWriter writes every stage and, as long as the client may see all sources of the answer,
// every delta of text.
type eventWriter struct {
	out      *events
	sources  sources
	sent     strings.Builder // text of the answer
	withheld bool            // text was not sent since the last restart
}

func (e *eventWriter) progress(ctx context.Context, pending []Progress) error {
	for _, p := range pending {
		if d := p.Delta; d != nil {
			e.withheld = e.withheld && !d.Restart
			if e.withheld || e.sources.hidden(ctx) { // the text is in the answer, if at all
				e.withheld = true
				if err := retract(e.out, &e.sent); err != nil {
					return err
				}
				continue
			}
			if d.Restart {
				e.sent.Reset()
			}
			e.sent.WriteString(d.Text)
		}
		if err := sendProgress(e.out, p); err != nil {
			return err
		}
	}
	return nil
}

func (e *eventWriter) final(text string) error { return correct(e.out, e.sent.String(), text) }

func (e *eventWriter) answer(a schema.Answer) error { return e.out.send(api.EventAnswer, a) }

func (e *eventWriter) problem(m *huma.ErrorModel) error { return e.out.send(api.EventError, m) }

// retract tells the client to discard the text that it was sent.
func retract(out *events, sent *strings.Builder) error {
	if sent.Len() == 0 {
		return nil
	}
	sent.Reset()
	return out.send(api.EventDelta, api.DeltaEvent{Restart: true})
}

// correct sends the checked answer, which may be empty, to a client that was sent another text. No
// client is to keep a sentence that was not checked.
func correct(out *events, sent, answer string) error {
	sent = strings.TrimSpace(sent)
	if sent == "" || sent == strings.TrimSpace(answer) {
		return nil
	}
	return out.send(api.EventDelta, api.DeltaEvent{Text: answer, Restart: true, Checked: true})
}

func sendProgress(out *events, p Progress) error {
	if p.Stage != nil {
		return out.send(api.EventStage, p.Stage)
	}
	return out.send(api.EventDelta, p.Delta)
}

// problemModel returns the document of an error of problem.
func problemModel(err error) *huma.ErrorModel {
	var model *huma.ErrorModel
	if errors.As(err, &model) {
		return model
	}
	return &huma.ErrorModel{Status: http.StatusInternalServerError, Title: http.StatusText(http.StatusInternalServerError), Detail: err.Error()}
}

// checkChoices checks the choices of a question.
func checkChoices(choices []string) error {
	for i, c := range choices {
		if strings.TrimSpace(c) == "" || len(c) > schema.MaxChoice {
			return schema.Invalid(fmt.Sprintf("body.choices[%d]", i), "has %d bytes; a choice must have 1 to %d and must not be blank", len(c), schema.MaxChoice)
		}
	}
	return nil
}
