package bus_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sluice-rag/sluice/internal/bus"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// TestServicesTellHowTheyAre: each service reports its running, waiting, served and refused
// requests.
func TestServicesTellHowTheyAre(t *testing.T) {
	nc := connect(t)
	if all, err := bus.Services(t.Context(), nc); err != nil || len(all) != 0 {
		t.Fatalf("with none: %+v, %v", all, err)
	}
	release, running := make(chan struct{}), make(chan struct{}, 8)
	first := service(t, nc, 1, func(_ context.Context, r wire.EncodeRequest) wire.EncodeReply {
		if r.Texts[0] == "hold" {
			running <- struct{}{}
			<-release
		}
		return wire.EncodeReply{Envelope: wire.Header()}
	})
	stop, err := bus.ServeStatus(nc, func() schema.ServiceState {
		return schema.ServiceState{Service: wire.ModelService, Model: &schema.ModelState{Pack: "p", Graphs: []schema.GraphState{{Graph: "encoder", Batches: 3}}}}
	})
	if err != nil {
		t.Fatal(err)
	}
	ask := func(text string) error {
		_, err := request(t.Context(), nc, wire.EncodeRequest{Envelope: wire.Header(), Texts: []string{text}})
		return err
	}
	if err := ask("now"); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 2)
	go func() { done <- ask("hold") }()
	<-running
	go func() { done <- ask("hold") }()
	// One request runs, one waits, and the third is refused: then the second has arrived.
	refused := func() bool {
		//house:clock a request that waits for a slot has no answer to wait for: it is asked again
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		reply, err := request(ctx, nc, wire.EncodeRequest{Envelope: wire.Header(), Texts: []string{"now"}})
		return err == nil && reply.Error != nil
	}
	for !refused() {
	}
	byService := map[string]schema.ServiceState{}
	all, err := bus.Services(t.Context(), nc)
	if err != nil || len(all) != 2 {
		t.Fatalf("%+v, %v", all, err)
	}
	for _, s := range all {
		byService[s.Service] = s
	}
	s := byService[wire.ModelSubject(wire.OpEncode)]
	if s.Running != 1 || s.Waiting != 1 || s.Places != 1 || s.Served != 1 || s.Refused == 0 || s.Millis <= 0 || s.Program != t.Name() || s.Host == "" || s.PID == 0 ||
		s.ID == uuid.Nil || s.Since.IsZero() {
		t.Errorf("the service tells %+v", s)
	}
	if m := byService[wire.ModelService].Model; m == nil || m.Pack != "p" || m.Graphs[0].Batches != 3 {
		t.Errorf("the model server tells %+v", m)
	}
	close(release)
	for range 2 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	stop()
	if err := first.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if all, err := bus.Services(t.Context(), nc); err != nil || len(all) != 0 {
		t.Errorf("after their end: %+v, %v", all, err)
	}
}

// TestQueuesTellWhatWaits: in all, and for one tenant.
func TestQueuesTellWhatWaits(t *testing.T) {
	nc := connect(t)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	if all, err := bus.Queues(t.Context(), nc); err != nil || len(all) != 0 {
		t.Fatalf("without streams: %+v, %v", all, err)
	}
	if err := bus.EnsureStreams(t.Context(), js, bus.StreamLimits{}); err != nil {
		t.Fatal(err)
	}
	a, b := uuid.New(), uuid.New()
	for _, tenant := range []uuid.UUID{a, a, a, b} {
		if _, err := js.Publish(t.Context(), wire.IngestSubject(tenant), []byte("{}")); err != nil {
			t.Fatal(err)
		}
	}
	consumer, err := js.CreateOrUpdateConsumer(t.Context(), wire.StreamIngest, jetstream.ConsumerConfig{Durable: wire.ConsumerIngest, AckPolicy: jetstream.AckExplicitPolicy,
		MaxAckPending: 1}) // so that the message taken after a refusal is the refused one
	if err != nil {
		t.Fatal(err)
	}
	take := func() jetstream.Msg {
		t.Helper()
		msg, err := consumer.Next()
		if err != nil {
			t.Fatal(err)
		}
		return msg
	}
	if err := take().DoubleAck(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := take().Nak(); err != nil {
		t.Fatal(err)
	}
	take() // the same message again

	all, err := bus.Queues(t.Context(), nc)
	if err != nil || len(all) != 3 {
		t.Fatalf("%+v, %v", all, err)
	}
	q := all[0]
	if q.Name != wire.StreamIngest || q.Messages != 3 || q.Subjects != 2 || q.Bytes == 0 || q.Oldest == nil || len(q.Consumers) != 1 {
		t.Fatalf("the queue is %+v", q)
	}
	if c := q.Consumers[0]; c.Name != wire.ConsumerIngest || c.Lag != 2 || c.Unconfirmed != 1 || c.Redelivered != 1 || c.Delivered != 3 || c.Last == nil {
		t.Errorf("its consumer is %+v", c)
	}
	if all[1].Messages != 0 || all[1].Oldest != nil || all[2].Name != wire.StreamEvents {
		t.Errorf("the others are %+v", all[1:])
	}
	for tenant, want := range map[uuid.UUID]uint64{a: 2, b: 1, uuid.New(): 0} {
		got, err := bus.TenantQueues(t.Context(), nc, tenant)
		if err != nil || len(got) != 2 || got[0] != (schema.TenantQueue{Name: wire.StreamIngest, Messages: want}) || got[1].Messages != 0 {
			t.Errorf("of a tenant with %d: %+v, %v", want, got, err)
		}
	}
}
