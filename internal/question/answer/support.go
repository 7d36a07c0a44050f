package answer

// This file decides whether a quote supports a sentence of an answer, by the rules of
// text.Supported and by thresholds that depend on whether the quote was claimed for the sentence.

import (
	"strings"

	"github.com/sluice-rag/sluice/internal/text"
)

// Trust is the prior trust in a quote's support of a sentence.
type Trust int

// Levels of trust, from least to most.
const (
	// Unclaimed: no quote was claimed for the sentence, or the claim is doubted.
	Unclaimed Trust = iota
	// Claimed: the model that wrote the sentence named this quote for it.
	Claimed
)

// minAdded and minWhole are the minimum shares of a sentence's content that a quote must contain,
// by trust; see text.Support. docs/benchmarks.md has measurements of their effect (`bench
// support`): between 0.67 and 1 minAdded hardly matters, and each tenth of minWhole costs two to
// four percentage points of the supported sentences.
var (
	minAdded = map[Trust]float64{Unclaimed: 0.8, Claimed: 0.67}
	minWhole = map[Trust]float64{Unclaimed: 0.5, Claimed: 0.3}
)

// Evidence is a quote in the form in which sentences are compared with it.
type Evidence struct {
	Quote   string // widened to whole sentences
	Context string // its title, location and headings
	Passage string // the passage that is quoted; numbers of the question may also come from there
	// Read is the answers to the question that a model reads in the quote; empty if none was asked.
	Read []ReaderSpan
}

// Supports reports whether a quote supports a sentence of an answer to question. A quote supports
// every sentence that it contains, and a sentence without content ("Yes.") if it is claimed for it.
// A sentence with the answer that the reader found in the quote is treated as claimed.
// CompareWithReader decides whether it has another answer.
func Supports(sentence, question string, e Evidence, trust Trust) bool {
	s := strings.TrimSpace(sentence)
	if s == "" {
		return false
	}
	quote, context := e.Quote, e.Context
	if at := strings.Index(quote, s); at >= 0 && isWordEnd(quote, at) && isWordEnd(quote, at+len(s)) && !cutsNegation(quote, at, at+len(s)) {
		return true
	}
	x := text.Supported(sentence, question, quote, context)
	switch {
	case x.Contradicts():
		return false
	case x.Words == 0:
		return trust == Claimed
	case text.UnnamedNumber(sentence, question, quote, context, e.Passage):
		return false
	}
	if CompareWithReader(sentence, question, e.Read) == SameAnswer {
		trust = Claimed
	}
	return x.Added >= minAdded[trust] && x.Whole >= minWhole[trust]
}

// cutsNegation reports whether bytes [start, end) of a quote leave out a negation in the sentence
// that they are part of.
func cutsNegation(quote string, start, end int) bool {
	from, to := start, end
	for _, r := range text.Sentences(quote) {
		if r.Start < end && start < r.End {
			from, to = min(from, r.Start), max(to, r.End)
		}
	}
	part, whole := quote[start:end], strings.TrimSpace(quote[from:to])
	return len(part) < len(whole) && text.Supported(part, "", whole, "").Negation
}

// isWordEnd reports whether byte at of s is not inside a word.
func isWordEnd(s string, at int) bool {
	inWord := func(b byte) bool {
		return b >= 0x80 || b >= '0' && b <= '9' || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z'
	}
	return at == 0 || at == len(s) || !inWord(s[at-1]) || !inWord(s[at])
}
