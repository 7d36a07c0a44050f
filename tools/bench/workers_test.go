package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/sluice-rag/sluice/internal/local"
	"github.com/sluice-rag/sluice/internal/modelclient"
	"github.com/sluice-rag/sluice/schema/wire"
)

// TestWorkersAreMeasuredInTurns: the measured number of workers runs, and none afterwards. The
// ratios compare with that many times one worker.
func TestWorkersAreMeasuredInTurns(t *testing.T) {
	var scaled []int
	running := 0
	row := stageRow{what: "stage", unit: "items/s", scale: func(_ context.Context, count int) error {
		scaled, running = append(scaled, count), count
		return nil
	}, work: func(context.Context) (workResult, error) {
		return workResult{items: 10 * math.Sqrt(float64(running)), took: time.Second, cpu: 0.1, busy: 0.2}, nil
	}}
	f := &findings{Part: "workers"}
	if err := (&workersCommand{Rounds: 2}).measure(t.Context(), f, row); err != nil {
		t.Fatal(err)
	}
	if want := []int{1, 2, 4, 4, 2, 1, 0}; !slices.Equal(scaled, want) {
		t.Errorf("%v workers ran, want %v", scaled, want)
	}
	if len(f.Ratios) != 2 || len(f.Notes) != 3 {
		t.Fatalf("found %+v", f)
	}
	for i, want := range []float64{math.Sqrt2 / 2, 0.5} { // the throughput grows with the square root of the number of workers
		if got := f.Ratios[i].value(); math.Abs(got-want) > 1e-9 || f.Ratios[i].reached() {
			t.Errorf("%s: ratio %g, want %g", f.Ratios[i].What, got, want)
		}
	}
}

func TestWorkersThatFailAreStopped(t *testing.T) {
	broken := errors.New("broken")
	last := -1
	row := stageRow{what: "stage", scale: func(_ context.Context, count int) error { last = count; return nil },
		work: func(context.Context) (workResult, error) { return workResult{items: 1, took: time.Second}, broken }}
	if err := (&workersCommand{Rounds: 1}).measure(t.Context(), &findings{}, row); !errors.Is(err, broken) || last != 0 {
		t.Errorf("%v, with %d workers left", err, last)
	}
}

func TestWorkSaysWhatItTook(t *testing.T) {
	all := sum([]workResult{{items: 10, took: 2 * time.Second, cpu: 0.5, busy: 3}, {items: 30, took: 2 * time.Second, refused: 2, cpu: 0.5, busy: 3}})
	if got, want := all.describe("items/s", 2), "10.0 items/s; 25.0 ms of processor each, 12 % of the machine, of which others took 62 %; 2 refused"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestCallersEndWithAFailure(t *testing.T) {
	again, broken := errors.New("come again"), errors.New("broken")
	var asked atomic.Int64
	out, err := (&workersInstallation{}).runCallers(t.Context(), 1, time.Hour, func(err error) bool { return errors.Is(err, again) },
		func(context.Context, int, int) error {
			if asked.Add(1) <= 3 {
				return again
			}
			return broken
		})
	if !errors.Is(err, broken) || out.refused != 3 {
		t.Errorf("got %v, %d refused", err, out.refused)
	}
}

// TestWaitingModelsAnswerAsRealOnes: the real client accepts their replies.
func TestWaitingModelsAnswerAsRealOnes(t *testing.T) {
	server, err := local.StartNATS(t.Context(), local.NATSOptions{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	nc, err := nats.Connect(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	var service atomic.Int64
	service.Store(int64(time.Millisecond))
	m, err := newWaitingModels(nc, &service, 1)
	if err != nil {
		t.Fatal(err)
	}
	client := modelclient.New(nc, modelclient.Options{})
	texts := []string{"one", "two", "one"}
	vectors, space, err := client.Encode(t.Context(), wire.LaneBulk, texts)
	if err != nil || space != waitingSpace || vectors.Len() != len(texts) || vectors.Dimension != dimension {
		t.Fatalf("%d vectors of %q: %v", vectors.Len(), space, err)
	}
	for i := range texts {
		squares := 0.0
		for _, x := range vectors.Row(i) {
			squares += float64(x) * float64(x)
		}
		if math.Abs(squares-1) > 1e-4 {
			t.Errorf("vector %d has the length %g", i, math.Sqrt(squares))
		}
	}
	if !slices.Equal(vectors.Row(0), vectors.Row(2)) || slices.Equal(vectors.Row(0), vectors.Row(1)) {
		t.Error("vectors do not follow from texts")
	}
	scores, threshold, err := client.Segment(t.Context(), wire.LaneBulk, [][]string{strings.Split("a b c d e f", " "), {"a"}})
	if err != nil || threshold != 0.5 || !slices.Equal(scores[0], []float32{1, 1, 1, 0, 1}) || len(scores[1]) != 0 {
		t.Errorf("scores %v, threshold %g: %v", scores, threshold, err)
	}
	info, err := client.Info(t.Context())
	if err != nil || info.Dimension != dimension || info.Space != waitingSpace {
		t.Errorf("info %+v: %v", info, err)
	}
	// A request in progress is abandoned before its time is over.
	service.Store(int64(time.Hour))
	inbox, err := nc.SubscribeSync(nc.NewInbox())
	if err != nil {
		t.Fatal(err)
	}
	request, err := json.Marshal(wire.EncodeRequest{Envelope: wire.Header(), Texts: texts})
	if err == nil {
		err = errors.Join(nc.PublishRequest(wire.ModelSubject(wire.OpEncode), inbox.Subject, request), m.close())
	}
	if err != nil {
		t.Fatal(err)
	}
	if n, _, err := inbox.Pending(); n != 0 || err != nil {
		t.Errorf("%d answers, %v", n, err)
	}
}

func TestAWaitingLanguageModelSaysOneThing(t *testing.T) {
	m, err := newWaitingLLM(time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	reply, err := http.Post(m.url+"/chat/completions", "application/json", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(reply.Body)
	if err := errors.Join(err, reply.Body.Close(), m.close()); err != nil {
		t.Fatal(err)
	}
	var completion struct {
		Choices []struct{ Message struct{ Content string } }
	}
	if err := json.Unmarshal(body, &completion); err != nil || len(completion.Choices) != 1 || completion.Choices[0].Message.Content != waitingReply {
		t.Errorf("it said %s: %v", body, err)
	}
}
