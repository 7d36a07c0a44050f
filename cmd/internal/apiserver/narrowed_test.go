package apiserver_test

// A change of labels while an answer is made applies to the rest of its text at once.

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/apiclient"
	"github.com/sluice-rag/sluice/internal/question/answer"
	"github.com/sluice-rag/sluice/internal/waittest"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
	"github.com/sluice-rag/sluice/schema/wire"
)

// sourced stores that a question is answered from a document that everybody may read, and returns a
// function that restricts the document.
func (w *world) sourced(in wire.QuestionInput) (narrow func()) {
	w.t.Helper()
	var up api.UploadResult
	w.post("/v1/collections/c/documents", map[string]any{"documents": []any{
		map[string]any{"external_id": in.Question.String(), "text": "told in halves"}}}, "").want(http.StatusOK, &up)
	q := w.store
	if _, err := q.Begin(w.t.Context(), in); err != nil {
		w.t.Fatal(err)
	}
	if _, err := q.SaveRetrieval(w.t.Context(), in, 1, answer.Retrieval{Candidates: []schema.Candidate{{Document: up.Documents[0].Document,
		Text: "told in halves", Spans: []schema.Span{{Version: up.Documents[0].Version, Section: uuid.New(), End: 14}}}}}); err != nil {
		w.t.Fatal(err)
	}
	return func() {
		w.do(http.MethodPatch, "/v1/documents/"+up.Documents[0].Document.String(), strings.NewReader(`{"labels":["board"]}`), "").want(http.StatusOK, nil)
	}
}

// narrowedClient is what one client receives: first half of the text, then the end.
type narrowedClient struct {
	first chan struct{}
	text  strings.Builder // the current text
	all   strings.Builder
}

func (h *narrowedClient) receive(d api.DeltaEvent) {
	if d.Restart {
		h.text.Reset()
	}
	h.text.WriteString(d.Text)
	h.all.WriteString(d.Text)
	if h.text.String() == "told in " {
		close(h.first)
	}
}

func (h *narrowedClient) check(t *testing.T, a schema.Answer, err error) {
	t.Helper()
	if err != nil || !a.Withheld || strings.Contains(a.Answer, "halves") {
		t.Errorf("the answer is %+v, %v", a, err)
	}
	if strings.Contains(h.all.String(), "halves") || strings.Contains(h.text.String(), "told") {
		t.Errorf("told %q, of which %q stands", h.all.String(), h.text.String())
	}
}

func TestTextOfANarrowedSourceIsToldNoMore(t *testing.T) {
	w := newWorld(t)
	w.post("/v1/collections", api.NewCollection{Name: "c"}, "").want(http.StatusCreated, nil)
	reader := w.with(nil, schema.ScopeQuery)
	c, err := apiclient.New(w.url, reader.key)
	if err != nil {
		t.Fatal(err)
	}
	whole := schema.Answer{Answer: "told in halves", Supported: true, Citations: []schema.Citation{}}

	t.Run("while it is asked for", func(t *testing.T) {
		h := narrowedClient{first: make(chan struct{})}
		w.answering(func(ctx context.Context, r wire.AskRequest) wire.AskReply {
			in := wire.QuestionInput{Tenant: w.admin.Tenant, Question: r.Question, Attempt: 1}
			narrow := w.sourced(in)
			w.sendPart(r, wire.PartText, wire.LLMDelta{Envelope: wire.Header(), Text: "told in "})
			waittest.Receive(t, h.first, "the first half")
			narrow()
			w.sendPart(r, wire.PartText, wire.LLMDelta{Envelope: wire.Header(), Text: "halves"})
			if err := w.asked.SaveAnswer(ctx, in, whole); err != nil {
				t.Error(err)
			}
			return wire.AskReply{Envelope: wire.Header(), Answer: &whole}
		})
		a, err := c.AskStreaming(t.Context(), api.Query{Collection: "c", Query: "q"}, func(p apiclient.Progress) {
			if p.Delta != nil {
				h.receive(*p.Delta)
			}
		})
		h.check(t, a, err)
	})

	t.Run("as a job", func(t *testing.T) {
		var job schema.Job
		reader.post("/v1/jobs", api.Query{Collection: "c", Query: "q"}, "").want(http.StatusAccepted, &job)
		in := wire.QuestionInput{Tenant: w.admin.Tenant, Question: job.ID, Attempt: 1}
		narrow := w.sourced(in)
		h := narrowedClient{first: make(chan struct{})}
		text := func(text string) {
			w.hint(wire.TextSubject(in.Tenant, job.ID), wire.QuestionText{Envelope: wire.Header(), Question: job.ID, Text: text})
		}
		received := 0
		ended, err := c.FollowJob(t.Context(), job.ID, func(schema.Job) {
			if received++; received == 1 {
				text("told in ")
			}
		}, func(d api.DeltaEvent) {
			h.receive(d)
			switch h.text.String() {
			case "told in ":
				narrow()
				text("told in halves")
			default: // either the text was withdrawn, or all of it was sent
				if err := w.asked.SaveAnswer(t.Context(), in, whole); err == nil {
					w.hint(wire.EventSubject(in.Tenant, wire.EventQuestionAnswered), wire.QuestionEvent{Envelope: wire.Header(), Question: job.ID})
				}
			}
		})
		if ended.Result == nil {
			t.Fatalf("the job ended as %+v, %v", ended, err)
		}
		h.check(t, *ended.Result, err)
	})
}
