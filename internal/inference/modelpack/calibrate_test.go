package modelpack

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/schema/wire"
)

const uncalibrated = `format: 1
name: mine
version: 1.5.0
encoder: {file: a.onnx, sha256: aa, dimension: 256, similarity_threshold: 0.5}
# A remark.
pair: {file: c.onnx, sha256: cc}
reranker: {file: h.onnx, sha256: hh, has_answer_threshold: 7}
calibrated: {confidence_span: 1, confidence_span_reranker: 2, risk_0.1_reranker: 0.9, answerable_reranker: 3}
`

func calibratedPack(t *testing.T, manifest string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{ManifestName: manifest, "a.onnx": "a", "c.onnx": "c", "h.onnx": "h"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func layers() []Layer {
	first := Layer{Bias: []float32{0.5, -1}}
	for i := range 2 * wire.DetectPairs {
		first.Weights = append(first.Weights, []float32{float32(i) / 10, -0.1})
	}
	return []Layer{first, {Weights: [][]float32{{1}, {2}}, Bias: []float32{-0.25}}}
}

func TestACalibrationGoesIntoThePack(t *testing.T) {
	dir := calibratedPack(t, uncalibrated)
	similarity, has := 0.31415926, 2.5
	numbers := Numbers{Similarity: &similarity, PairHasAnswer: &has, Calibrated: map[string]float64{"dedupe": 0.9, "answerable": -0.5},
		Confidence: map[string]float64{"confidence_intercept": -1, "risk_0.2": 0.7}, Graph: wire.GraphReranker, Detector: layers(), DetectorThreshold: 0.86}
	checked := ""
	check := func(_ context.Context, staged string) error {
		for _, name := range []string{"a.onnx", "c.onnx", "h.onnx", ManifestName, goldensName} {
			if _, err := os.Stat(filepath.Join(staged, name)); err != nil {
				t.Errorf("what is checked lacks %s: %v", name, err)
			}
		}
		checked = staged
		return nil
	}
	if err := Calibrate(t.Context(), dir, numbers, check); err != nil {
		t.Fatal(err)
	}
	if checked == "" {
		t.Error("nobody checked")
	}
	text := func() string {
		data, err := os.ReadFile(filepath.Join(dir, ManifestName))
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	manifest := text()
	for _, want := range []string{"similarity_threshold: 0.3142", "has_answer_threshold: 2.5", "has_answer_threshold: 7", "dedupe: 0.9", "answerable: -0.5", "answerable_reranker: 3",
		"confidence_span: 1", "confidence_intercept_reranker: -1", "risk_0.2_reranker: 0.7", "threshold: 0.86", "detector-", "version: 1.5.0+calibrated.", "# A remark."} {
		if !strings.Contains(manifest, want) {
			t.Errorf("the manifest lacks %q:\n%s", want, manifest)
		}
	}
	for _, gone := range []string{"confidence_span_reranker", "risk_0.1_reranker"} {
		if strings.Contains(manifest, gone) {
			t.Errorf("the manifest has %q still", gone)
		}
	}
	var graph Graph
	found, err := filepath.Glob(filepath.Join(dir, "detector-*.onnx"))
	if err == nil && len(found) == 1 {
		graph, err = ReadGraph(found[0])
	}
	if in, ok := graph.Input("scores"); err != nil || !ok || in.Dimensions[1] != 2*wire.DetectPairs {
		t.Fatalf("the detector is %v, %+v, %v", found, graph, err)
	}
	// Again, with another detector: the old one is removed, and the mark is replaced.
	numbers.Detector[1].Bias[0] = 1
	if err := Calibrate(t.Context(), dir, numbers, nil); err != nil {
		t.Fatal(err)
	}
	again, err := filepath.Glob(filepath.Join(dir, "detector-*.onnx"))
	if err != nil || len(again) != 1 || again[0] == found[0] || strings.Count(text(), "+calibrated.") != 1 {
		t.Errorf("calibrated twice: %v, %v\n%s", again, err, text())
	}
	left, err := filepath.Glob(filepath.Join(dir, staging+"*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestACalibrationThatFailsLeavesThePack(t *testing.T) {
	value := 1.0
	broken := errors.New("does not load")
	wrong := layers()
	wrong[1].Weights = wrong[1].Weights[:1]
	for what, c := range map[string]struct {
		numbers  Numbers
		manifest string
		check    error
	}{
		"a check that fails":          {Numbers{PairHasAnswer: &value, Detector: layers()}, uncalibrated, broken},
		"a section that is not there": {Numbers{RerankerHasAnswer: &value}, strings.ReplaceAll(uncalibrated, "reranker:", "other:"), nil},
		"layers that do not fit":      {Numbers{Detector: wrong}, uncalibrated, nil},
		"no layers":                   {Numbers{Detector: []Layer{}}, uncalibrated, nil},
	} {
		dir := calibratedPack(t, c.manifest)
		if err := Calibrate(t.Context(), dir, c.numbers, func(context.Context, string) error { return c.check }); err == nil {
			t.Errorf("%s: no error", what)
		}
		entries, err := os.ReadDir(dir)
		data, also := os.ReadFile(filepath.Join(dir, ManifestName))
		if err != nil || also != nil || len(entries) != 4 || string(data) != c.manifest {
			t.Errorf("%s: the pack has %v, its manifest is\n%s", what, entries, data)
		}
	}
}

func TestOnlyAddedPacksAreCalibrated(t *testing.T) {
	dir := t.TempDir()
	other := calibratedPack(t, uncalibrated)
	if err := os.Mkdir(filepath.Join(dir, "mine"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "mine", ManifestName), []byte(uncalibrated), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Calibratable(dir, filepath.Join(dir, "mine")); err != nil {
		t.Error(err)
	}
	if err := Calibratable(dir, other); err == nil || !strings.Contains(err.Error(), "calibrate a copy") {
		t.Errorf("a folder elsewhere: %v", err)
	}
}
