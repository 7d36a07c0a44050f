package apiserver_test

// This file asks through HTTP and NATS, with stand-ins for the query worker and the gateway.

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"testing"

	"github.com/sluice-rag/sluice/internal/apiclient"
	"github.com/sluice-rag/sluice/internal/bus"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
	"github.com/sluice-rag/sluice/schema/wire"
)

// answering serves questions with a function of the test.
func (w *world) answering(answer func(context.Context, wire.AskRequest) wire.AskReply) {
	serve(w, bus.Serve(w.nats, bus.ServeOptions{Subject: wire.AskSubject, Group: "test", Concurrency: 4}, answer,
		func(e *schema.RemoteError) wire.AskReply { return wire.AskReply{Error: e} }))
}

// sendPart sends a message of a question's stream.
func (w *world) sendPart(r wire.AskRequest, part string, m any) {
	data, err := wire.Encode(m)
	if err == nil {
		err = w.nats.Publish(wire.StreamSubject(r.Stream, part), data)
	}
	if err != nil {
		w.t.Error(err)
	}
}

func TestAnAnswerIsStreamedThroughTheAPI(t *testing.T) {
	w := newWorld(t)
	w.post("/v1/collections", api.NewCollection{Name: "c"}, "").want(http.StatusCreated, nil)
	choices := []string{"four", "five"}
	w.answering(func(_ context.Context, r wire.AskRequest) wire.AskReply {
		if !slices.Equal(r.Choices, choices) {
			t.Errorf("the question has the choices %q", r.Choices)
		}
		w.sendPart(r, wire.PartStage, wire.QuestionStage{Envelope: wire.Header(), Question: r.Question, Stage: "generate", Candidates: 8})
		w.sendPart(r, wire.PartText, wire.LLMDelta{Envelope: wire.Header(), Text: "Fi"})
		w.sendPart(r, wire.PartText, wire.LLMDelta{Envelope: wire.Envelope{V: 99}, Text: "from a newer one"})
		w.sendPart(r, wire.PartText, wire.LLMDelta{Envelope: wire.Header(), Text: "ve"})
		return wire.AskReply{Envelope: wire.Header(), Answer: &schema.Answer{Answer: "Five.", Choice: 2}}
	})
	c, err := apiclient.New(w.url, w.key)
	if err != nil {
		t.Fatal(err)
	}
	progress := ""
	a, err := c.AskStreaming(t.Context(), api.Query{Collection: "c", Query: "How many?", Choices: choices}, func(p apiclient.Progress) {
		if p.Stage != nil {
			progress += p.Stage.Stage + ": "
		}
		if p.Delta != nil && p.Delta.Restart {
			progress += ", no: "
		}
		if p.Delta != nil {
			progress += p.Delta.Text
		}
	})
	if err != nil || a.Answer != "Five." || a.Choice != 2 || progress != "generate: Five, no: Five." {
		t.Errorf("told %q, got %+v, %v", progress, a, err)
	}
	if stored := scalar[[]string](w, `SELECT choices FROM questions`); !slices.Equal(stored, choices) {
		t.Errorf("stored are the choices %q", stored)
	}
	var job schema.Job
	w.post("/v1/jobs", api.Query{Collection: "c", Query: "How many?", Choices: choices}, "").want(http.StatusAccepted, &job)
	w.do(http.MethodGet, "/v1/jobs/"+job.ID.String(), nil, "").want(http.StatusOK, &job)
	if !slices.Equal(job.Choices, choices) {
		t.Errorf("the job shows the choices %q", job.Choices)
	}
}

// TestWhatNobodyAnswersIsAProblem: that is the same with a stream.
func TestWhatNobodyAnswersIsAProblem(t *testing.T) {
	w := newWorld(t)
	w.post("/v1/collections", api.NewCollection{Name: "c"}, "").want(http.StatusCreated, nil)
	ask := func(q api.Query) *http.Response {
		body, err := json.Marshal(q)
		if err != nil {
			t.Fatal(err)
		}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.url+"/v1/ask", bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+w.key)
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "text/event-stream")
		got, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = got.Body.Close() })
		return got
	}
	for _, c := range []struct {
		query  api.Query
		status int
	}{
		{api.Query{Collection: "c", Query: "q"}, http.StatusServiceUnavailable},
		{api.Query{Collection: "none", Query: "q"}, http.StatusNotFound},
		{api.Query{Collection: "c", Query: "q", Plan: "none"}, http.StatusUnprocessableEntity},
	} {
		if got := ask(c.query); got.StatusCode != c.status || got.Header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%+v gave %d %v", c.query, got.StatusCode, got.Header)
		}
	}
}

// TestAQuestionEndsWithItsRequest: also if the worker that had it is gone or has refused it, or if
// there is no worker.
func TestAQuestionEndsWithItsRequest(t *testing.T) {
	w := newWorld(t)
	w.post("/v1/collections", api.NewCollection{Name: "c"}, "").want(http.StatusCreated, nil)
	ended := func(what string, n int) {
		t.Helper()
		if got := scalar[int](w, `SELECT count(*) FROM questions WHERE state = 'failed' AND reason_code = 'unavailable' AND finished_at IS NOT NULL`); got != n {
			t.Errorf("%s: %d questions have ended, want %d", what, got, n)
		}
	}
	w.post("/v1/ask", api.Query{Collection: "c", Query: "q"}, "").want(http.StatusServiceUnavailable, nil)
	ended("no worker", 1)
	w.answering(func(context.Context, wire.AskRequest) wire.AskReply {
		return wire.AskReply{Envelope: wire.Header(), Error: &schema.RemoteError{Code: schema.CodeUnavailable, Message: "busy"}}
	})
	w.post("/v1/ask", api.Query{Collection: "c", Query: "q"}, "").want(http.StatusServiceUnavailable, nil)
	ended("a worker that refuses", 2)
	if left := scalar[int](w, `SELECT count(*) FROM questions WHERE state IN ('queued', 'running')`); left != 0 {
		t.Errorf("%d questions have not ended", left)
	}
	if open := scalar[int](w, `SELECT count(*) FROM questions WHERE waited_until IS NULL`); open != 0 {
		t.Errorf("%d questions say not how long they are waited for", open)
	}
}
