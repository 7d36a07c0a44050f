package tokenizer

import (
	"encoding/binary"
	"math/bits"
)

// wordCache caches the pieces of short words. A vocabulary is larger than the processor's nearer
// caches, and few words make up most of a text. It is not safe for concurrent use.
type wordCache [1 << cachedBits]cachedWord

const (
	cachedBits   = 12 // of the number of places
	cachedBytes  = 16 // of the longest cached word
	cachedPieces = 3
)

// cachedWord is a word, padded with zeros, and its pieces; zero if there is none.
type cachedWord struct {
	low, high      uint64
	length, pieces uint8
	ids            [cachedPieces]int32
}

// slot returns the place of a word of at most cachedBytes, and whether it has that word. If not,
// the slot is empty, and has the key of the word.
func (c *wordCache) slot(word []byte) (_ *cachedWord, found bool) {
	var padded [cachedBytes]byte
	copy(padded[:], word)
	low, high := binary.LittleEndian.Uint64(padded[0:]), binary.LittleEndian.Uint64(padded[8:])
	const a, b = 0x9e3779b97f4a7c15, 0xd6e8feb86659fd93 // odd, with bits all over
	top, bottom := bits.Mul64(low^a, high^b)
	w := &c[(top^bottom)*a>>(64-cachedBits)]
	if w.low == low && w.high == high && int(w.length) == len(word) {
		return w, true
	}
	*w = cachedWord{low: low, high: high}
	return w, false
}
