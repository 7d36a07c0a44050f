package main

// This file tests --check as `sluice models check` uses it: it writes a report to standard output,
// or the error to standard error.

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/inference/modelpack"
	"github.com/sluice-rag/sluice/internal/local"
	"github.com/sluice-rag/sluice/schema/wire"
)

const repository = "../.."

func runCheck(t *testing.T, pack string) (report modelpack.Report, stderr string, err error) {
	t.Helper()
	library, err := local.FindONNXRuntime()
	if err != nil {
		t.Fatalf("%v (run `make setup`)", err)
	}
	cmd := exec.Command(os.Args[0], "--check")
	cmd.Env = append(os.Environ(), runMain+"=1", "SLUICE_NATS_URL=", "SLUICE_MODEL_PACK="+pack, "SLUICE_ONNXRUNTIME_LIB="+library, "SLUICE_MODEL_THREADS=1")
	var out, stderrBuffer bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderrBuffer
	if err := cmd.Run(); err != nil {
		return report, stderrBuffer.String(), err
	}
	if err := json.Unmarshal(out.Bytes(), &report); err != nil {
		t.Fatalf("%v in %s", err, out.String())
	}
	return report, stderrBuffer.String(), nil
}

func TestCheckReportsOnAnAddedPack(t *testing.T) {
	added, err := modelpack.Add(t.Context(), modelpack.Options{Dir: t.TempDir()}, modelpack.Addition{
		From: filepath.Join(repository, "internal/inference/modelpack/testdata/pooled-384"), Onto: filepath.Join(repository, "models/default")})
	if err != nil {
		t.Fatal(err)
	}
	report, stderr, err := runCheck(t, added.Pack.Path)
	if err != nil {
		t.Fatalf("%v: %s", err, stderr)
	}
	if len(report.Problems) > 0 || report.Info.Dimension != 384 || report.Info.Provider != "cpu" || !slices.Contains(report.Info.Operations, wire.OpSegment) {
		t.Errorf("report %+v", report)
	}
	if g := report.Graphs[0]; g.Section != "encoder" || g.Goldens != 7 || g.Worst > 1e-4 {
		t.Errorf("encoder: %+v", g)
	}

	if err := os.Remove(filepath.Join(added.Pack.Path, "segmenter.onnx")); err != nil {
		t.Fatal(err)
	}
	if _, stderr, err := runCheck(t, added.Pack.Path); err == nil || !strings.Contains(stderr, "segmenter.file") {
		t.Errorf("without its segmenter: %v, %s", err, stderr)
	}
}

// TestCheckHoldsEveryGraphToGoldens: a check of a shipped pack compares every graph with its
// goldens.
func TestCheckHoldsEveryGraphToGoldens(t *testing.T) {
	for name, inBytes := range map[string][]string{"default": {"reranker"}, "large": {"reranker", "encoder"}} {
		t.Run(name, func(t *testing.T) {
			report, stderr, err := runCheck(t, filepath.Join(repository, "models", name))
			if err != nil || len(report.Problems) > 0 {
				t.Fatalf("%v: %s %v", err, stderr, report.Problems)
			}
			var sections []string
			for _, g := range report.Graphs {
				sections = append(sections, g.Section)
				if g.Goldens == 0 || g.Worst > g.Tolerance || g.Tolerance > 1e-4 && !slices.Contains(inBytes, g.Section) {
					t.Errorf("%s: %d goldens, of which the farthest is off by %g", g.Section, g.Goldens, g.Worst)
				}
			}
			packs, err := modelpack.List(t.TempDir(), filepath.Join(repository, "models", name))
			if err != nil {
				t.Fatal(err)
			}
			at := slices.IndexFunc(packs, func(p modelpack.Pack) bool { return p.InUse })
			if want := packs[at].Graphs; len(want) < 6 || !slices.Equal(sections, want) {
				t.Errorf("it checked %v, the pack has %v", sections, want)
			}
		})
	}
}
