//go:build cgo

package queryworker

// The text of a job's answer while it is made. All parts are real except the language model, which
// is scripted to stop in the middle of a sentence.

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"

	"github.com/sluice-rag/sluice/internal/config"
	"github.com/sluice-rag/sluice/internal/store/questions"
	"github.com/sluice-rag/sluice/internal/waittest"
	"github.com/sluice-rag/sluice/plans"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

const (
	firstHalf  = "You may carry over up to "
	secondHalf = "five days of unused annual leave."
)

// haltingOpenAI is a server with the streaming chat completions API. It sends the first half of
// every answer, and the rest when the test lets it.
type haltingOpenAI struct {
	proceed chan struct{}
	closed  chan struct{} // one for each connection that was closed before its answer was whole
	paid    atomic.Int32
}

func (w *world) newHaltingOpenAI() *haltingOpenAI {
	w.t.Helper()
	h := &haltingOpenAI{proceed: make(chan struct{}), closed: make(chan struct{}, 10)}
	s := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		h.paid.Add(1)
		rw.Header().Set("Content-Type", "text/event-stream")
		sendChunk := func(content, finish string) {
			choice := map[string]any{"index": 0, "delta": map[string]any{"content": content}}
			if finish != "" {
				choice["finish_reason"] = finish
			}
			data, _ := json.Marshal(map[string]any{"id": "1", "object": "chat.completion.chunk", "model": "m", "choices": []any{choice}})
			_, _ = fmt.Fprintf(rw, "data: %s\n\n", data)
			rw.(http.Flusher).Flush()
		}
		sendChunk(`{"answer": "`+firstHalf, "")
		select {
		case <-h.proceed:
		case <-r.Context().Done():
			h.closed <- struct{}{}
			return
		}
		for word := range strings.SplitAfterSeq(secondHalf, " ") {
			sendChunk(word, "")
		}
		citations, _ := json.Marshal([]any{map[string]any{"passage": 1, "quote": fiveDays}})
		sendChunk(fmt.Sprintf(`", "citations": %s}`, citations), "stop")
	}))
	w.t.Cleanup(s.Close)
	w.llm = config.LLM{LLMProvider: "openai", LLMBaseURL: s.URL + "/v1", LLMModel: "scripted", LLMTimeout: waittest.Left(w.t)}
	return h
}

// subscribeJob returns the messages about a job's answer from now on.
func (w *world) subscribeJob(job uuid.UUID) <-chan *nats.Msg {
	w.t.Helper()
	messages := make(chan *nats.Msg, 1000)
	sub, err := w.nats.ChanSubscribe(wire.TextSubject(w.principal.Tenant, job), messages)
	w.ok(err)
	w.ok(w.nats.Flush())
	w.t.Cleanup(func() { _ = sub.Unsubscribe() })
	return messages
}

// until reads messages until one has a text, and returns the texts.
func (w *world) until(messages <-chan *nats.Msg, job uuid.UUID, text string) (texts []string) {
	w.t.Helper()
	ctx := w.context()
	for {
		select {
		case m := <-messages:
			got, err := wire.Decode[wire.QuestionText](m.Data)
			w.ok(err)
			if got.Question != job {
				w.t.Errorf("told of %s", got.Question)
			}
			if texts = append(texts, got.Text); got.Text == text {
				return texts
			}
		case <-ctx.Done():
			w.t.Fatalf("told %q, not %q", texts, text)
		}
	}
}

// storeQuestion stores a question that waits until the relay runs.
func (w *world) storeQuestion(choices ...string) uuid.UUID {
	w.t.Helper()
	j, err := w.questions.CreateQuestion(w.context(), w.principal, questions.NewQuestion{Query: schema.Query{Collection: w.collection, Text: carryOver, Plan: plans.Default, Choices: choices}, Async: true})
	w.ok(err)
	return j.ID
}

func TestAJobsTextIsToldWhileItIsMade(t *testing.T) {
	w := newWorld(t)
	w.handbook()
	h := w.newHaltingOpenAI()
	job := w.storeQuestion()
	messages := w.subscribeJob(job)
	w.startAll()
	w.until(messages, job, firstHalf)
	if j, err := w.questions.Job(w.context(), w.principal, job); err != nil || j.State != schema.JobRunning || j.Result != nil {
		t.Errorf("half of its answer was told, and the job is %+v, %v", j, err)
	}
	late := w.subscribeJob(job)
	close(h.proceed)
	// Each message has the whole text so far, so a late client misses nothing.
	if first := w.until(late, job, firstHalf+secondHalf)[0]; !strings.HasPrefix(first, firstHalf) {
		t.Errorf("who came late was told %q", first)
	}
	j := w.await(job, schema.JobAnswered)
	if j.Result.Answer != firstHalf+secondHalf || !j.Result.Supported {
		t.Errorf("answered %+v", j.Result)
	}
}

// TestAJobsTextOutlivesItsWorker: the worker is killed after half of the answer. The gateway
// continues, and the next worker sends the whole text.
func TestAJobsTextOutlivesItsWorker(t *testing.T) {
	w := newWorld(t)
	w.handbook()
	h := w.newHaltingOpenAI()
	job := w.storeQuestion()
	messages := w.subscribeJob(job)
	w.gateway()
	w.relay()
	child := w.child("nothing")
	w.until(messages, job, firstHalf)
	w.ok(child.Process.Kill())
	_ = child.Wait()
	close(h.proceed)
	w.run(w.worker(nil).service())
	w.until(messages, job, firstHalf+secondHalf)
	j := w.await(job, schema.JobAnswered)
	w.checkCitations(*j.Result)
	if n := h.paid.Load(); n != 1 || j.Result.Answer != firstHalf+secondHalf {
		t.Errorf("paid %d times for %q", n, j.Result.Answer)
	}
}

// TestAJobChooses: the choices are stored with the question. The answer is one of them, sent in one
// piece.
func TestAJobChooses(t *testing.T) {
	w := newWorld(t)
	w.handbook()
	choices := []string{"None at all", "Up to five days", "Thirty days"}
	job := w.storeQuestion(choices...)
	messages := w.subscribeJob(job)
	w.startAll()
	j := w.await(job, schema.JobAnswered)
	w.checkCitations(*j.Result)
	if j.Result.Choice != 2 || j.Result.Answer != choices[1] || !j.Result.Supported || len(j.Choices) != len(choices) {
		t.Errorf("chose %+v of %q", j.Result, j.Choices)
	}
	if texts := w.until(messages, job, choices[1]); len(texts) != 1 {
		t.Errorf("told %q", texts)
	}
}

// TestWhatIsToldOfLongAnswers: the whole text is sent with limited overhead, and text over the
// maximum is not sent.
func TestWhatIsToldOfLongAnswers(t *testing.T) {
	w := newWorld(t)
	id := uuid.New()
	messages := w.subscribeJob(id)
	text := jobText{nc: w.nats, subject: wire.TextSubject(w.principal.Tenant, id), question: id}
	whole := strings.Repeat("word ", 4000)
	for piece := range strings.SplitAfterSeq(whole, " ") {
		text.add(wire.LLMDelta{Text: piece})
	}
	text.end()
	sum := 0
	texts := w.until(messages, id, whole)
	for _, s := range texts {
		sum += len(s)
	}
	if sum > 20*len(whole) || len(texts) < 50 {
		t.Errorf("%d messages of %d bytes for %d", len(texts), sum, len(whole))
	}
	text.add(wire.LLMDelta{Text: strings.Repeat("x", maxJobText)})
	text.add(wire.LLMDelta{Text: "anew, and shorter", Restart: true})
	if texts := w.until(messages, id, "anew, and shorter"); len(texts) != 1 {
		t.Errorf("told %d texts", len(texts))
	}
}
