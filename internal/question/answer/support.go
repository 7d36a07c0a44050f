package answer

// This file decides whether a quote supports a sentence of an answer: by the rules
// of text.Supported, and thresholds that depend on who says that it does.

import (
	"strings"

	"github.com/sluice-rag/sluice/internal/text"
)

// Trust is what speaks for a sentence before its words are looked at.
type Trust int

// From least to most.
const (
	// Unclaimed: nobody said what proves the sentence, or what was said is doubted.
	Unclaimed Trust = iota
	// Claimed: the model that wrote the sentence quotes this for it.
	Claimed
)

// The shares of a sentence's content that a quote must hold, by trust; see
// text.Support. docs/benchmarks.md has what they were measured to do (`bench
// support`): between 0.67 and 1 the first hardly matters, and each tenth of the
// second costs two to four points of the sentences that are supported.
var (
	leastAdded = map[Trust]float64{Unclaimed: 0.8, Claimed: 0.67}
	leastWhole = map[Trust]float64{Unclaimed: 0.5, Claimed: 0.3}
)

// Evidence is a quote as sentences are compared with it.
type Evidence struct {
	Quote   string // with the rest of the sentences that it was cut out of
	Context string // the title and the headings above it
	Passage string // that it is quoted from: numbers of the question may come from there, too
	// Read is what a model reads in the quote as answers to the question; empty where nobody read.
	Read []ReaderSpan
}

// Supports reports whether a quote supports a sentence of an answer to question. A sentence that
// stands in the quote is supported; one without content ("Yes.") is where it is claimed. One that
// gives the answer that was read in the quote is as good as claimed; whether it gives another is
// CompareWithReader's to say.
func Supports(sentence, question string, e Evidence, trust Trust) bool {
	s := strings.TrimSpace(sentence)
	if s == "" {
		return false
	}
	quote, context := e.Quote, e.Context
	if at := strings.Index(quote, s); at >= 0 && endsWord(quote, at) && endsWord(quote, at+len(s)) && !cutsDenial(quote, at, at+len(s)) {
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
	return x.Added >= leastAdded[trust] && x.Whole >= leastWhole[trust]
}

// cutsDenial reports whether bytes [start, end) of a quote leave out a denial in
// the sentence that they are part of.
func cutsDenial(quote string, start, end int) bool {
	from, to := start, end
	for _, r := range text.Sentences(quote) {
		if r.Start < end && start < r.End {
			from, to = min(from, r.Start), max(to, r.End)
		}
	}
	part, whole := quote[start:end], strings.TrimSpace(quote[from:to])
	return len(part) < len(whole) && text.Supported(part, "", whole, "").Negation
}

// endsWord reports whether no word goes on over byte at of s.
func endsWord(s string, at int) bool {
	inWord := func(b byte) bool {
		return b >= 0x80 || b >= '0' && b <= '9' || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z'
	}
	return at == 0 || at == len(s) || !inWord(s[at-1]) || !inWord(s[at])
}
