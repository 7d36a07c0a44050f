package apiserver_test

// Cached collections and plans are dropped when any server changes them.

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/sluice-rag/sluice/cmd/internal/apiserver"
	"github.com/sluice-rag/sluice/internal/config"
	"github.com/sluice-rag/sluice/internal/receipt"
	"github.com/sluice-rag/sluice/schema/api"
	"github.com/sluice-rag/sluice/schema/wire"
)

// TestServersForgetWhatAnotherChanged: a second server answers from its cache until it is notified
// of a change by the first one.
func TestServersForgetWhatAnotherChanged(t *testing.T) {
	w := newWorld(t)
	receipts, err := receipt.ParseSigner(strings.Repeat("A", 43) + "=")
	if err != nil {
		t.Fatal(err)
	}
	second := startServer(t, config.HTTP{}, apiserver.Deps{Store: w.store.Store, NATS: w.nats, Receipts: receipts, CacheTTL: 24 * time.Hour})
	other := user{t: t, url: second.URL(), key: w.key}
	// Both servers use this connection, which delivers messages in order. When this subscription
	// has received a message, it has been delivered to the servers.
	received := make(chan *nats.Msg, 16)
	sub, err := w.nats.ChanSubscribe(wire.ChangedSubject, received)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sub.Unsubscribe() })
	// until repeats a request until it gets the status, because subscriptions process their
	// messages asynchronously.
	until := func(what string, status int, ask func() response) {
		t.Helper()
		<-received
		for r := ask(); r.status != status; r = ask() {
			if t.Context().Err() != nil {
				t.Fatalf("%s: %d %s, not %d", what, r.status, r.body, status)
			}
		}
	}

	w.post("/v1/collections", map[string]string{"name": "c"}, "").want(http.StatusCreated, nil)
	job := func() response { return other.post("/v1/jobs", api.Query{Collection: "c", Query: "q"}, "") }
	job().want(http.StatusAccepted, nil)
	const plan = "name: own\nstages:\n  - lexical: {unit: passage, k: 5}\n"
	named := func() response {
		return other.post("/v1/jobs", api.Query{Collection: "c", Query: "q", Plan: "own"}, "")
	}
	w.put("/v1/plans/own", api.PlanText{Plan: plan}).want(http.StatusOK, nil)
	<-received
	named().want(http.StatusAccepted, nil)

	w.do(http.MethodDelete, "/v1/plans/own", nil, "").want(http.StatusNoContent, nil)
	until("a deleted plan", http.StatusUnprocessableEntity, named)
	w.do(http.MethodDelete, "/v1/collections/c", nil, "").want(http.StatusNoContent, nil)
	until("a deleted collection", http.StatusNotFound, job)
}
