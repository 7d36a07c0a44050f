package inference

// This file tests that an error in a pack or in the library is reported with its remedy.

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/inference/inferencetest"
	"github.com/sluice-rag/sluice/internal/modelclient"
	"github.com/sluice-rag/sluice/schema/wire"
)

// spoiled returns a copy of the pack with one change.
func spoiled(t *testing.T, change func(dir string)) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(packDir(t))); err != nil {
		t.Fatal(err)
	}
	change(dir)
	return dir
}

func TestPackErrorsNameTheField(t *testing.T) {
	manifest := func(old, new string) func(string) {
		return func(dir string) {
			path := filepath.Join(dir, manifestName)
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			changed := strings.Replace(string(data), old, new, 1)
			if changed == string(data) {
				t.Fatalf("the manifest has no %q", old)
			}
			if err := os.WriteFile(path, []byte(changed), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, c := range map[string]struct {
		change func(dir string)
		says   []string
	}{
		"no manifest":       {func(dir string) { os.Remove(filepath.Join(dir, manifestName)) }, []string{"SLUICE_MODEL_PACK", manifestName}},
		"no graph":          {func(dir string) { os.Remove(filepath.Join(dir, "encoder.onnx")) }, []string{"encoder.file", "fetch it again"}},
		"no tokenizer":      {func(dir string) { os.Remove(filepath.Join(dir, "tokenizer.json")) }, []string{"tokenizer.file"}},
		"another graph":     {func(dir string) { os.Truncate(filepath.Join(dir, "segmenter.onnx"), 1000) }, []string{"segmenter.sha256", "fetch the pack again"}},
		"unknown field":     {manifest("dimension:", "dimensions:"), []string{"dimensions", "ManifestEncoder"}},
		"missing field":     {manifest("space:", "#"), []string{"space: is missing"}},
		"missing inner":     {manifest("  max_tokens:", "  #"), []string{"encoder.max_tokens: is missing"}},
		"another format":    {manifest("format: 1", "format: 2"), []string{"format: is 2, this build reads 1"}},
		"wrong dimension":   {manifest("dimension: 256", "dimension: 128"), []string{"128"}},
		"bad threshold":     {manifest("  threshold: 0", "  threshold: 7"), []string{"segmenter.threshold"}},
		"bad similarity":    {manifest("similarity_threshold: 0", "similarity_threshold: 7"), []string{"encoder.similarity_threshold"}},
		"unknown script":    {manifest("scripts: [Latin]", "scripts: [Latn]"), []string{"encoder.scripts[0]", "Latn"}},
		"path outside":      {manifest("file: encoder.onnx", "file: ../encoder.onnx"), []string{"encoder.file", "leaves the pack's folder"}},
		"unknown pad":       {manifest(`"[PAD]"`, `"<pad>"`), []string{"tokenizer.pad", "<pad>"}},
		"no YAML":           {func(dir string) { os.WriteFile(filepath.Join(dir, manifestName), []byte("{{{"), 0o600) }, []string{manifestName}},
		"an empty manifest": {func(dir string) { os.Truncate(filepath.Join(dir, manifestName), 0) }, []string{"format"}},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := Open(Options{Pack: spoiled(t, c.change), Library: libraryPath(t)})
			if err == nil {
				m.Close()
				t.Fatal("the pack was taken")
			}
			for _, words := range c.says {
				if !strings.Contains(err.Error(), words) {
					t.Errorf("%q is not in: %v", words, err)
				}
			}
		})
	}
}

func TestSectionErrorsNameTheField(t *testing.T) {
	replace := func(old, new string) func(string) string {
		return func(manifest string) string {
			changed := strings.Replace(manifest, old, new, 1)
			if changed == manifest {
				t.Fatalf("the manifest has no %q", old)
			}
			return changed
		}
	}
	for name, c := range map[string]struct {
		change func(string) string
		says   []string
	}{
		"unknown field":         {replace("max_question_tokens: 64, max_text_tokens", "questions: 64, max_text_tokens"), []string{"questions", "ManifestPair"}},
		"missing inner":         {replace("max_question_tokens: 64, max_text_tokens", "max_text_tokens"), []string{"pair.max_question_tokens: is missing"}},
		"no room for questions": {replace("max_question_tokens: 64", "max_question_tokens: -1"), []string{"pair.max_question_tokens"}},
		"no room to rerank":     {replace("max_text_tokens: 192", "max_text_tokens: -1"), []string{"reranker.max_text_tokens"}},
		"a reranker's format":   {replace("max_text_tokens: 192", "format: onnx, max_text_tokens: 192"), []string{"reranker.format"}},
		"a reranker's file":     {replace("file: reranker.onnx", "file: fuser.onnx"), []string{"reranker.sha256"}},
		"no room for texts":     {replace("max_text_tokens: 384", "max_text_tokens: -1"), []string{"pair.max_text_tokens"}},
		"a window of one":       {replace("max_passages: 8", "max_passages: 1"), []string{"linker.max_passages"}},
		"no passages":           {replace("max_passages: 10", "max_passages: -1"), []string{"fuser.max_passages"}},
		"no room for passages":  {replace("max_tokens: 12", "max_tokens: 6"), []string{"fuser.max_tokens", "no room"}},
		"bad threshold":         {replace("threshold: 0.6", "threshold: 6"), []string{"detector.threshold"}},
		"another file's hash":   {replace("file: linker.onnx", "file: fuser.onnx"), []string{"linker.sha256"}},
		"no space":              {replace("space:", "#"), []string{"space: is missing", "encoder"}},
		"no graph at all": {func(manifest string) string {
			tokenizer, _, _ := strings.Cut(manifest, "encoder:\n")
			return tokenizer
		}, []string{"encoder: is missing", "every other graph"}},
		"a linker alone": {func(manifest string) string {
			head, rest, _ := strings.Cut(manifest, "encoder:\n")
			_, rest, _ = strings.Cut(rest, "linker:")
			return head + "linker:" + rest
		}, []string{"encoder: is missing", "linker"}},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := Open(Options{Pack: inferencetest.Pack(t, c.change), Library: libraryPath(t)})
			if err == nil {
				m.Close()
				t.Fatal("the pack was taken")
			}
			for _, words := range c.says {
				if !strings.Contains(err.Error(), words) {
					t.Errorf("%q is not in: %v", words, err)
				}
			}
		})
	}
}

// TestAPackMayHaveOneGraph: a pack can consist of only a cross-encoder or a detector.
func TestAPackMayHaveOneGraph(t *testing.T) {
	m := openFull(t, func(manifest string) string {
		head, rest, _ := strings.Cut(manifest, "encoder:\n")
		_, rest, _ = strings.Cut(rest, "pair:")
		pair, _, _ := strings.Cut(rest, "\n")
		return strings.Replace(head, "space:", "#", 1) + "pair:" + pair + "\n"
	})
	nc, _ := serving(t, m, ServerOptions{})
	client := modelclient.New(nc, modelclient.Options{})
	info, err := client.Info(t.Context())
	if err != nil || !slices.Equal(info.Operations, []wire.ModelOp{wire.OpScore}) {
		t.Fatalf("%+v, %v", info, err)
	}
	if scores, _, err := client.Score(t.Context(), wire.LaneInteractive, "what?", []string{"a text"}, true); err != nil || len(scores) != 1 || scores[0].Answer == nil {
		t.Errorf("%+v, %v", scores, err)
	}
	if _, _, err := client.Encode(t.Context(), wire.LaneInteractive, []string{"a text"}); err == nil || !strings.Contains(err.Error(), "section encoder") {
		t.Errorf("encode: %v", err)
	}
}

func TestAGraphOfAnotherRoleIsRefused(t *testing.T) {
	m := open(t)
	dir := spoiled(t, func(dir string) {
		path := filepath.Join(dir, manifestName)
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		swapped := strings.NewReplacer("encoder.onnx", "segmenter.onnx", "segmenter.onnx", "encoder.onnx",
			m.manifest.Encoder.SHA256, m.manifest.Segmenter.SHA256, m.manifest.Segmenter.SHA256, m.manifest.Encoder.SHA256).Replace(string(data))
		if err := os.WriteFile(path, []byte(swapped), 0o600); err != nil {
			t.Fatal(err)
		}
	})
	if _, err := Open(Options{Pack: dir, Library: libraryPath(t)}); err == nil || !strings.Contains(err.Error(), "input_ids") {
		t.Errorf("got %v, want an error that names input_ids", err)
	}
}

func TestLibraryErrorsNameTheProblem(t *testing.T) {
	noLibrary := filepath.Join(t.TempDir(), "libonnxruntime.so")
	if err := os.WriteFile(noLibrary, []byte("not a library"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		options Options
		says    []string
	}{
		{Options{}, []string{"SLUICE_ONNXRUNTIME_LIB", "make setup"}},
		{Options{Library: "/nowhere/libonnxruntime.so"}, []string{"SLUICE_ONNXRUNTIME_LIB", "make setup", "/nowhere"}},
		{Options{Library: noLibrary}, []string{noLibrary, "1.24"}},
		{Options{Library: libraryPath(t), Provider: CUDA}, []string{"SLUICE_MODEL_PROVIDER", "CUDA", "SLUICE_MODEL_PROVIDER=cpu"}},
		{Options{Library: libraryPath(t), Provider: "tpu"}, []string{"SLUICE_MODEL_PROVIDER", "tpu"}},
		{Options{Library: libraryPath(t), Threads: -1}, []string{"SLUICE_MODEL_THREADS"}},
	} {
		c.options.Pack = packDir(t)
		m, err := Open(c.options)
		if err == nil {
			m.Close()
			t.Errorf("%+v was taken", c.options)
			continue
		}
		for _, words := range c.says {
			if !strings.Contains(err.Error(), words) {
				t.Errorf("%q is not in: %v", words, err)
			}
		}
	}
}

// TestTryRunsEachGraph: each graph runs, with goldens and without. A graph in place
// of another fails.
func TestTryRunsEachGraph(t *testing.T) {
	for _, goldens := range []bool{true, false} {
		dir := t.TempDir()
		if err := os.CopyFS(dir, os.DirFS(packDir(t))); err != nil {
			t.Fatal(err)
		}
		if !goldens {
			if err := os.Remove(filepath.Join(dir, "goldens.json")); err != nil {
				t.Fatal(err)
			}
		}
		m, err := Open(Options{Pack: dir, Library: libraryPath(t), Threads: 1})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close() //nolint:errcheck // a test's
		report, err := m.Try(t.Context())
		if err != nil || len(report.Problems) > 0 || len(report.Graphs) < 7 {
			t.Fatalf("%v, %+v", err, report)
		}
		// The detector has one input, the linker two.
		for section, at := range map[string]**graph{"segmenter": &m.segmenter.graph, "linker": &m.linker.graph, "fuser": &m.fuser.graph,
			"encoder": graphOfEncoder(t, m), "pair": graphOfPair(t, m.pair), "reranker": graphOfPair(t, m.reranker), "detector": &m.detector.graph} {
			own, other := *at, m.detector.graph
			if section == "detector" {
				other = m.linker.graph
			}
			*at = other
			if _, err := m.Try(t.Context()); err == nil || !strings.Contains(err.Error(), section) {
				t.Errorf("%s did not run (goldens: %v): %v", section, goldens, err)
			}
			*at = own
		}
	}
}

func graphOfEncoder(t *testing.T, m *Model) **graph {
	t.Helper()
	e, ok := m.encoder.textEncoder.(*encoder)
	if !ok {
		t.Fatalf("the pack's encoder is a %T", m.encoder.textEncoder)
	}
	return &e.graph
}

func graphOfPair(t *testing.T, p pairModel) **graph {
	t.Helper()
	switch p := p.(type) {
	case *headedPair:
		return &p.graph
	case *bertPair:
		return &p.graph
	}
	t.Fatalf("the pack's pair model is a %T", p)
	return nil
}
