package llmgateway_test

// Calls that clients cancel, that outlive their clients, and that are in progress when a gateway
// stops.

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go"

	"github.com/sluice-rag/sluice/cmd/internal/llmgateway"
	"github.com/sluice-rag/sluice/internal/bus"
	"github.com/sluice-rag/sluice/internal/config"
	"github.com/sluice-rag/sluice/internal/local"
	"github.com/sluice-rag/sluice/internal/local/localtest"
	"github.com/sluice-rag/sluice/internal/store/stores"
	"github.com/sluice-rag/sluice/internal/waittest"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// hangingmodel streams the beginning of each answer, and the rest when the test allows it.
type hangingmodel struct {
	*httptest.Server
	began   chan struct{} // one for each call
	closed  chan struct{} // one for each connection that the gateway closed
	proceed chan struct{}
}

func newHangingModel(t *testing.T) *hangingmodel {
	t.Helper()
	m := &hangingmodel{began: make(chan struct{}, 8), closed: make(chan struct{}, 8), proceed: make(chan struct{})}
	m.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		sendChunk := func(content, finish string) {
			_, _ = fmt.Fprintf(w, `data: {"id":"1","choices":[{"index":0,"delta":{"content":%q},"finish_reason":%q}]}`+"\n\n", content, finish)
			w.(http.Flusher).Flush()
		}
		sendChunk(`{"answer": "Five days, as`, "")
		m.began <- struct{}{}
		select {
		case <-m.proceed:
			sendChunk(` it says.", "citations": [{"sentence": 1, "passage": 1, "quote": "You may carry over five days."}]}`, "stop")
		case <-r.Context().Done():
			m.closed <- struct{}{}
		}
	}))
	t.Cleanup(m.Close)
	return m
}

func (m *hangingmodel) settings(t *testing.T) config.LLM {
	return config.LLM{LLMProvider: "openai", LLMBaseURL: m.URL + "/v1/", LLMModel: "m", LLMTimeout: waittest.Left(t), LLMPrice: config.LLMPrice{Input: 1, Output: 10}}
}

var errDisconnected = errors.New("the asker left")

// asker is a client of a gateway with a connection of its own.
type asker struct {
	nc         *nats.Conn
	disconnect context.CancelCauseFunc
	streaming  chan struct{}      // closed when the gateway has passed on a part of the answer
	got        chan wire.LLMReply // closed without a reply if there is none
}

func newAsker(t *testing.T, server *local.NATS, r wire.LLMRequest) asker {
	t.Helper()
	nc, err := bus.Connect(t.Context(), bus.Options{URL: server.URL(), Name: t.Name()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	ctx, disconnect := context.WithCancelCause(bus.Cancels(t.Context(), func(cause error) bool { return errors.Is(cause, errDisconnected) }))
	a := asker{nc, disconnect, make(chan struct{}), make(chan wire.LLMReply, 1)}
	onPart := sync.OnceFunc(func() { close(a.streaming) })
	go func() {
		defer close(a.got)
		reply, err := bus.RequestStream[wire.LLMReply](ctx, nc, wire.LLMSubject, func(stream string) any {
			r.Stream = wire.StreamSubject(stream, wire.PartText)
			return r
		}, func(string, []byte) { onPart() })
		if err == nil {
			a.got <- reply
		}
	}()
	return a
}

// calls returns the ledger of the calls for a tenant's questions.
func calls(t *testing.T, db stores.All, tenant uuid.UUID) (rows []string) {
	t.Helper()
	if err := db.AsTenant(t.Context(), tenant, func(ctx context.Context, tx pgx.Tx) error {
		found, err := tx.Query(ctx, `SELECT outcome || CASE WHEN input_tokens > 100 AND output_tokens > 4 AND nanos > 0 THEN ' counted' ELSE '' END FROM llm_calls ORDER BY created_at`)
		if err != nil {
			return err
		}
		rows, err = pgx.CollectRows(found, pgx.RowTo[string])
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return rows
}

// settled waits until a tenant has no calls in progress.
func settled(t *testing.T, db stores.All, tenant uuid.UUID) schema.LLMUsage {
	t.Helper()
	var u schema.LLMUsage
	waittest.Until(t, func() string {
		var err error
		if u, err = db.LLMUsage(t.Context(), tenant); err != nil {
			t.Fatal(err)
		}
		if u.InProgress != 0 {
			return fmt.Sprintf("still in progress: %+v", u)
		}
		return ""
	})
	return u
}

func start(t *testing.T, db stores.All, model *hangingmodel) (server *local.NATS, stop func(grace time.Duration) error) {
	t.Helper()
	server = localtest.NATS(t)
	nc, err := bus.Connect(t.Context(), bus.Options{URL: server.URL(), Name: t.Name()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	g, err := llmgateway.New(model.settings(t), llmgateway.Deps{Store: db.Store, NATS: nc})
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	stop = func(grace time.Duration) error {
		//house:clock the time to stop in, a share of which calls have
		ctx, cancel := context.WithTimeout(context.Background(), grace)
		defer cancel()
		return g.Stop(ctx)
	}
	t.Cleanup(func() { _ = stop(waittest.Left(t)) })
	return server, stop
}

func TestAnAskerThatLeavesEndsItsCall(t *testing.T) {
	db, model := open(t, localtest.Database(t)), newHangingModel(t)
	server, _ := start(t, db, model)
	one := tenant(t, db, "one")
	if _, err := db.SetLLMLimits(t.Context(), schema.Principal{Tenant: one}, one, schema.LLMLimits{TokensPerDay: new(int64(100_000))}); err != nil {
		t.Fatal(err)
	}
	first := newAsker(t, server, question(one))
	<-model.began
	if u, err := db.LLMUsage(t.Context(), one); err != nil || u.InProgress != 1 || u.ReservedTokens == 0 {
		t.Errorf("while it runs %+v, %v", u, err)
	}
	waittest.Receive(t, first.streaming, "a piece of the answer")
	first.disconnect(errDisconnected)
	<-model.closed // its connection to the model is closed
	if u := settled(t, db, one); u.ReservedTokens != 0 || u.Day.InputTokens < 100 || u.Day.OutputTokens < 4 || u.Day.Calls != 1 {
		t.Errorf("used %+v", u)
	}
	if rows := calls(t, db, one); len(rows) != 1 || rows[0] != "cancelled counted" {
		t.Errorf("the ledger has %q", rows)
	}
}

// Two clients ask for one step, and the second waits for the first one's call. When the first
// disconnects, the second still gets the reply.
func TestAnAskerThatLeavesTakesNoOtherAlong(t *testing.T) {
	db, model := open(t, localtest.Database(t)), newHangingModel(t)
	server, _ := start(t, db, model)
	one := tenant(t, db, "one")
	r := question(one)
	first := newAsker(t, server, r)
	<-model.began
	second := newAsker(t, server, r)
	awaitBoth(t, second.nc)
	first.disconnect(errDisconnected)
	<-model.closed
	<-model.began // for the second client
	close(model.proceed)
	if reply, ok := <-second.got; !ok || reply.Error != nil || reply.Text != "Five days, as it says." {
		t.Errorf("the other got %+v", reply)
	}
	settled(t, db, one)
	if rows := calls(t, db, one); len(rows) != 1 || rows[0] != "answered counted" {
		t.Errorf("the ledger has %q", rows)
	}
}

// awaitBoth returns when the gateway has two requests in progress, one at the model and one that
// waits for the same step.
func awaitBoth(t *testing.T, nc *nats.Conn) {
	t.Helper()
	waittest.Until(t, func() string {
		all, err := bus.Services(t.Context(), nc)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range all {
			if s.Service == wire.LLMSubject && s.Running == 2 {
				return ""
			}
		}
		return fmt.Sprintf("not two calls: %+v", all)
	})
}

// A client that is killed sends no cancellation: its call goes on, and a repeated request gets the
// reply.
func TestAnAskerThatIsKilledFindsItsReply(t *testing.T) {
	db, model := open(t, localtest.Database(t)), newHangingModel(t)
	server, _ := start(t, db, model)
	one := tenant(t, db, "one")
	r := question(one)
	first := newAsker(t, server, r)
	<-model.began
	first.nc.Close()
	<-first.got
	second := newAsker(t, server, r)
	awaitBoth(t, second.nc)
	close(model.proceed)
	if reply, ok := <-second.got; !ok || reply.Error != nil || !reply.Repeated || reply.Text != "Five days, as it says." {
		t.Errorf("got %+v", reply)
	}
	if len(model.closed) != 0 || len(model.began) != 0 {
		t.Errorf("%d connections were closed, %d more calls made", len(model.closed), len(model.began))
	}
}

// A gateway that stops gives calls their share of the time, then cancels them and stops without an
// error.
func TestAGatewayStopsThoughItsModelHangs(t *testing.T) {
	db, model := open(t, localtest.Database(t)), newHangingModel(t)
	server, stop := start(t, db, model)
	one := tenant(t, db, "one")
	asked := newAsker(t, server, question(one))
	<-model.began
	waittest.Receive(t, asked.streaming, "a piece of the answer")
	if err := stop(4 * time.Second); err != nil {
		t.Errorf("stopped with %v", err)
	}
	<-model.closed
	if reply, ok := <-asked.got; !ok || reply.Error == nil || reply.Error.Code != schema.CodeUnavailable {
		t.Errorf("its asker got %+v", reply)
	}
	if u := settled(t, db, one); u.ReservedTokens != 0 {
		t.Errorf("used %+v", u)
	}
	if rows := calls(t, db, one); len(rows) != 1 || rows[0] != "cancelled counted" {
		t.Errorf("the ledger has %q", rows)
	}
}
