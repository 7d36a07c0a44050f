package apiserver_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/sluice-rag/sluice/internal/bus"
	"github.com/sluice-rag/sluice/internal/waittest"
	"github.com/sluice-rag/sluice/schema/api"
	"github.com/sluice-rag/sluice/schema/wire"
)

// TestWhoLeavesCancelsTheQuestion: when a client disconnects or the server stops, the worker is
// notified, with a stream and without.
func TestWhoLeavesCancelsTheQuestion(t *testing.T) {
	w := newWorld(t)
	w.post("/v1/collections", api.NewCollection{Name: "c"}, "").want(http.StatusCreated, nil)
	began, ended := make(chan struct{}, 1), make(chan error, 1)
	w.answering(func(ctx context.Context, r wire.AskRequest) wire.AskReply {
		if r.Stream != "" {
			w.sendPart(r, wire.PartText, wire.LLMDelta{Envelope: wire.Header(), Text: "Fi"})
		}
		began <- struct{}{}
		<-ctx.Done()
		ended <- context.Cause(ctx)
		return wire.AskReply{Envelope: wire.Header()}
	})
	body, err := json.Marshal(api.Query{Collection: "c", Query: "How many?"})
	if err != nil {
		t.Fatal(err)
	}
	ask := func(ctx context.Context, accept string) chan int {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url+"/v1/ask", bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+w.key)
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", accept)
		status := make(chan int, 1)
		go func() {
			got, err := http.DefaultClient.Do(r)
			if err != nil {
				status <- 0
				return
			}
			_ = got.Body.Close()
			status <- got.StatusCode
		}()
		<-began
		return status
	}
	cancelled := func() {
		t.Helper()
		if cause := waittest.Receive(t, ended, "the end of the question"); !errors.Is(cause, bus.ErrCallerGone) {
			t.Errorf("it ended for %v", cause)
		}
	}
	for _, accept := range []string{"application/json", "text/event-stream"} {
		ctx, leave := context.WithCancel(t.Context())
		status := ask(ctx, accept)
		leave()
		<-status
		cancelled()
	}
	status := ask(t.Context(), "application/json")
	//house:clock the time to stop in, a share of which requests have
	stopping, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	if err := w.stop(stopping); err != nil {
		t.Errorf("the server stopped with %v", err)
	}
	if s := <-status; s != http.StatusServiceUnavailable {
		t.Errorf("who asked got %d", s)
	}
	cancelled()
}
