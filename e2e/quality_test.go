package e2e

// This file checks the quality of the plans: their results on a small, fixed corpus, the Markdown
// documents of the examples cut at their headings. After a change that is meant to change results,
// update them:
//
//	go test ./e2e -run TestSluice/Up/Quality -update

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden file of the plans' quality")

// tolerance allows for sums that are added in another order.
const tolerance = 1e-6

// arriving are the plans whose results depend on the order in which documents arrive, because it
// determines which sections share a cluster; uploads run in parallel. saki's tokens differed by a
// passage or two, most likely because of nearly equal links, which the model computes in batches of
// documents that arrived together. The outcome of two of the 45 questions may change.
var arriving = map[string]bool{"funnel-lite": true, "funnelrag": true, "saki": true}

// allowed returns by how much a plan's result may differ from the golden one.
func allowed(plan, metric string, golden float64) float64 {
	switch {
	case !arriving[plan]:
		return tolerance
	case metric == "tokens" || strings.HasPrefix(metric, "entropy"):
		return 0.1 * golden
	case strings.HasSuffix(metric, "_sum"): // over three values of k
		return 3 * 2.0 / 45
	}
	return 2.0/45 + tolerance
}

func testQuality(t *testing.T, s *server) {
	plans := into[[]struct{ Name string }](t, s.sluice(t, "plans", "list", "--json").ok(t))
	names := make([]string, len(plans))
	for i, p := range plans {
		names[i] = p.Name
	}
	r := s.sluice(t, "eval", qualityDataset(t, s), "--plan", strings.Join(names, ","), "--json", "-").ok(t)
	got := map[string]map[string]float64{}
	for _, p := range into[evaluated](t, r).Plans {
		p.Metrics["tokens"] = p.Tokens
		got[p.Plan] = p.Metrics
	}
	golden := filepath.Join(s.repository, "e2e", "testdata", "quality", "golden.json")
	if *update {
		text, err := json.MarshalIndent(got, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(golden, append(text, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(golden)
	if err != nil {
		t.Fatalf("%v; -update writes it", err)
	}
	var want map[string]map[string]float64
	if err := json.Unmarshal(text, &want); err != nil {
		t.Fatal(err)
	}
	moved := 0
	for plan := range want {
		if got[plan] == nil {
			t.Errorf("plan %s is gone", plan)
		}
	}
	for plan, metrics := range got {
		if want[plan] == nil {
			t.Errorf("plan %s is not in the golden file", plan)
			continue
		}
		for name, v := range metrics {
			if before, there := want[plan][name]; !there || math.Abs(v-before) > allowed(plan, name, before) {
				moved++
				t.Errorf("%s %s is %.6f; it was %.6f", plan, name, v, before)
			}
		}
	}
	if moved > 0 {
		t.Errorf("%d figures moved. Where that is meant, run with -update and say why in the commit:\n%s", moved, r.err)
	}
}

// qualityDataset writes the BEIR folder. A question's relevant documents are those that contain its
// evidence.
func qualityDataset(t *testing.T, s *server) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(s.repository, "examples", "documents", "*", "*.md"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no Markdown among the examples: %v", err)
	}
	type document struct {
		ID    string `json:"_id"`
		Title string `json:"title"`
		Text  string `json:"text"`
	}
	var documents []document
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		title, _, _ := strings.Cut(strings.TrimPrefix(string(text), "# "), "\n")
		for i, part := range strings.Split("\n"+string(text), "\n## ") {
			documents = append(documents, document{ID: fmt.Sprintf("%s-%d", strings.TrimSuffix(filepath.Base(file), ".md"), i), Title: title, Text: strings.TrimSpace(part)})
		}
	}
	var corpus, queries, judgements strings.Builder
	for _, d := range documents {
		corpus.WriteString(jsonLine(t, d))
	}
	text, err := os.ReadFile(filepath.Join(s.repository, "e2e", "testdata", "quality", "questions.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for line := range bytes.Lines(text) {
		var q struct {
			Question, Evidence string
			Answers            []string
		}
		if err := json.Unmarshal(line, &q); err != nil {
			t.Fatal(err)
		}
		n++
		queries.WriteString(jsonLine(t, map[string]any{"_id": fmt.Sprint(n), "text": q.Question, "metadata": map[string]any{"answers": q.Answers, "evidence": []string{q.Evidence}}}))
		relevant := 0
		for _, d := range documents {
			if strings.Contains(d.Text, q.Evidence) {
				relevant++
				fmt.Fprintf(&judgements, "%d\t%s\t1\n", n, d.ID)
			}
		}
		if relevant == 0 {
			t.Errorf("no document holds the evidence of %q: %q", q.Question, q.Evidence)
		}
	}
	return filepath.Join(write(t, map[string]string{"quality/corpus.jsonl": corpus.String(), "quality/queries.jsonl": queries.String(), "quality/qrels/test.tsv": judgements.String()}), "quality")
}

func jsonLine(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text) + "\n"
}
