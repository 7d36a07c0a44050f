package text

// Content words for comparing questions, answers and quotes: in lower case, without stop words, and
// without the most common English endings. They are for comparing a few sentences, not for an
// index.

import (
	"strings"
	"unicode"

	"github.com/clipperhouse/uax29/v2/words"
)

var stopWords = func() map[string]bool {
	out := map[string]bool{}
	for w := range strings.FieldsSeq(`a about after all also am an and any are as at be because been before being both but by
		can could did do does doing down during each few for from further had has have having he her here hers him his how
		i if in into is it its itself just may me might more most must my no nor not of off on once only or other our ours
		out over own per please same shall she should so some such than that the their theirs them then there these they
		this those through to too under until up upon us very was we were what when where which while who whom whose why
		will with within would you your yours`) {
		out[w] = true
	}
	return out
}()

// ContentWords returns the set of content words of s: without English stop words and punctuation,
// in lower case, as stems.
func ContentWords(s string) map[string]bool {
	out := map[string]bool{}
	for it := words.FromString(s); it.Next(); {
		w := strings.ToLower(it.Value())
		if !hasLetterOrDigit(w) || stopWords[w] {
			continue
		}
		out[stem(w)] = true
	}
	return out
}

func hasLetterOrDigit(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) })
}

// stem removes one ending from an English word, if enough of the word is left.
func stem(w string) string {
	w = strings.TrimSuffix(strings.ReplaceAll(w, "’", "'"), "'s")
	for _, rule := range []struct{ ending, instead string }{
		{"ies", "y"}, {"ied", "y"}, {"sses", "ss"}, {"ing", ""}, {"edly", ""}, {"ed", ""}, {"ly", ""}, {"es", ""}, {"ss", "ss"}, {"us", "us"}, {"is", "is"}, {"s", ""},
	} {
		if root, ok := strings.CutSuffix(w, rule.ending); ok && len(root) >= 3 {
			w = root + rule.instead
			break
		}
	}
	if len(w) > 4 { // "leave", "leaving"; "stopped"
		w = strings.TrimSuffix(w, "e")
		if n := len(w); n > 4 && w[n-1] == w[n-2] && w[n-1] != 's' && w[n-1] != 'l' {
			w = w[:n-1]
		}
	}
	return w
}
