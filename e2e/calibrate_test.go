package e2e

// This file calibrates a model pack.

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/local/localtest"
)

// testCalibration calibrates the thresholds of a copy of the shipped pack on a small dataset, with
// the real graphs.
func testCalibration(t *testing.T, p programs) {
	data := localtest.Dir(t)
	env := []string{"SLUICE_DATA=" + data}
	dataset := datasetFolder(t, "squad-articles")
	if dataset == "" {
		return
	}
	const questions = 200
	shipped := filepath.Join(p.repository, "models", "default")
	p.run(t, env, "sluice", "models", "calibrate", shipped, dataset).fails(t, "stays as it is", "models add")
	p.run(t, env, "sluice", "models", "add", shipped, "--name", "mine").ok(t)
	pack := filepath.Join(data, "models", "mine")
	manifest := func() string {
		text, err := os.ReadFile(filepath.Join(pack, "manifest.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	// The shipped pack's dedupe is already calibrated. It is removed, so that the test sees the new
	// value.
	lacking := regexp.MustCompile(`(?m)^ *dedupe: .*\n`).ReplaceAllString(manifest(), "")
	if err := os.WriteFile(filepath.Join(pack, "manifest.yaml"), []byte(lacking), 0o600); err != nil {
		t.Fatal(err)
	}
	before := manifest()
	few := write(t, map[string]string{"corpus.jsonl": `{"_id": "a", "text": "It is red."}`, "queries.jsonl": `{"_id": "q", "text": "Which colour?", "metadata": {"answers": ["red"]}}`})
	p.run(t, env, "sluice", "models", "calibrate", "mine", few).fails(t, few, "questions with an answer", "50")
	p.run(t, env, "sluice", "models", "calibrate", "mine", dataset, "--questions", "50", "--dry-run").ok(t).has(t, "is unchanged", "confidence stays as it is")
	if manifest() != before {
		t.Error("a dry run wrote")
	}

	out := p.run(t, env, "sluice", "models", "calibrate", "mine", dataset, "--questions", fmt.Sprint(questions), "--json").ok(t)
	var found struct {
		Questions  int
		Encoder    *struct{ Similarity, Dedupe float64 }
		Pair       *struct{ Area float64 }
		Reranker   *struct{ Area float64 }
		Detector   *struct{ Area, Threshold float64 }
		Confidence *struct {
			Graph string
			Area  float64
		}
		Notes []string
	}
	if err := json.Unmarshal([]byte(out.out), &found); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if found.Questions != questions || found.Encoder == nil || found.Encoder.Similarity < 0.02 || found.Encoder.Dedupe < 0.7 || found.Pair == nil || found.Pair.Area < 0.75 ||
		found.Reranker == nil || found.Reranker.Area < 0.8 || found.Detector == nil || found.Confidence == nil || found.Confidence.Graph != "reranker" || found.Confidence.Area < 0.6 {
		t.Errorf("found %s", out.out)
	}
	after := manifest()
	for _, want := range []string{"+calibrated.", "dedupe: ", "detector-", "confidence_intercept_reranker: "} {
		if !strings.Contains(after, want) || strings.Contains(before, want) && want != "confidence_intercept_reranker: " {
			t.Errorf("the manifest has no new %q:\n%s", want, after)
		}
	}
	p.run(t, env, "sluice", "models", "check", "mine").ok(t).has(t, "+calibrated.", "the pack works")
}
