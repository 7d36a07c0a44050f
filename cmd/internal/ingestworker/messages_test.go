package ingestworker

// Messages: full subjects, duplicates, unreadable messages, and messages that were lost with NATS
// or Temporal.

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sluice-rag/sluice/internal/bus"
	"github.com/sluice-rag/sluice/internal/durable"
	"github.com/sluice-rag/sluice/internal/ingest"
	"github.com/sluice-rag/sluice/internal/ingest/batch"
	"github.com/sluice-rag/sluice/internal/local"
	"github.com/sluice-rag/sluice/internal/local/localtest"
	"github.com/sluice-rag/sluice/internal/waittest"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// writable returns what a stage would write for uploads, with meaningless text.
func writable(uploads []schema.Uploaded) []batch.Document {
	var out []batch.Document
	for _, u := range uploads {
		section := schema.Section{ID: schema.NewID(), Text: "text", Tokens: 1}
		out = append(out, batch.Document{
			Attempt: wire.Attempt{Version: u.Version, Attempt: 1},
			Text: batch.Text{Sections: []batch.Section{{Section: section,
				Passages: []schema.Passage{{ID: schema.NewID(), SectionID: section.ID, End: 4, Tokens: 1}}}}},
			Vectors: batch.NewVectors("scripted", 256, make([]float32, 256)),
		})
	}
	return out
}

func (w *world) jetstream() jetstream.JetStream {
	w.t.Helper()
	js, err := jetstream.New(w.nats)
	w.ok(err)
	return js
}

// relay runs the relay alone.
func (w *world) relay() (stop func()) {
	w.t.Helper()
	streams := func(ctx context.Context) error {
		return bus.EnsureStreams(ctx, w.jetstream(), bus.StreamLimits{PerTenant: w.settings.QueuePerTenant})
	}
	w.ok(streams(w.context()))
	relay, err := ingest.NewRelay(w.store, w.nats, streams, w.options)
	w.ok(err)
	w.ok(relay.Start(w.context()))
	var once sync.Once
	stop = func() { once.Do(func() { w.ok(relay.Stop(w.context())) }) }
	w.t.Cleanup(stop)
	return stop
}

func (w *world) waiting(tenant uuid.UUID) uint64 {
	w.t.Helper()
	stream, err := w.jetstream().Stream(w.context(), wire.StreamIngest)
	w.ok(err)
	info, err := stream.Info(w.context(), jetstream.WithSubjectFilter(wire.IngestSubject(tenant)))
	w.ok(err)
	return info.State.Subjects[wire.IngestSubject(tenant)]
}

// events waits for n events of a tenant.
func (w *world) events(tenant uuid.UUID, n int) {
	w.t.Helper()
	consumer, err := w.jetstream().OrderedConsumer(w.context(), wire.StreamEvents, jetstream.OrderedConsumerConfig{
		FilterSubjects: []string{strings.TrimSuffix(wire.EventSubject(tenant, "x"), "x") + ">"}})
	w.ok(err)
	messages, err := consumer.Messages()
	w.ok(err)
	defer messages.Stop()
	for range n {
		_, err := messages.Next(jetstream.NextContext(w.context()))
		w.ok(err)
	}
}

func TestARelayIsWokenByWriters(t *testing.T) {
	w := newWorld(t)
	w.options.Poll = time.Hour
	w.store.OnOutbox(bus.WakeRelay(w.nats))
	w.relay()
	for i := range 5 { // each after the one before has been published, while the relay waits
		w.upload(fmt.Sprintf("doc-%d.md", i), document("one", 2))
		w.events(w.principal.Tenant, i+1)
		w.poll("an empty outbox", func() bool { return w.count(`SELECT count(*) FROM outbox`) == 0 })
	}
}

func TestARelayFindsWhatNobodyToldOf(t *testing.T) {
	w := newWorld(t)
	w.options.Poll = 200 * time.Millisecond
	w.relay()
	for i := range 3 {
		w.upload(fmt.Sprintf("doc-%d.md", i), document("one", 2))
		w.events(w.principal.Tenant, i+1)
	}
}

// TestRelaysAtOncePublishEachMessageOnce: and in the order within their subject.
func TestRelaysAtOncePublishEachMessageOnce(t *testing.T) {
	w := newWorld(t)
	const subjects, each = 100, 20
	w.admin(`INSERT INTO outbox (tenant_id, subject, message_id, payload)
		SELECT $1::uuid, 'sluice.events.' || $1::uuid || '.test-' || s, s || '.' || n, to_jsonb(n) FROM generate_series(1, $2::int) s, generate_series(1, $3::int) n
		ORDER BY n, s`, w.principal.Tenant, subjects, each)
	for i := range 3 {
		w.options.Holder = fmt.Sprintf("relay %d", i)
		w.relay()
	}
	w.poll("an empty outbox", func() bool { return w.count(`SELECT count(*) FROM outbox`) == 0 })
	stream, err := w.jetstream().Stream(w.context(), wire.StreamEvents)
	w.ok(err)
	if n := stream.CachedInfo().State.Msgs; n != subjects*each {
		t.Fatalf("%d messages are in the stream", n)
	}
	last := map[string]string{}
	for seq := range uint64(subjects * each) {
		m, err := stream.GetMsg(w.context(), seq+1)
		w.ok(err)
		if n := fmt.Sprintf("%02s", m.Data); n <= last[m.Subject] {
			t.Errorf("%s of %s comes behind %s", n, m.Subject, last[m.Subject])
		} else {
			last[m.Subject] = n
		}
	}
	w.poll("subjects that are given back", func() bool { return w.count(`SELECT count(*) FROM outbox_claims`) == 0 })
}

func TestFullTenantDoesNotBlockOthers(t *testing.T) {
	w := newWorld(t)
	w.settings.QueuePerTenant = 3
	w.uploadAll(someDocuments(20))
	flood, collection := w.principal, w.collection
	stop := w.relay()
	w.addTenant()
	other := w.principal.Tenant
	for i := range 2 {
		w.upload(fmt.Sprintf("other-%d.md", i), document("other", 2))
	}
	js := w.jetstream()
	consumer, err := js.CreateOrUpdateConsumer(w.context(), wire.StreamIngest, jetstream.ConsumerConfig{Durable: "probe",
		AckPolicy: jetstream.AckExplicitPolicy, FilterSubject: wire.IngestSubject(other)})
	w.ok(err)
	for range 2 {
		msg, err := consumer.Next(jetstream.FetchMaxWait(waittest.Left(t)))
		w.ok(err)
		w.ok(msg.Nak())
	}
	w.ok(js.DeleteConsumer(w.context(), wire.StreamIngest, "probe"))
	if n := w.waiting(flood.Tenant); n != 3 {
		t.Errorf("the full tenant has %d messages in JetStream, want 3", n)
	}
	stop()
	w.start()
	w.awaitStates(map[schema.State]int{schema.StateReady: 2})
	w.principal, w.collection = flood, collection
	w.awaitStates(map[schema.State]int{schema.StateReady: 20})
	w.checkStored()
	if n := w.count(`SELECT count(*) FROM versions WHERE attempt > 1`); n != 0 {
		t.Errorf("%d versions were queued again while they only waited", n)
	}
}

func TestRepeatedAndReorderedMessagesChangeNothing(t *testing.T) {
	w := newWorld(t)
	uploads := w.uploadAll(someDocuments(6))
	js := w.jetstream()
	w.ok(bus.EnsureStreams(w.context(), js, bus.StreamLimits{}))
	publish := func(u schema.Uploaded, attempt int) {
		m := wire.IngestMessage{Envelope: wire.Header(), Tenant: w.principal.Tenant, Collection: w.collection,
			Document: u.Document, Version: u.Version, Attempt: attempt, Bytes: 100}
		data, err := wire.Encode(m)
		w.ok(err)
		_, err = js.Publish(w.context(), wire.IngestSubject(m.Tenant), data) // without a message id, so that no duplicate is dropped
		w.ok(err)
	}
	for range 3 {
		for i := range uploads {
			publish(uploads[len(uploads)-1-i], 1)
			publish(uploads[i], 7) // an attempt that does not exist
		}
	}
	w.start()
	w.awaitStates(map[schema.State]int{schema.StateReady: 6})
	for _, u := range uploads {
		publish(u, 1)
	}
	w.upload("last.md", document("last", 2))
	w.awaitStates(map[schema.State]int{schema.StateReady: 7})
	w.checkStored()
}

func TestMessageOfANewerVersionIsKept(t *testing.T) {
	w := newWorld(t)
	js := w.jetstream()
	w.ok(bus.EnsureStreams(w.context(), js, bus.StreamLimits{}))
	for _, data := range []string{`{"v":99,"tenant":"x"}`, `not json`} {
		_, err := js.Publish(w.context(), wire.IngestSubject(w.principal.Tenant), []byte(data))
		w.ok(err)
	}
	w.upload("a.md", document("one", 2))
	w.start()
	w.awaitStates(map[schema.State]int{schema.StateReady: 1})
	if n := w.waiting(w.principal.Tenant); n != 2 {
		t.Errorf("%d messages are left, want the 2 that could not be read", n)
	}
}

func TestVersionsWhoseMessagesWereLostAreQueuedAgain(t *testing.T) {
	w := newWorld(t)
	w.uploadAll(someDocuments(12))
	stop := w.relay()
	w.events(w.principal.Tenant, 12) // published in one round with the messages
	stop()
	if n := w.count(`SELECT count(*) FROM outbox`); n != 0 {
		t.Fatalf("%d rows are left in the outbox", n)
	}
	w.wipeNATS()
	w.start()
	w.awaitStates(map[schema.State]int{schema.StateReady: 12})
	w.checkStored()
}

func (w *world) wipeNATS() {
	w.t.Helper()
	w.ok(w.bus.Stop(w.context()))
	w.ok(os.RemoveAll(w.natsDir))
	w.ok(w.bus.Start(w.context()))
}

func TestNATSWipedUnderARunningWorker(t *testing.T) {
	w := newWorld(t)
	g := w.blockEncode("topic 0")
	w.uploadAll(someDocuments(20))
	w.start()
	<-g.reached
	w.wipeNATS()
	w.upload("later.md", document("later", 2))
	close(g.open)
	w.awaitStates(map[schema.State]int{schema.StateReady: 21})
	w.checkStored()
}

func TestTemporalWipedUnderARunningWorker(t *testing.T) {
	w := newWorld(t)
	dir := localtest.Dir(t)
	temporal, err := local.StartTemporal(w.context(), local.TemporalOptions{Dir: dir})
	w.ok(err)
	t.Cleanup(func() { w.ok(temporal.Stop(context.Background())) })
	w.client.Close()
	w.client, err = durable.Dial(w.context(), durable.Options{Address: temporal.Address(), Namespace: local.Namespace, Name: t.Name()})
	w.ok(err)
	w.options.Lease = 3 * time.Second
	g := w.blockEncode("topic 0")
	w.uploadAll(someDocuments(20))
	w.start()
	<-g.reached
	temporal.Kill()
	w.ok(temporal.Stop(w.context()))
	w.ok(os.RemoveAll(dir))
	w.ok(temporal.Start(w.context()))
	close(g.open)
	w.awaitStates(map[schema.State]int{schema.StateReady: 20})
	w.checkStored()
}

func TestStoppedWorkerIsFollowedByAnother(t *testing.T) {
	w := newWorld(t)
	g := w.blockEncode("topic 0")
	w.uploadAll(someDocuments(20))
	stop := w.start()
	<-g.reached
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		stop()
	}()
	close(g.open)
	<-stopped
	w.start()
	w.awaitStates(map[schema.State]int{schema.StateReady: 20})
	w.checkStored()
}
