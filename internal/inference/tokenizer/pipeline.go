package tokenizer

// This file reads and runs tokenizers that are not BERT's: normalizers, then splitters that cut a
// text into words, then a model (Unigram or BPE) for each word. Each step does what the tokenizers
// library does.

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// modelFile is the model of a tokenizer.json that is Unigram or BPE.
type modelFile struct {
	Type                    string            `json:"type"`
	Vocab                   json.RawMessage   `json:"vocab"`
	UnkID                   *int              `json:"unk_id"`
	UnkToken                string            `json:"unk_token"`
	Merges                  []json.RawMessage `json:"merges"`
	Dropout                 float64           `json:"dropout"`
	FuseUnk                 bool              `json:"fuse_unk"`
	ByteFallback            bool              `json:"byte_fallback"`
	IgnoreMerges            bool              `json:"ignore_merges"`
	ContinuingSubwordPrefix *string           `json:"continuing_subword_prefix"`
	EndOfWordSuffix         string            `json:"end_of_word_suffix"`
}

type addedToken struct {
	ID         int32  `json:"id"`
	Content    string `json:"content"`
	Special    bool   `json:"special"`
	Normalized bool   `json:"normalized"`
	SingleWord bool   `json:"single_word"`
	LStrip     bool   `json:"lstrip"`
	RStrip     bool   `json:"rstrip"`
}

// pieceModel splits words into pieces.
type pieceModel interface {
	// split calls yield with each piece of a word and its range in the word, in order. The word is
	// not empty.
	split(word []byte, yield func(id int32, start, end int))
	lookup(piece string) (int32, bool)
	size() int // one more than the largest id
}

type pipeline struct {
	raw, normalized []addedToken // tokens that texts can contain, longest first: looked for before normalisation, and after it
	normalizers     []func(buffer) buffer
	splitters       []splitter
	model           pieceModel
	trim            bool // spans exclude the spaces at the ends of a piece
	prefixed        bool // for trim: a space was added in front of the first word
	lowers          bool
}

func parsePipeline(data []byte) (*Tokenizer, error) {
	var f struct {
		AddedTokens  []addedToken    `json:"added_tokens"`
		Normalizer   json.RawMessage `json:"normalizer"`
		PreTokenizer json.RawMessage `json:"pre_tokenizer"`
		Model        modelFile       `json:"model"`
	}
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, err
	}
	p := &pipeline{}
	var err error
	if p.normalizers, err = readNormalizers("normalizer", f.Normalizer); err != nil {
		return nil, err
	}
	p.lowers = strings.Contains(string(f.Normalizer), `"Lowercase"`)
	var bytes bool
	if p.splitters, bytes, err = readSplitters("pre_tokenizer", f.PreTokenizer); err != nil {
		return nil, err
	}
	if p.trim, p.prefixed, err = trims(data); err != nil {
		return nil, err
	}
	t := &Tokenizer{pipeline: p, added: map[string]int32{}, unknown: -1}
	special := map[string]bool{}
	for _, a := range f.AddedTokens {
		if a.ID < 0 {
			return nil, fmt.Errorf("added_tokens: id %d of %q is negative", a.ID, a.Content)
		}
		t.added[a.Content] = a.ID
		t.size = max(t.size, int(a.ID)+1)
		special[a.Content] = a.Special
		if err := p.add(a); err != nil {
			return nil, err
		}
	}
	longest := func(a, b addedToken) int { return len(b.Content) - len(a.Content) }
	slices.SortStableFunc(p.raw, longest)
	slices.SortStableFunc(p.normalized, longest)
	if len(f.Model.Vocab) == 0 {
		return nil, fmt.Errorf("model.vocab: missing")
	}
	if f.Model.Type == "Unigram" {
		u, err := readUnigram(f.Model, special)
		if err != nil {
			return nil, err
		}
		p.model, t.unknown = u, u.unknown
	} else {
		b, err := readBPE(f.Model, special, bytes)
		if err != nil {
			return nil, err
		}
		p.model, t.unknown = b, b.unknown
	}
	t.size = max(t.size, p.model.size())
	return t, nil
}

// add adds a token that is looked for in texts.
func (p *pipeline) add(a addedToken) error {
	switch {
	case a.Special || a.Content == "":
		return nil
	case a.SingleWord || a.LStrip || a.RStrip:
		return fmt.Errorf("added_tokens: %q has single_word, lstrip or rstrip, which are not supported", a.Content)
	case a.Normalized:
		a.Content = string(p.normalize(newBuffer(a.Content, false)).text)
		if a.Content == "" {
			return nil
		}
		p.normalized = append(p.normalized, a)
	default:
		p.raw = append(p.raw, a)
	}
	return nil
}

// encode calls yield with each token of a text and, if spans is set, its span. It always encodes
// the whole text: the caller counts the tokens.
func (p *pipeline) encode(text string, spans bool, yield func(id int32, span ByteRange)) {
	splitAdded(newBuffer(text, spans), p.raw, yield, func(b buffer) {
		splitAdded(p.normalize(b), p.normalized, yield, func(b buffer) {
			p.words(b, 0, func(word buffer) {
				p.model.split(word.text, func(id int32, start, end int) {
					if !spans {
						yield(id, ByteRange{})
						return
					}
					yield(id, p.trimmed(word, start, end))
				})
			})
		})
	})
}

// splitAdded finds added tokens in a text, the leftmost first and the longest at each position, and
// passes the text between them to rest.
func splitAdded(b buffer, tokens []addedToken, yield func(id int32, span ByteRange), rest func(buffer)) {
	start := 0
	flush := func(end int) {
		if end > start {
			rest(b.part(start, end))
		}
	}
	if len(tokens) > 0 {
	next:
		for i := 0; i < len(b.text); {
			for _, token := range tokens {
				if end := i + len(token.Content); end <= len(b.text) && string(b.text[i:end]) == token.Content {
					flush(i)
					var span ByteRange
					if b.from != nil {
						span = b.span(i, end)
					}
					yield(token.ID, span)
					i, start = end, end
					continue next
				}
			}
			i++
		}
	}
	flush(len(b.text))
}

func (p *pipeline) normalize(b buffer) buffer {
	for _, n := range p.normalizers {
		b = n(b)
	}
	return b
}

// words runs the splitters from index i on.
func (p *pipeline) words(b buffer, i int, yield func(buffer)) {
	switch {
	case len(b.text) == 0:
	case i == len(p.splitters):
		yield(b)
	default:
		p.splitters[i](b, func(part buffer) { p.words(part, i+1, yield) })
	}
}

// trimmed returns the span of a piece, without spaces at its ends if p.trim is set.
func (p *pipeline) trimmed(word buffer, start, end int) ByteRange {
	span := word.span(start, end)
	if !p.trim {
		return span
	}
	leading, trailing := 0, 0
	for i := start; i < end && word.text[i] == ' '; i++ {
		leading++
	}
	for i := end; i > start && word.text[i-1] == ' '; i-- {
		trailing++
	}
	if span.Start == 0 && p.prefixed {
		if leading == end-start {
			return ByteRange{} // only the added space
		}
		leading = 0
	}
	span.Start = min(span.Start+leading, span.End)
	if span.End >= trailing {
		span.End = max(span.End-trailing, span.Start)
	}
	return span
}
