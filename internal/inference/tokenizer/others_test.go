package tokenizer

// This file compares Unigram and BPE with encodings of Hugging Face's own library, which
// training/tokenizer_goldens.py makes.

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

type othersSetting struct {
	Name  string
	File  map[string]any
	Cases []struct {
		Text  string
		IDs   []int32
		Spans []int // start and end of each token; nil: not compared
	}
	Pairs []struct {
		First, Second string
		Limit         int
		Strategy      Truncation
		IDs           []int32
		Types         []int
	}
	data []byte // tokenizer.json
}

func unzipped(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	if data, err = io.ReadAll(r); err != nil {
		t.Fatal(err)
	}
	return data
}

func readOthers(t testing.TB) []othersSetting {
	t.Helper()
	var all struct{ Settings []othersSetting }
	if err := json.Unmarshal(unzipped(t, "others.json.gz"), &all); err != nil {
		t.Fatal(err)
	}
	if len(all.Settings) < 10 {
		t.Fatalf("%d settings", len(all.Settings))
	}
	table := []byte(base64.StdEncoding.EncodeToString(unzipped(t, "nmt_nfkc.gz")))
	models := map[string]map[string]any{}
	for i := range all.Settings {
		s := &all.Settings[i]
		model := s.File["model"].(map[string]any)
		if of, ok := model["vocab"].(string); ok {
			model["vocab"], model["merges"] = models[of]["vocab"], models[of]["merges"]
		}
		models[s.Name] = model
		data, err := json.Marshal(s.File)
		if err != nil {
			t.Fatal(err)
		}
		s.data = bytes.ReplaceAll(data, []byte("nmt_nfkc"), table)
	}
	return all.Settings
}

func TestOthersParity(t *testing.T) {
	for _, s := range readOthers(t) {
		t.Run(s.Name, func(t *testing.T) {
			tok, err := Parse(s.data)
			if err != nil {
				t.Fatal(err)
			}
			if len(s.Cases) < 150 {
				t.Fatalf("%d cases", len(s.Cases))
			}
			for _, c := range s.Cases {
				got, total := tok.Encode(nil, c.Text, 0)
				if !slices.Equal(got, c.IDs) || total != len(got) || c.Spans != nil && len(c.Spans) != 2*len(c.IDs) {
					t.Errorf("%.80q: got %v, want %v", c.Text, got, c.IDs)
					continue
				}
				ids, spans, total := tok.EncodeSpans(nil, nil, c.Text, 0)
				if !slices.Equal(ids, got) || total != len(got) {
					t.Errorf("%.80q: with spans %v (total %d), without %v", c.Text, ids, total, got)
				}
				for i, span := range spans[:len(c.Spans)/2] {
					if want := (ByteRange{c.Spans[2*i], c.Spans[2*i+1]}); span != want {
						t.Errorf("%.80q: token %d of %v is at %v, want %v", c.Text, i, got, span, want)
						break
					}
				}
				if short, total := tok.Encode([]int32{7}, c.Text, 3); total != len(got) || !slices.Equal(short, append([]int32{7}, got[:min(3, len(got))]...)) {
					t.Errorf("%.80q: of at most 3 %v (total %d)", c.Text, short, total)
				}
			}
		})
	}
}

func TestOthersPairParity(t *testing.T) {
	checked := 0
	for _, s := range readOthers(t) {
		tok, err := Parse(s.data)
		if err != nil {
			t.Fatal(err)
		}
		specials, err := ReadSpecials(s.data)
		if err != nil {
			t.Fatal(err)
		}
		frame, err := tok.Frame(specials)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range s.Pairs {
			checked++
			a, _ := tok.Encode(nil, c.First, 0)
			b, _ := tok.Encode(nil, c.Second, 0)
			ids, second := frame.Pair(nil, a, b, c.Limit, c.Strategy)
			types := make([]int, len(ids))
			for i := second; i < len(ids) && !specials.OneType; i++ {
				types[i] = 1
			}
			if !slices.Equal(ids, c.IDs) || !slices.Equal(types, c.Types) {
				t.Errorf("%s: %q, %q, limit %d: got %v %v, want %v %v", s.Name, c.First, c.Second, c.Limit, ids, types, c.IDs, c.Types)
			}
		}
	}
	if checked < 40 {
		t.Errorf("%d pairs", checked)
	}
}

// TestTextsMakeNoSpecialTokens: the text of a document is never a special token, even if the
// vocabulary has the same piece.
func TestTextsMakeNoSpecialTokens(t *testing.T) {
	for _, s := range readOthers(t) {
		tok, err := Parse(s.data)
		if err != nil {
			t.Fatal(err)
		}
		for _, special := range []string{"<s>", "</s>", "<pad>", "<mask>", "[SEP]", "[CLS]"} {
			id, ok := tok.Lookup(special)
			if !ok {
				continue
			}
			for _, text := range []string{special, "a " + special + " b", special + special} {
				if ids, _ := tok.Encode(nil, text, 0); slices.Contains(ids, id) {
					t.Errorf("%s: %q gives %v with the special %d", s.Name, text, ids, id)
				}
			}
		}
	}
}

func TestUnsupportedSettingsAreNamed(t *testing.T) {
	all := map[string]othersSetting{}
	for _, s := range readOthers(t) {
		all[s.Name] = s
	}
	edited := func(name string, path string, value any) []byte {
		file := map[string]any{}
		if err := json.Unmarshal(all[name].data, &file); err != nil {
			t.Fatal(err)
		}
		fields := strings.Split(path, ".")
		at := file
		for _, field := range fields[:len(fields)-1] {
			at[field] = maps.Clone(at[field].(map[string]any))
			at = at[field].(map[string]any)
		}
		at[fields[len(fields)-1]] = value
		data, err := json.Marshal(file)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	type m = map[string]any
	for _, c := range []struct {
		name, path string
		value      any
		says       string
	}{
		{"xlm-roberta", "model.type", "WordLevel", "model.type: must be WordPiece, Unigram or BPE"},
		{"xlm-roberta", "model.byte_fallback", true, "model.byte_fallback"},
		{"xlm-roberta", "model.unk_id", nil, "model.unk_id"},
		{"xlm-roberta", "model.unk_id", 100000, "model.unk_id"},
		{"xlm-roberta", "model.vocab", m{"a": 1}, "model.vocab"},
		{"xlm-roberta", "model.vocab", []any{[]any{"a", 0}, []any{"b", 0}, []any{"c", 0}, []any{"d", "e"}}, "model.vocab[3]"},
		{"xlm-roberta", "normalizer", m{"type": "Nmt"}, `normalizer.type: "Nmt"`},
		{"xlm-roberta", "normalizer", m{"type": "Sequence", "normalizers": []any{m{"type": "NFC"}, m{"type": "ByteLevel"}}}, "normalizer.normalizers[1].type"},
		{"xlm-roberta", "normalizer", m{"type": "Replace", "pattern": m{"Regex": `\s+`}, "content": " "}, "normalizer.pattern.Regex"},
		{"xlm-roberta", "normalizer", m{"type": "Precompiled", "precompiled_charsmap": "AAAA"}, "normalizer.precompiled_charsmap"},
		{"xlm-roberta", "pre_tokenizer", m{"type": "BertPreTokenizer"}, "pre_tokenizer.type"},
		{"xlm-roberta", "pre_tokenizer", m{"type": "Metaspace", "replacement": "▁", "prepend_scheme": "last"}, "prepend_scheme"},
		{"roberta", "model.byte_fallback", true, "model.byte_fallback"},
		{"roberta", "model.dropout", 0.1, "model.dropout"},
		{"roberta", "model.continuing_subword_prefix", "##", "model.continuing_subword_prefix"},
		{"roberta", "model.end_of_word_suffix", "</w>", "model.end_of_word_suffix"},
		{"roberta", "model.unk_token", "<none>", "model.unk_token"},
		{"roberta", "model.merges", []any{"no such"}, "model.merges[0]"},
		{"roberta", "pre_tokenizer", m{"type": "Split", "pattern": m{"Regex": "x"}}, `pre_tokenizer.type: "Split"`},
		{"roberta", "pre_tokenizer", m{"type": "Sequence", "pretokenizers": []any{m{"type": "ByteLevel"}, m{"type": "WhitespaceSplit"}}}, "pre_tokenizer.pretokenizers[1]"},
		{"roberta", "added_tokens", []any{m{"id": 1, "content": "x", "lstrip": true}}, "added_tokens"},
		{"roberta", "added_tokens", []any{m{"id": -1, "content": "x"}}, "added_tokens"},
	} {
		if _, err := Parse(edited(c.name, c.path, c.value)); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s with %s %v: got %v, want an error with %s", c.name, c.path, c.value, err, c.says)
		}
	}
}

// TestLongTextsTakeLinearTime: no document can occupy a model server for long.
func TestLongTextsTakeLinearTime(t *testing.T) {
	for _, s := range readOthers(t) {
		tok, err := Parse(s.data)
		if err != nil {
			t.Fatal(err)
		}
		for _, unit := range []string{"a", "\u0301", "中", "\u1100", " ", "👨\u200d", "\xff", "<extra_7", "ab", "\u0600"} {
			text := strings.Repeat(unit, 50_000/len(unit))
			plain, _ := tok.Encode(nil, text, 0)
			if ids, _, _ := tok.EncodeSpans(nil, nil, text, 0); !slices.Equal(ids, plain) {
				t.Errorf("%s: %d of %q give other ids with spans", s.Name, len(text)/len(unit), unit)
			}
		}
	}
}

// FuzzOthers looks for spans outside the text or across a character, for ids that differ, and for
// endless loops.
func FuzzOthers(f *testing.F) {
	settings := readOthers(f)
	var toks []*Tokenizer
	for _, s := range settings {
		tok, err := Parse(s.data)
		if err != nil {
			f.Fatal(err)
		}
		toks = append(toks, tok)
	}
	for _, c := range settings[0].Cases {
		f.Add(c.Text)
	}
	f.Add("\xff\xfe\u0301a\u0301\u0301")
	f.Add("\ufeff\ufeffabc")
	f.Fuzz(func(t *testing.T, text string) {
		for i, tok := range toks {
			want, _ := tok.Encode(nil, text, 0)
			ids, spans, total := tok.EncodeSpans(nil, nil, text, 0)
			if !slices.Equal(ids, want) || total != len(ids) || len(spans) != len(ids) {
				t.Fatalf("%s: %v, with spans %v (%d)", settings[i].Name, want, ids, total)
			}
			for j, s := range spans {
				if s.Start < 0 || s.End > len(text) || s.Start > s.End {
					t.Fatalf("%s: token %d is at %v of %d bytes", settings[i].Name, j, s, len(text))
				}
				if utf8.ValidString(text) && (!edge(text, s.Start) || !edge(text, s.End)) {
					t.Fatalf("%s: token %d at %v cuts a character", settings[i].Name, j, s)
				}
				if int(ids[j]) >= tok.Size() {
					t.Fatalf("%s: id %d of %d", settings[i].Name, ids[j], tok.Size())
				}
			}
		}
	})
}

func BenchmarkOthers(b *testing.B) {
	text := strings.Repeat("The invoice of 12 March 2024 is due within thirty days; über naïve Москва договор. ", 20)
	for _, s := range readOthers(b) {
		if s.Name != "xlm-roberta" && s.Name != "modernbert" {
			continue
		}
		tok, err := Parse(s.data)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(s.Name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			var ids []int32
			for b.Loop() {
				ids, _ = tok.Encode(ids[:0], text, 0)
			}
		})
	}
}
