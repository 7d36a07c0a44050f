package tokenizer

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
)

// read loads testdata/tokenizer.json with fields of its normalizer replaced.
func read(t testing.TB, normalizer map[string]any) *Tokenizer {
	t.Helper()
	data, err := os.ReadFile("testdata/tokenizer.json")
	if err != nil {
		t.Fatal(err)
	}
	var doc map[string]any
	if err := json.Unmarshal(data, &doc); err != nil {
		t.Fatal(err)
	}
	for field, value := range normalizer {
		doc["normalizer"].(map[string]any)[field] = value
	}
	if data, err = json.Marshal(doc); err != nil {
		t.Fatal(err)
	}
	tok, err := Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// TestGolden compares with ids that Hugging Face's tokenizers library (Rust) returned for the same
// file and texts.
func TestGolden(t *testing.T) {
	data, err := os.ReadFile("testdata/golden.json")
	if err != nil {
		t.Fatal(err)
	}
	var groups []struct {
		Normalizer map[string]any
		Cases      []struct {
			Text string
			IDs  []int32
		}
	}
	if err := json.Unmarshal(data, &groups); err != nil {
		t.Fatal(err)
	}
	for _, group := range groups {
		tok := read(t, group.Normalizer)
		for _, c := range group.Cases {
			got, total := tok.Encode(nil, c.Text, 0)
			if !slices.Equal(got, c.IDs) || total != len(c.IDs) {
				t.Errorf("normalizer %v, %q: got %v (total %d), want %v", group.Normalizer, c.Text, got, total, c.IDs)
			}
		}
	}
}

func TestLimit(t *testing.T) {
	tok := read(t, nil)
	all, total := tok.Encode(nil, "hello unaffable world, the unaffable tokenizer", 0)
	for limit := 1; limit <= len(all)+1; limit++ {
		got, n := tok.Encode([]int32{7}, "hello unaffable world, the unaffable tokenizer", limit)
		want := append([]int32{7}, all[:min(limit, len(all))]...)
		if !slices.Equal(got, want) || n != total {
			t.Errorf("limit %d: got %v (total %d), want %v (total %d)", limit, got, n, want, total)
		}
	}
}

func TestParseNamesTheField(t *testing.T) {
	good, err := os.ReadFile("testdata/tokenizer.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ old, new, field string }{
		{`"BertNormalizer"`, `"Lowercase"`, "normalizer.type"},
		{`"BertPreTokenizer"`, `"Whitespace"`, "pre_tokenizer.type"},
		{`"WordPiece",` + "\n" + `"unk_token"`, `"BPE",` + "\n" + `"unk_token"`, "model.type"},
		{`"unk_token": "[UNK]"`, `"unk_token": "<unk>"`, "model.unk_token"},
		{`"max_input_chars_per_word": 100`, `"max_input_chars_per_word": 0`, "model.max_input_chars_per_word"},
		{`"[PAD]": 0`, `"[PAD]": -1`, "model.vocab"},
	} {
		bad := strings.Replace(string(good), c.old, c.new, 1)
		if bad == string(good) {
			t.Fatalf("%s: the test file has no %s", c.field, c.old)
		}
		if _, err := Parse([]byte(bad)); err == nil || !strings.Contains(err.Error(), c.field) {
			t.Errorf("%s replaced: got error %v, want one that names %s", c.old, err, c.field)
		}
	}
}

// FuzzEncode looks for panics and for ids outside the vocabulary on hostile text.
func FuzzEncode(f *testing.F) {
	toks := []*Tokenizer{
		read(f, nil),
		read(f, map[string]any{"clean_text": false, "strip_accents": false, "handle_chinese_chars": false}),
	}
	for _, text := range []string{"Hello, wörld", "\xff\xfe", "a\u0301\u0301", "漢İ\x00", strings.Repeat("x", 300)} {
		f.Add(text, 3)
	}
	f.Fuzz(func(t *testing.T, text string, limit int) {
		limit = max(0, min(limit, 1<<20))
		for _, tok := range toks {
			ids, total := tok.Encode(nil, text, limit)
			if want := total; len(ids) != want && len(ids) != limit {
				t.Errorf("%d ids, limit %d, total %d", len(ids), limit, total)
			}
			for _, id := range ids {
				if id < 0 || int(id) >= tok.Size() {
					t.Errorf("id %d is outside the vocabulary of %d", id, tok.Size())
				}
			}
		}
	})
}

func BenchmarkEncode(b *testing.B) {
	tok := read(b, nil)
	text := strings.Repeat("The naïve tokenizer says hello to the unaffable world, again and again. ", 50)
	b.SetBytes(int64(len(text)))
	var ids []int32
	for b.Loop() {
		ids, _ = tok.Encode(ids[:0], text, 0)
	}
}
