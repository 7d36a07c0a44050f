package store_test

// This file sends deliveries from a database to servers of the test.

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/internal/store/questions"
	"github.com/sluice-rag/sluice/internal/webhook"
	"github.com/sluice-rag/sluice/schema"
)

// hears creates a webhook of p with a receiver at url.
func (f *fixture) hears(t testing.TB, p schema.Principal, url string) schema.Webhook {
	t.Helper()
	w, err := f.CreateWebhook(t.Context(), p, schema.NewWebhook{URL: url, Kinds: schema.WebhookKinds}, []byte("s"))
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// tell adds n deliveries of a kind to a webhook, of one question or version.
func (f *fixture) tell(t testing.TB, p schema.Principal, w schema.Webhook, kind string, n int) {
	t.Helper()
	execAs(t, f, p, `INSERT INTO webhook_deliveries (tenant_id, webhook_id, id, kind, subject_id)
		SELECT $1, $2, gen_random_uuid(), $3, (SELECT CASE WHEN $3 LIKE 'version.%' THEN (SELECT id FROM versions LIMIT 1)
		    ELSE (SELECT id FROM questions LIMIT 1) END) FROM generate_series(1, $4)`, p.Tenant, w.ID, kind, n)
}

// told prepares a tenant for tell.
func (f *fixture) told(t *testing.T, name string) schema.Principal {
	t.Helper()
	p, collection := f.tenant(t, name)
	if _, err := f.CreateQuestion(t.Context(), p, questions.NewQuestion{Query: schema.Query{Collection: collection, Text: "q"}, Async: true}); err != nil {
		t.Fatal(err)
	}
	f.upload(t, p, collection, text("a.txt", "some text"))
	return p
}

// send runs a number of senders until done is closed.
func (f *fixture) send(t testing.TB, senders int, done <-chan struct{}) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	for range senders {
		s := webhook.New(f.WebhookStore, webhook.Options{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
		running.Go(func() {
			if err := s.Run(ctx, t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	<-done
	stop()
	running.Wait()
}

// ear is a server that records the deliveries that it gets, by name, and closes done when they are
// enough.
type ear struct {
	mu     sync.Mutex
	heard  []string
	enough func(heard []string) bool
	done   chan struct{}
}

// heardType is the header in which serve passes the delivery's type to the answer function.
const heardType = "Heard-Type"

func newEar(enough func(heard []string) bool) *ear {
	return &ear{enough: enough, done: make(chan struct{})}
}

func (e *ear) serve(t *testing.T, name string, answer func(w http.ResponseWriter, r *http.Request)) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var payload struct{ Type string }
		if err := json.NewDecoder(r.Body).Decode(&payload); err != nil {
			t.Error(err)
		}
		e.mu.Lock()
		if !e.enough(e.heard) { // deliveries while the sender stops do not count: receivers that hung were released
			e.heard = append(e.heard, name+" "+payload.Type)
			if e.enough(e.heard) {
				close(e.done)
			}
		}
		e.mu.Unlock()
		r.Header.Set(heardType, payload.Type)
		answer(w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func accept(http.ResponseWriter, *http.Request) {}

func count(list []string, what string) (n int) {
	for _, s := range list {
		if s == what {
			n++
		}
	}
	return n
}

// TestAnswersOvertakeDocumentsDuringTheirDelivery: answers that come while many documents wait are
// not queued behind them, except for those in progress.
func TestAnswersOvertakeDocumentsDuringTheirDelivery(t *testing.T) {
	f := setUp(t, store.Options{})
	p := f.told(t, "busy")
	const documents, answers = 400, 40
	e := newEar(func(heard []string) bool { return len(heard) == documents+answers })
	var w schema.Webhook
	begun := sync.OnceFunc(func() { f.tell(t, p, w, schema.WebhookQuestionAnswered, answers) })
	var before atomic.Int64 // documents that arrived while answers were not even claimed
	w = f.hears(t, p, e.serve(t, "r", func(_ http.ResponseWriter, r *http.Request) {
		begun() // while the first documents are sent
		if r.Header.Get(heardType) == schema.WebhookVersionReady && one[int](t, f, p, `SELECT count(*) FROM webhook_deliveries
			WHERE kind = $1 AND state = 'waiting' AND claimed_until IS NULL`, schema.WebhookQuestionAnswered) > 0 {
			before.Add(1)
		}
	}))
	f.tell(t, p, w, schema.WebhookVersionReady, documents)
	f.send(t, 1, e.done)
	if n := before.Load(); n > 2*16 {
		t.Errorf("%d of %d documents went before the last answer", n, documents)
	}
}

// TestConcurrentTenantsAndWebhooksTakeTurns: a webhook with many deliveries delays neither its
// tenant's other webhook nor another tenant.
func TestConcurrentTenantsAndWebhooksTakeTurns(t *testing.T) {
	f := setUp(t, store.Options{})
	loud, quiet := f.told(t, "loud"), f.told(t, "quiet")
	const many, few = 600, 20
	e := newEar(func(heard []string) bool {
		return len(heard) >= many/2 && count(heard, "small version.ready") == few && count(heard, "other version.ready") == few
	})
	f.tell(t, loud, f.hears(t, loud, e.serve(t, "large", accept)), schema.WebhookVersionReady, many)
	f.tell(t, loud, f.hears(t, loud, e.serve(t, "small", accept)), schema.WebhookVersionReady, few)
	f.tell(t, quiet, f.hears(t, quiet, e.serve(t, "other", accept)), schema.WebhookVersionReady, few)
	f.send(t, 2, e.done)
	for _, name := range []string{"small", "other"} {
		last := 0
		for i, h := range e.heard {
			if h == name+" version.ready" {
				last = i
			}
		}
		if before := count(e.heard[:last], "large version.ready"); before > many/2 {
			t.Errorf("%d of %d of the large one went before the last of %d of %s", before, many, few, name)
		}
	}
	sent := one[int](t, f, loud, `SELECT count(*) FROM webhook_deliveries WHERE attempts > 1`)
	if sent != 0 {
		t.Errorf("%d were sent twice", sent)
	}
}

// TestDeadReceiversDelayNoOtherDuringTheirHang: while every delivery to some receivers hangs or is
// refused, all deliveries to another arrive.
func TestDeadReceiversDelayNoOtherDuringTheirHang(t *testing.T) {
	f := setUp(t, store.Options{})
	p := f.told(t, "one")
	const alive = 200
	e := newEar(func(heard []string) bool { return count(heard, "alive version.ready") == alive })
	hang := func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-e.done:
		case <-r.Context().Done():
		}
	}
	for i := range 8 {
		f.tell(t, p, f.hears(t, p, e.serve(t, fmt.Sprint("hangs", i), hang)), schema.WebhookQuestionAnswered, 100)
	}
	closed := httptest.NewServer(nil)
	closed.Close()
	f.tell(t, p, f.hears(t, p, closed.URL), schema.WebhookQuestionAnswered, 100)
	f.tell(t, p, f.hears(t, p, e.serve(t, "alive", accept)), schema.WebhookVersionReady, alive)
	f.send(t, 1, e.done)
	for i := range 8 {
		if n := count(e.heard, fmt.Sprint("hangs", i, " question.answered")); n > 1 {
			t.Errorf("receiver %d hangs, and has %d attempts at once", i, n)
		}
	}
}

// BenchmarkWebhooks sends deliveries to one receiver that answers at once.
func BenchmarkWebhooks(b *testing.B) {
	f := setUp(b, store.Options{})
	if _, err := f.CreateQuestion(b.Context(), f.a, questions.NewQuestion{Query: schema.Query{Collection: f.collection, Text: "q"}, Async: true}); err != nil {
		b.Fatal(err)
	}
	var mu sync.Mutex
	n, done := 0, make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if n++; n == b.N {
			close(done)
		}
	}))
	b.Cleanup(server.Close)
	f.tell(b, f.a, f.hears(b, f.a, server.URL), schema.WebhookQuestionAnswered, b.N)
	b.ResetTimer()
	f.send(b, 1, done)
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "deliveries/s")
}
