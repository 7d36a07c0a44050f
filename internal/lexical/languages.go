package lexical

// What analysis knows about languages: stemmers, stop words, and whether accents distinguish words.

import (
	"strings"
	"unicode"

	"github.com/blevesearch/snowballstem"
	"github.com/blevesearch/snowballstem/arabic"
	"github.com/blevesearch/snowballstem/danish"
	"github.com/blevesearch/snowballstem/dutch"
	"github.com/blevesearch/snowballstem/english"
	"github.com/blevesearch/snowballstem/finnish"
	"github.com/blevesearch/snowballstem/french"
	"github.com/blevesearch/snowballstem/german"
	"github.com/blevesearch/snowballstem/hungarian"
	"github.com/blevesearch/snowballstem/irish"
	"github.com/blevesearch/snowballstem/italian"
	"github.com/blevesearch/snowballstem/norwegian"
	"github.com/blevesearch/snowballstem/portuguese"
	"github.com/blevesearch/snowballstem/romanian"
	"github.com/blevesearch/snowballstem/russian"
	"github.com/blevesearch/snowballstem/spanish"
	"github.com/blevesearch/snowballstem/swedish"
	"github.com/blevesearch/snowballstem/tamil"
	"github.com/blevesearch/snowballstem/turkish"
	englishwords "github.com/kljensen/snowball/english"
	frenchwords "github.com/kljensen/snowball/french"
	hungarianwords "github.com/kljensen/snowball/hungarian"
	norwegianwords "github.com/kljensen/snowball/norwegian"
	russianwords "github.com/kljensen/snowball/russian"
	spanishwords "github.com/kljensen/snowball/spanish"
	swedishwords "github.com/kljensen/snowball/swedish"
	"golang.org/x/text/unicode/norm"
)

// rules are the rules of a language.
type rules struct {
	stem func(*snowballstem.Env) bool // nil: none
	stop func(word string) bool       // nil: none
	// plainAccents says that a word is the same with and without accents.
	plainAccents   bool
	elidesArticles bool                // an article may stand before a word, with an apostrophe
	lower          unicode.SpecialCase // nil: the usual mapping
}

var languages = map[string]rules{
	"ar": {stem: arabic.Stem},
	"da": {stem: danish.Stem},
	"de": {stem: german.Stem},
	"en": {stem: english.Stem, stop: englishwords.IsStopWord, plainAccents: true},
	"es": {stem: spanish.Stem, stop: spanishwords.IsStopWord},
	"fi": {stem: finnish.Stem},
	"fr": {stem: french.Stem, stop: frenchwords.IsStopWord, elidesArticles: true},
	"ga": {stem: irish.Stem},
	"hu": {stem: hungarian.Stem, stop: hungarianwords.IsStopWord},
	"it": {stem: italian.Stem, elidesArticles: true},
	"nb": {stem: norwegian.Stem, stop: norwegianwords.IsStopWord},
	"nl": {stem: dutch.Stem},
	"nn": {stem: norwegian.Stem, stop: norwegianwords.IsStopWord},
	"no": {stem: norwegian.Stem, stop: norwegianwords.IsStopWord},
	"pt": {stem: portuguese.Stem},
	"ro": {stem: romanian.Stem},
	"ru": {stem: russian.Stem, stop: russianwords.IsStopWord},
	"sv": {stem: swedish.Stem, stop: swedishwords.IsStopWord},
	"ta": {stem: tamil.Stem},
	"tr": {stem: turkish.Stem},
}

// maxArticle is the length of the longest elided articles, French "jusqu" and Italian "quell";
// "aujourd'hui" is a word.
const maxArticle = 6

// fold lowers the case of a word that is not only ASCII, and removes the distinctions between
// characters that the language does not make.
func (r rules) fold(word string) string {
	if r.lower != nil {
		word = strings.ToLowerSpecial(r.lower, word)
	} else {
		word = strings.ToLower(word)
	}
	word = strings.ReplaceAll(word, "’", "'")
	if !r.plainAccents {
		return word
	}
	return strings.Map(func(c rune) rune {
		if unicode.Is(unicode.Mn, c) {
			return -1
		}
		return c
	}, norm.NFD.String(word))
}

// term returns the term of a word in lower case; empty for a stop word.
func (r rules) term(word string) string {
	if article, rest, elided := strings.Cut(word, "'"); elided && r.elidesArticles && len(article) <= maxArticle && rest != "" {
		word = rest
	}
	if r.stop != nil && r.stop(word) {
		return ""
	}
	if r.stem == nil || strings.ContainsAny(word, "0123456789_") {
		return word
	}
	env := snowballstem.NewEnv(word)
	r.stem(env)
	return env.Current()
}
