package tokenizer

// This file is byte pair encoding: it merges the symbols of a word, the earliest learnt pair first,
// until no pair can be merged.

import (
	"container/heap"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"
)

type bpe struct {
	ids          map[string]int32 // by their bytes, if symbols are bytes
	named        map[string]int32 // as written in the file
	merges       map[[2]int32]merge
	unknown      int32 // -1: symbols that are not in the vocabulary are left out
	fuseUnknown  bool  // unknown symbols in a row are one token
	ignoreMerges bool  // a word that is a piece is taken whole, without merging
	bytes        bool  // symbols are bytes, not characters
}

type merge struct {
	rank int
	id   int32
}

func readBPE(m modelFile, special map[string]bool, bytes bool) (*bpe, error) {
	b := &bpe{unknown: -1, fuseUnknown: m.FuseUnk, ignoreMerges: m.IgnoreMerges, bytes: bytes, ids: map[string]int32{}}
	if err := json.Unmarshal(m.Vocab, &b.named); err != nil {
		return nil, fmt.Errorf("model.vocab: %w", err)
	}
	switch {
	case m.ByteFallback:
		return nil, fmt.Errorf("model.byte_fallback: is not supported")
	case m.Dropout > 0:
		return nil, fmt.Errorf("model.dropout: %v would make ids random", m.Dropout)
	case or(m.ContinuingSubwordPrefix, "") != "":
		return nil, fmt.Errorf("model.continuing_subword_prefix: %q is not supported", *m.ContinuingSubwordPrefix)
	case m.EndOfWordSuffix != "":
		return nil, fmt.Errorf("model.end_of_word_suffix: %q is not supported", m.EndOfWordSuffix)
	}
	for piece, id := range b.named {
		if id < 0 {
			return nil, fmt.Errorf("model.vocab: id %d of %q is negative", id, piece)
		}
		if special[piece] {
			continue // a text is never encoded as one of these
		}
		if raw, ok := fromByteLevel(piece); bytes && ok {
			b.ids[raw] = id
		} else if !bytes {
			b.ids[piece] = id
		}
	}
	if m.UnkToken != "" {
		id, ok := b.named[m.UnkToken]
		if !ok {
			return nil, fmt.Errorf("model.unk_token: %q is not in the vocabulary", m.UnkToken)
		}
		b.unknown = id
	}
	b.merges = make(map[[2]int32]merge, len(m.Merges))
	for rank, raw := range m.Merges {
		var pair []string
		if err := json.Unmarshal(raw, &pair); err != nil {
			var line string
			if err := json.Unmarshal(raw, &line); err != nil {
				return nil, fmt.Errorf("model.merges[%d]: %w", rank, err)
			}
			pair = strings.Split(line, " ")
		}
		if len(pair) != 2 {
			return nil, fmt.Errorf("model.merges[%d]: has %d parts", rank, len(pair))
		}
		left, okLeft := b.named[pair[0]]
		right, okRight := b.named[pair[1]]
		id, ok := b.named[pair[0]+pair[1]]
		if !okLeft || !okRight || !ok {
			return nil, fmt.Errorf("model.merges[%d]: %q and %q, or both together, are not in the vocabulary", rank, pair[0], pair[1])
		}
		b.merges[[2]int32{left, right}] = merge{rank, id}
	}
	return b, nil
}

func (b *bpe) lookup(piece string) (int32, bool) {
	id, ok := b.named[piece]
	return id, ok
}

func (b *bpe) size() (n int) {
	for _, id := range b.named {
		n = max(n, int(id)+1)
	}
	return n
}

// symbol is a symbol of a word, in a linked list. A symbol that was merged into the one before it
// has length 0.
type symbol struct {
	id         int32
	start, end int
	prev, next int
}

// candidate is a pair that could be merged.
type candidate struct {
	merge
	at int
}

type candidates []candidate

func (c candidates) Len() int      { return len(c) }
func (c candidates) Swap(i, j int) { c[i], c[j] = c[j], c[i] }
func (c candidates) Less(i, j int) bool {
	return c[i].rank < c[j].rank || c[i].rank == c[j].rank && c[i].at < c[j].at
}
func (c *candidates) Push(x any) { *c = append(*c, x.(candidate)) }
func (c *candidates) Pop() any {
	last := (*c)[len(*c)-1]
	*c = (*c)[:len(*c)-1]
	return last
}

func (b *bpe) split(word []byte, yield func(id int32, start, end int)) {
	if b.ignoreMerges {
		if id, ok := b.ids[string(word)]; ok {
			yield(id, 0, len(word))
			return
		}
	}
	var scratch [32]symbol
	list := b.symbols(scratch[:0], word)
	var queue candidates
	pair := func(i int) {
		if i < 0 || list[i].next < 0 {
			return
		}
		if m, ok := b.merges[[2]int32{list[i].id, list[list[i].next].id}]; ok {
			heap.Push(&queue, candidate{m, i})
		}
	}
	for i := range list {
		pair(i)
	}
	for len(queue) > 0 {
		top := heap.Pop(&queue).(candidate)
		left := &list[top.at]
		if left.start == left.end || left.next < 0 {
			continue
		}
		right := &list[left.next]
		// Either symbol may have been merged with another one since.
		if m, ok := b.merges[[2]int32{left.id, right.id}]; !ok || m.id != top.id {
			continue
		}
		left.id, left.end, left.next = top.id, right.end, right.next
		right.start = right.end
		if left.next >= 0 {
			list[left.next].prev = top.at
		}
		pair(left.prev)
		pair(top.at)
	}
	for _, s := range list {
		if s.start < s.end {
			yield(s.id, s.start, s.end)
		}
	}
}

// symbols appends the bytes or characters of a word to list.
func (b *bpe) symbols(list []symbol, word []byte) []symbol {
	joins := false // the last one is unknown, and the next may go with it
	for start := 0; start < len(word); {
		size := 1
		if !b.bytes {
			_, size = utf8.DecodeRune(word[start:])
		}
		end := start + size
		id, ok := b.ids[string(word[start:end])]
		switch {
		case ok:
			joins = false
		case b.unknown < 0:
			start = end
			continue
		case joins:
			list[len(list)-1].end = end
			start = end
			continue
		default:
			id, joins = b.unknown, b.fuseUnknown
		}
		list = append(list, symbol{id: id, start: start, end: end, prev: len(list) - 1, next: len(list) + 1})
		start = end
	}
	if len(list) > 0 {
		list[len(list)-1].next = -1
	}
	return list
}

// byteLevel are the characters that stand for bytes in GPT-2's vocabularies.
var byteLevel = func() (runes [256]rune) {
	next := rune(256)
	for i := range runes {
		switch {
		case '!' <= i && i <= '~', 0xA1 <= i && i <= 0xAC, 0xAE <= i:
			runes[i] = rune(i)
		default:
			runes[i] = next
			next++
		}
	}
	return runes
}()

var byteOf = func() map[rune]byte {
	m := make(map[rune]byte, len(byteLevel))
	for i, r := range byteLevel {
		m[r] = byte(i)
	}
	return m
}()

// fromByteLevel returns the bytes that a piece stands for; false: it has a character that stands
// for no byte.
func fromByteLevel(piece string) (string, bool) {
	raw := make([]byte, 0, len(piece))
	for _, r := range piece {
		c, ok := byteOf[r]
		if !ok {
			return "", false
		}
		raw = append(raw, c)
	}
	return string(raw), true
}
