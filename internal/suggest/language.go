package suggest

// Detection of a text's language by its most common small words. It is only good enough to choose
// the rules to apply.

import (
	"strings"
	"unicode"
)

// function has the most common words of languages. It includes languages without rules, so that
// their texts are not taken for those of another language.
var function = map[string]map[string]bool{
	"en": set(`the of and to is in that for with on by are was be this from as it an or not at have has which you`),
	"de": set(`der die das und ist nicht ein eine den dem des mit für von zu auf im werden wird sich auch oder bei nach als sind`),
	"fr": set(`le la les des est et une un du de pour dans que qui sur par pas avec au aux sont ou ce cette en il`),
	"es": set(`el la los las de y es una un que en por para con del se al no son su o como más fue`),
	"it": set(`il lo la gli le di e è una un che in per con del della dei si al non sono nel alla da come`),
	"pt": set(`o a os as de e é uma um que em por para com do da dos das se ao não são no na como`),
	"nl": set(`de het een en van is niet in op te dat voor met zijn aan wordt door bij ook of naar uit worden`),
	"sv": set(`och att det som en är för på av med den till inte om ett har de i kan ska från`),
	"da": set(`og at det som en er for på af med den til ikke om et har de i kan skal fra`),
}

// The least number of a language's small words in a text of that language, and their least share of
// all words.
const (
	leastFunction = 3
	leastPart     = 0.12
	clearly       = 1.25 // least ratio to the number of words of the next language
)

// languageOf returns the code of a text's language; empty if it is not clear.
func languageOf(s string) string {
	count, all := map[string]int{}, 0
	for w := range strings.FieldsFuncSeq(strings.ToLower(s), func(r rune) bool { return !unicode.IsLetter(r) }) {
		all++
		for code, words := range function {
			if words[w] {
				count[code]++
			}
		}
	}
	best, next := "", 0
	for code, n := range count {
		switch {
		case best == "" || n > count[best]:
			best, next = code, max(next, count[best])
		default:
			next = max(next, n)
		}
	}
	n := count[best]
	if n < leastFunction || float64(n) < leastPart*float64(all) || float64(n) < clearly*float64(next) {
		return ""
	}
	return best
}
