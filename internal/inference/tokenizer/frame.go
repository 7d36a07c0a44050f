package tokenizer

// This file puts special tokens around one or two texts: [CLS] A [SEP], and [CLS] A [SEP] B [SEP].

import (
	"encoding/json"
	"fmt"
	"slices"
)

// Specials are the special tokens of a model's input: Before A After for one text, Before A Between
// B After for two. Token types are 0 up to the end of Between and 1 from B on, or all 0.
type Specials struct {
	Before, Between, After []string
	OneType                bool // B is of type 0 too
}

// ReadSpecials reads the post_processor of a tokenizer.json. Without one there are no special
// tokens.
func ReadSpecials(data []byte) (Specials, error) {
	p, err := readPostProcessor(data)
	if p == nil || err != nil {
		return Specials{}, err
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
			s.Between, s.OneType = []string{sep, sep}, true
		}
		return s, nil
	case "TemplateProcessing":
		tokens := func(id string) []string {
			if t, ok := p.SpecialTokens[id]; ok && len(t.Tokens) > 0 {
				return t.Tokens
			}
			return []string{id}
		}
		single, _, err := readTemplate("post_processor.single", p.Single, 1, tokens)
		if err != nil {
			return Specials{}, err
		}
		s := Specials{Before: single[0], After: single[1]}
		if len(p.Pair) == 0 {
			return s, nil
		}
		pair, oneType, err := readTemplate("post_processor.pair", p.Pair, 2, tokens)
		if err != nil {
			return Specials{}, err
		}
		if !slices.Equal(pair[0], s.Before) || !slices.Equal(pair[2], s.After) {
			return Specials{}, fmt.Errorf("post_processor.pair: begins or ends with other tokens than post_processor.single")
		}
		s.Between, s.OneType = pair[1], oneType
		return s, nil
	case "ByteLevel": // it changes only spans
		return Specials{}, nil
	}
	return Specials{}, fmt.Errorf("post_processor.type: must be TemplateProcessing, BertProcessing or RobertaProcessing, not %q", p.Type)
}

type postProcessor struct {
	Type          string
	Sep, Cls      []any
	Single, Pair  []templatePart
	SpecialTokens map[string]struct {
		Tokens []string
	} `json:"special_tokens"`
	Processors []*postProcessor
	Trim       *bool          `json:"trim_offsets"`
	Prefix     *bool          `json:"add_prefix_space"`
	byteLevel  *postProcessor // the ByteLevel of the sequence that this one is from
}

// readPostProcessor returns the post-processor that puts special tokens around a text; nil: there
// is none.
func readPostProcessor(data []byte) (*postProcessor, error) {
	var f struct {
		PostProcessor *postProcessor `json:"post_processor"`
	}
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, err
	}
	p := f.PostProcessor
	if p == nil || p.Type != "Sequence" {
		return p, nil
	}
	var found, level *postProcessor
	for i, one := range p.Processors {
		switch {
		case one == nil:
		case one.Type == "ByteLevel":
			level = one
		case found != nil:
			return nil, fmt.Errorf("post_processor.processors[%d]: a second %s is not supported", i, one.Type)
		default:
			found = one
		}
	}
	if found == nil {
		return level, nil
	}
	found.byteLevel = level
	return found, nil
}

// trims reports whether spans exclude the spaces at the ends of a piece, and whether a space was
// added in front of the text.
func trims(data []byte) (trim, prefixed bool, err error) {
	p, err := readPostProcessor(data)
	if p == nil || err != nil {
		return false, false, err
	}
	if p.byteLevel != nil {
		p = p.byteLevel
	}
	if p.Type != "RobertaProcessing" && p.Type != "ByteLevel" {
		return false, false, nil
	}
	return or(p.Trim, true), or(p.Prefix, true), nil
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

// readTemplate returns the special tokens before, between and after the sequences A and B, and
// whether all tokens have type 0.
func readTemplate(field string, parts []templatePart, sequences int, tokens func(string) []string) (_ [][]string, oneType bool, _ error) {
	out := make([][]string, 1, sequences+1)
	for i, part := range parts {
		switch {
		case part.Sequence != nil:
			if want := string(rune('A' + len(out) - 1)); part.Sequence.ID != want {
				return nil, false, fmt.Errorf("%s[%d]: sequence %q where %q is expected", field, i, part.Sequence.ID, want)
			}
			if len(out) == 2 {
				oneType = part.Sequence.TypeID == 0
			}
			if part.Sequence.TypeID != typeOf(len(out)-1, oneType) {
				return nil, false, fmt.Errorf("%s[%d]: sequence %s has type_id %d; only 0 for A, and 0 or 1 for B, are supported",
					field, i, part.Sequence.ID, part.Sequence.TypeID)
			}
			out = append(out, nil)
		case part.SpecialToken != nil:
			last := len(out) - 1
			if want := typeOf(max(0, last-1), oneType); part.SpecialToken.TypeID != want {
				return nil, false, fmt.Errorf("%s[%d]: %s has type_id %d; only that of the text before it, %d, is supported",
					field, i, part.SpecialToken.ID, part.SpecialToken.TypeID, want)
			}
			out[last] = append(out[last], tokens(part.SpecialToken.ID)...)
		default:
			return nil, false, fmt.Errorf("%s[%d]: neither a special token nor a sequence", field, i)
		}
	}
	if len(out) != sequences+1 {
		return nil, false, fmt.Errorf("%s: has %d sequences, not %d", field, len(out)-1, sequences)
	}
	return out, oneType, nil
}

// typeOf returns the token type of the first or second sequence.
func typeOf(sequence int, oneType bool) int {
	if oneType {
		return 0
	}
	return sequence
}

// Frame is Specials as ids.
type Frame struct {
	Before, Between, After []int32
	OneType                bool
}

// Frame looks up the ids of special tokens. The error names one that is missing in the vocabulary.
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
	return Frame{Before: ids("before", s.Before), Between: ids("between", s.Between), After: ids("after", s.After), OneType: s.OneType}, missing
}

// Truncation says which of two texts is cut if they are too long together.
type Truncation string

// Truncations, as Hugging Face's libraries name them.
const (
	LongestFirst Truncation = "longest_first" // the longer one, until both have the same length
	OnlySecond   Truncation = "only_second"   // the second; the first too if it is too long by itself
)

// Single appends a text's tokens with the special tokens around them, at most limit in all (0: any
// number).
func (f Frame) Single(ids, text []int32, limit int) []int32 {
	if limit > 0 {
		text = text[:min(len(text), max(0, limit-len(f.Before)-len(f.After)))]
	}
	return append(append(append(ids, f.Before...), text...), f.After...)
}

// Pair appends two texts' tokens with the special tokens around them, at most limit in all (0: any
// number). second is the index in ids of the second text's first token: the token type is 1 from
// there on, unless OneType is set.
func (f Frame) Pair(ids, a, b []int32, limit int, how Truncation) (_ []int32, second int) {
	if limit > 0 {
		budget := max(0, limit-len(f.Before)-len(f.Between)-len(f.After))
		n, m := fit(len(a), len(b), budget, how)
		a, b = a[:n], b[:m]
	}
	ids = append(append(append(ids, f.Before...), a...), f.Between...)
	second = len(ids)
	return append(append(ids, b...), f.After...), second
}

// fit returns the lengths to which texts of n and m tokens are cut. If LongestFirst cuts both, the
// longer text gets an odd token, and of equal ones the second.
func fit(n, m, budget int, how Truncation) (int, int) {
	if n+m <= budget {
		return n, m
	}
	if how == OnlySecond {
		n = min(n, budget)
		return n, budget - n
	}
	half := budget / 2
	switch {
	case min(n, m) > half && n > m: // n > m: the longer one gets the odd token
		return budget - half, half
	case min(n, m) > half:
		return half, budget - half
	case n <= m:
		return n, budget - n
	default:
		return budget - m, m
	}
}
