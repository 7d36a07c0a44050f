package lexical

import (
	"encoding/binary"
	"math/bits"
	"sync/atomic"
)

// termCache caches the terms of words: stemming takes longer than the rest of analysis, and few
// words make up most of a text. Reading takes no lock. A word has two slots; if both are taken, it
// replaces one.
type termCache struct {
	places atomic.Pointer[[termPlaces]atomic.Pointer[cachedTerm]]
}

// termPlaces is the number of slots; a power of two.
const termPlaces = 1 << 17

// cachedTerm is a word and its term. The key is compared before the word. It is immutable.
type cachedTerm struct {
	key  wordKey
	word string
	term string
}

// wordKey is the length of a word and its first 16 bytes. It distinguishes nearly all words.
type wordKey struct {
	low, high uint64
	length    int
}

// loweredWord is a word in lower case, padded with zeros.
type loweredWord struct {
	bytes  [maxWord]byte
	length int
}

func (w *loweredWord) key() wordKey {
	return wordKey{binary.LittleEndian.Uint64(w.bytes[0:]), binary.LittleEndian.Uint64(w.bytes[8:]), w.length}
}

// keyOf returns the key of a word that may be longer than a loweredWord.
func keyOf(word string) wordKey {
	var first [16]byte
	copy(first[:], word)
	return wordKey{binary.LittleEndian.Uint64(first[0:]), binary.LittleEndian.Uint64(first[8:]), len(word)}
}

// bucket returns the first slot of a word; the second one differs in the last bit. Words of the
// same length with the same first 16 bytes have the same slots.
func (k wordKey) bucket() uint64 {
	const a, b = 0x9e3779b97f4a7c15, 0xd6e8feb86659fd93 // odd, with bits all over
	high, low := bits.Mul64(k.low^a, k.high+uint64(k.length)^b)
	return (high ^ low) * a >> (64 - 17)
}

// get returns the cached term of a word in lower case.
func (c *termCache) get(key wordKey, word []byte) (term string, ok bool) {
	places := c.places.Load()
	if places == nil {
		return "", false
	}
	at := key.bucket()
	for _, i := range [2]uint64{at, at ^ 1} {
		if e := places[i].Load(); e != nil && e.key == key && (key.length <= 16 || e.word == string(word)) {
			return e.term, true
		}
	}
	return "", false
}

// put caches the term of a word.
func (c *termCache) put(key wordKey, word, term string) {
	places := c.places.Load()
	if places == nil {
		c.places.CompareAndSwap(nil, new([termPlaces]atomic.Pointer[cachedTerm]))
		places = c.places.Load()
	}
	at := key.bucket()
	if places[at].Load() != nil && places[at^1].Load() == nil {
		at ^= 1
	}
	places[at].Store(&cachedTerm{key, word, term})
}
