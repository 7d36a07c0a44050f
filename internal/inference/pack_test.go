package inference

// This file tests that what is wrong with a pack, or with the library, is named together with its remedy.

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// spoiled is a copy of the pack with one change.
func spoiled(t *testing.T, change func(dir string)) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(packDir(t))); err != nil {
		t.Fatal(err)
	}
	change(dir)
	return dir
}

func TestWhatIsWrongWithAPackIsNamed(t *testing.T) {
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
		"bad threshold":     {manifest("threshold: 0", "threshold: 7"), []string{"segmenter.threshold"}},
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

func TestWhatIsWrongWithTheLibraryIsNamed(t *testing.T) {
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
