package llm

// This file finds in the passages what a model claims to quote. Models copy almost faithfully: they
// straighten quotation marks, join lines, drop a bracket, or name the wrong passage. A quote is
// taken where it occurs verbatim, else where it occurs apart from case, spaces and punctuation.
// Else the sentence that shares most of its words stands for it, or it is dropped. The result is
// always a range of a passage's bytes.

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/sluice-rag/sluice/internal/text"
	"github.com/sluice-rag/sluice/schema/wire"
)

// minOverlap is the least overlap (F1 of words) with a quote for a sentence to stand for it.
const minOverlap = 0.6

// anchor finds quote, preferably in passage number claimed.
func anchor(passages []wire.LLMPassage, claimed int, quote string) (wire.Quote, bool) {
	quote = strings.TrimSpace(quote)
	if !strings.ContainsFunc(quote, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }) {
		return wire.Quote{}, false
	}
	order := searchOrder(len(passages), claimed)
	for _, find := range []func(text, quote string) (int, int, bool){findVerbatim, findFolded} {
		for _, i := range order {
			if start, end, ok := find(passages[i].Text, quote); ok {
				return wire.Quote{Passage: i, Start: start, End: end}, true
			}
		}
	}
	for _, i := range order {
		if start, end, ok := findSentence(passages[i].Text, quote); ok {
			return wire.Quote{Passage: i, Start: start, End: end}, true
		}
	}
	return wire.Quote{}, false
}

// searchOrder returns the indices of the passages: claimed first, then the others in order.
func searchOrder(n, claimed int) []int {
	order := make([]int, 0, n)
	if claimed >= 0 && claimed < n {
		order = append(order, claimed)
	}
	for i := range n {
		if i != claimed {
			order = append(order, i)
		}
	}
	return order
}

func findVerbatim(passage, quote string) (start, end int, ok bool) {
	start = strings.Index(passage, quote)
	return start, start + len(quote), start >= 0
}

// findFolded compares letters and digits only, without case.
func findFolded(passage, quote string) (start, end int, ok bool) {
	want, _ := fold(quote)
	if len(want) < 8 {
		return 0, 0, false // too short to say where it is from
	}
	have, at := fold(passage)
	i := strings.Index(have, want)
	if i < 0 {
		return 0, 0, false
	}
	start, last := at[i], at[i+len(want)-1]
	_, size := utf8.DecodeRuneInString(passage[last:])
	return start, last + size, true
}

// fold returns the letters and digits of s in lower case. For each byte of that it returns the
// offset in s of the character that it comes from.
func fold(s string) (string, []int) {
	var b strings.Builder
	at := make([]int, 0, len(s))
	for i, r := range s {
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			continue
		}
		n := b.Len()
		b.WriteRune(unicode.ToLower(r))
		for range b.Len() - n {
			at = append(at, i)
		}
	}
	return b.String(), at
}

// findSentence returns the sentence of passage that shares most words with quote, if their overlap
// is at least minOverlap.
func findSentence(passage, quote string) (start, end int, ok bool) {
	want := text.ContentWords(quote)
	best := 0.0
	for _, r := range text.Sentences(passage) {
		r = text.Trim(passage, r)
		if o := overlap(want, text.ContentWords(r.Of(passage))); o >= minOverlap && o > best {
			best, start, end, ok = o, r.Start, r.End, true
		}
	}
	return start, end, ok
}

// overlap returns the F1 of two sets of words.
func overlap(a, b map[string]bool) float64 {
	both := 0
	for w := range a {
		if b[w] {
			both++
		}
	}
	if both == 0 {
		return 0
	}
	return 2 * float64(both) / float64(len(a)+len(b))
}
