package httpapi

// Asking and waiting for the answer: as one JSON document, or as it is made.

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

type askedNow struct {
	asked
	streams bool
}

// Resolve implements huma.Resolver: the Accept header says which form the
// answer has.
func (a *askedNow) Resolve(ctx huma.Context) []error {
	for _, part := range strings.Split(ctx.Header("Accept"), ",") {
		kind, _, _ := strings.Cut(part, ";")
		a.streams = a.streams || strings.EqualFold(strings.TrimSpace(kind), eventsType)
	}
	return nil
}

// written is a reply that writes itself.
type written struct{ Body func(huma.Context) }

func (s *server) routeAsk(tags []string) {
	schemas := s.api.OpenAPI().Components.Schemas
	route(s, huma.Operation{OperationID: "ask", Metadata: queryBody.with(repeatRun.metadata()), Method: http.MethodPost, Path: "/v1/ask", Summary: "Ask a question and wait for the answer", Tags: tags,
		Description: "With `Accept: text/event-stream` the answer comes as server-sent events while it is made: `stage` for every step, `delta` for every piece of text, " +
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

func (s *server) ask(ctx context.Context, p schema.Principal, in *askedNow) (*written, error) {
	return s.answer(ctx, p, in.Body, answerForm{streams: in.streams, document: func(a schema.Answer) any { return a },
		answerWriter: func(out *events, p schema.Principal, question uuid.UUID) answerWriter {
			return &eventWriter{out: out, shown: sources{server: s, p: p, question: question}}
		}})
}

// answerForm is how an answer is told: as one document, or by a stream.
type answerForm struct {
	streams      bool
	document     func(schema.Answer) any
	answerWriter func(*events, schema.Principal, uuid.UUID) answerWriter
}

// answerWriter writes the answer to a question to the stream of one client.
type answerWriter interface {
	// progress tells of an answer in the making.
	progress(context.Context, []Progress) error
	// last tells the text that counts, empty where there is none, before the end.
	last(text string) error
	answer(schema.Answer) error
	problem(*huma.ErrorModel) error
}

// answer asks now, and tells the answer in a form.
func (s *server) answer(ctx context.Context, p schema.Principal, asked api.Query, form answerForm) (*written, error) {
	leave, err := s.open.enter(p.Tenant, 0)
	if err != nil {
		return nil, err
	}
	q, err := s.resolve(ctx, &p, asked)
	if err != nil {
		leave()
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.AskTime)
	done := func() { cancel(); leave() }
	if form.streams {
		return s.stream(ctx, done, p, q, form)
	}
	defer done()
	answer, err := s.askNow(ctx, p, q, nil)
	if err != nil {
		return nil, err
	}
	noted(ctx).gave(answer)
	if err := s.good(ctx); err != nil {
		return nil, huma.Error401Unauthorized(err.Error())
	}
	return &written{func(hctx huma.Context) {
		hctx.SetHeader("Content-Type", "application/json")
		hctx.SetStatus(http.StatusOK)
		if err := s.api.Marshal(hctx.BodyWriter(), "application/json", form.document(answer)); err != nil {
			slog.WarnContext(ctx, "could not write an answer", "tenant", p.Tenant, "error", err)
		}
	}}, nil
}

// stream answers by events. It returns when there is something to tell, so that
// what fails before is a problem of its own status; done is called at the end.
func (s *server) stream(ctx context.Context, done func(), p schema.Principal, q schema.Query, form answerForm) (*written, error) {
	f := newFeed()
	go func() {
		defer func() {
			if p := recover(); p != nil { // the handler's own recovery does not reach here
				slog.ErrorContext(ctx, "a request handler panicked", "question", f.question(), "panic", p)
				f.end(schema.Answer{}, errors.New("a panic"))
			}
		}()
		f.end(s.askNow(ctx, p, q, f.tell))
	}()
	<-f.wake // Ask ends with ctx, at the latest
	waiting, over := f.take()
	if over && len(waiting) == 0 && f.err != nil {
		done()
		return nil, f.err
	}
	return &written{func(hctx huma.Context) {
		defer done()
		_, w := humago.Unwrap(hctx)
		out := newEvents(w)
		if err := s.follow(ctx, out, form.answerWriter(out, p, f.question()), f, waiting, over); err != nil {
			slog.DebugContext(ctx, "a client left before its answer", "tenant", p.Tenant, "error", err)
		}
	}}, nil
}

// follow tells what a feed has until the end of its question. Whatever it
// does, the question goes on: the feed blocks nobody.
func (s *server) follow(ctx context.Context, out *events, t answerWriter, f *feed, waiting []Progress, over bool) error {
	defer out.close()
	ticker, keys := time.NewTicker(s.Heartbeat), time.NewTicker(keyLook)
	defer ticker.Stop()
	defer keys.Stop()
	for {
		if err := t.progress(ctx, waiting); err != nil {
			return err
		}
		if over {
			answer := f.answer.Answer
			if f.err != nil {
				answer = ""
			}
			if err := t.last(answer); err != nil {
				return err
			}
		}
		switch {
		case over && f.err != nil:
			return t.problem(problemModel(problem(ctx, f.err)))
		case over:
			noted(ctx).gave(f.answer)
			return t.answer(f.answer)
		}
		select {
		case <-f.wake:
			waiting, over = f.take()
		case <-ticker.C:
			if err := out.beat(); err != nil {
				return err
			}
			waiting = nil
		case <-keys.C: // who leaves ends the question
			if err := s.good(ctx); err != nil {
				return t.problem(problemModel(huma.Error401Unauthorized(err.Error())))
			}
			waiting = nil
		}
	}
}

// eventWriter writes every step and every delta of text, as long as its reader may
// see all that was read for it.
type eventWriter struct {
	out   *events
	shown sources
	said  strings.Builder // of the answer, to this client
	kept  bool            // text was kept back since the answer began
}

func (e *eventWriter) progress(ctx context.Context, waiting []Progress) error {
	for _, told := range waiting {
		if d := told.Delta; d != nil {
			e.kept = e.kept && !d.Restart
			if e.kept || e.shown.hidden(ctx) { // the text comes with the end, if at all
				e.kept = true
				if err := takeBack(e.out, &e.said); err != nil {
					return err
				}
				continue
			}
			if d.Restart {
				e.said.Reset()
			}
			e.said.WriteString(d.Text)
		}
		if err := sendProgress(e.out, told); err != nil {
			return err
		}
	}
	return nil
}

func (e *eventWriter) last(text string) error { return replace(e.out, e.said.String(), text) }

func (e *eventWriter) answer(a schema.Answer) error { return e.out.send(api.EventAnswer, a) }

func (e *eventWriter) problem(m *huma.ErrorModel) error { return e.out.send(api.EventError, m) }

// takeBack makes void what a client was told of an answer.
func takeBack(out *events, said *strings.Builder) error {
	if said.Len() == 0 {
		return nil
	}
	said.Reset()
	return out.send(api.EventDelta, api.DeltaEvent{Restart: true})
}

// replace tells who was told a text that it is not the answer which counts, and
// which is, empty where there is none: nobody is to keep a sentence that was not
// checked.
func replace(out *events, said, answer string) error {
	said = strings.TrimSpace(said)
	if said == "" || said == strings.TrimSpace(answer) {
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

// problemModel is an error of problem as the document that it is.
func problemModel(err error) *huma.ErrorModel {
	var model *huma.ErrorModel
	if errors.As(err, &model) {
		return model
	}
	return &huma.ErrorModel{Status: http.StatusInternalServerError, Title: http.StatusText(http.StatusInternalServerError), Detail: err.Error()}
}

// checkChoices says what is wrong with the choices of a question.
func checkChoices(choices []string) error {
	for i, c := range choices {
		if strings.TrimSpace(c) == "" || len(c) > schema.MaxChoice {
			return schema.Invalid(fmt.Sprintf("body.choices[%d]", i), "has %d bytes, a choice has 1 to %d and is not blank", len(c), schema.MaxChoice)
		}
	}
	return nil
}
