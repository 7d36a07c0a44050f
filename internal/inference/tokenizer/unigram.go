package tokenizer

// This file is SentencePiece's unigram model: it finds the likeliest of all ways to split a word
// into pieces.

import (
	"encoding/json"
	"fmt"
	"math"
	"unicode/utf8"
)

type unigram struct {
	pieces  map[string]unigramPiece // and every prefix of a piece
	ids     map[string]int32
	unknown int32
	penalty float64 // score of a character that is no piece
}

type unigramPiece struct {
	id    int32 // -1: only a prefix of a piece
	score float64
}

// unknownPenalty is how far the score of an unknown character is below the lowest score of a piece.
const unknownPenalty = 10

func readUnigram(m modelFile, special map[string]bool) (*unigram, error) {
	var vocab []json.RawMessage
	if err := json.Unmarshal(m.Vocab, &vocab); err != nil {
		return nil, fmt.Errorf("model.vocab: %w", err)
	}
	switch {
	case m.ByteFallback:
		return nil, fmt.Errorf("model.byte_fallback: is not supported")
	case m.UnkID == nil || *m.UnkID < 0 || *m.UnkID >= len(vocab):
		return nil, fmt.Errorf("model.unk_id: is missing or not an id of the vocabulary")
	}
	u := &unigram{pieces: make(map[string]unigramPiece, 2*len(vocab)), ids: make(map[string]int32, len(vocab)), unknown: int32(*m.UnkID)}
	least := math.Inf(1)
	for id, entry := range vocab {
		var piece string
		var score float64
		if err := json.Unmarshal(entry, &[]any{&piece, &score}); err != nil {
			return nil, fmt.Errorf("model.vocab[%d]: %w", id, err)
		}
		least = min(least, score)
		u.ids[piece] = int32(id)
		if special[piece] || id == *m.UnkID {
			continue // a text is never encoded as one of these
		}
		for i := range piece {
			if _, ok := u.pieces[piece[:i]]; !ok && i > 0 {
				u.pieces[piece[:i]] = unigramPiece{id: -1}
			}
		}
		u.pieces[piece] = unigramPiece{int32(id), score}
	}
	u.penalty = least - unknownPenalty
	return u, nil
}

func (u *unigram) lookup(piece string) (int32, bool) {
	id, ok := u.ids[piece]
	return id, ok
}

func (u *unigram) size() int { return len(u.ids) }

// step is the last piece of the best way to a position in a word.
type step struct {
	score float64
	start int // of the last piece; -1: no way was found yet
	id    int32
}

func (u *unigram) split(word []byte, yield func(id int32, start, end int)) {
	var scratch [64]step
	best := scratch[:0]
	for range len(word) + 1 {
		best = append(best, step{start: -1})
	}
	reach := func(start, end int, id int32, score float64) {
		score += best[start].score
		if best[end].start < 0 || score > best[end].score {
			best[end] = step{score, start, id}
		}
	}
	for start := 0; start < len(word); {
		_, size := utf8.DecodeRune(word[start:])
		single := false
		for end := start + size; ; {
			piece, ok := u.pieces[string(word[start:end])]
			if !ok {
				break
			}
			if piece.id >= 0 {
				reach(start, end, piece.id, piece.score)
				single = single || end == start+size
			}
			if end == len(word) {
				break
			}
			_, n := utf8.DecodeRune(word[end:])
			end += n
		}
		if !single {
			reach(start, start+size, u.unknown, u.penalty)
		}
		start += size
	}
	// Walk back from the end. Consecutive unknown characters are one token.
	var back [32]int
	ends := back[:0]
	for end := len(word); end > 0; {
		ends = append(ends, end)
		s := best[end]
		for s.id == u.unknown && s.start > 0 && best[s.start].id == u.unknown {
			s = best[s.start]
		}
		best[end].start = s.start
		end = s.start
	}
	for i := len(ends) - 1; i >= 0; i-- {
		end := ends[i]
		yield(best[end].id, best[end].start, end)
	}
}
