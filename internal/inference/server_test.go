package inference

// This file tests the server from its callers' view: batches across requests, limits, deadlines,
// bad input, traces, stopping.

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"

	"github.com/sluice-rag/sluice/internal/lifecycle"
	"github.com/sluice-rag/sluice/internal/lifecycle/lifecycletest"
	"github.com/sluice-rag/sluice/internal/local/localtest"
	"github.com/sluice-rag/sluice/internal/modelclient"
	"github.com/sluice-rag/sluice/internal/waittest"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// runs returns how often the graph has run in this process.
func runs(t *testing.T, graph string) (count uint64) {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := metrics.Collect(context.Background(), &all); err != nil {
		t.Fatal(err)
	}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			if m.Name != "sluice.model.run.duration" {
				continue
			}
			for _, point := range m.Data.(metricdata.Histogram[float64]).DataPoints {
				if value, _ := point.Attributes.Value("graph"); value.AsString() == graph {
					count += point.Count
				}
			}
		}
	}
	return count
}

// send publishes a request and returns a subscription to its reply. Requests of one connection
// arrive in the order of the calls.
func send(t *testing.T, nc *nats.Conn, op wire.ModelOp, request any) *nats.Subscription {
	t.Helper()
	data, err := wire.Encode(request)
	if err != nil {
		t.Fatal(err)
	}
	inbox := nc.NewInbox()
	sub, err := nc.SubscribeSync(inbox)
	if err != nil {
		t.Fatal(err)
	}
	if err := nc.PublishRequest(wire.ModelSubject(op), inbox, data); err != nil {
		t.Fatal(err)
	}
	return sub
}

func receive[Reply any](t *testing.T, sub *nats.Subscription) Reply {
	t.Helper()
	msg, err := sub.NextMsgWithContext(waittest.Context(t))
	if err != nil {
		t.Fatal(err)
	}
	reply, err := decode[Reply](msg.Data)
	if err != nil {
		t.Fatal(err)
	}
	return reply
}

func decode[Reply any](data []byte) (reply Reply, err error) {
	err = json.Unmarshal(data, &reply)
	return reply, err
}

func encodeRequest(lane wire.Lane, deadline time.Time, texts ...string) wire.EncodeRequest {
	return wire.EncodeRequest{Envelope: wire.Header(), Lane: lane, Deadline: deadline, Texts: texts}
}

func TestRequestsShareRuns(t *testing.T) {
	const callers = 64
	// The last caller fills the batch, which would otherwise wait for an hour.
	nc, _ := serving(t, open(t), ServerOptions{Batch: callers, Wait: time.Hour})
	before := runs(t, "encoder")
	var replies []*nats.Subscription
	for range callers {
		replies = append(replies, send(t, nc, wire.OpEncode, encodeRequest(wire.LaneBulk, time.Time{}, "Bees live in colonies.")))
	}
	var first []float32
	for _, sub := range replies {
		reply := receive[wire.EncodeReply](t, sub)
		if reply.Error != nil || reply.Vectors.Len() != 1 {
			t.Fatalf("got %+v", reply)
		}
		if first == nil {
			first = reply.Vectors.Data
		}
		near(t, "the same text", reply.Vectors.Data, first)
	}
	if ran := runs(t, "encoder") - before; ran != 1 {
		t.Errorf("%d requests took %d runs, want 1", callers, ran)
	}
}

func TestFullServerSaysOverloadedAtOnce(t *testing.T) {
	nc, _ := serving(t, open(t), ServerOptions{MaxBytes: 8000, Wait: time.Hour})
	long := strings.Repeat("word ", 1000)
	held := send(t, nc, wire.OpEncode, encodeRequest(wire.LaneBulk, time.Now().Add(2*time.Second), long))
	refused := send(t, nc, wire.OpEncode, encodeRequest(wire.LaneBulk, time.Time{}, long))
	urgent := send(t, nc, wire.OpEncode, encodeRequest(wire.LaneInteractive, time.Time{}, "a question"))

	if reply := receive[wire.EncodeReply](t, refused); !errors.Is(reply.Error, schema.ErrOverloaded) {
		t.Errorf("the second bulk request got %+v, want overloaded", reply.Error)
	}
	if reply := receive[wire.EncodeReply](t, urgent); reply.Error != nil || reply.Vectors.Len() != 1 {
		t.Errorf("the interactive request got %+v: bulk must leave it room", reply.Error)
	}
	if reply := receive[wire.EncodeReply](t, held); reply.Error == nil || reply.Error.Code != schema.CodeDeadline {
		t.Errorf("the held request got %+v, want its deadline", reply.Error)
	}
	// Refused and expired requests take no more room.
	again := send(t, nc, wire.OpEncode, encodeRequest(wire.LaneInteractive, time.Time{}, long))
	if reply := receive[wire.EncodeReply](t, again); reply.Error != nil {
		t.Errorf("afterwards: %+v", reply.Error)
	}
}

func TestExpiredRequestIsNotRun(t *testing.T) {
	nc, _ := serving(t, open(t), ServerOptions{})
	before := runs(t, "encoder")
	past := time.Now().Add(-time.Second)
	encode := send(t, nc, wire.OpEncode, encodeRequest(wire.LaneInteractive, past, "too late"))
	segment := send(t, nc, wire.OpSegment, wire.SegmentRequest{Envelope: wire.Header(), Lane: wire.LaneBulk, Deadline: past, Runs: [][]string{{"a", "b"}}})
	if reply := receive[wire.EncodeReply](t, encode); reply.Error == nil || reply.Error.Code != schema.CodeDeadline {
		t.Errorf("encode: got %+v", reply.Error)
	}
	if reply := receive[wire.SegmentReply](t, segment); reply.Error == nil || reply.Error.Code != schema.CodeDeadline {
		t.Errorf("segment: got %+v", reply.Error)
	}
	if ran := runs(t, "encoder") - before; ran != 0 {
		t.Errorf("%d runs for expired requests", ran)
	}
}

func TestBadRequestsAreNamed(t *testing.T) {
	nc, _ := serving(t, open(t), ServerOptions{})
	for _, c := range []struct {
		name string
		data string
		code schema.Code
	}{
		{"no JSON", `{"v":1,"lane":`, schema.CodeInvalid},
		{"empty", ``, schema.CodeInvalid},
		{"not an object", `[[[[`, schema.CodeInvalid},
		{"unknown version", `{"v":99,"lane":"bulk","texts":["a"]}`, schema.CodeInvalid},
		{"no lane", `{"v":1,"texts":["a"]}`, schema.CodeInvalid},
		{"unknown lane", `{"v":1,"lane":"express","texts":["a"]}`, schema.CodeInvalid},
		{"too many texts", `{"v":1,"lane":"bulk","texts":["a"` + strings.Repeat(`,"a"`, 2000) + `]}`, schema.CodeTooLarge},
	} {
		msg, err := nc.Request(wire.ModelSubject(wire.OpEncode), []byte(c.data), waittest.Left(t))
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		reply, err := decode[wire.EncodeReply](msg.Data)
		if err != nil || reply.Error == nil || reply.Error.Code != c.code {
			t.Errorf("%s: got %+v, %v; want code %s", c.name, reply.Error, err, c.code)
		}
	}
}

func TestHostileTexts(t *testing.T) {
	nc, _ := serving(t, open(t), ServerOptions{})
	client := modelclient.New(nc, modelclient.Options{})
	texts := []string{
		"", " ", "\x00\x00", "\xff\xfe\xfd", "\u202e\u200b", "[CLS] [SEP] [PAD]", strings.Repeat("a", 300000), strings.Repeat("中", 100000),
		strings.Repeat("<", 200000), strings.Repeat("e\u0301", 50000), strings.Repeat("\x01", 100000), "fine",
	}
	vectors, _, err := client.Encode(t.Context(), wire.LaneBulk, texts)
	if err != nil {
		t.Fatal(err)
	}
	if vectors.Len() != len(texts) {
		t.Fatalf("%d vectors for %d texts", vectors.Len(), len(texts))
	}
	alone, _, err := client.Encode(t.Context(), wire.LaneInteractive, []string{"fine"})
	if err != nil {
		t.Fatal(err)
	}
	near(t, "the harmless text among them", vectors.Row(len(texts)-1), alone.Data)
	for i := range 4 {
		if slices.ContainsFunc(vectors.Row(i), func(v float32) bool { return v != 0 }) {
			t.Errorf("%q has no token but a vector that isn't zero", texts[i])
		}
	}
}

func TestOneTraceThroughClientServerAndBatch(t *testing.T) {
	nc, server := serving(t, open(t), ServerOptions{})
	spans.Reset()
	if _, _, err := modelclient.New(nc, modelclient.Options{}).Encode(t.Context(), wire.LaneInteractive, []string{"a question"}); err != nil {
		t.Fatal(err)
	}
	if err := server.Stop(t.Context()); err != nil { // then all its spans have ended
		t.Fatal(err)
	}
	find := func(name, kind string) trace.ReadOnlySpan {
		for _, s := range spans.Ended() {
			if s.Name() == name && s.SpanKind().String() == kind {
				return s
			}
		}
		t.Fatalf("no %s span %s", kind, name)
		return nil
	}
	asked, answered, ran := find("model.encode", "client"), find("model.encode", "server"), find("model.batch", "internal")
	if answered.Parent().SpanID() != asked.SpanContext().SpanID() || answered.SpanContext().TraceID() != asked.SpanContext().TraceID() {
		t.Error("the server's span doesn't continue the client's")
	}
	if len(ran.Links()) != 1 || ran.Links()[0].SpanContext.SpanID() != answered.SpanContext().SpanID() {
		t.Errorf("the batch links to %v, want the server's span", ran.Links())
	}
	if !slices.Contains(ran.Attributes(), attribute.String("graph", "encoder")) {
		t.Errorf("the batch has attributes %v", ran.Attributes())
	}
}

func TestLifecycle(t *testing.T) {
	model := open(t)
	url := localtest.NATS(t).URL()
	nc := connect(t, url)
	lifecycletest.Stress(t, func(*testing.T) lifecycle.Service { return NewServer(nc, model, ServerOptions{}) })
}

func TestStopFinishesAcceptedRequests(t *testing.T) {
	nc, server := serving(t, open(t), ServerOptions{Wait: 500 * time.Millisecond})
	var replies []*nats.Subscription
	for i := range 20 {
		replies = append(replies, send(t, nc, wire.OpEncode, encodeRequest(wire.LaneBulk, time.Time{}, fmt.Sprint("text ", i))))
	}
	if err := nc.Flush(); err != nil { // the NATS server has routed all of them
		t.Fatal(err)
	}
	if err := server.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i, sub := range replies {
		if reply := receive[wire.EncodeReply](t, sub); reply.Error != nil || reply.Vectors.Len() != 1 {
			t.Errorf("request %d got %+v", i, reply.Error)
		}
	}
}

func TestStopWithExpiredContextAnswersAcceptedRequests(t *testing.T) {
	nc, server := serving(t, open(t), ServerOptions{Wait: time.Hour})
	held := send(t, nc, wire.OpEncode, encodeRequest(wire.LaneBulk, time.Time{}, "a text"))
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	//house:clock what is held waits for an hour, and the stop for this long
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := server.Stop(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Stop gave %v", err)
	}
	if reply := receive[wire.EncodeReply](t, held); !errors.Is(reply.Error, schema.ErrUnavailable) {
		t.Errorf("the held request got %+v, want unavailable", reply.Error)
	}
}

func TestTwoServersShareTheWork(t *testing.T) {
	model := open(t)
	nc, _ := serving(t, model, ServerOptions{})
	second := NewServer(connect(t, nc.ConnectedUrl()), model, ServerOptions{})
	if err := second.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	client := modelclient.New(nc, modelclient.Options{})
	var callers sync.WaitGroup
	for i := range 16 {
		callers.Go(func() {
			for j := range 10 {
				if i == 0 && j == 5 {
					if err := second.Stop(context.Background()); err != nil { // its clients don't notice
						t.Error(err)
					}
				}
				if _, _, err := client.Encode(t.Context(), wire.LaneBulk, []string{fmt.Sprint("text ", i, j)}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	callers.Wait()
}

func TestLaneIsReadWithoutDecoding(t *testing.T) {
	request, err := wire.Encode(encodeRequest(wire.LaneInteractive, time.Now(), strings.Repeat("x", 100000)))
	if err != nil {
		t.Fatal(err)
	}
	if laneOf(request) != wire.LaneInteractive {
		t.Errorf("%s... is not seen as interactive", bytes.ToValidUTF8(request[:60], nil))
	}
	for _, other := range []string{"", "x", "[]", `{"texts":["a"],"lane":"interactive"}`, `{"lane":"bulk"}`, `{"lane":`, `{"v":{"lane":"interactive"}}`} {
		if laneOf([]byte(other)) != wire.LaneBulk {
			t.Errorf("%s is seen as interactive", other)
		}
	}
}
