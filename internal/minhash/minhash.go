// Package minhash estimates how similar the texts of two documents are from signatures of fixed
// size: MinHash (Broder 1997) over shingles. Bands of a signature are keys by which similar
// documents are found without comparing all of them (locality-sensitive hashing).
//
// A shingle is three consecutive words, in lower case, without punctuation. In scripts without
// spaces, words are not segmented: a shingle is 6 characters of Chinese or Japanese, or 12 of Thai,
// Lao, Khmer or Burmese. Similarity is the Jaccard index of the sets of shingles: the size of their
// intersection divided by that of their union. If every twentieth word of a text is changed, the
// similarity to the original is about 0.75; if its last quarter is rewritten, it is 0.6.
//
// A signature has 100 values, each the minimum of all shingles under its own hash function. The
// share of equal values estimates the similarity; the standard error is √(s(1-s)/100), at most
// 0.05. There are 25 bands of 4 values each: texts of similarity s have a band in common with
// probability 1-(1-s⁴)²⁵, which is 0.97 at the threshold of 0.6, 0.999 at 0.7, and 0.04 at 0.2.
package minhash

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"unicode"
	"unicode/utf8"
)

const (
	// Permutations is the number of values of a signature, Bands the number of keys, each made from
	// Rows values.
	Permutations = Bands * Rows
	Bands        = 25
	Rows         = 4
	// Threshold is the least estimated similarity of near-duplicates.
	Threshold = 0.6
	// MinShingles is the least number of different shingles of a text that is compared: forms and
	// notices of a few lines are similar without being versions of each other.
	MinShingles = 50
)

// Signature is the MinHash signature of a text; zero if the text is too short to be compared.
type Signature [Permutations]uint32

// hashes are the factors and summands of the hash functions. They are fixed, because signatures are
// stored. Each function is h(x) = (ax + b) mod 2⁶⁴ without the lower half (Dietzfelbinger).
var hashes = func() (out [Permutations][2]uint64) {
	random := rand.New(rand.NewPCG(0x736c75696365, 1))
	for i := range out {
		out[i] = [2]uint64{random.Uint64() | 1, random.Uint64()}
	}
	return out
}()

// Weights of characters and words; a shingle has at least shingleWeight.
const (
	shingleWeight = 36
	wordWeight    = 12
	ideograph     = 6
	syllabic      = 3 // a character of Thai and the like
)

// Builder makes a signature of texts that are added one after another. A shingle may begin in one
// text and end in the next.
type Builder struct {
	minima   [Permutations]uint32
	distinct map[uint64]struct{} // the first Least distinct shingles
	window   []unit
	weight   int
}

// unit is a word, or a character of a script without spaces.
type unit struct {
	hash   uint64
	weight int
}

// NewBuilder returns the builder of an empty text.
func NewBuilder() *Builder {
	b := &Builder{distinct: make(map[uint64]struct{}, MinShingles)}
	for i := range b.minima {
		b.minima[i] = math.MaxUint32
	}
	return b
}

// Add adds a text.
func (b *Builder) Add(s string) {
	var word uint64
	inWord := false
	end := func() {
		if inWord {
			b.add(unit{mix(word), wordWeight})
			inWord = false
		}
	}
	for _, r := range s {
		var weight int
		switch {
		case r < utf8.RuneSelf:
			if 'A' <= r && r <= 'Z' {
				r += 'a' - 'A'
			}
			if 'a' <= r && r <= 'z' || '0' <= r && r <= '9' {
				break
			}
			end()
			continue
		case !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r):
			end()
			continue
		default:
			weight = weightOf(r)
			r = unicode.ToLower(r)
		}
		if weight > 0 {
			end()
			b.add(unit{mix(uint64(r)), weight})
			continue
		}
		if !inWord {
			word, inWord = 14695981039346656037, true // FNV-1a, of characters
		}
		word = (word ^ uint64(r)) * 1099511628211
	}
	end()
}

// weightOf returns the weight of a character that is a unit by itself; 0 if it is part of a word.
func weightOf(r rune) int {
	switch {
	case r < 0x0E00:
		return 0
	case unicode.In(r, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar):
		return syllabic
	case unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana):
		return ideograph
	}
	return 0
}

// mix spreads a hash's bits (the finalizer of SplitMix64).
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

func (b *Builder) add(u unit) {
	b.window = append(b.window, u)
	b.weight += u.weight
	for b.weight-b.window[0].weight >= shingleWeight {
		b.weight -= b.window[0].weight
		b.window = append(b.window[:0], b.window[1:]...)
	}
	if b.weight < shingleWeight {
		return
	}
	var h uint64
	for _, u := range b.window {
		h = mix(h*31 + u.hash)
	}
	if len(b.distinct) < MinShingles {
		b.distinct[h] = struct{}{}
	}
	for i := range hashes {
		if v := uint32((hashes[i][0]*h + hashes[i][1]) >> 32); v < b.minima[i] {
			b.minima[i] = v
		}
	}
}

// Signature returns the signature of the added texts; false if they are too short to be compared.
func (b *Builder) Signature() (Signature, bool) {
	if len(b.distinct) < MinShingles {
		return Signature{}, false
	}
	return b.minima, true
}

// Similarity estimates the similarity of the texts of two signatures, from 0 to 1. It is 0 if one
// of them is too short to be compared.
func Similarity(a, b Signature) float64 {
	if a == (Signature{}) || b == (Signature{}) {
		return 0
	}
	same := 0
	for i := range a {
		if a[i] == b[i] {
			same++
		}
	}
	return float64(same) / Permutations
}

// Keys returns one key for each band. Signatures in different scopes, such as collections, have
// different keys. The signature of a text too short to be compared has none.
func (s Signature) Keys(scope [16]byte) []int64 {
	if s == (Signature{}) {
		return nil
	}
	in := mix(mix(binary.BigEndian.Uint64(scope[:8])) + binary.BigEndian.Uint64(scope[8:]))
	out := make([]int64, Bands)
	for band := range out {
		h := mix(in + uint64(band))
		for _, v := range s[band*Rows : (band+1)*Rows] {
			h = mix(h*31 + uint64(v))
		}
		out[band] = int64(h)
	}
	return out
}

// Bytes encodes a signature, 4 bytes per value. The signature of a text too short to be compared is
// encoded as no bytes.
func (s Signature) Bytes() []byte {
	if s == (Signature{}) {
		return []byte{}
	}
	out := make([]byte, 0, 4*Permutations)
	for _, v := range s {
		out = binary.BigEndian.AppendUint32(out, v)
	}
	return out
}

// Decode decodes what Bytes returned.
func Decode(data []byte) (s Signature, err error) {
	if len(data) == 0 {
		return s, nil
	}
	if len(data) != 4*Permutations {
		return s, fmt.Errorf("decode a MinHash signature: it has %d bytes, not %d", len(data), 4*Permutations)
	}
	for i := range s {
		s[i] = binary.BigEndian.Uint32(data[4*i:])
	}
	return s, nil
}
