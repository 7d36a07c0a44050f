//go:build cgo

package queryworker

// Calls to a language model whose client has disconnected, and calls of a worker that stops.

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/sluice-rag/sluice/internal/bus"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// awaitLeft waits until the connection of a call to the model is closed.
func (w *world) awaitLeft(h *haltingOpenAI) {
	w.t.Helper()
	select {
	case <-h.closed:
	case <-w.context().Done():
		w.t.Fatal("the call goes on")
	}
}

// wantCancelled checks the ledger's entries of paid calls.
func (w *world) wantCancelled() {
	w.t.Helper()
	w.awaitCount(0, `SELECT count(*) FROM llm_reservations WHERE until > clock_timestamp()`)
	if got := scalar[string](w, `SELECT coalesce(string_agg(concat_ws(' ', step, outcome, input_tokens > 100, output_tokens > 3), ', '), '') FROM llm_calls WHERE provider = 'openai'`); got != "answer cancelled t t" {
		w.t.Errorf("the ledger has %q", got)
	}
}

func TestACancelledJobEndsItsCall(t *testing.T) {
	w := newWorld(t)
	w.handbook()
	h := w.newHaltingOpenAI()
	job := w.storeQuestion()
	messages := w.subscribeJob(job)
	w.startAll()
	w.until(messages, job, firstHalf)
	_, err := w.questions.CancelJob(w.context(), w.principal, job)
	w.ok(err)
	w.awaitLeft(h)
	w.await(job, schema.JobCancelled)
	w.wantCancelled()
	if n := h.paid.Load(); n != 1 {
		t.Errorf("asked %d times", n)
	}
}

func TestAnAskerThatLeavesEndsItsCall(t *testing.T) {
	w := newWorld(t)
	w.handbook()
	h := w.newHaltingOpenAI()
	w.gateway()
	w.run(w.worker(nil).service())
	in := w.ask(w.context(), carryOver, false)
	errDisconnected := errors.New("the asker left")
	ctx, disconnect := context.WithCancelCause(bus.Cancels(w.context(), func(cause error) bool { return errors.Is(cause, errDisconnected) }))
	request := wire.AskRequest{Envelope: wire.Header(), SearchQuery: wire.SearchQuery{Principal: w.principal, Query: schema.Query{Collection: w.collection}}, Question: in.Question}
	_, err := bus.RequestStream[wire.AskReply](ctx, w.nats, wire.AskSubject, func(stream string) any {
		request.Stream = stream
		return request
	}, func(part string, _ []byte) {
		if part == wire.PartText {
			disconnect(errDisconnected)
		}
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	w.awaitLeft(h)
	w.wantCancelled()
	w.awaitCount(1, `SELECT count(*) FROM questions WHERE id = $1 AND state = 'failed' AND reason_code = 'unavailable'`, in.Question)
}

// A worker that stops cancels its step. The call continues, and the worker that repeats the step
// gets the reply.
func TestAWorkerThatStopsEndsNoCall(t *testing.T) {
	w := newWorld(t)
	w.handbook()
	h := w.newHaltingOpenAI()
	job := w.storeQuestion()
	messages := w.subscribeJob(job)
	w.gateway()
	w.relay()
	first := w.worker(nil).service()
	w.ok(first.Start(w.context()))
	w.until(messages, job, firstHalf)
	//house:clock the time to stop in, a share of which calls have
	ctx, cancel := context.WithTimeout(context.Background(), 6*time.Second)
	defer cancel()
	if err := first.Stop(ctx); err != nil {
		t.Errorf("stopped with %v", err)
	}
	w.run(w.worker(nil).service())
	close(h.proceed)
	j := w.await(job, schema.JobAnswered)
	if n := h.paid.Load(); n != 1 || len(h.closed) != 0 || j.Result.Answer != firstHalf+secondHalf {
		t.Errorf("paid %d times, %d connections closed, for %q", n, len(h.closed), j.Result.Answer)
	}
}
