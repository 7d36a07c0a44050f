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

// createWebhook creates a webhook of p with a receiver at url.
func (f *fixture) createWebhook(t testing.TB, p schema.Principal, url string) schema.Webhook {
	t.Helper()
	w, err := f.CreateWebhook(t.Context(), p, schema.NewWebhook{URL: url, Kinds: schema.WebhookKinds}, []byte("s"))
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// addDeliveries adds n deliveries of a kind to a webhook, of one question or version.
func (f *fixture) addDeliveries(t testing.TB, p schema.Principal, w schema.Webhook, kind string, n int) {
	t.Helper()
	execAs(t, f, p, `INSERT INTO webhook_deliveries (tenant_id, webhook_id, id, kind, subject_id)
		SELECT $1, $2, gen_random_uuid(), $3, (SELECT CASE WHEN $3 LIKE 'version.%' THEN (SELECT id FROM versions LIMIT 1)
		    ELSE (SELECT id FROM questions LIMIT 1) END) FROM generate_series(1, $4)`, p.Tenant, w.ID, kind, n)
}

// webhookTenant prepares a tenant for addDeliveries.
func (f *fixture) webhookTenant(t *testing.T, name string) schema.Principal {
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

// receiver is a server that records the deliveries that it gets, by name, and closes done when they
// are enough.
type receiver struct {
	mu        sync.Mutex
	delivered []string
	enough    func(delivered []string) bool
	done      chan struct{}
}

// typeHeader is the header in which serve passes the delivery's type to the answer function.
const typeHeader = "Heard-Type"

func newReceiver(enough func(delivered []string) bool) *receiver {
	return &receiver{enough: enough, done: make(chan struct{})}
}

func (e *receiver) serve(t *testing.T, name string, answer func(w http.ResponseWriter, r *http.Request)) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var payload struct{ Type string }
		if err := json.NewDecoder(r.Body).Decode(&payload); err != nil {
			t.Error(err)
		}
		e.mu.Lock()
		if !e.enough(e.delivered) { // deliveries while the sender stops do not count: receivers that hung were released
			e.delivered = append(e.delivered, name+" "+payload.Type)
			if e.enough(e.delivered) {
				close(e.done)
			}
		}
		e.mu.Unlock()
		r.Header.Set(typeHeader, payload.Type)
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
	p := f.webhookTenant(t, "busy")
	const documents, answers = 400, 40
	e := newReceiver(func(delivered []string) bool { return len(delivered) == documents+answers })
	var w schema.Webhook
	begun := sync.OnceFunc(func() { f.addDeliveries(t, p, w, schema.WebhookQuestionAnswered, answers) })
	var before atomic.Int64 // documents that arrived while answers were not even claimed
	w = f.createWebhook(t, p, e.serve(t, "r", func(_ http.ResponseWriter, r *http.Request) {
		begun() // while the first documents are sent
		if r.Header.Get(typeHeader) == schema.WebhookVersionReady && one[int](t, f, p, `SELECT count(*) FROM webhook_deliveries
			WHERE kind = $1 AND state = 'waiting' AND claimed_until IS NULL`, schema.WebhookQuestionAnswered) > 0 {
			before.Add(1)
		}
	}))
	f.addDeliveries(t, p, w, schema.WebhookVersionReady, documents)
	f.send(t, 1, e.done)
	if n := before.Load(); n > 2*16 {
		t.Errorf("%d of %d documents went before the last answer", n, documents)
	}
}

// TestConcurrentTenantsAndWebhooksTakeTurns: a webhook with many deliveries delays neither its
// tenant's other webhook nor another tenant.
func TestConcurrentTenantsAndWebhooksTakeTurns(t *testing.T) {
	f := setUp(t, store.Options{})
	loud, quiet := f.webhookTenant(t, "loud"), f.webhookTenant(t, "quiet")
	const many, few = 600, 20
	e := newReceiver(func(delivered []string) bool {
		return len(delivered) >= many/2 && count(delivered, "small version.ready") == few && count(delivered, "other version.ready") == few
	})
	f.addDeliveries(t, loud, f.createWebhook(t, loud, e.serve(t, "large", accept)), schema.WebhookVersionReady, many)
	f.addDeliveries(t, loud, f.createWebhook(t, loud, e.serve(t, "small", accept)), schema.WebhookVersionReady, few)
	f.addDeliveries(t, quiet, f.createWebhook(t, quiet, e.serve(t, "other", accept)), schema.WebhookVersionReady, few)
	f.send(t, 2, e.done)
	for _, name := range []string{"small", "other"} {
		last := 0
		for i, h := range e.delivered {
			if h == name+" version.ready" {
				last = i
			}
		}
		if before := count(e.delivered[:last], "large version.ready"); before > many/2 {
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
	p := f.webhookTenant(t, "one")
	const alive = 200
	e := newReceiver(func(delivered []string) bool { return count(delivered, "alive version.ready") == alive })
	hang := func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-e.done:
		case <-r.Context().Done():
		}
	}
	for i := range 8 {
		f.addDeliveries(t, p, f.createWebhook(t, p, e.serve(t, fmt.Sprint("hangs", i), hang)), schema.WebhookQuestionAnswered, 100)
	}
	closed := httptest.NewServer(nil)
	closed.Close()
	f.addDeliveries(t, p, f.createWebhook(t, p, closed.URL), schema.WebhookQuestionAnswered, 100)
	f.addDeliveries(t, p, f.createWebhook(t, p, e.serve(t, "alive", accept)), schema.WebhookVersionReady, alive)
	f.send(t, 1, e.done)
	for i := range 8 {
		if n := count(e.delivered, fmt.Sprint("hangs", i, " question.answered")); n > 1 {
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
	f.addDeliveries(b, f.a, f.createWebhook(b, f.a, server.URL), schema.WebhookQuestionAnswered, b.N)
	b.ResetTimer()
	f.send(b, 1, done)
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "deliveries/s")
}
