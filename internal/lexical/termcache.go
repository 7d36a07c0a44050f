package lexical

import (
	"encoding/binary"
	"math/bits"
	"sync/atomic"
)

// termCache remembers the terms of words: stemming takes longer than all the
// rest of analysis, and few words make up most of a text. Reading takes no lock.
// A word has two places; where both are taken, it takes one over.
type termCache struct {
	places atomic.Pointer[[termPlaces]atomic.Pointer[cachedTerm]]
}

// termPlaces bounds how many words are remembered; a power of two.
const termPlaces = 1 << 17

// cachedTerm is a word, by its length and first 16 bytes and all of it, with its
// term. It never changes.
type cachedTerm struct {
	key  wordKey
	word string
	term string
}

// wordKey tells nearly all words apart.
type wordKey struct {
	low, high uint64
	length    int
}

// loweredWord is a word in lower case with zeros behind it.
type loweredWord struct {
	bytes  [longestWord]byte
	length int
}

func (w *loweredWord) key() wordKey {
	return wordKey{binary.LittleEndian.Uint64(w.bytes[0:]), binary.LittleEndian.Uint64(w.bytes[8:]), w.length}
}

// keyOf is the key of a word that may be longer than a loweredWord.
func keyOf(word string) wordKey {
	var first [16]byte
	copy(first[:], word)
	return wordKey{binary.LittleEndian.Uint64(first[0:]), binary.LittleEndian.Uint64(first[8:]), len(word)}
}

// bucket is where a word may be; the other place differs in the last bit. Words
// of more than 16 bytes that begin alike and are as long share theirs.
func (k wordKey) bucket() uint64 {
	const a, b = 0x9e3779b97f4a7c15, 0xd6e8feb86659fd93 // odd, with bits all over
	high, low := bits.Mul64(k.low^a, k.high+uint64(k.length)^b)
	return (high ^ low) * a >> (64 - 17)
}

// get returns the term of a word in lower case with its key.
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

// put remembers the term of a word.
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
