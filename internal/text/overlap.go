package text

// How far two texts say the same in the same words, but for their figures: passages
// and sentences of versions of one document are found in each other by it.

import (
	"strings"
	"unicode"

	"github.com/clipperhouse/uax29/v2/words"
)

// Pairs are the words of a text, two that follow each other at a time, in lower case.
// All numbers count as one word: a figure is what versions differ in.
type Pairs map[[2]string]struct{}

// PairsOf reads a text. One of a single word has that alone.
func PairsOf(s string) Pairs {
	out := Pairs{}
	last, n := "", 0
	for it := words.FromString(s); it.Next(); {
		w := strings.ToLower(it.Value())
		if !hasLetterOrDigit(w) {
			continue
		}
		if strings.ContainsFunc(w, unicode.IsDigit) {
			w = "0"
		}
		if n++; n > 1 {
			out[[2]string{last, w}] = struct{}{}
		}
		last = w
	}
	if n == 1 {
		out[[2]string{last}] = struct{}{}
	}
	return out
}

// Within is the share of the shorter text's pairs that the other has: 1 where it
// stands in it.
func (p Pairs) Within(q Pairs) float64 {
	return p.share(q, min(len(p), len(q)))
}

// Alike is the share of the longer text's pairs that the other has: 1 where both are
// the same.
func (p Pairs) Alike(q Pairs) float64 {
	return p.share(q, max(len(p), len(q)))
}

func (p Pairs) share(q Pairs, of int) float64 {
	if len(p) == 0 || len(q) == 0 {
		return 0
	}
	both := 0
	for pair := range p {
		if _, ok := q[pair]; ok {
			both++
		}
	}
	return float64(both) / float64(of)
}

// leastAlike is how far sentences must be alike to be one in two versions.
const leastAlike = 0.5

// Counterpart is the sentence of a text that is most like another sentence, and
// whether it says the same: words and figures in the same order, whatever their
// case, punctuation and numbering. Empty: there is none that is like it.
func Counterpart(sentence, in string) (found string, same bool) {
	wanted, plain := PairsOf(sentence), plainWords(sentence)
	best := leastAlike
	for _, r := range Sentences(in) {
		other := strings.TrimSpace(in[r.Start:r.End])
		if plainWords(other) == plain {
			return other, true
		}
		if x := wanted.Alike(PairsOf(other)); x >= best && (found == "" || x > best) {
			best, found = x, other
		}
	}
	return found, false
}

// plainWords are the words and figures of a sentence, without the numbers before it.
func plainWords(s string) string {
	var out []string
	for it := words.FromString(s); it.Next(); {
		w := strings.ToLower(it.Value())
		if !hasLetterOrDigit(w) || len(out) == 0 && !strings.ContainsFunc(w, unicode.IsLetter) {
			continue
		}
		out = append(out, w)
	}
	return strings.Join(out, " ")
}
