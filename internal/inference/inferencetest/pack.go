// Package inferencetest makes a model pack with all seven graphs for tests: the shipped encoder and
// segmenter, and tiny random graphs that training/testgraphs.py writes with their goldens. Their
// results mean nothing, but they take no time and are always the same.
package inferencetest

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

//go:embed testdata
var testdata embed.FS

// sections are the fields that the tiny graphs need in the manifest besides their files.
var sections = []struct{ name, fields string }{
	{"pair", "max_question_tokens: 64, max_text_tokens: 384, has_answer_threshold: -1.5"},
	{"reranker", "max_question_tokens: 32, max_text_tokens: 192, has_answer_threshold: 0.25"},
	{"linker", "max_passages: 8, threshold: 0.25"},
	{"fuser", "max_tokens: 12, max_question_tokens: 6, max_passages: 10"},
	{"detector", "threshold: 0.6"},
}

// Pack makes the pack in a temporary folder of the test and returns the folder. Each change gets
// the manifest, in which the section of every tiny graph is a single line, and returns another one.
func Pack(t testing.TB, change ...func(manifest string) string) string {
	t.Helper()
	shipped, dir := shippedPack(t), t.TempDir()
	data, err := os.ReadFile(filepath.Join(shipped, "manifest.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	manifest := firstSections(string(data))
	for _, name := range []string{"tokenizer.json", "encoder.onnx", "segmenter.onnx"} {
		if err := os.Symlink(filepath.Join(shipped, name), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range sections {
		graph, err := testdata.ReadFile("testdata/" + s.name + ".onnx")
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
	if err := os.WriteFile(filepath.Join(dir, "manifest.yaml"), []byte(manifest), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// shippedPack returns the absolute path of the repository's pack.
func shippedPack(t testing.TB) string {
	t.Helper()
	_, here, _, ok := runtime.Caller(0)
	if !ok {
		t.Fatal("this file's place is not known")
	}
	return filepath.Join(filepath.Dir(here), "..", "..", "..", "models", "default")
}

// own are the sections of the shipped manifest that the tiny graphs replace.
var own = []string{"pair", "reranker", "linker", "fuser", "detector", "calibrated"}

// firstSections returns the shipped manifest without the sections in own.
func firstSections(manifest string) string {
	var kept strings.Builder
	keep := true
	for line := range strings.Lines(manifest) {
		if line[0] != ' ' && line[0] != '#' && line[0] != '\n' {
			name, _, _ := strings.Cut(line, ":")
			keep = !slices.Contains(own, name)
		}
		if keep {
			kept.WriteString(line)
		}
	}
	return kept.String()
}

// Without removes the named tiny graphs from the manifest.
func Without(names ...string) func(manifest string) string {
	return func(manifest string) string {
		var kept strings.Builder
		for line := range strings.Lines(manifest) {
			if name, _, _ := strings.Cut(line, ":"); !slices.Contains(names, name) {
				kept.WriteString(line)
			}
		}
		return kept.String()
	}
}

// Goldens are the outputs of the tiny graphs.
type Goldens struct {
	Pair     Scores
	Reranker Scores // of the same question and texts
	Linker   []struct {
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

// Scores are a graph's outputs for a question and some texts.
type Scores struct {
	Question    string
	QuestionIDs []int32 `json:"question_ids"`
	Texts       []struct {
		Text        string
		IDs         []int32
		Scores      []float32 // relevance, has_answer, llm_prefer
		First, Last int       // tokens of the best answer
		Span        float32
	}
}

// ReadGoldens reads the goldens of the tiny graphs.
func ReadGoldens(t testing.TB) (g Goldens) {
	t.Helper()
	data, err := testdata.ReadFile("testdata/goldens.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &g); err != nil {
		t.Fatal(err)
	}
	if len(g.Pair.Texts) == 0 || len(g.Reranker.Texts) == 0 || len(g.Linker) == 0 || len(g.Fuser.Settings) == 0 || len(g.Detector) == 0 {
		t.Fatal("goldens.json lacks a part")
	}
	return g
}
