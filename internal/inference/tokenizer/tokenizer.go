// Package tokenizer turns text into the token ids of models. It reads a Hugging Face tokenizer.json
// whose model is WordPiece (with BertNormalizer and BertPreTokenizer), Unigram or BPE, and returns
// the same ids as the tokenizers library.
//
// Text is never encoded as a special token: "[SEP]" in a document is punctuation and a word,
// whatever added_tokens says. The caller does padding, truncation and the special tokens around a
// text.
package tokenizer

// This file reads tokenizer.json and encodes BERT's words. normalize.go makes the words;
// pipeline.go has the other tokenizers.

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"unicode/utf8"
)

// Tokenizer encodes text. It is safe for concurrent use.
type Tokenizer struct {
	normalizer normalizer
	first      map[string]int32 // pieces that start a word
	rest       map[string]int32 // pieces that continue one, without their prefix
	added      map[string]int32
	extra      int // number of added tokens that are not special
	unknown    int32
	size       int
	longest    int       // bytes of the longest piece
	maxChars   int       // a word of more characters is unknown as a whole
	words      sync.Pool // of *wordCache

	pipeline *pipeline // of Unigram and BPE, which use only added, unknown and size of the fields above; else nil
}

type file struct {
	AddedTokens []struct {
		ID      int32  `json:"id"`
		Content string `json:"content"`
		Special bool   `json:"special"`
	} `json:"added_tokens"`
	Normalizer *struct {
		Type               string `json:"type"`
		CleanText          *bool  `json:"clean_text"`
		HandleChineseChars *bool  `json:"handle_chinese_chars"`
		StripAccents       *bool  `json:"strip_accents"`
		Lowercase          *bool  `json:"lowercase"`
	} `json:"normalizer"`
	PreTokenizer *struct {
		Type string `json:"type"`
	} `json:"pre_tokenizer"`
	Model struct {
		UnkToken                string           `json:"unk_token"`
		ContinuingSubwordPrefix *string          `json:"continuing_subword_prefix"`
		MaxInputCharsPerWord    *int             `json:"max_input_chars_per_word"`
		Vocab                   map[string]int32 `json:"vocab"`
	} `json:"model"`
}

// Load reads the tokenizer.json at path.
func Load(path string) (*Tokenizer, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading tokenizer: %w", err)
	}
	t, err := Parse(data)
	if err != nil {
		return nil, fmt.Errorf("reading tokenizer %s: %w", path, err)
	}
	return t, nil
}

// Parse reads a tokenizer.json. Errors name the field that is missing or not supported.
func Parse(data []byte) (*Tokenizer, error) {
	var kind struct {
		Model struct {
			Type string `json:"type"`
		} `json:"model"`
	}
	if err := json.Unmarshal(data, &kind); err != nil {
		return nil, err
	}
	switch kind.Model.Type {
	case "WordPiece":
		return parseWordPiece(data)
	case "Unigram", "BPE":
		return parsePipeline(data)
	}
	return nil, fmt.Errorf("model.type: must be WordPiece, Unigram or BPE, not %q", kind.Model.Type)
}

func parseWordPiece(data []byte) (*Tokenizer, error) {
	var f file
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, err
	}
	switch {
	case f.Normalizer == nil || f.Normalizer.Type != "BertNormalizer":
		return nil, fmt.Errorf("normalizer.type: must be BertNormalizer")
	case f.PreTokenizer == nil || f.PreTokenizer.Type != "BertPreTokenizer":
		return nil, fmt.Errorf("pre_tokenizer.type: must be BertPreTokenizer")
	case len(f.Model.Vocab) == 0:
		return nil, fmt.Errorf("model.vocab: missing")
	}
	t := &Tokenizer{
		normalizer: normalizer{
			clean:   or(f.Normalizer.CleanText, true),
			chinese: or(f.Normalizer.HandleChineseChars, true),
			lower:   or(f.Normalizer.Lowercase, true),
		},
		first:    make(map[string]int32, len(f.Model.Vocab)),
		rest:     make(map[string]int32, len(f.Model.Vocab)),
		added:    map[string]int32{},
		maxChars: or(f.Model.MaxInputCharsPerWord, 100),
	}
	t.normalizer.strip = or(f.Normalizer.StripAccents, t.normalizer.lower)
	if t.maxChars < 1 {
		return nil, fmt.Errorf("model.max_input_chars_per_word: %d is not positive", t.maxChars)
	}
	prefix := or(f.Model.ContinuingSubwordPrefix, "##")
	for piece, id := range f.Model.Vocab {
		if id < 0 {
			return nil, fmt.Errorf("model.vocab: id %d of %q is negative", id, piece)
		}
		t.size = max(t.size, int(id)+1)
		t.longest = max(t.longest, len(piece))
		if piece != "" {
			t.first[piece] = id
		}
		if tail, ok := strings.CutPrefix(piece, prefix); ok && tail != "" {
			t.rest[tail] = id
		}
	}
	for _, a := range f.AddedTokens {
		if a.ID < 0 {
			return nil, fmt.Errorf("added_tokens: id %d of %q is negative", a.ID, a.Content)
		}
		t.added[a.Content] = a.ID
		if !a.Special {
			t.extra++
		}
		t.size = max(t.size, int(a.ID)+1)
	}
	id, ok := t.Lookup(f.Model.UnkToken)
	if !ok {
		return nil, fmt.Errorf("model.unk_token: %q is not in the vocabulary", f.Model.UnkToken)
	}
	t.unknown = id
	return t, nil
}

func or[T any](value *T, fallback T) T {
	if value == nil {
		return fallback
	}
	return *value
}

// Size returns one more than the largest id.
func (t *Tokenizer) Size() int { return t.size }

// Extra returns the number of added tokens of a WordPiece tokenizer that are not special, such as
// terms of a domain. Text is never encoded as one of those either. With Unigram and BPE it is, and
// Extra returns 0.
func (t *Tokenizer) Extra() int { return t.extra }

// Unknown returns the id of text that the vocabulary cannot spell; -1: it spells any text, or such
// text is left out.
func (t *Tokenizer) Unknown() int32 { return t.unknown }

// Lookup returns the id of a piece or of an added token such as "[CLS]".
func (t *Tokenizer) Lookup(piece string) (int32, bool) {
	if id, ok := t.added[piece]; ok {
		return id, true
	}
	if t.pipeline != nil {
		return t.pipeline.model.lookup(piece)
	}
	id, ok := t.first[piece]
	return id, ok
}

// Encode appends the ids of text to ids, at most limit of them (0: all). total counts all ids of
// text.
func (t *Tokenizer) Encode(ids []int32, text string, limit int) (_ []int32, total int) {
	end := len(ids) + limit
	if t.pipeline != nil {
		t.pipeline.encode(text, false, func(id int32, _ ByteRange) {
			if total++; limit <= 0 || len(ids) < end {
				ids = append(ids, id)
			}
		})
		return ids, total
	}
	cache, _ := t.words.Get().(*wordCache)
	if cache == nil {
		cache = new(wordCache)
	}
	defer t.words.Put(cache)
	var scratch [24]int32
	t.normalizer.words(text, func(word []byte) {
		pieces := t.cachedWord(scratch[:0], cache, word)
		total += len(pieces)
		if limit > 0 && len(ids)+len(pieces) > end {
			pieces = pieces[:max(0, end-len(ids))]
		}
		ids = append(ids, pieces...)
	})
	return ids, total
}

// cachedWord is word with a cache. It returns pieces of the cache, or appends them to ids.
func (t *Tokenizer) cachedWord(ids []int32, cache *wordCache, word []byte) []int32 {
	if len(word) > cachedBytes {
		return t.word(ids, nil, word)
	}
	slot, found := cache.slot(word)
	if found {
		return slot.ids[:slot.pieces]
	}
	ids = t.word(ids, nil, word)
	if len(ids) <= cachedPieces {
		slot.length, slot.pieces = uint8(len(word)), uint8(copy(slot.ids[:], ids))
	}
	return ids
}

// word appends the pieces of one normalised word: at each position the longest piece of the
// vocabulary that matches. If ends is not nil, word appends the end of each piece in the word to
// it.
func (t *Tokenizer) word(ids []int32, ends *[]int, word []byte) []int32 {
	known, marks := len(ids), 0
	piece := func(id int32, end int) {
		ids = append(ids, id)
		if ends != nil {
			*ends = append(*ends, end)
		}
	}
	if id, ok := t.first[string(word)]; ok && utf8.RuneCount(word) <= t.maxChars {
		piece(id, len(word))
		return ids
	}
	if len(word) > t.maxChars && utf8.RuneCount(word) > t.maxChars {
		piece(t.unknown, len(word))
		return ids
	}
	if ends != nil {
		marks = len(*ends)
	}
	vocabulary := t.first
	for start := 0; start < len(word); {
		end := min(len(word), start+t.longest)
		for end < len(word) && !utf8.RuneStart(word[end]) {
			end--
		}
		for ; end > start; end = before(word, start, end) {
			if id, ok := vocabulary[string(word[start:end])]; ok {
				piece(id, end)
				break
			}
		}
		if end <= start { // the word can't be spelled
			ids = ids[:known]
			if ends != nil {
				*ends = (*ends)[:marks]
			}
			piece(t.unknown, len(word))
			return ids
		}
		start, vocabulary = end, t.rest
	}
	return ids
}

// before returns the start of the character that ends at end.
func before(word []byte, start, end int) int {
	_, size := utf8.DecodeLastRune(word[start:end])
	return end - size
}
