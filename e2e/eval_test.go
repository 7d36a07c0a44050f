package e2e

// This file measures plans on a dataset so small that the right figures are known.

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/local/localtest"
	"github.com/sluice-rag/sluice/internal/waittest"
	"github.com/sluice-rag/sluice/schema"
)

// evaluated has the fields of `sluice eval --json` that are tested here.
type evaluated struct {
	Dataset   string
	Documents int
	Failed    int
	Queries   int
	Plans     []struct {
		Plan    string
		Metrics map[string]float64
		Tokens  float64
		MS      struct{ P50, P95 float64 }
	}
}

// dataset writes a BEIR folder of three documents without common words, and a fourth one that
// cannot be ingested.
func dataset(t *testing.T) string {
	t.Helper()
	return write(t, map[string]string{
		"tiny/corpus.jsonl": `{"_id":"bees.md","title":"Bees","text":"# A hive\n\nBees store honey in wax combs. The queen lays eggs.","metadata":{"links":["rail"]}}
{"_id":"rail","title":"Railways","text":"Locomotives pull carriages on steel rails. The gauge is 1,435 millimetres.","metadata":{"line":"main"}}
{"_id":"tea","title":"Tea","text":"Leaves are withered, rolled and dried before they are brewed."}
{"_id":"blank","title":"Blank","text":" "}
`,
		"tiny/queries.jsonl": `{"_id":"1","text":"Where do bees store honey?","metadata":{"answers":["wax combs"],"evidence":["Bees store honey in wax combs."]}}
{"_id":"2","text":"How wide is the gauge of steel rails?","metadata":{"answers":["1435 mm","the 1,435 millimetres"],"scope":{"line":["main","branch"]},"evidence":[{"doc":"rail","text":"The gauge is 1,435 millimetres."}]}}
{"_id":"3","text":"Who asked this?"}
`,
		"tiny/qrels/test.tsv": "query-id\tcorpus-id\tscore\n1\tbees.md\t1\n2\trail\t1\n",
	})
}

func testEvaluation(t *testing.T, s *server) {
	base := dataset(t)
	tiny, out := filepath.Join(base, "tiny"), t.TempDir()
	report, figures := filepath.Join(out, "report.html"), filepath.Join(out, "figures.json")

	first := s.sluice(t, "eval", tiny, "--plan", "naive", "--json", "-", "--html", report, "--keep").ok(t)
	got := into[evaluated](t, first)
	if got.Dataset != "tiny" || got.Documents != 4 || got.Failed != 1 || got.Queries != 2 || len(got.Plans) != 1 || got.Plans[0].Plan != "naive" {
		t.Fatalf("the evaluation is %+v: %v", got, first)
	}
	for _, name := range []string{"ndcg@10", "mrr@10", "document_recall@100", "hit@1", "ar@4", "evidence_recall", "document_recall@1", "document_precision@1", "document_ie@1", "passage_recall@1", "passage_precision@1", "passage_ie@1"} {
		if v, there := got.Plans[0].Metrics[name]; !there || v != 1 {
			t.Errorf("%s is %v (there: %v); every question has its answer in the first passage", name, v, there)
		}
	}
	if p := got.Plans[0]; p.Tokens <= 0 || p.MS.P50 <= 0 || p.MS.P95 < p.MS.P50 {
		t.Errorf("tokens %v, times %+v", p.Tokens, p.MS)
	}
	if !strings.Contains(first.err, "blank") || !strings.Contains(first.err, "1 question without a relevant document") {
		t.Errorf("the failed document or the question left out is not named: %s", first.err)
	}
	if page, err := os.ReadFile(report); err != nil || !strings.Contains(string(page), "tiny") || !strings.Contains(string(page), "<svg") {
		t.Errorf("the report is %.200s, %v", page, err)
	}
	kept := evaluations(t, s)
	if len(kept) != 1 {
		t.Fatalf("--keep left %v", kept)
	}
	for _, d := range into[[]schema.Document](t, s.sluice(t, "documents", "list", "-c", kept[0], "--json").ok(t)) {
		if d.ExternalID == "bees.md" && (d.Title != "Bees" || d.Metadata["links"] == nil) {
			t.Errorf("title and metadata did not come along: %+v", d)
		}
	}

	// A second run ingests nothing, and keeps the collection of the first.
	again := s.sluice(t, "eval", tiny, "--plan", "naive", "--json", figures).ok(t)
	if !strings.Contains(again.err, "from an earlier run") || len(evaluations(t, s)) != 1 {
		t.Errorf("the second run did not use what the first kept, or deleted it: %v", again)
	}
	again.has(t, "nDCG@10", "naive", "1.0000")
	if text, err := os.ReadFile(figures); err != nil || !json.Valid(text) {
		t.Errorf("--json wrote %s, %v", text, err)
	}

	// Two datasets give an array. Without --keep, the collections are removed.
	put(t, base, "other/corpus.jsonl", `{"_id":"a","title":"A","text":"Anchors hold ships."}`)
	put(t, base, "other/queries.jsonl", `{"_id":"1","text":"What holds ships?"}`)
	put(t, base, "other/qrels/dev.tsv", "1\ta\t2\n")
	put(t, base, "tiny/qrels/dev.tsv", "1\tbees.md\t1\n")
	both := into[[]evaluated](t, s.sluice(t, "eval", tiny, filepath.Join(base, "other"), "--plan", "naive", "--split", "dev", "--json", "-").ok(t))
	if len(both) != 2 || both[0].Queries != 1 || both[1].Dataset != "other" {
		t.Errorf("two datasets gave %+v", both)
	}
	if _, there := both[1].Plans[0].Metrics["ar@4"]; there {
		t.Error("there is an answer recall where no answers are known")
	}
	if left := evaluations(t, s); len(left) != 1 {
		t.Errorf("without --keep, %v are left", left)
	}

	storedEvaluations(t, s, tiny)

	// Errors are reported before anything is ingested.
	s.sluice(t, "eval", tiny, "--plan", "naive,nonsense").fails(t, "nonsense", "it has: ")
	s.sluice(t, "eval", tiny, "--plan", "naive", "--json", filepath.Join(out, "none", "x.json")).fails(t, "json", "no folder")
	s.sluice(t, "eval", tiny, "--plan", "naive", "--answers", "--judge").fails(t, "judge", "extractive", "SLUICE_LLM_BASE_URL", "leave the judge out")
	put(t, base, "tiny/qrels/test.tsv", "1\tnobody\t1\n")
	s.sluice(t, "eval", tiny, "--plan", "naive").fails(t, "test.tsv line 1", "nobody")
	s.sluice(t, "collections", "delete", kept[0], "--yes").ok(t)
}

// testConvertedDatasets converts datasets and evaluates them. Questions about papers find only
// their own paper, although the other one has the same words. Questions without a corpus can be
// asked, too.
func testConvertedDatasets(t *testing.T, s *server) {
	base := write(t, map[string]string{
		"qasper.json": `{"p1": {"title": "One", "abstract": "We train on much data.", "full_text": [], "qas": [{"question": "On what is it trained?", "question_id": "1",
			"answers": [{"answer": {"unanswerable": false, "extractive_spans": ["much data"], "evidence": ["We train on much data."]}}]}]},
			"p2": {"title": "Two", "abstract": "We train on much data, too.", "full_text": [], "qas": [{"question": "On what is it trained?", "question_id": "2",
			"answers": [{"answer": {"unanswerable": false, "extractive_spans": ["much data"], "evidence": ["We train on much data, too."]}}]}]}}`,
		"nq.jsonl": `{"question": "where do bees store honey", "answer": ["wax combs"]}`,
	})
	papers, open := filepath.Join(base, "papers"), filepath.Join(base, "open")
	s.sluice(t, "dataset", "convert", "auto", filepath.Join(base, "qasper.json"), papers).ok(t).has(t, "qasper", "2 documents, 2 questions")
	got := into[evaluated](t, s.sluice(t, "eval", papers, "--plan", "bm25", "--json", "-").ok(t))
	if got.Queries != 2 || got.Plans[0].Metrics["hit@1"] != 1 || got.Plans[0].Metrics["evidence_recall"] != 1 {
		t.Errorf("the evaluation of the papers is %+v", got)
	}
	s.sluice(t, "dataset", "convert", "auto", filepath.Join(base, "nq.jsonl"), open).ok(t).has(t, "nq-open", "0 documents, 1 questions")
	s.sluice(t, "eval", open, "--plan", "bm25").fails(t, "--answers")
	ran := s.sluice(t, "eval", open, "--plan", "bm25", "--answers", "--json", "-").ok(t)
	if got := into[evaluated](t, ran); got.Documents != 0 || got.Queries != 1 || got.Plans[0].Metrics["answered"] != 0 || !strings.Contains(ran.err, "there is no corpus.jsonl") {
		t.Errorf("the evaluation without documents is %+v: %s", got, ran.err)
	}
	s.sluice(t, "dataset", "convert", "auto", filepath.Join(base, "nq.jsonl"), open).fails(t, "is there already")
}

func storedEvaluations(t *testing.T, s *server, dataset string) {
	t.Helper()
	if first := s.sluice(t, "eval", dataset, "--plan", "naive", "--store", "--name", "before", "--notes", "as it was").ok(t); !strings.Contains(first.err, "stored") {
		t.Errorf("what was stored is not told: %v", first)
	}
	s.sluice(t, "eval", dataset, "--plan", "naive,bm25", "--store", "--answers").ok(t)
	list := into[[]schema.Evaluation](t, s.sluice(t, "evaluations", "list", "--dataset", "tiny", "--json").ok(t))
	if len(list) != 2 || list[1].Name != "before" || list[1].Notes != "as it was" || list[0].Name != "tiny: naive, bm25" || !list[0].Figures || list[0].Datasets[0].Queries != 2 {
		t.Fatalf("stored are %+v", list)
	}
	after, before := list[0].ID.String(), list[1].ID.String()
	s.sluice(t, "evaluations", "show", after).ok(t).has(t, "tiny: 4 documents, 2 questions", "nDCG@10", "bm25", "Answers")
	compared := into[schema.EvaluationComparison](t, s.sluice(t, "evaluations", "compare", after, before, "--json").ok(t))
	if len(compared.Datasets) != 1 || len(compared.Datasets[0].Plans) != 1 || compared.Datasets[0].Plans[0].Plan != "naive" {
		t.Fatalf("compared are %+v", compared)
	}
	for _, m := range compared.Datasets[0].Plans[0].Metrics {
		if m.Metric == "hit@1" && (m.Value != 1 || m.Difference != 0 || m.Questions != 2 || m.P == nil || *m.P != 1) {
			t.Errorf("hit@1 was compared as %+v", m)
		}
	}
	s.sluice(t, "evaluations", "compare", after, before).ok(t).has(t, "plan naive", "hit@1", "+0.0000")
	s.sluice(t, "evaluations", "delete", before).ok(t)
	s.sluice(t, "evaluations", "show", before).fails(t, "no evaluation")
	s.sluice(t, "evaluations", "delete", after).ok(t)
}

// testRatings rates answers, and evaluates with the dataset that is made from the ratings.
func testRatings(t *testing.T, s *server) {
	base := write(t, map[string]string{"rated/corpus.jsonl": `{"_id":"bees.md","title":"Bees","text":"# A hive\n\nBees store honey in wax combs. The queen lays eggs."}
{"_id":"rail","title":"Railways","text":"Locomotives pull carriages on steel rails. The gauge is 1,435 millimetres.","metadata":{"line":"main"}}
{"_id":"tea","title":"Tea","text":"Leaves are withered, rolled and dried before they are brewed."}
`})
	s.sluice(t, "ingest", filepath.Join(base, "rated"), "--collection", "rated", "--wait").ok(t)
	ask := func(question string) string {
		t.Helper()
		a := into[schema.Answer](t, s.sluice(t, "ask", question, "--collection", "rated", "--json").ok(t))
		if a.ID == uuid.Nil {
			t.Fatalf("an answer without its question's id: %+v", a)
		}
		return a.ID.String()
	}
	bees, rails := ask("Where do bees store honey?"), ask("How wide is the gauge of steel rails?")
	s.sluice(t, "ratings", "set", bees, "up", "--comment", "in wax combs").ok(t)
	s.sluice(t, "ratings", "set", rails, "down").ok(t)
	s.sluice(t, "ratings", "list", "--collection", "rated").ok(t).has(t, bees, "in wax combs", rails, "down")
	out := filepath.Join(t.TempDir(), "good")
	s.sluice(t, "ratings", "export", out, "--collection", "rated").ok(t).has(t, "2 ratings: 1 questions", "1 undecided")
	for file, want := range map[string]string{
		"corpus.jsonl": "Bees store honey in wax combs.", "queries.jsonl": bees, "ratings.jsonl": "in wax combs", "qrels/test.tsv": bees + "\tbees.md\t1"} {
		if text, err := os.ReadFile(filepath.Join(out, filepath.FromSlash(file))); err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s is %s, %v", file, text, err)
		}
	}
	got := into[evaluated](t, s.sluice(t, "eval", out, "--plan", "naive", "--json", "-").ok(t))
	if got.Documents != 3 || got.Queries != 1 || got.Plans[0].Metrics["hit@1"] != 1 || got.Plans[0].Metrics["evidence_recall"] != 1 {
		t.Errorf("evaluated on what was found good: %+v", got)
	}
	s.sluice(t, "ratings", "remove", rails).ok(t)
	s.sluice(t, "ratings", "set", uuid.NewString(), "up").fails(t, "no question")
	s.sluice(t, "collections", "delete", "rated", "--yes").ok(t)
}

// testInterruptedEvaluation interrupts evaluations with Ctrl-C. They remove their collections,
// except with --keep, so that a later run can continue.
func testInterruptedEvaluation(t *testing.T, s *server) {
	base := t.TempDir()
	var corpus, queries, qrels strings.Builder
	for i := range 300 {
		fmt.Fprintf(&corpus, "{\"_id\":\"d%d\",\"title\":\"Ship %d\",\"text\":\"Ship number%d carries cargo%d across the sea.\"}\n", i, i, i, i)
		fmt.Fprintf(&queries, "{\"_id\":\"q%d\",\"text\":\"What does ship number%d carry?\"}\n", i, i)
		fmt.Fprintf(&qrels, "q%d\td%d\t1\n", i, i)
	}
	put(t, base, "ships/corpus.jsonl", corpus.String())
	put(t, base, "ships/queries.jsonl", queries.String())
	put(t, base, "ships/qrels/test.tsv", qrels.String())
	ships, figures := filepath.Join(base, "ships"), filepath.Join(base, "figures.json")
	interrupted := func(args ...string) {
		t.Helper()
		args = append([]string{"eval", ships, "--json", figures}, args...)
		p := s.start(t, []string{"SLUICE_URL=" + s.url, "SLUICE_API_KEY=" + s.key}, "sluice", args...)
		waittest.Until(t, func() string {
			if len(evaluations(t, s)) == 0 {
				return "the evaluation has made no collection: " + p.log.tail()
			}
			return ""
		})
		if err := p.cmd.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
		waittest.Receive(t, p.done, "the end of the evaluation")
		if code := p.cmd.ProcessState.ExitCode(); code != 1 || !strings.Contains(p.log.tail(), "interrupt") || strings.Contains(p.log.tail(), "no server") {
			t.Errorf("exit code %d, and it says %s", code, p.log.tail())
		}
		if _, err := os.Stat(figures); err == nil {
			t.Error("there are figures of questions that were not asked")
		}
	}
	interrupted("--plan", "sluice")
	if left := evaluations(t, s); len(left) != 0 {
		t.Errorf("an interrupted evaluation left %v", left)
	}
	interrupted("--plan", "sluice", "--keep")
	kept := evaluations(t, s)
	if len(kept) != 1 {
		t.Fatalf("an interrupted evaluation with --keep left %v", kept)
	}
	got := into[evaluated](t, s.sluice(t, "eval", ships, "--plan", "bm25", "--limit", "20", "--json", "-").ok(t))
	if got.Documents != 300 || got.Failed != 0 || got.Plans[0].Metrics["hit@1"] != 1 {
		t.Errorf("the run that went on with it gave %+v", got)
	}
	s.sluice(t, "collections", "delete", kept[0], "--yes").ok(t)
}

// evaluations returns the collections that evaluations have left.
func evaluations(t *testing.T, s *server) []string {
	t.Helper()
	var out []string
	for _, c := range into[[]schema.Collection](t, s.sluice(t, "collections", "list", "--json").ok(t)) {
		if strings.HasPrefix(c.Name, "eval-") {
			out = append(out, c.Name)
		}
	}
	return out
}

// testEvaluationAlone evaluates without a running server.
func testEvaluationAlone(t *testing.T, p programs) {
	data := localtest.Dir(t)
	r := p.run(t, nil, "sluice", "eval", filepath.Join(dataset(t), "tiny"), "--plan", "naive", "--json", "-", "--data", data).ok(t)
	if got := into[evaluated](t, r); got.Queries != 2 || got.Plans[0].Metrics["hit@1"] != 1 {
		t.Errorf("the evaluation is %+v", got)
	}
	if !strings.Contains(r.err, "Starting a server") {
		t.Errorf("it does not say that it started a server: %v", r)
	}
}
