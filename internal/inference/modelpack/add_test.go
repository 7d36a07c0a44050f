package modelpack

// This file tests adding folders: the packs of good ones, and that bad ones are refused by file and
// field and leave no files.

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/sluice-rag/sluice/schema"
)

// models are the test folders that training/bert_testmodels.py writes; shipped is the pack of the
// repository.
const (
	models  = "testdata"
	shipped = "../../../models/default"
)

// written has the fields of a manifest that the tests compare.
type written struct {
	Format                        int
	Name, Version, Licence, Space string
	Tokenizer                     tokenizerSection
	Encoder                       *encoderSection
	Pair                          *pairSection
	Segmenter                     *struct {
		File    string
		Encoder *struct {
			File      string
			Dimension int
		}
	}
	Linker, Detector, Fuser *yaml.Node
}

func manifestOf(t *testing.T, dir string) (m written) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, ManifestName))
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(data, &m); err != nil {
		t.Fatalf("%v in\n%s", err, data)
	}
	return m
}

func add(t *testing.T, a Addition) (string, Added) {
	t.Helper()
	added, err := Add(t.Context(), Options{Dir: t.TempDir()}, a)
	if err != nil {
		t.Fatal(err)
	}
	return added.Pack.Path, added
}

func TestAFolderBecomesAPack(t *testing.T) {
	for _, c := range []struct {
		addition Addition
		check    func(t *testing.T, m written, added Added)
	}{
		{Addition{From: models + "/bert-mean"}, func(t *testing.T, m written, added Added) {
			e := m.Encoder
			if e == nil || m.Pair != nil || e.Format != "bert" || e.Output != "last_hidden_state" || e.Pooling != "mean" || !e.Types || e.Dimension != 32 || e.MaxTokens != 48 || e.Tolerance != 0 {
				t.Errorf("encoder %+v", e)
			}
			if m.Licence != "apache-2.0" || e.Source != "bert-mean" || e.Licence != m.Licence || m.Name != "bert-mean" || !strings.HasPrefix(m.Space, "bert-mean-") {
				t.Errorf("manifest %+v", m)
			}
			w := m.Tokenizer
			if w.Pad != "[PAD]" || !slices.Equal(w.Before, []string{"[CLS]"}) || !slices.Equal(w.Between, []string{"[SEP]"}) || !slices.Equal(w.After, []string{"[SEP]"}) {
				t.Errorf("tokenizer %+v", w)
			}
			if e.Goldens == nil || added.Role != RoleEncoder || added.Precision != "fp32" || len(added.Notes) != 0 {
				t.Errorf("goldens %v, added %+v", e.Goldens, added)
			}
		}},
		{Addition{From: models + "/bert-mean", Graph: "onnx/model_fp16.onnx"}, func(t *testing.T, m written, added Added) {
			if m.Encoder.Tolerance != tolerances["fp16"] || added.Precision != "fp16" {
				t.Errorf("tolerance %v, %s", m.Encoder.Tolerance, added.Precision)
			}
		}},
		{Addition{From: models + "/bert-mean", Graph: "onnx/model_quantized.onnx", Tolerance: 0.07, Name: "small"}, func(t *testing.T, m written, added Added) {
			if m.Encoder.Tolerance != 0.07 || added.Precision != "int8" || m.Name != "small" || added.Pack.Name != "small" {
				t.Errorf("tolerance %v, %+v", m.Encoder.Tolerance, added)
			}
		}},
		{Addition{From: models + "/distilbert-cls"}, func(t *testing.T, m written, added Added) {
			if e := m.Encoder; e.Pooling != "cls" || e.Types || e.MaxTokens != 48 {
				t.Errorf("encoder %+v", e)
			}
			if len(added.Notes) != 1 || !strings.Contains(added.Notes[0], "length 1") {
				t.Errorf("notes %q", added.Notes)
			}
		}},
		{Addition{From: models + "/distilbert-cls", Pooling: "mean"}, func(t *testing.T, m written, _ Added) {
			if m.Encoder.Pooling != "mean" {
				t.Errorf("pooling %q", m.Encoder.Pooling)
			}
		}},
		{Addition{From: models + "/pooled-384"}, func(t *testing.T, m written, _ Added) {
			if e := m.Encoder; e.Pooling != "none" || e.Output != "sentence_embedding" || e.Dimension != 384 {
				t.Errorf("encoder %+v", e)
			}
		}},
		{Addition{From: models + "/cross-encoder"}, func(t *testing.T, m written, added Added) {
			p := m.Pair
			if p == nil || m.Encoder != nil || p.Labels != 1 || !p.Types || p.MaxTokens != 48 || p.MaxTextTokens != 45 || p.Truncation != "longest_first" || m.Space != "" {
				t.Errorf("pair %+v", p)
			}
			if added.Role != RolePair || len(added.Notes) != 1 || !strings.Contains(added.Notes[0], "no answer spans") {
				t.Errorf("added %+v", added)
			}
		}},
		{Addition{From: models + "/cross-encoder-2"}, func(t *testing.T, m written, _ Added) {
			if p := m.Pair; p.Labels != 2 || p.Types {
				t.Errorf("pair %+v", p)
			}
		}},
	} {
		t.Run(filepath.Base(c.addition.From)+c.addition.Graph+c.addition.Pooling, func(t *testing.T) {
			dir, added := add(t, c.addition)
			c.check(t, manifestOf(t, dir), added)
			whole(t, dir)
		})
	}
}

// whole checks that a pack has all its files, with their hashes, and no others.
func whole(t *testing.T, dir string) {
	t.Helper()
	d, err := readDocument(dir)
	if err != nil {
		t.Fatal(err)
	}
	// Copying checks every hash.
	if err := copyFiles(t.Context(), d, dir, t.TempDir()); err != nil {
		t.Error(err)
	}
}

func TestOntoAPackKeepsItsOtherGraphs(t *testing.T) {
	dir, _ := add(t, Addition{From: models + "/bert-mean", Onto: shipped})
	before, m := manifestOf(t, shipped), manifestOf(t, dir)
	if m.Encoder == nil || m.Encoder.Tokenizer == nil || m.Encoder.Format != "bert" || m.Tokenizer.SHA256 != before.Tokenizer.SHA256 {
		t.Fatalf("encoder %+v, tokenizer %+v", m.Encoder, m.Tokenizer)
	}
	if m.Segmenter == nil || m.Segmenter.Encoder == nil || m.Segmenter.Encoder.Dimension != 256 {
		t.Errorf("the segmenter lost the encoder whose vectors it knows: %+v", m.Segmenter)
	}
	if m.Linker != nil {
		t.Error("the linker stayed: it knows the other encoder's vectors")
	}
	if m.Encoder.Licence != "apache-2.0" || m.Licence != before.Licence || m.Version == before.Version {
		t.Errorf("licences %q and %q, version %s", m.Encoder.Licence, m.Licence, m.Version)
	}
	whole(t, dir)

	// Once more: the segmenter's own encoder does not change.
	second, _ := add(t, Addition{From: models + "/distilbert-cls", Onto: dir})
	if again := manifestOf(t, second); again.Segmenter.Encoder.File != m.Segmenter.Encoder.File || again.Encoder.SHA256 == m.Encoder.SHA256 {
		t.Errorf("segmenter %+v, encoder %+v", again.Segmenter.Encoder, again.Encoder)
	}
	whole(t, second)
	if entries, err := os.ReadDir(second); err != nil || slices.ContainsFunc(entries, func(e os.DirEntry) bool { return strings.Contains(e.Name(), m.Encoder.SHA256[:12]) }) {
		t.Errorf("the encoder that was replaced was copied: %v, %v", entries, err)
	}

	third, _ := add(t, Addition{From: models + "/cross-encoder", Onto: dir})
	if m := manifestOf(t, third); m.Pair == nil || m.Pair.Tokenizer == nil || m.Encoder == nil || m.Detector != nil {
		t.Errorf("pair %+v", m.Pair)
	}
	whole(t, third)
}

func TestAPackIsCopied(t *testing.T) {
	dir, added := add(t, Addition{From: shipped, Name: "mine"})
	if added.Role != "" || added.Pack.Dimension != 256 || !slices.Contains(added.Pack.Graphs, "segmenter") || added.Pack.Bytes < 1<<20 {
		t.Errorf("added %+v", added)
	}
	whole(t, dir)
	if _, err := os.Stat(filepath.Join(dir, "goldens.json")); err != nil {
		t.Error(err)
	}
}

// altered returns a copy of a test folder with changes.
func altered(t *testing.T, model string, changes ...func(dir string)) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "model")
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(models, model))); err != nil {
		t.Fatal(err)
	}
	for _, change := range changes {
		change(dir)
	}
	return dir
}

// edit changes a JSON file of a folder.
func edit(t *testing.T, name string, change func(fields map[string]any)) func(string) {
	return func(dir string) {
		path := filepath.Join(dir, name)
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var fields map[string]any
		if err := json.Unmarshal(data, &fields); err != nil {
			t.Fatal(err)
		}
		change(fields)
		if data, err = json.Marshal(fields); err != nil {
			t.Fatal(err)
		}
		put(t, name, string(data))(dir)
	}
}

func put(t *testing.T, name, text string) func(string) {
	return func(dir string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func without(t *testing.T, names ...string) func(string) {
	return func(dir string) {
		for _, name := range names {
			if err := os.Remove(filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func setting(field string, value any) func(map[string]any) {
	return func(fields map[string]any) { fields[field] = value }
}

func TestFolderErrorsNameTheProblem(t *testing.T) {
	with := func(model string, changes ...func(string)) Addition {
		return Addition{From: altered(t, model, changes...)}
	}
	poolings := func(modes map[string]any) func(string) {
		return edit(t, "1_Pooling/config.json", func(f map[string]any) {
			for k, v := range modes {
				f["pooling_mode_"+k] = v
			}
		})
	}
	for name, c := range map[string]struct {
		addition Addition
		says     []string
	}{
		"no config":          {with("bert-mean", without(t, "config.json")), []string{"config.json", "missing", "layout"}},
		"no folder":          {Addition{From: "/nowhere/at/all"}, []string{"/nowhere/at/all", "hf:org/name"}},
		"a file":             {Addition{From: models + "/bert-mean/config.json"}, []string{"no folder"}},
		"another family":     {with("bert-mean", edit(t, "config.json", setting("model_type", "deberta-v2"))), []string{"config.json", "model_type", "deberta-v2", "bert, "}},
		"no graph":           {with("bert-mean", without(t, "onnx/model.onnx")), []string{"graph", "onnx/model.onnx", "--graph", "optimum-cli"}},
		"another graph":      {Addition{From: models + "/bert-mean", Graph: "onnx/model_q4.onnx"}, []string{"onnx/model_q4.onnx", "--graph"}},
		"a pointer":          {with("bert-mean", put(t, "onnx/model.onnx", "version https://git-lfs.github.com/spec/v1\n")), []string{"graph", "Git LFS"}},
		"an empty graph":     {with("bert-mean", put(t, "onnx/model.onnx", "")), []string{"graph", "no ONNX graph"}},
		"outside":            {Addition{From: models + "/bert-mean", Graph: "../distilbert-cls/onnx/model.onnx"}, []string{"leaves the folder"}},
		"broken JSON":        {with("bert-mean", put(t, "config.json", "{")), []string{"config.json", "JSON"}},
		"no tokenizer":       {with("bert-mean", without(t, "tokenizer.json")), []string{"tokenizer.json", "vocab.txt"}},
		"SentencePiece":      {with("bert-mean", without(t, "tokenizer.json"), put(t, "sentencepiece.bpe.model", "x")), []string{"sentencepiece.bpe.model", "SentencePiece", "tokenizer.json"}},
		"word level":         {with("bert-mean", edit(t, "tokenizer.json", setting("model", map[string]any{"type": "WordLevel"}))), []string{"tokenizer.json", "model.type", "WordLevel", "Unigram"}},
		"half a unigram":     {with("bert-mean", edit(t, "tokenizer.json", setting("model", map[string]any{"type": "Unigram"}))), []string{"tokenizer.json", "normalizer.type", "BertNormalizer"}},
		"positions by pad":   {with("bert-mean", edit(t, "config.json", setting("model_type", "roberta")), edit(t, "config.json", setting("pad_token_id", 77))), []string{"config.json", "pad_token_id", "77"}},
		"another class":      {with("distilbert-cls", edit(t, "tokenizer_config.json", setting("tokenizer_class", "XLMRobertaTokenizer"))), []string{"tokenizer_class", "XLMRobertaTokenizer"}},
		"contradiction":      {with("bert-mean", edit(t, "tokenizer_config.json", setting("do_lower_case", false))), []string{"tokenizer.json", "tokenizer_config.json", "do_lower_case"}},
		"unknown pad":        {with("bert-mean", edit(t, "tokenizer_config.json", setting("pad_token", "<pad>"))), []string{"pad_token", "<pad>"}},
		"too large a table":  {with("bert-mean", edit(t, "config.json", setting("vocab_size", 7))), []string{"tokenizer.json", "vocab_size"}},
		"no length":          {with("pooled-384", edit(t, "config.json", setting("max_position_embeddings", 0))), []string{"max_position_embeddings"}},
		"max pooling":        {with("bert-mean", poolings(map[string]any{"mean_tokens": false, "max_tokens": true})), []string{"1_Pooling/config.json", "pooling_mode_max_tokens"}},
		"two poolings":       {with("bert-mean", poolings(map[string]any{"cls_token": true})), []string{"1_Pooling/config.json", "more than one"}},
		"no pooling mode":    {with("bert-mean", poolings(map[string]any{"mean_tokens": false})), []string{"1_Pooling/config.json", "no pooling mode"}},
		"no pooling file":    {with("bert-mean", without(t, "1_Pooling/config.json")), []string{"1_Pooling/config.json", "missing"}},
		"a dense module":     {with("bert-mean", put(t, "modules.json", `[{"type": "sentence_transformers.models.Dense", "path": "2_Dense"}]`)), []string{"modules.json", "Dense"}},
		"a module outside":   {with("bert-mean", put(t, "modules.json", `[{"type": "x.Pooling", "path": "../1_Pooling"}]`)), []string{"modules.json", "leaves the folder"}},
		"lower-cased texts":  {with("bert-mean", put(t, "sentence_bert_config.json", `{"do_lower_case": true}`), without(t, "tokenizer_config.json"), lower(t, false)), []string{"sentence_bert_config.json", "do_lower_case"}},
		"odd pooling":        {Addition{From: models + "/bert-mean", Pooling: "median"}, []string{"pooling", "median"}},
		"no pooled output":   {Addition{From: models + "/distilbert-cls", Pooling: "none"}, []string{"graph", "sentence_embedding", "last_hidden_state"}},
		"three labels":       {with("cross-encoder", graph(t, "onnx/model.onnx", 3)), []string{"3 labels"}},
		"no input":           {with("bert-mean", graphOf(t, "onnx/model.onnx", []string{"input_ids"})), []string{"graph", "attention_mask", "input_ids"}},
		"another input":      {with("bert-mean", graphOf(t, "onnx/model.onnx", []string{"input_ids", "attention_mask", "position_ids"})), []string{"graph", "position_ids"}},
		"a segmenter's":      {with("bert-mean", copyOf(t, filepath.Join(shipped, "segmenter.onnx"), "onnx/model.onnx")), []string{"graph", "input_ids", "left, right"}},
		"name with a slash":  {Addition{From: models + "/bert-mean", Name: "a/b"}, []string{"name", "a/b", "--name"}},
		"the shipped's name": {Addition{From: models + "/bert-mean", Name: "default"}, []string{"name", "default"}},
		"the choice's file":  {Addition{From: models + "/bert-mean", Name: "in-use"}, []string{"name", "in-use"}},
		"onto nothing":       {Addition{From: models + "/bert-mean", Onto: "/nowhere"}, []string{"/nowhere", ManifestName}},
		"stored elsewhere":   {Addition{From: models + "/bert-mean"}, []string{"dimension 32", "[384]"}},
	} {
		t.Run(name, func(t *testing.T) {
			o := Options{Dir: t.TempDir()}
			if name == "stored elsewhere" {
				o.Dimensions = []int{384}
			}
			added, err := Add(t.Context(), o, c.addition)
			if err == nil {
				t.Fatalf("taken as %+v", added)
			}
			for _, text := range c.says {
				if !strings.Contains(err.Error(), text) {
					t.Errorf("%q is not in: %v", text, err)
				}
			}
			nothing(t, o.Dir)
		})
	}
}

// lower changes whether a tokenizer.json keeps case.
func lower(t *testing.T, on bool) func(string) {
	return edit(t, "tokenizer.json", func(f map[string]any) { f["normalizer"].(map[string]any)["lowercase"] = on })
}

func copyOf(t *testing.T, from, name string) func(string) {
	return func(dir string) {
		data, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		put(t, name, string(data))(dir)
	}
}

// nothing checks that a failed addition left no files.
func nothing(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) > 0 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

func TestLimitsHold(t *testing.T) {
	o := Options{Dir: t.TempDir(), MaxGraph: 1000}
	if _, err := Add(t.Context(), o, Addition{From: models + "/bert-mean"}); !errors.Is(err, schema.ErrTooLarge) || !strings.Contains(err.Error(), "onnx/model.onnx") {
		t.Errorf("a large graph: %v", err)
	}
	nothing(t, o.Dir)
	wordy := altered(t, "bert-mean", func(dir string) {
		if err := os.Truncate(filepath.Join(dir, readme), maxReadme+1); err != nil {
			t.Fatal(err)
		}
	})
	if added, err := Add(t.Context(), Options{Dir: t.TempDir()}, Addition{From: wordy}); err != nil || added.Pack.Licence != "unknown" {
		t.Errorf("a large %s: %+v, %v", readme, added.Pack, err)
	}
	huge := altered(t, "bert-mean", func(dir string) {
		if err := os.Truncate(filepath.Join(dir, "config.json"), maxConfig+1); err != nil {
			t.Fatal(err)
		}
	})
	if _, err := Add(t.Context(), o, Addition{From: huge}); !errors.Is(err, schema.ErrTooLarge) || !strings.Contains(err.Error(), "config.json") {
		t.Errorf("a large config.json: %v", err)
	}
	nothing(t, o.Dir)
}

func TestFailedChecksAddNothing(t *testing.T) {
	var seen string
	o := Options{Dir: t.TempDir(), Check: func(_ context.Context, dir string) error {
		seen = dir
		if _, err := os.Stat(filepath.Join(dir, ManifestName)); err != nil {
			t.Errorf("checked before it was complete: %v", err)
		}
		return schema.Invalid("encoder", "is nonsense")
	}}
	if _, err := Add(t.Context(), o, Addition{From: models + "/bert-mean"}); err == nil || !strings.Contains(err.Error(), "nonsense") || seen == "" {
		t.Errorf("got %v", err)
	}
	nothing(t, o.Dir)
}

func TestAnInterruptedAdditionLeavesNothing(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	o := Options{Dir: t.TempDir(), Check: func(context.Context, string) error { cancel(); return nil }}
	if _, err := Add(ctx, o, Addition{From: models + "/bert-mean"}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	nothing(t, o.Dir)
}

func TestANameIsTakenOnce(t *testing.T) {
	o := Options{Dir: t.TempDir()}
	if _, err := Add(t.Context(), o, Addition{From: models + "/bert-mean"}); err != nil {
		t.Fatal(err)
	}
	if _, err := Add(t.Context(), o, Addition{From: models + "/bert-mean"}); !errors.Is(err, schema.ErrConflict) || !strings.Contains(err.Error(), "--name") {
		t.Errorf("got %v", err)
	}
	// Another process adds a pack of the same name while this one is checked.
	o.Check = func(ctx context.Context, _ string) error {
		_, err := Add(ctx, Options{Dir: o.Dir}, Addition{From: models + "/distilbert-cls", Name: "raced"})
		return err
	}
	if _, err := Add(t.Context(), o, Addition{From: models + "/bert-mean", Name: "raced"}); err == nil {
		t.Error("the second of one name was added")
	}
	packs, err := List(o.Dir, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range packs {
		if p.Name == "raced" && !slices.Equal(p.Sources, []string{"distilbert-cls"}) {
			t.Errorf("the first was replaced: %+v", p)
		}
	}
}
