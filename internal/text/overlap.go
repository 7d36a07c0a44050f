package text

// The overlap of two texts in word pairs, in which all numbers are equal. It finds corresponding
// passages and sentences in versions of a document.

import (
	"strings"
	"unicode"

	"github.com/clipperhouse/uax29/v2/words"
)

// Pairs is the set of pairs of adjacent words of a text, in lower case. All numbers count as the
// same word, because versions differ in figures.
type Pairs map[[2]string]struct{}

// PairsOf returns the pairs of a text. For a text of one word it is that word alone.
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

// Containment returns the share of the smaller set's pairs that the other also has: 1 if one text
// contains the other.
func (p Pairs) Containment(q Pairs) float64 {
	return p.share(q, min(len(p), len(q)))
}

// Similarity returns the share of the larger set's pairs that the other also has: 1 if both are the
// same.
func (p Pairs) Similarity(q Pairs) float64 {
	return p.share(q, max(len(p), len(q)))
}

func (p Pairs) share(q Pairs, total int) float64 {
	if len(p) == 0 || len(q) == 0 {
		return 0
	}
	both := 0
	for pair := range p {
		if _, ok := q[pair]; ok {
			both++
		}
	}
	return float64(both) / float64(total)
}

// minSimilarity is the minimum of Similarity for two sentences to count as versions of the same
// one.
const minSimilarity = 0.5

// Counterpart returns the sentence of in that is most like sentence, and whether it says the same:
// the same words and figures in the same order, apart from case, punctuation and numbering. found
// is empty if no sentence is similar enough.
func Counterpart(sentence, in string) (found string, same bool) {
	pairs, plainText := PairsOf(sentence), plainWords(sentence)
	best := minSimilarity
	for _, r := range Sentences(in) {
		other := strings.TrimSpace(in[r.Start:r.End])
		if plainWords(other) == plainText {
			return other, true
		}
		if x := pairs.Similarity(PairsOf(other)); x >= best && (found == "" || x > best) {
			best, found = x, other
		}
	}
	return found, false
}

// plainWords returns the words and figures of a sentence, without leading numbers.
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
