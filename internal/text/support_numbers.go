package text

// This file decides when numbers and words of the question conflict with a quote. A quote need not
// contain what the question says, since it often does not repeat it. But if it has another number
// or word of the same shape instead, it is about something else.

import (
	"slices"
	"strings"
)

// hasSimilarNumber reports whether r has, instead of number w of a sentence, another number of the
// same shape that the sentence does not have: a year for a year, or a number that differs in one
// digit ("96" for "95").
func (r *analysedText) hasSimilarNumber(w word, sentence *analysedText) bool {
	for value, i := range r.numbers {
		if _, both := sentence.numbers[value]; both || r.content[i].ambiguous {
			continue
		}
		if r.content[i].year() && len(w.number) == 4 || differInOneDigit(value, w.number) {
			return true
		}
	}
	return false
}

// differInOneDigit reports whether two numbers of at least two digits have the same length and
// differ in one digit, as a mistyped or misremembered number does.
func differInOneDigit(a, b string) bool {
	if len(a) != len(b) || len(a) < 2 {
		return false
	}
	differences := 0
	for i := range len(a) {
		if a[i] != b[i] {
			differences++
		}
	}
	return differences == 1
}

// hasOtherVariant reports whether r has, instead of word w, a word with the same letters and other
// digits that the sentence does not have: "MP3" for "MP5".
func (r *analysedText) hasOtherVariant(w word, sentence *analysedText) bool {
	letters := withoutDigits(w.stem)
	if w.number != "" || letters == w.stem || letters == "" {
		return false
	}
	for stem := range r.byStem {
		if _, both := sentence.byStem[stem]; !both && stem != w.stem && len(withoutDigits(stem)) < len(stem) && withoutDigits(stem) == letters {
			return true
		}
	}
	return false
}

func withoutDigits(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return -1
		}
		return r
	}, s)
}

// clauseDenied reports whether quote has a "not" in a clause that contains, after it, something
// that r adds to its question, or at least half of the words that r and quote share.
func (r *analysedText) clauseDenied(question, quote *analysedText) bool {
	for _, n := range quote.negations {
		if !denies(n.stem) {
			continue
		}
		shared, inClause := 0, 0
		for i := range r.content {
			w := quote.find(r.content[i])
			if w == nil {
				continue
			}
			shared++
			if w.clause != n.clause {
				continue
			}
			inClause++
			if question.find(r.content[i]) == nil && w.pos > n.pos {
				return true
			}
		}
		if inClause > 1 && 2*inClause >= shared {
			return true
		}
	}
	return false
}

// notOnly are words after which a preceding "not" negates nothing ("not only").
var notOnly = set("only just merely solely simply")

// denies reports whether a negation negates a verb: "without" and "nobody" are part of the
// statement.
func denies(negation string) bool {
	switch negation {
	case "not", "never", "cannot", "nicht", "nie", "niemals", "pas", "jamais", "nunca":
		return true
	}
	return strings.HasSuffix(negation, "n't")
}

// UnnamedNumber reports whether a sentence repeats a number of its question that none of texts
// contains. Then they do not prove what the sentence says about it.
func UnnamedNumber(sentence, question string, texts ...string) bool {
	sentenceText, questionText := analyse(sentence), analyse(question)
	for _, w := range sentenceText.content {
		if w.number == "" || w.ambiguous || questionText.find(w) == nil {
			continue
		}
		if !slices.ContainsFunc(texts, func(s string) bool { return analyse(s).find(w) != nil }) {
			return true
		}
	}
	return false
}

// Addition is what a sentence adds to its question.
type Addition struct {
	words []word
	// Repeats is the share of the question's content words that the sentence repeats.
	Repeats float64
}

// Adds compares a sentence with its question.
func Adds(sentence, question string) Addition {
	sentenceText, questionText := analyse(sentence), analyse(question)
	var out Addition
	for _, w := range sentenceText.content {
		if questionText.find(w) == nil {
			out.words = append(out.words, w)
		}
	}
	repeated := 0
	for _, w := range questionText.content {
		if sentenceText.find(w) != nil {
			repeated++
		}
	}
	out.Repeats = float64(repeated) / float64(max(1, len(questionText.content)))
	return out
}

// Words returns the number of added content words.
func (a Addition) Words() int { return len(a.words) }

// Is reports whether the addition is this part of a text: they share at least half of the content
// words of either.
func (a Addition) Is(part string) bool {
	in, shared := analyse(part), 0
	for _, w := range a.words {
		if in.find(w) != nil {
			shared++
		}
	}
	return shared > 0 && (2*shared >= len(a.words) || 2*shared >= len(in.content))
}
