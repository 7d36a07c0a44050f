//go:build cgo

package queryworker

// FIT-RAG's self-knowledge recogniser with real parts. Questions are asked without retrieval as
// well, until enough of these answers are right. Then a question is answered without retrieval.

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"

	"github.com/sluice-rag/sluice/internal/bus"
	"github.com/sluice-rag/sluice/internal/waittest"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// awaitCount waits until a query returns a number.
func (w *world) awaitCount(n int, query string, args ...any) {
	w.t.Helper()
	waittest.Until(w.t, func() string {
		if have := scalar[int](w, query, args...); have != n {
			return fmt.Sprintf("%s gives %d, want %d", query, have, n)
		}
		return ""
	})
}

func TestFitRAGLearnsWhatTheModelKnows(t *testing.T) {
	w := newWorld(t)
	w.settings.ShadowShare = 1
	w.handbook()
	c := w.critic(fiveDays, wire.Feedback{Score: 3, Adjust: 1}, wire.Feedback{Score: 9, Adjust: 1})
	w.startAll()
	for range 8 { // the first is judged wrong, and 7 of 10 are above s_n
		a, failure := w.requestAnswer(w.context(), w.storeQuestionFor("fitrag", false))
		if failure != nil || a.Uncited || !a.Supported || a.Answer != "Five days." {
			t.Fatalf("got %+v, %v", a, failure)
		}
		w.awaitCount(0, `SELECT count(*) FROM known_questions WHERE known IS NULL`)
	}
	if n := scalar[int](w, `SELECT count(*) FROM known_questions WHERE known AND space IS NOT NULL AND vector IS NOT NULL`); n != 7 {
		t.Fatalf("%d are known to be right", n)
	}
	ofJobs := make(chan *nats.Msg, 100)
	sub, err := w.nats.ChanSubscribe(strings.Replace(wire.TextSubject(w.principal.Tenant, uuid.Nil), uuid.Nil.String(), "*", 1), ofJobs)
	w.ok(err)
	defer func() { _ = sub.Unsubscribe() }()
	w.ok(w.nats.Flush())
	for _, async := range []bool{false, true} {
		in := w.storeQuestionFor("fitrag", async)
		var a schema.Answer
		text := "" // before the answer
		if async {
			a = *w.await(in.Question, schema.JobAnswered).Result
			select {
			case msg := <-ofJobs:
				m, err := wire.Decode[wire.QuestionText](msg.Data)
				w.ok(err)
				if text = m.Text; m.Question != in.Question {
					t.Errorf("told of %s", m.Question)
				}
			case <-w.context().Done():
			}
		} else {
			a, text = w.requestStreamed(in)
		}
		if text != "Five days, I know." {
			t.Errorf("async %t: told %q", async, text)
		}
		if !a.Uncited || a.Supported || a.Answer != "Five days, I know." || len(a.Citations) != 0 {
			t.Errorf("async %t: got %+v", async, a)
		}
		reasons := ""
		for _, r := range a.Trace {
			reasons += r.Why + "\n"
		}
		if !strings.Contains(reasons, "S_nn 0.700: 7 of the 10 nearest questions") || !strings.Contains(reasons, "without documents") {
			t.Errorf("async %t: it says %s", async, reasons)
		}
	}
	c.mu.Lock()
	if c.answered != 8 || c.uncited != 10 { // 8 shadows, 2 answers
		t.Errorf("answered %d times from passages and %d times without", c.answered, c.uncited)
	}
	c.mu.Unlock()
	if n := scalar[int](w, `SELECT count(*) FROM known_questions`); n != 8 {
		t.Errorf("%d questions are sampled: what had no retrieval has nothing to compare with", n)
	}
	w.checkTenantIsolation()
}

// requestStreamed asks as requestAnswer does, and also returns the text that was sent during the
// answer.
func (w *world) requestStreamed(in wire.QuestionInput) (a schema.Answer, text string) {
	w.t.Helper()
	request := wire.AskRequest{Envelope: wire.Header(), SearchQuery: wire.SearchQuery{Principal: w.principal, Query: schema.Query{Collection: w.collection}}, Question: in.Question}
	reply, err := bus.RequestStream[wire.AskReply](w.context(), w.nats, wire.AskSubject, func(stream string) any {
		request.Stream = stream
		return request
	}, func(part string, data []byte) {
		if d, err := wire.Decode[wire.LLMDelta](data); part == wire.PartText && err == nil {
			if d.Restart {
				text = ""
			}
			text += d.Text
		}
	})
	w.ok(err)
	if reply.Error != nil || reply.Answer == nil {
		w.t.Fatalf("got %+v", reply)
	}
	return *reply.Answer, text
}

// checkTenantIsolation proves that questions of one tenant have no effect on another.
func (w *world) checkTenantIsolation() {
	w.t.Helper()
	vectors, space, err := w.model.Encode(w.context(), wire.LaneBulk, []string{carryOver})
	w.ok(err)
	own, err := w.store.Known(w.context(), w.principal, space, vectors.Row(0), "", 100)
	w.ok(err)
	created, err := w.store.CreateTenant(w.context(), schema.Principal{}, schema.NewTenant{Name: "other"}, schema.SealedKey{
		NewKey: schema.NewKey{Name: "admin", Scopes: []schema.Scope{schema.ScopeAdmin}}, Prefix: "slu_other", Hash: []byte("other"),
	})
	w.ok(err)
	other, err := w.store.Known(w.context(), schema.Principal{Tenant: created.ID}, space, vectors.Row(0), "", 100)
	w.ok(err)
	if len(own) != 8 || len(other) != 0 {
		w.t.Errorf("the tenant knows of %d questions and another one of %d", len(own), len(other))
	}
}

// TestExtractiveLearnsNothing: the extractive provider knows nothing by itself. It is not asked
// without retrieval, and what another provider knew does not count for it.
func TestExtractiveLearnsNothing(t *testing.T) {
	w := newWorld(t)
	w.settings.ShadowShare = 1
	w.handbook()
	w.startAll()
	in := w.storeQuestionFor("fitrag", false)
	if a, failure := w.requestAnswer(w.context(), in); failure != nil || !a.Supported {
		t.Fatalf("got %+v, %v", a, failure)
	}
	if n := scalar[int](w, `SELECT count(*) FROM known_questions`); n != 0 {
		t.Errorf("%d are sampled", n)
	}
	vectors, space, err := w.model.Encode(w.context(), wire.LaneBulk, []string{carryOver})
	w.ok(err)
	for range 10 {
		q := w.storeQuestionFor("fitrag", false)
		w.ok(w.questions.Sample(w.context(), q))
		w.ok(w.questions.Learn(w.context(), q, space, vectors.Row(0), true))
	}
	a, failure := w.requestAnswer(w.context(), w.storeQuestionFor("fitrag", false))
	if failure != nil || a.Uncited || !a.Supported || !strings.Contains(a.Answer, "five days") {
		t.Fatalf("got %+v, %v", a, failure)
	}
	reasons := ""
	for _, r := range a.Trace {
		reasons += r.Why + "\n"
	}
	if !strings.Contains(reasons, "the provider extractive knows nothing by itself") {
		t.Errorf("it says %s", reasons)
	}
}
