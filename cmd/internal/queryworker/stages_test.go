//go:build cgo

package queryworker

// The stages that use models, and the reader of answers, with real parts: Postgres, NATS, and a
// model server with a graph for every operation. The graphs are random, so the tests check that
// every score is the model's, and that every span is stored text.

import (
	"context"
	"errors"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/inference"
	"github.com/sluice-rag/sluice/internal/inference/inferencetest"
	"github.com/sluice-rag/sluice/internal/ingest/batch"
	"github.com/sluice-rag/sluice/internal/lexical/search"
	"github.com/sluice-rag/sluice/internal/local"
	"github.com/sluice-rag/sluice/internal/modelclient"
	"github.com/sluice-rag/sluice/internal/retrieval/plan"
	"github.com/sluice-rag/sluice/internal/retrieval/run"
	"github.com/sluice-rag/sluice/internal/text"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// newRerankHarness returns a world whose model pack has all graphs.
func newRerankHarness(t *testing.T, change ...func(manifest string) string) *world {
	t.Helper()
	library, err := local.FindONNXRuntime()
	if err != nil {
		t.Fatal(err)
	}
	m, err := inference.Open(inference.Options{Pack: inferencetest.Pack(t, change...), Library: library, Provider: "cpu", Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	w := newWorldOf(t, m)
	w.handbook()
	return w
}

// plan runs stages for the question about leave.
func (w *world) plan(stages string) (run.Result, error) {
	w.t.Helper()
	catalogue, err := plan.LoadCatalogue(fstest.MapFS{"p.yaml": {Data: []byte("name: p\nstages:\n" + stages)}}, "p")
	w.ok(err)
	engine, err := run.NewEngine(catalogue, sources(w.settings, Deps{Store: w.store.Store, NATS: w.nats, Temporal: w.client}, w.store.SearchStore, search.NewIndex(w.store, 1<<20), modelclient.New(w.nats, modelclient.Options{})))
	w.ok(err)
	found, err := engine.Run(w.context(), wire.SearchQuery{Principal: w.principal, Query: schema.Query{Collection: w.collection, Text: carryOver, K: 100, Explain: true}})
	if err != nil {
		return found, err
	}
	for _, c := range found.Candidates {
		for _, s := range c.Spans {
			stored := scalar[string](w, `SELECT body FROM sections WHERE id = $1`, s.Section)
			if len(c.Spans) == 1 && stored[s.Start:s.End] != c.Text {
				w.t.Errorf("%s: the text is not its span's", stages)
			}
		}
	}
	return found, nil
}

// scores returns the model server's scores of candidates' texts.
func (w *world) scores(candidates []schema.Candidate) []wire.PairScore {
	w.t.Helper()
	texts := make([]string, len(candidates))
	for i, c := range candidates {
		texts[i], _ = text.InContext(c.Title, c.HeadingPath, c.Text)
	}
	out, _, err := w.model.Score(w.context(), wire.LaneBulk, carryOver, texts, false)
	w.ok(err)
	return out
}

func TestScoresAreTheModels(t *testing.T) {
	w := newRerankHarness(t)
	for _, unit := range []string{"passage", "section", "document", "cluster"} {
		found, err := w.plan("- lexical: {unit: " + unit + "}\n- score")
		w.ok(err)
		if len(found.Candidates) == 0 {
			t.Fatalf("%s: nothing found", unit)
		}
		best := math.Inf(1)
		for i, x := range w.scores(found.Candidates) {
			c := found.Candidates[i]
			if math.Abs(c.Scores["relevance"]-float64(x.Relevance)) > 1e-4 || math.Abs(c.Scores["has_answer"]-float64(x.HasAnswer)) > 1e-4 ||
				math.Abs(c.Scores["llm_prefer"]-float64(x.LLMPrefer)) > 1e-4 || c.Score != c.Scores["relevance"] || c.Score > best {
				t.Errorf("%s: candidate %d has %v, the model says %+v", unit, i, c.Scores, x)
			}
			best = c.Score
		}
		if why := found.Trace[1].Why; !strings.Contains(why, "by sluice-default/") {
			t.Errorf("%s: it says %q", unit, why)
		}
	}
}

func TestFuseIsTheModels(t *testing.T) {
	w := newRerankHarness(t)
	found, err := w.plan("- lexical: {unit: passage}\n- fuse: {keep: 0}")
	w.ok(err)
	order := slices.Clone(found.Candidates)
	slices.SortStableFunc(order, func(a, b schema.Candidate) int { // the order of the search
		return int(math.Copysign(1, b.Scores["lexical.passage"]-a.Scores["lexical.passage"]))
	})
	texts := make([]string, len(order))
	for i, c := range order {
		texts[i], _ = text.InContext(c.Title, c.HeadingPath, c.Text)
	}
	scores, _, err := w.model.Fuse(w.context(), wire.LaneBulk, carryOver, texts, 4, false)
	w.ok(err)
	for i, c := range order {
		if math.Abs(c.Scores["fuse"]-float64(scores[i])) > 1e-4 {
			t.Errorf("candidate %d has %g, the model says %g", i, c.Scores["fuse"], scores[i])
		}
	}
	if len(order) < 2 {
		t.Errorf("found %d", len(order))
	}
}

func TestReduceIsTheModels(t *testing.T) {
	w := newRerankHarness(t)
	found, err := w.plan("- lexical: {unit: section}\n- reduce: {sentences: 2}")
	w.ok(err)
	if len(found.Context) == 0 || !strings.Contains(found.Trace[1].Why, "0.600") { // the pack's threshold
		t.Fatalf("the context is %v: %s", found.Context, found.Trace[1].Why)
	}
	var windows []schema.Candidate
	for _, i := range found.Context {
		c := found.Candidates[i]
		if n := len(text.Sentences(c.Text)); n != 2 {
			t.Errorf("the window %q has %d sentences", c.Text, n)
		}
		windows = append(windows, c)
	}
	for i, x := range w.scores(windows) {
		if math.Abs(windows[i].Scores["prefer_sum"]-float64(x.HasAnswer+x.LLMPrefer)) > 1e-4 {
			t.Errorf("window %d has %v, the model says %+v", i, windows[i].Scores, x)
		}
	}
}

func TestCalibratedIsWhatThePackHas(t *testing.T) {
	w := newRerankHarness(t)
	found, err := w.plan("- lexical: {unit: passage}\n- score: {by: has_answer, least: calibrated}")
	w.ok(err)
	for _, c := range found.Candidates {
		if c.Scores["has_answer"] < -1.5 { // the pack's threshold
			t.Errorf("%g was kept", c.Scores["has_answer"])
		}
	}
	for _, d := range found.Trace[1].Dropped {
		if !strings.HasSuffix(d.Why, "below -1.500") {
			t.Errorf("dropped as %q", d.Why)
		}
	}
	if len(found.Candidates)+len(found.Trace[1].Dropped) == 0 {
		t.Error("nothing was read")
	}
}

// TestAPackWithoutAPairModel removes the section of the manifest, because the shipped pack may have
// the model.
func TestAPackWithoutAPairModel(t *testing.T) {
	w := newRerankHarness(t, inferencetest.Without("pair", "reranker"))
	_, err := w.plan("- lexical\n- score")
	var field *schema.FieldError
	if !errors.As(err, &field) || field.Field != "plan" || !strings.Contains(field.Problem, "has no graph for score") {
		t.Errorf("got %v", err)
	}
	found, err := w.plan("- lexical\n- score: {optional: true}")
	w.ok(err)
	if len(found.Candidates) == 0 || !strings.HasPrefix(found.Trace[1].Why, "skipped") {
		t.Errorf("got %+v", found.Trace)
	}
	w.startAll()
	if a, failure := w.askSync(w.context(), carryOver); failure != nil || !a.Supported || !strings.Contains(a.Answer, "five days") || !strings.HasPrefix(a.Usage.Model, "sentences/") {
		t.Errorf("got %+v, %v", a, failure)
	}
}

// TestAnswersAreReadOutOfPassages: with a threshold that any answer passes, the random reader
// returns some span. It must be at the given position.
func TestAnswersAreReadOutOfPassages(t *testing.T) {
	w := newRerankHarness(t, inferencetest.Without("reranker"), func(manifest string) string { return manifest + "calibrated: {answerable: -1000}\n" })
	w.startAll()
	a, failure := w.askSync(w.context(), carryOver)
	if failure != nil || !a.Supported || len(a.Citations) == 0 || !strings.HasPrefix(a.Usage.Model, "reader/sluice-default/") {
		t.Fatalf("got %+v, %v", a, failure)
	}
	for _, c := range a.Citations {
		short := c.Answer
		if short.Text == "" || c.Quote[short.Start:short.End] != short.Text || short.Confidence <= 0 || short.Confidence >= 1 || !strings.Contains(a.Answer, c.Quote) {
			t.Errorf("the citation is %+v", c)
		}
	}
	in := w.ask(w.context(), carryOver, true)
	j := w.await(in.Question, schema.JobAnswered)
	if len(j.Result.Citations) != len(a.Citations) || !reflect.DeepEqual(j.Result.Citations[0], a.Citations[0]) {
		t.Errorf("a job answers with %+v", j.Result.Citations)
	}
}

func TestTheReaderSaysThatTheDocumentsDoNot(t *testing.T) {
	w := newRerankHarness(t, inferencetest.Without("reranker"), func(manifest string) string { return manifest + "calibrated: {answerable: 1000}\n" })
	w.startAll()
	if a, failure := w.askSync(w.context(), carryOver); failure != nil || a.Supported || a.Answer != schema.NoAnswer {
		t.Errorf("got %+v, %v", a, failure)
	}
}

// TestRelateJoinsStoredLinks: two passages of one section that are linked in both directions become
// one candidate with two spans.
func TestRelateJoinsStoredLinks(t *testing.T) {
	w := newRerankHarness(t)
	link := func(data []byte, passage byte, weight float32) []byte { // one link, inside section 0
		return batch.AppendWeight(append(data, 1, 0, passage), weight)
	}
	links := link(link(nil, 1, 0.5), 0, 0.25)
	w.ok(w.store.AsTenant(w.context(), w.principal.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `
			INSERT INTO passage_links (tenant_id, generation, version_id, section, links)
			SELECT d.tenant_id, c.generation, d.live_version_id, 0, $2 FROM documents d
			JOIN collections c ON c.tenant_id = d.tenant_id AND c.id = d.collection_id
			WHERE d.tenant_id = $1 AND d.external_id = 'leave.md'`, w.principal.Tenant, links)
		return err
	}))
	found, err := w.plan("- lexical: {unit: passage}\n- relate\n- score")
	w.ok(err)
	joined := 0
	for _, c := range found.Candidates {
		if len(c.Spans) == 1 {
			continue
		}
		joined++
		body := scalar[string](w, `SELECT body FROM sections WHERE id = $1`, c.Spans[0].Section)
		first, second := body[c.Spans[0].Start:c.Spans[0].End], body[c.Spans[1].Start:c.Spans[1].End]
		if c.ExternalID != "leave.md" || !strings.HasPrefix(c.Text, first) || !strings.HasSuffix(c.Text, second) || c.Scores["link"] < 0.2 {
			t.Errorf("got %+v", c)
		}
	}
	if joined != 1 {
		t.Errorf("%d candidates are of two passages, want 1: %s", joined, found.Trace[1].Why)
	}
}
