package tokenizer

// This file puts special tokens around one text or two: [CLS] A [SEP], and [CLS] A [SEP] B [SEP].

import (
	"encoding/json"
	"fmt"
	"slices"
)

// Specials are the special tokens of a model's input: Before A After for one text, Before A Between B After for two.
// Token types are 0 up to the end of Between and 1 from B on.
type Specials struct{ Before, Between, After []string }

// ReadSpecials reads the post_processor of a tokenizer.json. Without one there are no special tokens.
func ReadSpecials(data []byte) (Specials, error) {
	var f struct {
		PostProcessor *struct {
			Type          string
			Sep, Cls      []any
			Single, Pair  []templatePart
			SpecialTokens map[string]struct {
				Tokens []string
			} `json:"special_tokens"`
		} `json:"post_processor"`
	}
	if err := json.Unmarshal(data, &f); err != nil {
		return Specials{}, err
	}
	p := f.PostProcessor
	if p == nil {
		return Specials{}, nil
	}
	switch p.Type {
	case "BertProcessing", "RobertaProcessing":
		sep, ok := first(p.Sep)
		cls, found := first(p.Cls)
		if !ok || !found {
			return Specials{}, fmt.Errorf("post_processor: %s without sep or cls", p.Type)
		}
		s := Specials{Before: []string{cls}, Between: []string{sep}, After: []string{sep}}
		if p.Type == "RobertaProcessing" {
			s.Between = []string{sep, sep}
		}
		return s, nil
	case "TemplateProcessing":
		tokens := func(id string) []string {
			if t, ok := p.SpecialTokens[id]; ok && len(t.Tokens) > 0 {
				return t.Tokens
			}
			return []string{id}
		}
		single, err := readTemplate("post_processor.single", p.Single, 1, tokens)
		if err != nil {
			return Specials{}, err
		}
		s := Specials{Before: single[0], After: single[1]}
		if len(p.Pair) == 0 {
			return s, nil
		}
		pair, err := readTemplate("post_processor.pair", p.Pair, 2, tokens)
		if err != nil {
			return Specials{}, err
		}
		if !slices.Equal(pair[0], s.Before) || !slices.Equal(pair[2], s.After) {
			return Specials{}, fmt.Errorf("post_processor.pair: begins or ends with other tokens than post_processor.single")
		}
		s.Between = pair[1]
		return s, nil
	}
	return Specials{}, fmt.Errorf("post_processor.type: must be TemplateProcessing or BertProcessing, not %q", p.Type)
}

func first(pair []any) (string, bool) {
	if len(pair) == 0 {
		return "", false
	}
	s, ok := pair[0].(string)
	return s, ok
}

type templatePart struct {
	SpecialToken, Sequence *struct {
		ID     string `json:"id"`
		TypeID int    `json:"type_id"`
	}
}

// readTemplate gives the special tokens in front of, between and behind the sequences A, B.
func readTemplate(field string, parts []templatePart, sequences int, tokens func(string) []string) ([][]string, error) {
	out := make([][]string, 1, sequences+1)
	for i, part := range parts {
		switch {
		case part.Sequence != nil:
			if want := string(rune('A' + len(out) - 1)); part.Sequence.ID != want {
				return nil, fmt.Errorf("%s[%d]: sequence %q where %q is expected", field, i, part.Sequence.ID, want)
			}
			if part.Sequence.TypeID != len(out)-1 {
				return nil, fmt.Errorf("%s[%d]: sequence %s has type_id %d; only 0 for A and 1 for B are supported", field, i, part.Sequence.ID, part.Sequence.TypeID)
			}
			out = append(out, nil)
		case part.SpecialToken != nil:
			last := len(out) - 1
			if want := max(0, last-1); part.SpecialToken.TypeID != want {
				return nil, fmt.Errorf("%s[%d]: %s has type_id %d; only that of the text before it, %d, is supported", field, i, part.SpecialToken.ID, part.SpecialToken.TypeID, want)
			}
			out[last] = append(out[last], tokens(part.SpecialToken.ID)...)
		default:
			return nil, fmt.Errorf("%s[%d]: neither a special token nor a sequence", field, i)
		}
	}
	if len(out) != sequences+1 {
		return nil, fmt.Errorf("%s: has %d sequences, not %d", field, len(out)-1, sequences)
	}
	return out, nil
}

// Frame is Specials as ids.
type Frame struct{ Before, Between, After []int32 }

// Frame looks the tokens up. The error names the one that the vocabulary lacks.
func (t *Tokenizer) Frame(s Specials) (Frame, error) {
	var missing error
	ids := func(where string, tokens []string) []int32 {
		var out []int32
		for _, token := range tokens {
			id, ok := t.Lookup(token)
			if !ok && missing == nil {
				missing = fmt.Errorf("%s: the vocabulary has no token %q", where, token)
			}
			out = append(out, id)
		}
		return out
	}
	return Frame{Before: ids("before", s.Before), Between: ids("between", s.Between), After: ids("after", s.After)}, missing
}

// Truncation says which of two texts is cut when they are too long together.
type Truncation string

// Truncations, as Hugging Face's libraries name them.
const (
	LongestFirst Truncation = "longest_first" // the longer one, until both are of a length
	OnlySecond   Truncation = "only_second"   // the second; the first too when it alone is too long
)

// Single appends a text's tokens with the special tokens around them, at most limit in all (0: any number).
func (f Frame) Single(ids, text []int32, limit int) []int32 {
	if limit > 0 {
		text = text[:min(len(text), max(0, limit-len(f.Before)-len(f.After)))]
	}
	return append(append(append(ids, f.Before...), text...), f.After...)
}

// Pair appends two texts' tokens with the special tokens around them, at most limit in all (0: any number). second is the index in
// ids of the second text's first token, from which on the type is 1.
func (f Frame) Pair(ids, a, b []int32, limit int, how Truncation) (_ []int32, second int) {
	if limit > 0 {
		room := max(0, limit-len(f.Before)-len(f.Between)-len(f.After))
		n, m := fit(len(a), len(b), room, how)
		a, b = a[:n], b[:m]
	}
	ids = append(append(append(ids, f.Before...), a...), f.Between...)
	second = len(ids)
	return append(append(ids, b...), f.After...), second
}

// fit gives the lengths to which texts of n and m tokens are cut. Where both are cut the second gets the odd token.
func fit(n, m, room int, how Truncation) (int, int) {
	if n+m <= room {
		return n, m
	}
	if how == OnlySecond {
		n = min(n, room)
		return n, room - n
	}
	half := room / 2
	switch {
	case min(n, m) > half && n > m: // the longer gets the odd token
		return room - half, half
	case min(n, m) > half:
		return half, room - half
	case n <= m:
		return n, room - n
	default:
		return room - m, m
	}
}
