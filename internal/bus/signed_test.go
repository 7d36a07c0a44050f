package bus_test

// Tests that requests for a tenant must be signed.

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"

	"github.com/sluice-rag/sluice/internal/bus"
	"github.com/sluice-rag/sluice/internal/signature"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

func signerOf(t *testing.T, p wire.Program) *signature.Signer {
	t.Helper()
	s, err := signature.NewSigner(string(p))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// searching serves signed searches, and sends the tenant of each that runs to ran.
func searching(t *testing.T, nc *nats.Conn, trusted ...*signature.Signer) (ran chan uuid.UUID) {
	t.Helper()
	public := ""
	for _, s := range trusted {
		public += s.Public()
	}
	keys, err := signature.ParseTrusted(public)
	if err != nil {
		t.Fatal(err)
	}
	ran = make(chan uuid.UUID, 16)
	s := bus.Serve(nc, bus.ServeOptions{Subject: wire.SearchSubject, Group: wire.QueryGroup, Trusted: keys},
		func(_ context.Context, r wire.SearchRequest) wire.SearchReply {
			ran <- r.Principal.Tenant
			return wire.SearchReply{Envelope: wire.Header(), SearchResult: schema.SearchResult{Plan: r.Text}}
		}, func(e *schema.RemoteError) wire.SearchReply {
			return wire.SearchReply{Envelope: wire.Header(), Error: e}
		})
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Stop(context.Background()) })
	return ran
}

func searchFor(tenant uuid.UUID, text string) wire.SearchRequest {
	return wire.SearchRequest{Envelope: wire.Header(), SearchQuery: wire.SearchQuery{Principal: schema.Principal{Tenant: tenant}, Query: schema.Query{Text: text}}}
}

// TestOnlyWhoMaySpeaksForATenant: a client that may publish to the subject, as on a server without
// users, still needs a key. A signature is valid once, and for one request only.
func TestOnlyWhoMaySpeaksForATenant(t *testing.T) {
	nc := connect(t)
	serve, worker := signerOf(t, wire.ProgramServe), signerOf(t, wire.ProgramQueryWorker)
	ran := searching(t, nc, serve, worker)
	victim := uuid.New()
	seen, err := nc.SubscribeSync(wire.SearchSubject)
	if err != nil {
		t.Fatal(err)
	}
	ask := func(tenant uuid.UUID, by *signature.Signer) error {
		reply, err := bus.Request[wire.SearchReply](t.Context(), nc, wire.SearchSubject, searchFor(tenant, "q"), bus.SignedBy(by))
		if err == nil && reply.Error != nil {
			return reply.Error
		}
		return err
	}
	if err := ask(victim, serve); err != nil {
		t.Fatal(err)
	}
	<-ran
	good, err := seen.NextMsgWithContext(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for name, by := range map[string]*signature.Signer{"unsigned": nil, "by a key that is not trusted": signerOf(t, wire.ProgramServe),
		"by one that may sign other things": worker, "by a program that may sign nothing": signerOf(t, wire.ProgramGPUSegmenter)} {
		if err := ask(victim, by); !errors.Is(err, schema.ErrUnavailable) || !strings.Contains(err.Error(), "refused") {
			t.Errorf("%s: %v", name, err)
		}
	}
	// Replay a recorded request, unchanged and changed. The reply to the unchanged one is sent to
	// the original inbox, so the others use another inbox.
	header := func() nats.Header {
		h := nats.Header{}
		for k := range good.Header {
			h[k] = good.Header[k]
		}
		return h
	}
	inbox := nc.NewInbox()
	replies, err := nc.SubscribeSync(inbox + ".>")
	if err != nil {
		t.Fatal(err)
	}
	again := func(subject, reply string, data []byte, h nats.Header) {
		if err := nc.PublishMsg(&nats.Msg{Subject: subject, Reply: reply, Data: data, Header: h}); err != nil {
			t.Fatal(err)
		}
	}
	again(good.Subject, good.Reply, good.Data, header())
	again(good.Subject, inbox+".1", good.Data, header())
	renamed := header()
	renamed.Set(wire.HeaderRequest, uuid.NewString())
	again(good.Subject, inbox+".2", good.Data, renamed)
	again(good.Subject, inbox+".3", []byte(strings.Replace(string(good.Data), victim.String(), uuid.NewString(), 1)), header())
	for range 3 {
		msg, err := replies.NextMsgWithContext(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if r, err := wire.Decode[wire.SearchReply](msg.Data); err != nil || r.Error == nil || !strings.Contains(r.Error.Message, "refused") {
			t.Errorf("%s got %s", msg.Subject, msg.Data)
		}
	}
	if err := ask(victim, serve); err != nil { // by its reply, all requests before it were accepted or refused
		t.Fatal(err)
	}
	<-ran
	if len(ran) != 0 {
		t.Errorf("%d requests ran that should not", len(ran))
	}
}

// TestACancellationIsSigned: a program that only knows a request's id cannot cancel it.
func TestACancellationIsSigned(t *testing.T) {
	nc := connect(t)
	worker := signerOf(t, wire.ProgramQueryWorker)
	keys, err := signature.ParseTrusted(worker.Public())
	if err != nil {
		t.Fatal(err)
	}
	c := complete(t, nc, bus.ServeOptions{Trusted: keys})
	requests, err := nc.SubscribeSync(wire.LLMSubject)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(bus.Cancels(t.Context(), func(cause error) bool { return errors.Is(cause, errDisconnected) }))
	got := make(chan error, 1)
	go func() {
		_, err := bus.Request[wire.LLMReply](ctx, nc, wire.LLMSubject, wire.LLMRequest{Envelope: wire.Header(), Step: wire.Step{Step: "s"}}, bus.SignedBy(worker))
		got <- err
	}()
	<-c.began
	msg, err := requests.NextMsgWithContext(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	forged, err := wire.Encode(wire.Cancel{Envelope: wire.Header(), Request: msg.Header.Get(wire.HeaderRequest)})
	if err == nil {
		err = nc.Publish(wire.CancelSubject(wire.LLMSubject), forged)
	}
	if err != nil {
		t.Fatal(err)
	}
	// Another request that its own caller cancels afterwards is the only one that ends: the forged
	// cancellation was read before.
	second, leaveSecond := context.WithCancelCause(bus.Cancels(t.Context(), func(cause error) bool { return errors.Is(cause, errDisconnected) }))
	gotSecond := make(chan error, 1)
	go func() {
		_, err := bus.Request[wire.LLMReply](second, nc, wire.LLMSubject, wire.LLMRequest{Envelope: wire.Header(), Step: wire.Step{Step: "second"}}, bus.SignedBy(worker))
		gotSecond <- err
	}()
	<-c.began
	leaveSecond(errDisconnected)
	<-gotSecond
	if cause := <-c.ended; !errors.Is(cause, bus.ErrCallerGone) || len(c.ended) != 0 {
		t.Errorf("it ended for %v, and %d more did", cause, len(c.ended))
	}
	cancel(errDisconnected)
	<-got
	<-c.ended
}

// TestTheModelServerCannotAskForATenant: its requests are refused, whatever it signs, with its
// credentials on a server that nats-config configured.
func TestTheModelServerCannotAskForATenant(t *testing.T) {
	address, dir := configured(t, bus.ServerConfig{})
	as := func(p wire.Program) *nats.Conn { return connectAs(t, address, dir, p) }
	signer := signerOf(t, wire.ProgramServe)
	ran := searching(t, as(wire.ProgramQueryWorker), signer)
	serve, segmenter := as(wire.ProgramServe), as(wire.ProgramGPUSegmenter)
	data, err := wire.Encode(searchFor(uuid.New(), "secrets"))
	if err == nil {
		err = segmenter.PublishRequest(wire.SearchSubject, segmenter.NewInbox(), data)
	}
	if err == nil {
		err = segmenter.Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := segmenter.LastError(); !errors.Is(err, nats.ErrPermissionViolation) {
		t.Errorf("the server said %v", err)
	}
	tenant := uuid.New()
	if _, err := bus.Request[wire.SearchReply](t.Context(), serve, wire.SearchSubject, searchFor(tenant, "q"), bus.SignedBy(signer)); err != nil {
		t.Fatal(err)
	}
	if got := <-ran; got != tenant || len(ran) != 0 {
		t.Errorf("ran for %s, and %d more", got, len(ran))
	}
}
