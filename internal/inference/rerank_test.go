package inference

// This file tests score with the reranker: which graph's scores are returned, its limits, its
// weight in the server's load, its batches, and its name in metrics and reports.

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/sluice-rag/sluice/internal/inference/inferencetest"
	"github.com/sluice-rag/sluice/internal/inference/modelpack"
	"github.com/sluice-rag/sluice/internal/modelclient"
	"github.com/sluice-rag/sluice/internal/waittest"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

func scoreRequest(graph string, lane wire.Lane, deadline time.Time, texts ...string) wire.ScoreRequest {
	return wire.ScoreRequest{Envelope: wire.Header(), Lane: lane, Deadline: deadline, Question: "What is measured?", Texts: texts, Graph: graph}
}

// TestARequestIsReadByTheGraphThatItNames: the pair model scores if the request names no graph, and
// the reply names the graph.
func TestARequestIsReadByTheGraphThatItNames(t *testing.T) {
	model := openFull(t)
	nc, _ := serving(t, model, ServerOptions{})
	scores := map[string]float32{}
	for _, graph := range []string{"", wire.GraphPair, wire.GraphReranker} {
		reply := receive[wire.ScoreReply](t, send(t, nc, wire.OpScore, scoreRequest(graph, wire.LaneBulk, time.Time{}, "The water level is measured.")))
		if reply.Error != nil || len(reply.Scores) != 1 || reply.Model != model.name() {
			t.Fatalf("%q: %+v", graph, reply)
		}
		if want := strings.TrimPrefix(graph, wire.GraphPair); reply.Graph != want {
			t.Errorf("%q: the reply says that %q read", graph, reply.Graph)
		}
		scores[graph] = reply.Scores[0].Relevance
	}
	if scores[""] != scores[wire.GraphPair] || math.Abs(float64(scores[""]-scores[wire.GraphReranker])) < 1e-3 {
		t.Errorf("relevance by graph: %v", scores)
	}
}

func TestTheRerankerReadsTheBeginningOfALongText(t *testing.T) {
	nc, _ := serving(t, openFull(t), ServerOptions{}) // it reads 192 tokens
	long := strings.Repeat("level ", 400)
	reply := receive[wire.ScoreReply](t, send(t, nc, wire.OpScore, scoreRequest(wire.GraphReranker, wire.LaneInteractive, time.Time{}, long, strings.Repeat("level ", 192), "level")))
	if reply.Error != nil || reply.Truncated != 1 {
		t.Fatalf("got %+v", reply)
	}
	near(t, "the beginning", []float32{reply.Scores[0].Relevance, reply.Scores[0].HasAnswer}, []float32{reply.Scores[1].Relevance, reply.Scores[1].HasAnswer})
	reply = receive[wire.ScoreReply](t, send(t, nc, wire.OpScore, scoreRequest("", wire.LaneInteractive, time.Time{}, strings.Repeat("level ", 300))))
	if reply.Error != nil || reply.Truncated != 0 {
		t.Errorf("the pair model, which reads 384: %+v", reply)
	}
}

// TestRerankerTextsCountAsTen: a server with little room refuses as many texts for the
// reranker as it accepts for the pair model.
func TestRerankerTextsCountAsTen(t *testing.T) {
	nc, _ := serving(t, openFull(t), ServerOptions{MaxSequences: 40, Wait: time.Hour}) // 30 for bulk
	soon := time.Now().Add(2 * time.Second)
	bulk := func(graph string) *nats.Subscription {
		return send(t, nc, wire.OpScore, scoreRequest(graph, wire.LaneBulk, soon, "a gauge", "a float"))
	}
	ctx := waittest.Context(t)
	outcome := func(sub *nats.Subscription) schema.Code {
		msg, err := sub.NextMsgWithContext(ctx)
		if err != nil {
			return schema.Code(err.Error())
		}
		reply, err := decode[wire.ScoreReply](msg.Data)
		switch {
		case err != nil:
			return schema.Code(err.Error())
		case reply.Error != nil:
			return reply.Error.Code
		}
		return "ok"
	}
	// One of the two is refused at once, whichever is read last. The other waits for a batch that
	// would take an hour to fill.
	replies := make(chan schema.Code, 2)
	for range 2 {
		sub := bulk(wire.GraphReranker)
		go func() { replies <- outcome(sub) }()
	}
	if got := <-replies; got != schema.CodeOverloaded {
		t.Errorf("one of two got %s, want overloaded", got)
	}
	urgent := send(t, nc, wire.OpScore, scoreRequest(wire.GraphReranker, wire.LaneInteractive, time.Time{}, "a lake"))
	if got := outcome(urgent); got != "ok" {
		t.Errorf("the interactive one got %s: bulk must leave it room", got)
	}
	beside := bulk("")
	if one, other := <-replies, outcome(beside); one != schema.CodeDeadline || other != schema.CodeDeadline {
		t.Errorf("the other of the two got %s, as many for the pair model %s; want deadline", one, other)
	}
	again := send(t, nc, wire.OpScore, scoreRequest(wire.GraphReranker, wire.LaneInteractive, time.Time{}, "a lake", "a river", "a gauge"))
	if reply := receive[wire.ScoreReply](t, again); reply.Error != nil {
		t.Errorf("afterwards: %+v", reply.Error)
	}
}

func TestAnExpiredRequestIsNotReranked(t *testing.T) {
	nc, _ := serving(t, openFull(t), ServerOptions{})
	before := runs(t, "reranker")
	late := send(t, nc, wire.OpScore, scoreRequest(wire.GraphReranker, wire.LaneInteractive, time.Now().Add(-time.Second), "too late"))
	if reply := receive[wire.ScoreReply](t, late); reply.Error == nil || reply.Error.Code != schema.CodeDeadline {
		t.Errorf("got %+v", reply.Error)
	}
	if ran := runs(t, "reranker") - before; ran != 0 {
		t.Errorf("%d runs for an expired request", ran)
	}
}

// TestBatchesOfTheRerankerAreSmall: a request that arrives during a batch waits for no more than
// some tens of milliseconds.
func TestBatchesOfTheRerankerAreSmall(t *testing.T) {
	nc, server := serving(t, openFull(t), ServerOptions{})
	client := modelclient.New(nc, modelclient.Options{})
	texts := make([]string, 24)
	for i := range texts {
		texts[i] = strings.Repeat("level ", 100) // with the question some 104 tokens: 3 of 384, 9 of 1,024
	}
	for name, score := range map[string]scoring{"reranker": client.Rerank, "pair": client.Score} {
		if _, _, err := score(t.Context(), wire.LaneBulk, "What is measured?", texts, false); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	if err := server.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	batches := map[string]int64{}
	for _, g := range server.State().Model.Graphs {
		if batches[g.Graph] = g.Batches; g.Graph == "reranker" && g.Items != 24 {
			t.Errorf("the reranker did %+v", g)
		}
	}
	if batches["reranker"] < 8 || batches["pair"] < 2 || batches["pair"] > 6 {
		t.Errorf("batches %v", batches)
	}
}

// TestTheRerankersScoresAreTheTextsOwn: what else is read in the same request changes no score of
// the shipped reranker, by not one bit. With padding, and the mask that it needs, sums were rounded
// otherwise.
func TestTheRerankersScoresAreTheTextsOwn(t *testing.T) {
	nc, _ := serving(t, open(t), ServerOptions{})
	client := modelclient.New(nc, modelclient.Options{})
	words := strings.Fields("the gauge at the lake measured a level of three metres after a week of rain in the hills above the town")
	var texts []string
	for i := range 2 * len(words) {
		texts = append(texts, strings.Join(append(words[i%len(words):], words[:i/2]...), " "))
	}
	read := func(texts ...string) []wire.PairScore {
		t.Helper()
		scores, _, err := client.Rerank(t.Context(), wire.LaneInteractive, "What did the gauge measure?", texts, false)
		if err != nil {
			t.Fatal(err)
		}
		return scores
	}
	together := read(texts...)
	for i, text := range texts {
		if alone := read(text)[0]; !reflect.DeepEqual(alone, together[i]) {
			t.Errorf("%q: %+v alone, %+v together", text, alone, together[i])
		}
	}
}

// TestMetricsDistinguishRerankerAndPairModel: metrics distinguish the two graphs of the operation
// score.
func TestMetricsDistinguishRerankerAndPairModel(t *testing.T) {
	answered := func(op string) (count uint64) {
		var all metricdata.ResourceMetrics
		if err := metrics.Collect(context.Background(), &all); err != nil {
			t.Fatal(err)
		}
		for _, scope := range all.ScopeMetrics {
			for _, m := range scope.Metrics {
				if m.Name != "sluice.model.request.duration" {
					continue
				}
				for _, point := range m.Data.(metricdata.Histogram[float64]).DataPoints {
					if value, _ := point.Attributes.Value("op"); value.AsString() == op {
						count += point.Count
					}
				}
			}
		}
		return count
	}
	nc, server := serving(t, openFull(t), ServerOptions{})
	client := modelclient.New(nc, modelclient.Options{})
	scores, reranks := answered("score"), answered("rerank")
	spans.Reset()
	if _, _, err := client.Rerank(t.Context(), wire.LaneInteractive, "what?", []string{"a text"}, false); err != nil {
		t.Fatal(err)
	}
	if err := server.Stop(t.Context()); err != nil { // then all requests are counted
		t.Fatal(err)
	}
	if s, r := answered("score")-scores, answered("rerank")-reranks; s != 0 || r != 1 {
		t.Errorf("%d requests are counted as score, %d as rerank", s, r)
	}
	told := map[string]bool{}
	for _, s := range spans.Ended() {
		told[s.Name()+" "+s.SpanKind().String()] = true
		if s.Name() == "model.score" && !slices.Contains(s.Attributes(), attribute.String("op", "rerank")) {
			t.Errorf("the server's span says %v", s.Attributes())
		}
	}
	if !told["model.rerank client"] || !told["model.score server"] || !told["model.batch internal"] {
		t.Errorf("spans %v", told)
	}
}

func TestAPackMayHaveARerankerAlone(t *testing.T) {
	m := openFull(t, func(manifest string) string {
		head, rest, _ := strings.Cut(manifest, "encoder:\n")
		_, rest, _ = strings.Cut(rest, "reranker:")
		section, _, _ := strings.Cut(rest, "\n")
		return strings.Replace(head, "space:", "#", 1) + "reranker:" + section + "\n"
	})
	nc, _ := serving(t, m, ServerOptions{})
	client := modelclient.New(nc, modelclient.Options{})
	info, err := client.Info(t.Context())
	if err != nil || !slices.Equal(info.Operations, []wire.ModelOp{wire.OpRerank}) || info.NoSpans || info.NoRerankSpans || info.Limits[wire.OpScore] != 0 || info.Limits[wire.OpRerank] != 192 {
		t.Fatalf("%+v, %v", info, err)
	}
	if scores, _, err := client.Rerank(t.Context(), wire.LaneInteractive, "what?", []string{"a text"}, true); err != nil || len(scores) != 1 || scores[0].Answer == nil {
		t.Errorf("%+v, %v", scores, err)
	}
	if _, _, err := client.Score(t.Context(), wire.LaneInteractive, "what?", []string{"a text"}, false); err == nil || !strings.Contains(err.Error(), "section pair") {
		t.Errorf("score: %v", err)
	}
}

// TestACrossEncoderAsTheReranker tests that it returns its goldens, next to the pack's pair model.
func TestACrossEncoderAsTheReranker(t *testing.T) {
	dir := added(t, modelpack.Addition{From: "cross-encoder", Onto: pack, Reranker: true})
	report, err := Check(t.Context(), Options{Pack: dir, Library: libraryPath(t), Threads: 1})
	if at := slices.IndexFunc(report.Graphs, func(g modelpack.GraphReport) bool { return g.Section == "reranker" }); err != nil || len(report.Problems) > 0 || at < 0 || report.Graphs[at].Goldens < 5 {
		t.Fatalf("%+v, %v", report, err)
	}
	nc, _ := serving(t, openPack(t, dir), ServerOptions{})
	client := modelclient.New(nc, modelclient.Options{})
	info, err := client.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if half, ok := info.Calibrated["has_answer_reranker"]; !ok || half != 0 || !info.NoRerankSpans || info.NoSpans || len(info.Notes) != 1 || !strings.HasPrefix(info.Notes[0], "rerank: ") {
		t.Errorf("info %+v", info)
	}
	g := modelGoldens(t, "cross-encoder")
	var texts []string
	var want, got []float32
	for _, p := range g.Pair {
		texts, want = append(texts, p.Text), append(want, *p.Relevance)
	}
	scores, _, err := client.Rerank(t.Context(), wire.LaneInteractive, g.Pair[0].Question, texts, true)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range scores {
		if got = append(got, s.Relevance); s.HasAnswer != s.Relevance || s.Answer != nil {
			t.Errorf("%+v: it knows relevance alone", s)
		}
	}
	near(t, "its goldens", got, want)
	if scores, _, err := client.Score(t.Context(), wire.LaneInteractive, g.Pair[0].Question, texts, true); err != nil || scores[0].Answer == nil {
		t.Errorf("the pair model beside it: %+v, %v", scores, err)
	}
}

// TestCheckHoldsTheRerankerToItsGoldens tests those of its own section.
func TestCheckHoldsTheRerankerToItsGoldens(t *testing.T) {
	g := inferencetest.ReadGoldens(t)
	goldens := func(section string, of inferencetest.Scores) []byte {
		var rows []string
		for _, x := range of.Texts {
			if len(x.IDs) > 0 {
				rows = append(rows, fmt.Sprintf(`{"question": %q, "text": %q, "scores": [%g, %g, %g]}`, of.Question, x.Text, x.Scores[0], x.Scores[1], x.Scores[2]))
			}
		}
		return []byte(fmt.Sprintf(`{%q: [%s]}`, section, strings.Join(rows, ", ")))
	}
	for name, c := range map[string]struct {
		goldens []byte
		wrong   bool
	}{"its own": {goldens("reranker", g.Reranker), false}, "the pair model's": {goldens("reranker", g.Pair), true}} {
		dir := inferencetest.Pack(t)
		if err := os.WriteFile(filepath.Join(dir, "goldens.json"), c.goldens, 0o600); err != nil {
			t.Fatal(err)
		}
		report, err := Check(t.Context(), Options{Pack: dir, Library: libraryPath(t), Threads: 1})
		if err != nil {
			t.Fatal(err)
		}
		if wrong := len(report.Problems) > 0; wrong != c.wrong || wrong && !strings.HasPrefix(report.Problems[0], "reranker: ") {
			t.Errorf("%s: %q", name, report.Problems)
		}
		for _, graph := range report.Graphs {
			if graph.Section == "reranker" && (graph.Goldens != 4 || graph.Worst > 1e-4 != c.wrong) {
				t.Errorf("%s: %+v", name, graph)
			}
		}
	}
}
