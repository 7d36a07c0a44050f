// Package minhash says how similar the texts of two documents are, from a
// signature of each that has a fixed size: MinHash (Broder 1997) over shingles,
// with bands of it as keys by which similar documents find each other without all
// being compared (locality-sensitive hashing).
//
// A shingle is three words that follow each other, in lower case, without
// punctuation. Words of scripts without spaces between them are not looked for:
// there a shingle is 6 characters of Chinese or Japanese, or 12 of Thai, Lao, Khmer
// or Burmese. Similarity is the Jaccard index of the sets of shingles: what both
// texts have, divided by what either has. A text of which every twentieth word was
// changed has a similarity of about 0.75 to the one before, one whose last quarter
// was written anew 0.6.
//
// A signature holds 100 values, each the least of all shingles under a hash
// function of its own. The share of equal values estimates the similarity; the
// standard error is √(s(1-s)/100), 0.05 at most. Bands are 25, of 4 values each: a
// pair of similarity s has one in common with the probability 1-(1-s⁴)²⁵, which is
// 0.97 at the threshold of 0.6, 0.999 at 0.7, and 0.04 at 0.2.
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
	// Permutations is how many values a signature has, Bands how many keys, of
	// Rows values each.
	Permutations = Bands * Rows
	Bands        = 25
	Rows         = 4
	// Threshold is the estimated similarity from which on two texts are near-duplicates.
	Threshold = 0.6
	// Least is how many different shingles a text must have to be compared: forms
	// and notices of a few lines are alike without being versions of each other.
	Least = 50
)

// Signature is the MinHash signature of a text; the zero value is that of a text
// too short to be compared.
type Signature [Permutations]uint32

// hashes are the hash functions' factors and summands: fixed, for signatures are
// stored. Each is h(x) = (ax + b) mod 2⁶⁴ without its lower half (Dietzfelbinger).
var hashes = func() (out [Permutations][2]uint64) {
	random := rand.New(rand.NewPCG(0x736c75696365, 1))
	for i := range out {
		out[i] = [2]uint64{random.Uint64() | 1, random.Uint64()}
	}
	return out
}()

// Weights of characters and words in a shingle, which has shingleWeight at least.
const (
	shingleWeight = 36
	wordWeight    = 12
	ideograph     = 6
	syllabic      = 3 // a character of Thai and the like
)

// Builder makes a signature of texts that are added one after another; a shingle
// may begin in one and end in the next.
type Builder struct {
	least    [Permutations]uint32
	distinct map[uint64]struct{} // the first Least of them
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
	b := &Builder{distinct: make(map[uint64]struct{}, Least)}
	for i := range b.least {
		b.least[i] = math.MaxUint32
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

// weightOf is the weight of a character that is a unit by itself; 0: it is part of
// a word.
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
	if len(b.distinct) < Least {
		b.distinct[h] = struct{}{}
	}
	for i := range hashes {
		if v := uint32((hashes[i][0]*h + hashes[i][1]) >> 32); v < b.least[i] {
			b.least[i] = v
		}
	}
}

// Signature is that of what was added; false: it is too short to be compared.
func (b *Builder) Signature() (Signature, bool) {
	if len(b.distinct) < Least {
		return Signature{}, false
	}
	return b.least, true
}

// Similarity estimates the similarity of the texts of two signatures, from 0 to 1.
// A text too short to be compared is similar to none.
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

// Keys are one for each band; those of one scope, such as a collection, are no other
// scope's. Those of a text too short to be compared are none.
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

// Bytes encodes a signature, 4 bytes a value; one of a text too short to be
// compared as none.
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

// Decode reads what Bytes wrote.
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
