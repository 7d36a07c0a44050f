package inference

// This file tests the client against the real server: requests that are split and reassembled, and
// servers that stop in between.

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/sluice-rag/sluice/internal/local/localtest"
	"github.com/sluice-rag/sluice/internal/modelclient"
	"github.com/sluice-rag/sluice/internal/waittest"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

var topics = []string{
	"The pump is delivered with a filter and two hoses.", "Bees live in colonies of up to fifty thousand animals.",
	"Invoices are payable within thirty days.", "The cathedral was finished three hundred years later.",
	"Patients with a fever should see a doctor.", "Costs grew more slowly, by four per cent.",
}

// longTexts returns different texts of about 2 KB each.
func longTexts(n int) []string {
	texts := make([]string, n)
	for i := range texts {
		var b strings.Builder
		for j := range 40 {
			fmt.Fprintf(&b, "%s Clause %d, item %d. ", topics[(i+j*j)%len(topics)], i, j*i)
		}
		texts[i] = b.String()[:2000]
	}
	return texts
}

func TestManyLongTextsComeBackInOrder(t *testing.T) {
	model := open(t)
	nc, _ := serving(t, model, ServerOptions{})
	client := modelclient.New(nc, modelclient.Options{})
	texts := longTexts(2000)
	vectors, _, err := client.Encode(t.Context(), wire.LaneBulk, texts)
	if err != nil {
		t.Fatal(err)
	}
	if vectors.Len() != len(texts) {
		t.Fatalf("%d vectors for %d texts", vectors.Len(), len(texts))
	}
	for i := 0; i < len(texts); i += 37 {
		ids, _, _ := model.encoder.tokens(texts[i])
		alone := sequence{ids: ids, vector: make([]float32, model.dimension())}
		if err := model.encoder.encode(t.Context(), []sequence{alone}); err != nil {
			t.Fatal(err)
		}
		near(t, fmt.Sprint("text ", i), vectors.Row(i), alone.vector)
	}
}

func TestALongRunIsScoredAsAWhole(t *testing.T) {
	model := open(t)
	nc, _ := serving(t, model, ServerOptions{})
	client := modelclient.New(nc, modelclient.Options{})
	run := make([]string, 5000)
	for i := range run {
		run[i] = fmt.Sprintf("%s Number %d.", topics[(i/3)%len(topics)], i)
	}
	runs := [][]string{{"alone"}, run, {}, run[:12]}
	whole, threshold, err := client.Segment(t.Context(), wire.LaneBulk, runs)
	if err != nil {
		t.Fatal(err)
	}
	if len(whole) != 4 || len(whole[0]) != 0 || len(whole[1]) != len(run)-1 || len(whole[2]) != 0 || len(whole[3]) != 11 {
		t.Fatalf("scores of %d, %d, %d and %d pairs", len(whole[0]), len(whole[1]), len(whole[2]), len(whole[3]))
	}
	if threshold <= 0 || threshold >= 1 {
		t.Errorf("threshold %v", threshold)
	}
	// A score depends only on the sentences in its window.
	window := model.manifest.Segmenter.Window
	near(t, "the short run", whole[3][:12-window], whole[1][:12-window])
	var pieces [][]string
	for i := range 1000 {
		pieces = append(pieces, run[i*4+i%4:i*4+i%4+2*window])
	}
	scores, _, err := client.Segment(t.Context(), wire.LaneBulk, pieces)
	if err != nil {
		t.Fatal(err)
	}
	for i := range pieces {
		at := i*4 + i%4 + window - 1
		near(t, fmt.Sprint("piece ", i), scores[i][window-1:window], whole[1][at:at+1])
	}
}

func TestRepliesThatDoNotFitAreAskedForInHalves(t *testing.T) {
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, MaxPayload: 300 << 10, NoSigs: true})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(waittest.Left(t)) {
		t.Fatal("nats-server did not start")
	}
	models := NewServer(connect(t, s.ClientURL()), open(t), ServerOptions{})
	if err := models.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := models.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	texts := make([]string, 1100)
	for i := range texts {
		texts[i] = fmt.Sprint("item ", i)
	}
	vectors, _, err := modelclient.New(connect(t, s.ClientURL()), modelclient.Options{}).Encode(t.Context(), wire.LaneBulk, texts)
	if err != nil || vectors.Len() != len(texts) {
		t.Fatalf("%d vectors, %v", vectors.Len(), err)
	}
}

func TestNoServerIsUnavailableWithTheRemedy(t *testing.T) {
	nc := connect(t, localtest.NATS(t).URL())
	client := modelclient.New(nc, modelclient.Options{})
	//house:clock the caller's time, in which no server comes
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, _, err := client.Encode(ctx, wire.LaneInteractive, []string{"a question"})
	if !errors.Is(err, schema.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "start gpu-segmenter") {
		t.Errorf("got %v", err)
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := client.Info(cancelled); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: got %v", err)
	}
}

func TestOverloadedServersAreAskedAgain(t *testing.T) {
	// Room for one part at a time: all others are refused until there is room.
	nc, _ := serving(t, open(t), ServerOptions{MaxBytes: 1000})
	client := modelclient.New(nc, modelclient.Options{Parallel: 8})
	texts := longTexts(1200)
	vectors, _, err := client.Encode(t.Context(), wire.LaneBulk, texts)
	if err != nil || vectors.Len() != len(texts) {
		t.Fatalf("%d vectors, %v", vectors.Len(), err)
	}

	// Room for one long text and for the client's info request, which has a subject of its own and
	// may overtake the text.
	stuck, _ := serving(t, open(t), ServerOptions{MaxBytes: 16_000, Wait: time.Hour})
	long := strings.Repeat("word ", 1800)
	held := send(t, stuck, wire.OpEncode, encodeRequest(wire.LaneBulk, time.Now().Add(8*time.Second), long))
	//house:clock the caller's time, in which there is never room
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
	defer cancel()
	if _, _, err := modelclient.New(stuck, modelclient.Options{}).Encode(ctx, wire.LaneBulk, []string{long}); !errors.Is(err, schema.ErrOverloaded) {
		t.Errorf("got %v, want overloaded", err)
	}
	receive[wire.EncodeReply](t, held)
}

func TestAClientOutlivesItsServer(t *testing.T) {
	model := open(t)
	// This server holds a request for an hour and is stopped before it answers.
	nc, first := serving(t, model, ServerOptions{Wait: time.Hour})
	client := modelclient.New(nc, modelclient.Options{BulkAttemptTimeout: 300 * time.Millisecond})
	done := make(chan error, 1)
	go func() {
		vectors, _, err := client.Encode(t.Context(), wire.LaneBulk, []string{"one", "two"})
		if err == nil && vectors.Len() != 2 {
			err = fmt.Errorf("%d vectors", vectors.Len())
		}
		done <- err
	}()
	hurry, cancel := context.WithCancel(t.Context())
	cancel()
	if err := first.Stop(hurry); err != nil && !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	second := NewServer(connect(t, nc.ConnectedUrl()), model, ServerOptions{})
	if err := second.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := second.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
