package tokenizer

// This file compares the tokenizer with encodings of Hugging Face's own library, which
// training/tokenizer_goldens.mjs makes.

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

type parity struct {
	Settings []struct {
		Normalizer map[string]*bool
		Cases      []struct {
			Text  string
			IDs   []int32
			Spans []int // start and end of each token
		}
	}
	Pairs []struct {
		First, Second string
		Limit         int
		Strategy      Truncation
		IDs           []int32
		Types         []int
	}
}

func readParity(t testing.TB) (p parity, vocabulary []byte) {
	t.Helper()
	data, err := os.ReadFile("testdata/parity.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &p); err != nil {
		t.Fatal(err)
	}
	if vocabulary, err = os.ReadFile("testdata/vocab.txt"); err != nil {
		t.Fatal(err)
	}
	if len(p.Settings) == 0 || len(p.Pairs) == 0 {
		t.Fatal("parity.json lacks a part")
	}
	return p, vocabulary
}

// fromVocabulary reads vocab.txt under settings named as in tokenizer.json.
func fromVocabulary(t testing.TB, vocabulary []byte, settings map[string]*bool) *Tokenizer {
	t.Helper()
	configuration, err := json.Marshal(map[string]any{
		"do_lower_case": settings["lowercase"], "strip_accents": settings["strip_accents"], "tokenize_chinese_chars": settings["handle_chinese_chars"],
		"cls_token": "[CLS]", "sep_token": map[string]any{"content": "[SEP]", "special": true}, "tokenizer_class": "BertTokenizerFast",
	})
	if err != nil {
		t.Fatal(err)
	}
	file, err := FromVocabulary(vocabulary, configuration)
	if err != nil {
		t.Fatal(err)
	}
	tok, err := Parse(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := Agrees(file, configuration); err != nil {
		t.Fatal(err)
	}
	return tok
}

func TestParity(t *testing.T) {
	p, vocabulary := readParity(t)
	for setting, group := range p.Settings {
		tok := fromVocabulary(t, vocabulary, group.Normalizer)
		for _, c := range group.Cases {
			got, _ := tok.Encode(nil, c.Text, 0)
			if !slices.Equal(got, c.IDs) || len(c.Spans) != 2*len(c.IDs) {
				t.Errorf("setting %d, %.80q: got %v, want %v", setting, c.Text, got, c.IDs)
				continue
			}
			ids, spans, total := tok.EncodeSpans(nil, nil, c.Text, 0)
			if !slices.Equal(ids, got) || total != len(got) {
				t.Errorf("setting %d, %.80q: with spans %v (total %d), without %v", setting, c.Text, ids, total, got)
			}
			for i, s := range spans {
				if want := (ByteRange{c.Spans[2*i], c.Spans[2*i+1]}); s != want {
					t.Errorf("setting %d, %.80q: token %d is at %v, want %v", setting, c.Text, i, s, want)
				}
			}
		}
	}
}

func TestPairParity(t *testing.T) {
	p, vocabulary := readParity(t)
	tok := fromVocabulary(t, vocabulary, p.Settings[0].Normalizer)
	file, err := FromVocabulary(vocabulary, nil)
	if err != nil {
		t.Fatal(err)
	}
	specials, err := ReadSpecials(file)
	if err != nil {
		t.Fatal(err)
	}
	frame, err := tok.Frame(specials)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range p.Pairs {
		a, _ := tok.Encode(nil, c.First, 0)
		b, _ := tok.Encode(nil, c.Second, 0)
		ids, second := frame.Pair(nil, a, b, c.Limit, c.Strategy)
		types := make([]int, len(ids))
		for i := second; i < len(ids); i++ {
			types[i] = 1
		}
		if !slices.Equal(ids, c.IDs) || !slices.Equal(types, c.Types) {
			t.Errorf("%q, %q, limit %d, %s: got %v %v, want %v %v", c.First, c.Second, c.Limit, c.Strategy, ids, types, c.IDs, c.Types)
		}
	}
}

func TestOnlySecondLeavesTheFirstUntilItMust(t *testing.T) {
	f := Frame{Before: []int32{2}, Between: []int32{3}, After: []int32{3}}
	long := []int32{10, 11, 12, 13, 14, 15}
	for _, c := range []struct {
		limit int
		want  []int32
	}{
		{10, []int32{2, 10, 11, 12, 13, 14, 15, 3, 10, 3}},
		{7, []int32{2, 10, 11, 12, 13, 3, 3}},
		{2, []int32{2, 3, 3}},
	} {
		if got, _ := f.Pair(nil, long, long, c.limit, OnlySecond); !slices.Equal(got, c.want) {
			t.Errorf("limit %d: %v, want %v", c.limit, got, c.want)
		}
	}
	if got := f.Single(nil, long, 5); !slices.Equal(got, []int32{2, 10, 11, 12, 3}) {
		t.Errorf("single: %v", got)
	}
}

func TestSpecialsOfEachKind(t *testing.T) {
	bert := Specials{Before: []string{"[CLS]"}, Between: []string{"[SEP]"}, After: []string{"[SEP]"}}
	mpnet := Specials{Before: []string{"<s>"}, Between: []string{"</s>", "</s>"}, After: []string{"</s>"}, OneType: true}
	template := func(pair string) string {
		return `{"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "[SEP]", "type_id": 0}}], "pair": [` + pair + `]}`
	}
	const bertPair = `{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "[SEP]", "type_id": 0}},
		{"Sequence": {"id": "B", "type_id": 1}}, {"SpecialToken": {"id": "[SEP]", "type_id": 1}}`
	for _, c := range []struct {
		processor string
		want      Specials
		problem   string
	}{
		{`null`, Specials{}, ""},
		{`{"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]}`, bert, ""},
		{`{"type": "RobertaProcessing", "sep": ["</s>", 3], "cls": ["<s>", 2]}`, mpnet, ""},
		{template(bertPair), bert, ""},
		{template(``), Specials{Before: bert.Before, After: bert.After}, ""},
		{template(strings.ReplaceAll(bertPair, `"A"`, `"B"`)), Specials{}, `sequence "B" where "A"`},
		{template(strings.ReplaceAll(bertPair, `"type_id": 1`, `"type_id": 0`)), Specials{Before: bert.Before, Between: bert.Between, After: bert.After, OneType: true}, ""},
		{template(strings.ReplaceAll(bertPair, `"B", "type_id": 1`, `"B", "type_id": 0`)), Specials{}, "type_id 1"},
		{template(strings.ReplaceAll(bertPair, `"B", "type_id": 1`, `"B", "type_id": 2`)), Specials{}, "type_id 2"},
		{template(strings.ReplaceAll(bertPair, `[CLS]`, `[X]`)), Specials{}, "other tokens than post_processor.single"},
		{template(`{"Sequence": {"id": "A", "type_id": 0}}`), Specials{}, "1 sequences"},
		{template(`{}`), Specials{}, "neither"},
		{`{"type": "ByteLevel"}`, Specials{}, ""},
		{`{"type": "Other"}`, Specials{}, "post_processor.type"},
		{`{"type": "Sequence", "processors": [{"type": "ByteLevel"}, {"type": "RobertaProcessing", "sep": ["</s>", 3], "cls": ["<s>", 2]}]}`, mpnet, ""},
		{`{"type": "Sequence", "processors": [{"type": "BertProcessing"}, {"type": "BertProcessing"}]}`, Specials{}, "post_processor.processors[1]"},
		{`{"type": "BertProcessing"}`, Specials{}, "without sep"},
	} {
		got, err := ReadSpecials([]byte(`{"post_processor": ` + c.processor + `}`))
		if c.problem != "" {
			if err == nil || !strings.Contains(err.Error(), c.problem) {
				t.Errorf("%s: got %v, want an error with %q", c.processor, err, c.problem)
			}
			continue
		}
		if err != nil || !slices.Equal(got.Before, c.want.Before) || !slices.Equal(got.Between, c.want.Between) || !slices.Equal(got.After, c.want.After) || got.OneType != c.want.OneType {
			t.Errorf("%s: got %v, %v", c.processor, got, err)
		}
	}
}

func TestVocabularyErrorsNameTheField(t *testing.T) {
	_, vocabulary := readParity(t)
	for _, c := range []struct{ vocabulary, configuration, says string }{
		{string(vocabulary), `{"tokenizer_class": "RobertaTokenizer"}`, "tokenizer_class"},
		{string(vocabulary), `{"do_basic_tokenize": false}`, "do_basic_tokenize"},
		{string(vocabulary), `{"cls_token": "<s>"}`, `"<s>"`},
		{string(vocabulary), `[]`, "tokenizer_config.json"},
		{"", ``, `"[CLS]"`},
	} {
		if _, err := FromVocabulary([]byte(c.vocabulary), []byte(c.configuration)); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: got %v, want an error with %s", c.configuration, err, c.says)
		}
	}
	file, err := FromVocabulary(vocabulary, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := Agrees(file, []byte(`{"do_lower_case": false}`)); err == nil || !strings.Contains(err.Error(), "do_lower_case") {
		t.Errorf("a contradiction gave %v", err)
	}
	for _, c := range []struct{ configuration, want string }{{``, "[PAD]"}, {`{"pad_token": "<pad>"}`, "<pad>"}, {`{"pad_token": null}`, "[PAD]"}, {`{"pad_token": {"content": "<p>"}}`, "<p>"}} {
		if got, err := PadToken(file, []byte(c.configuration)); err != nil || got != c.want {
			t.Errorf("%s: pad %q, %v", c.configuration, got, err)
		}
	}
}

// FuzzSpans looks for spans outside the text, out of order, or across a character, and for ids that
// differ.
func FuzzSpans(f *testing.F) {
	p, vocabulary := readParity(f)
	var toks []*Tokenizer
	for _, group := range p.Settings {
		toks = append(toks, fromVocabulary(f, vocabulary, group.Normalizer))
	}
	for _, c := range p.Settings[0].Cases {
		f.Add(c.Text, 0)
	}
	f.Add("\xff\xfe\u0301a\u0301\u0301", 2)
	f.Add("\U0001d165\U00016ff0 \u302e\u0327", 0)
	f.Fuzz(func(t *testing.T, text string, limit int) {
		limit = max(0, min(limit, 1<<20))
		for i, tok := range toks {
			want, wantTotal := tok.Encode(nil, text, limit)
			ids, spans, total := tok.EncodeSpans(nil, nil, text, limit)
			if !slices.Equal(ids, want) || total != wantTotal || len(spans) != len(ids) {
				t.Fatalf("setting %d: %v (%d), with spans %v (%d)", i, want, wantTotal, ids, total)
			}
			last := ByteRange{}
			for j, s := range spans {
				if s.Start < 0 || s.End > len(text) || s.Start >= s.End {
					t.Fatalf("setting %d: token %d is at %v of %d bytes", i, j, s, len(text))
				}
				if s.Start < last.Start {
					t.Fatalf("setting %d: token %d at %v follows one at %v", i, j, s, last)
				}
				if utf8.ValidString(text) && (!edge(text, s.Start) || !edge(text, s.End)) {
					t.Fatalf("setting %d: token %d at %v cuts a character", i, j, s)
				}
				last = s
			}
		}
	})
}

func edge(text string, at int) bool { return at == len(text) || utf8.RuneStart(text[at]) }

// FuzzParse reads hostile tokenizer files: a file that is accepted must encode.
func FuzzParse(f *testing.F) {
	_, vocabulary := readParity(f)
	small, err := FromVocabulary([]byte("[PAD]\n[UNK]\n[CLS]\n[SEP]\na\n##b\n"), nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(small, vocabulary[:200])
	f.Add([]byte(`{"post_processor": {"type": "TemplateProcessing", "single": [{"Sequence": {"id": "A"}}]}}`), []byte("[CLS]\r\n[SEP]"))
	f.Fuzz(func(t *testing.T, file, vocabulary []byte) {
		if made, err := FromVocabulary(vocabulary, file); err == nil {
			if _, err := ReadSpecials(made); err != nil {
				t.Fatalf("its own template: %v", err)
			}
		}
		_, _ = ReadSpecials(file)
		_, _ = PadToken(file, file)
		tok, err := Parse(file)
		if err != nil {
			return
		}
		ids, spans, _ := tok.EncodeSpans(nil, nil, "ab aé 漢\x00\xff", 0)
		for i, id := range ids {
			if id < 0 || int(id) >= tok.Size() || spans[i].End > 13 {
				t.Fatalf("id %d at %v", id, spans[i])
			}
		}
	})
}
