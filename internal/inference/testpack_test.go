package inference

// This file makes a pack of all six graphs for tests: the shipped encoder and segmenter, and the tiny graphs of testdata,
// which training/testgraphs.py writes with their goldens.

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// testSections are what the graphs of testdata need in the manifest beside their files.
var testSections = []struct{ name, fields string }{
	{"pair", "max_question_tokens: 64, max_text_tokens: 384, has_answer_threshold: -1.5"},
	{"linker", "max_passages: 8, threshold: 0.25"},
	{"fuser", "max_tokens: 12, max_question_tokens: 6, max_passages: 10"},
	{"detector", "threshold: 0.6"},
}

// fullPack is the folder of a pack with the graphs named, beside what the shipped pack has in its own sections encoder
// and segmenter. Its sections can be changed before it is opened.
func fullPack(t testing.TB, change ...func(manifest string) string) string {
	t.Helper()
	dir := t.TempDir()
	data, err := os.ReadFile(filepath.Join(pack, manifestName))
	if err != nil {
		t.Fatal(err)
	}
	manifest := firstSections(string(data))
	for _, name := range []string{"tokenizer.json", "encoder.onnx", "segmenter.onnx"} {
		source, err := filepath.Abs(filepath.Join(pack, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(source, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range testSections {
		graph, err := os.ReadFile(filepath.Join("testdata", s.name+".onnx"))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, s.name+".onnx"), graph, 0o600); err != nil {
			t.Fatal(err)
		}
		hash := sha256.Sum256(graph)
		manifest += fmt.Sprintf("%s: {file: %s.onnx, sha256: %s, %s}\n", s.name, s.name, hex.EncodeToString(hash[:]), s.fields)
	}
	for _, c := range change {
		manifest = c(manifest)
	}
	if err := os.WriteFile(filepath.Join(dir, manifestName), []byte(manifest), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// firstSections is the shipped manifest as far as its segmenter: whatever graphs it has beside, tests bring their own.
func firstSections(manifest string) string {
	var kept strings.Builder
	keep := true
	for line := range strings.Lines(manifest) {
		if line[0] != ' ' && line[0] != '#' && line[0] != '\n' {
			name, _, _ := strings.Cut(line, ":")
			switch name {
			case "pair", "linker", "fuser", "detector", "calibrated":
				keep = false
			default:
				keep = true
			}
		}
		if keep {
			kept.WriteString(line)
		}
	}
	return kept.String()
}

// without leaves the sections of the graphs named out of a manifest.
func without(names ...string) func(string) string {
	return func(manifest string) string {
		var kept strings.Builder
		for line := range strings.Lines(manifest) {
			name, _, _ := strings.Cut(line, ":")
			found := false
			for _, n := range names {
				found = found || n == name
			}
			if !found {
				kept.WriteString(line)
			}
		}
		return kept.String()
	}
}

// openFull opens fullPack.
func openFull(t testing.TB, change ...func(string) string) *Model {
	t.Helper()
	m, err := Open(Options{Pack: fullPack(t, change...), Library: libraryPath(t), Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

// testGoldens are the outputs of the graphs of testdata.
type testGoldens struct {
	Pair struct {
		Question    string
		QuestionIDs []int32 `json:"question_ids"`
		Texts       []struct {
			Text        string
			IDs         []int32
			Scores      []float32
			First, Last int
			Span        float32
		}
	}
	Linker []struct {
		Vectors   [][]float32 // the first components; the others are 0
		Attention [][]float32
	}
	Fuser struct {
		Question string
		Texts    []string
		Settings []struct {
			Tokens       int
			WithQuestion bool `json:"with_question"`
			Scores       []float32
		}
	}
	Detector []struct {
		Pairs  [][2]float32
		Enough float32
	}
}

func readTestGoldens(t testing.TB) (g testGoldens) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "goldens.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &g); err != nil {
		t.Fatal(err)
	}
	if len(g.Pair.Texts) == 0 || len(g.Linker) == 0 || len(g.Fuser.Settings) == 0 || len(g.Detector) == 0 {
		t.Fatal("goldens.json lacks a part")
	}
	return g
}
