package inference

// This file tests graphs in Hugging Face's form. It makes packs of the random models of modelpack's
// tests and compares their outputs with PyTorch's, graph by graph and over NATS.

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/inference/modelpack"
	"github.com/sluice-rag/sluice/internal/modelclient"
	"github.com/sluice-rag/sluice/schema/wire"
)

const testModels = "modelpack/testdata"

// added makes a pack of a test model and returns its folder.
func added(t *testing.T, a modelpack.Addition) string {
	t.Helper()
	a.From = filepath.Join(testModels, a.From)
	made, err := modelpack.Add(t.Context(), modelpack.Options{Dir: t.TempDir()}, a)
	if err != nil {
		t.Fatal(err)
	}
	return made.Pack.Path
}

func openPack(t testing.TB, dir string) *Model {
	t.Helper()
	m, err := Open(Options{Pack: dir, Library: libraryPath(t), Threads: 1})
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

func modelGoldens(t *testing.T, model string) (g packGoldens) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(testModels, model, "goldens.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &g); err != nil {
		t.Fatal(err)
	}
	if len(g.Encoder)+len(g.Pair) < 5 {
		t.Fatalf("%s has %d and %d goldens", model, len(g.Encoder), len(g.Pair))
	}
	return g
}

func TestAddedEncodersGiveTheirGoldensOverNATS(t *testing.T) {
	for _, c := range []struct {
		addition  modelpack.Addition
		dimension int
	}{
		{modelpack.Addition{From: "bert-mean"}, 32},
		{modelpack.Addition{From: "distilbert-cls"}, 32},
		{modelpack.Addition{From: "pooled-384"}, 384},
		{modelpack.Addition{From: "pooled-384", Onto: pack}, 384},
	} {
		model := openPack(t, added(t, c.addition))
		nc, _ := serving(t, model, ServerOptions{})
		client := modelclient.New(nc, modelclient.Options{})
		info, err := client.Info(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if info.Dimension != c.dimension || info.MaxTokens != 48 || !strings.HasPrefix(info.Space, c.addition.From+"-") || !slices.Contains(info.Operations, wire.OpEncode) {
			t.Errorf("%v: info %+v", c.addition, info)
		}
		g := modelGoldens(t, c.addition.From)
		var texts []string
		for _, e := range g.Encoder {
			if ids, _, _ := model.encoder.tokens(e.Text); !slices.Equal(ids, e.IDs) {
				t.Errorf("%v, %.40q: ids %v, want %v", c.addition, e.Text, ids, e.IDs)
			}
			texts = append(texts, e.Text)
		}
		vectors, space, err := client.Encode(t.Context(), wire.LaneBulk, texts)
		if err != nil {
			t.Fatal(err)
		}
		if space != info.Space || vectors.Dimension != c.dimension {
			t.Errorf("%v: vectors of %d in space %s", c.addition, vectors.Dimension, space)
		}
		for i, e := range g.Encoder {
			near(t, c.addition.From+", vector of "+e.Text[:min(40, len(e.Text))], vectors.Row(i), e.Embedding)
		}
	}
}

func TestAddedCrossEncodersGiveTheirGoldensOverNATS(t *testing.T) {
	for _, name := range []string{"cross-encoder", "cross-encoder-2"} {
		nc, _ := serving(t, openPack(t, added(t, modelpack.Addition{From: name, Onto: pack})), ServerOptions{})
		client := modelclient.New(nc, modelclient.Options{})
		info, err := client.Info(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if half, ok := info.Calibrated["has_answer"]; !ok || half != 0 || !info.NoSpans || len(info.Notes) != 1 || !strings.Contains(info.Notes[0], "no answer spans") {
			t.Errorf("%s: info %+v", name, info)
		}
		g := modelGoldens(t, name)
		var texts []string
		var want, got []float32
		for _, p := range g.Pair {
			texts, want = append(texts, p.Text), append(want, *p.Relevance)
		}
		scores, _, err := client.Score(t.Context(), wire.LaneInteractive, g.Pair[0].Question, texts, true)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range scores {
			if got = append(got, s.Relevance); s.HasAnswer != s.Relevance || s.LLMPrefer != s.Relevance || s.Answer != nil {
				t.Errorf("%s: %+v: it knows relevance alone", name, s)
			}
		}
		near(t, name, got, want)
	}
}

// TestSmallerGraphsKeepTheirTolerance: fp16 and int8 graphs differ by more than an fp32 graph may,
// and by less than the manifest allows.
func TestSmallerGraphsKeepTheirTolerance(t *testing.T) {
	for _, c := range []struct {
		graph string
		least float64 // fails for an fp32 graph
	}{
		{"onnx/model_fp16.onnx", 1e-6}, {"onnx/model_quantized.onnx", 1e-4},
	} {
		dir := added(t, modelpack.Addition{From: "bert-mean", Graph: c.graph})
		report, err := Check(t.Context(), Options{Pack: dir, Library: libraryPath(t), Threads: 1})
		if err != nil {
			t.Fatal(err)
		}
		g := report.Graphs[0]
		t.Logf("%s: %+v", c.graph, g)
		if len(report.Problems) > 0 || g.Goldens != 7 || g.Worst < c.least || g.Tolerance < 10*defaultTolerance {
			t.Errorf("%s: %+v, problems %q", c.graph, g, report.Problems)
		}
		// A tolerance that is too small is reported.
		dir = added(t, modelpack.Addition{From: "bert-mean", Graph: c.graph, Tolerance: g.Worst / 2})
		report, err = Check(t.Context(), Options{Pack: dir, Library: libraryPath(t), Threads: 1})
		if err != nil {
			t.Fatal(err)
		}
		if g.Worst/2 > defaultTolerance && (len(report.Problems) == 0 || !strings.Contains(report.Problems[0], "tolerance")) {
			t.Errorf("%s with half its difference as tolerance: problems %q", c.graph, report.Problems)
		}
	}
}

func TestTheSegmenterKeepsItsEncoder(t *testing.T) {
	nc, _ := serving(t, openPack(t, added(t, modelpack.Addition{From: "bert-mean", Onto: pack})), ServerOptions{})
	client, g := modelclient.New(nc, modelclient.Options{}), readGoldens(t)
	var runs [][]string
	for _, s := range g.Segmentation {
		runs = append(runs, s.Sentences)
	}
	scores, _, err := client.Segment(t.Context(), wire.LaneBulk, runs)
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range g.Segmentation {
		near(t, "scores of "+s.Sentences[0], scores[i], s.Scores)
	}
}

func TestChecksReportProblems(t *testing.T) {
	check := func(dir string) (modelpack.Report, error) {
		return Check(t.Context(), Options{Pack: dir, Library: libraryPath(t), Threads: 1})
	}
	report, err := check(packDir(t))
	if err != nil || len(report.Problems) > 0 || len(report.Graphs) < 2 || report.Graphs[0].Goldens == 0 || report.Graphs[0].Padding > defaultTolerance {
		t.Errorf("the shipped pack: %+v, %v", report, err)
	}
	for _, model := range []string{"cross-encoder", "distilbert-cls"} {
		report, err := check(added(t, modelpack.Addition{From: model}))
		if err != nil || len(report.Problems) > 0 || report.Graphs[0].Goldens < 5 {
			t.Errorf("%s: %+v, %v", model, report, err)
		}
	}
	// A manifest with another pooling than the trainer's.
	report, err = check(added(t, modelpack.Addition{From: "bert-mean", Pooling: "cls"}))
	if err != nil || len(report.Problems) != 7 || !strings.Contains(report.Problems[0], "encoder: the vector of") {
		t.Errorf("another pooling: %+v, %v", report.Problems, err)
	}
	// A manifest with other special tokens.
	dir := added(t, modelpack.Addition{From: "bert-mean"})
	rewrite(t, filepath.Join(dir, manifestName), `before: ["[CLS]"]`, `before: ["[MASK]"]`, `before: ['[CLS]']`, `before: ['[MASK]']`)
	if report, err = check(dir); err != nil || len(report.Problems) != 1 || !strings.Contains(report.Problems[0], "the ids") {
		t.Errorf("other special tokens: %+v, %v", report.Problems, err)
	}
}

func rewrite(t *testing.T, path string, pairs ...string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.NewReplacer(pairs...).Replace(string(data))
	if changed == string(data) {
		t.Fatalf("%s has none of %q:\n%s", path, pairs, data)
	}
	if err := os.WriteFile(path, []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestBERTSectionErrorsNameTheField(t *testing.T) {
	for _, c := range []struct{ model, old, new, says string }{
		{"bert-mean", "format: bert", "format: tea", "encoder.format"},
		{"bert-mean", "pooling: mean", "pooling: max", "encoder.pooling"},
		{"bert-mean", "output: last_hidden_state", "output: hidden", "hidden"},
		{"bert-mean", "  output: last_hidden_state\n", "", "encoder.output"},
		{"bert-mean", "types: true", "types: false", "input_ids"},
		{"bert-mean", "dimension: 32", "dimension: 64", "dimension 32"},
		{"bert-mean", "max_tokens: 48", "max_tokens: 2", "encoder.max_tokens"},
		{"bert-mean", "max_tokens: 48", "max_tokens: 48\n  counts: true", "encoder.counts"},
		{"cross-encoder", "labels: 1", "labels: 3", "pair.labels"},
		{"cross-encoder", "labels: 1", "labels: 2", "1 labels"},
		{"cross-encoder", "truncation: longest_first", "truncation: both", "pair.truncation"},
		{"cross-encoder", "  max_tokens: 48", "  max_tokens: 4", "pair.max_tokens"},
		{"cross-encoder", "format: bert", "format: tea", "pair.format"},
	} {
		dir := added(t, modelpack.Addition{From: c.model})
		rewrite(t, filepath.Join(dir, manifestName), c.old, c.new)
		m, err := Open(Options{Pack: dir, Library: libraryPath(t), Threads: 1})
		if err == nil {
			m.Close()
			t.Errorf("%s for %s was taken", c.new, c.old)
			continue
		}
		if !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s for %s: %q is not in: %v", c.new, c.old, c.says, err)
		}
	}
}

// TestOthersModelsGiveTheirGoldens compares a model of each architecture and tokenizer, built with
// transformers, with PyTorch's outputs over NATS.
func TestOthersModelsGiveTheirGoldens(t *testing.T) {
	for name, most := range map[string]int{"hf-bert": 64, "hf-nomic": 64, "hf-xlm-roberta": 62, "hf-modernbert": 64, "hf-xlm-roberta-pair": 62, "hf-roberta-pair": 62} {
		dir := added(t, modelpack.Addition{From: name})
		report, err := Check(t.Context(), Options{Pack: dir, Library: libraryPath(t), Threads: 1})
		if err != nil || len(report.Problems) > 0 || report.Graphs[0].Goldens < 10 || report.Graphs[0].Worst > defaultTolerance || report.Graphs[0].Padding > defaultTolerance {
			t.Errorf("%s: %+v, %v", name, report, err)
			continue
		}
		model := openPack(t, dir)
		nc, _ := serving(t, model, ServerOptions{})
		client, g := modelclient.New(nc, modelclient.Options{}), modelGoldens(t, name)
		if len(g.Pair) > 0 {
			var texts []string
			var want, got []float32
			for _, p := range g.Pair {
				texts, want = append(texts, p.Text), append(want, *p.Relevance)
			}
			scores, _, err := client.Score(t.Context(), wire.LaneInteractive, g.Pair[0].Question, texts, true)
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range scores {
				got = append(got, s.Relevance)
			}
			near(t, name, got, want)
			continue
		}
		if model.manifest.Encoder.MaxTokens != most {
			t.Errorf("%s: texts of %d tokens", name, model.manifest.Encoder.MaxTokens)
		}
		for _, e := range g.Encoder {
			encode := func(text string) (wire.Vectors, string, error) {
				return client.Encode(t.Context(), wire.LaneBulk, []string{text})
			}
			if e.Kind == "query" {
				encode = func(text string) (wire.Vectors, string, error) {
					return client.EncodeQuery(t.Context(), wire.LaneBulk, text, nil)
				}
			}
			vectors, _, err := encode(e.Text)
			if err != nil {
				t.Fatal(err)
			}
			near(t, name+", vector of "+e.Text[:min(40, len(e.Text))], vectors.Row(0), e.Embedding)
		}
		// A request with a question, passages, and a text without words.
		question, passage := g.Encoder[len(g.Encoder)-2], g.Encoder[1]
		if model.manifest.Encoder.Prompts == nil {
			continue
		}
		vectors, _, err := client.EncodeQuery(t.Context(), wire.LaneInteractive, question.Text, []string{passage.Text, " "})
		if err != nil {
			t.Fatal(err)
		}
		near(t, name+", a question", vectors.Row(0), question.Embedding)
		near(t, name+", a passage", vectors.Row(1), passage.Embedding)
		near(t, name+", nothing", vectors.Row(2), make([]float32, vectors.Dimension))
	}
}

// TestPromptsMustLeaveRoom: a prompt as long as the text limit is refused, and the error names its
// field.
func TestPromptsMustLeaveRoom(t *testing.T) {
	dir := added(t, modelpack.Addition{From: "hf-bert", QueryPrompt: strings.Repeat("hello ", 64)})
	if m, err := Open(Options{Pack: dir, Library: libraryPath(t), Threads: 1}); err == nil || !strings.Contains(err.Error(), "encoder.prompts") {
		t.Errorf("opened as %v, %v", m, err)
	}
}
