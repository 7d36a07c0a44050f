package apiserver_test

// What servers remember of collections and plans is forgotten when it changes, by
// whichever of them.

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

// TestServersForgetWhatAnotherChanged: a second server, which has just answered by what
// it knows, answers by what the first one changed as soon as it hears of it.
func TestServersForgetWhatAnotherChanged(t *testing.T) {
	w := newWorld(t)
	receipts, err := receipt.ParseSigner(strings.Repeat("A", 43) + "=")
	if err != nil {
		t.Fatal(err)
	}
	second := startServer(t, config.HTTP{}, apiserver.Deps{Store: w.store.Store, NATS: w.nats, Receipts: receipts, Remember: 24 * time.Hour})
	other := user{t: t, url: second.URL(), key: w.key}
	// Both servers have this connection, which gives each subscription what comes in its
	// order: when this one has heard it, the servers have it to hear.
	heard := make(chan *nats.Msg, 16)
	sub, err := w.nats.ChanSubscribe(wire.ChangedSubject, heard)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sub.Unsubscribe() })
	// until asks until the answer is status: a subscription's messages wait for its turn.
	until := func(what string, status int, ask func() response) {
		t.Helper()
		<-heard
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
	<-heard
	named().want(http.StatusAccepted, nil)

	w.do(http.MethodDelete, "/v1/plans/own", nil, "").want(http.StatusNoContent, nil)
	until("a deleted plan", http.StatusUnprocessableEntity, named)
	w.do(http.MethodDelete, "/v1/collections/c", nil, "").want(http.StatusNoContent, nil)
	until("a deleted collection", http.StatusNotFound, job)
}
