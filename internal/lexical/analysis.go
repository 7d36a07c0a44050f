package lexical

// Analysis: text becomes the terms that are indexed and searched for. Words are those of Unicode
// Standard Annex 29, in lower case, without stop words, and stemmed by Snowball if it has the
// language. A compound such as max_payload or server.conf is indexed as itself and as its parts.
// Scripts without spaces are cut into pairs of characters.

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"unicode"
	"unicode/utf8"

	"github.com/clipperhouse/uax29/v2/words"
	"golang.org/x/text/language"
	"golang.org/x/text/unicode/norm"
)

// MaxTerm is the most bytes of a term.
const MaxTerm = 1 << 10

// maxWord is how many characters of a word its term is made from. Longer words are not of any
// language, and the rest of them adds little.
const maxWord = 64

// Analyzer makes terms from text in one language. It is safe for concurrent use.
type Analyzer struct {
	rules rules
	// plain says that ASCII letters have the same lower case as in English.
	plain bool
	terms termCache
}

// analyzers are the Analyzers made so far, by language. Sharing them shares their caches of terms.
var analyzers sync.Map

// NewAnalyzer returns the Analyzer of a language (BCP 47, such as "en" or "pt-BR"). Text in a
// language without a stemmer is cut into words only. It returns an error if the tag is malformed.
// There is one Analyzer per language.
func NewAnalyzer(tag string) (*Analyzer, error) {
	parsed, err := language.Parse(tag)
	if err != nil {
		return nil, fmt.Errorf("an analyser of language %q: %w", tag, err)
	}
	base, _, _ := parsed.Raw() // Base would guess at English
	code := base.String()
	rules, known := languages[code]
	turkic := code == "tr" || code == "az"
	if !known && !turkic {
		code = "" // all languages without rules are analysed alike
	}
	if a, ok := analyzers.Load(code); ok {
		return a.(*Analyzer), nil
	}
	a := &Analyzer{rules: rules, plain: !turkic}
	if turkic {
		a.rules.lower = unicode.TurkishCase
	}
	kept, _ := analyzers.LoadOrStore(code, a)
	return kept.(*Analyzer), nil
}

// Terms returns the terms of text, in its order.
func (a *Analyzer) Terms(text string) []string {
	w := termWriter{a: a, terms: make([]string, 0, len(text)/10+1)}
	for i := 0; i < len(text); {
		if isSpace(text[i]) {
			i++
			continue
		}
		end, ascii := i, true
		for end < len(text) && !isSpace(text[end]) {
			ascii = ascii && text[end] < utf8.RuneSelf
			end++
		}
		if ascii && a.plain {
			w.ascii(text[i:end])
		} else {
			w.unicode(text[i:end])
		}
		i = end
	}
	return slices.Clip(w.terms)
}

// textsAtOnce is how many texts a goroutine takes at a time.
const textsAtOnce = 32

// TermsOfAll returns the terms of every text. It analyses many texts on all processors.
func (a *Analyzer) TermsOfAll(texts []string) [][]string {
	out := make([][]string, len(texts))
	var taken atomic.Int64
	work := func() {
		for {
			end := int(taken.Add(textsAtOnce))
			if end-textsAtOnce >= len(texts) {
				return
			}
			for i := end - textsAtOnce; i < min(end, len(texts)); i++ {
				out[i] = a.Terms(texts[i])
			}
		}
	}
	var wait sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(texts)/(2*textsAtOnce)) - 1 {
		wait.Go(work)
	}
	work()
	wait.Wait()
	return out
}

func isSpace(c byte) bool { return c == ' ' || '\t' <= c && c <= '\r' }

// termWriter collects the terms of a text.
type termWriter struct {
	a     *Analyzer
	terms []string
}

// Classes of ASCII characters that make words: letters, digits, and the
// underscore, which joins either.
const (
	asciiOther = iota
	asciiLetter
	asciiDigit
	asciiJoin
)

var asciiClasses = func() (classes [utf8.RuneSelf]byte) {
	for c := range classes {
		switch {
		case 'a' <= c|0x20 && c|0x20 <= 'z':
			classes[c] = asciiLetter
		case '0' <= c && c <= '9':
			classes[c] = asciiDigit
		case c == '_':
			classes[c] = asciiJoin
		}
	}
	return classes
}()

// ascii finds the words of ASCII text without spaces, by the rules of the annex.
func (w *termWriter) ascii(chunk string) {
	for i := 0; i < len(chunk); {
		last := asciiClasses[chunk[i]]
		if last == asciiOther {
			i++
			continue
		}
		start, compound := i, last == asciiJoin
		for i++; i < len(chunk); {
			if c := asciiClasses[chunk[i]]; c != asciiOther {
				compound = compound || c == asciiJoin
				last = c
				i++
				continue
			}
			// A mark between two letters or two digits is in the word: rules WB6, WB7, WB11 and
			// WB12.
			if i+1 == len(chunk) || last == asciiJoin || asciiClasses[chunk[i+1]] != last || !joins(chunk[i], last) {
				break
			}
			compound = compound || parts(chunk[i])
			i += 2
		}
		w.asciiWord(chunk[start:i])
		if compound {
			w.parts(clip(chunk[start:i]), w.asciiWord)
		}
	}
}

// parts reports whether a mark that joins words also separates them: in the annex max_payload,
// server.conf and host:port are one word each.
func parts(mark byte) bool { return mark == '_' || mark == '.' || mark == ':' }

// parts adds the parts of a compound, after the compound itself, which is rarer and so counts for
// more where it occurs. Parts of one character (U.S., e.g.) and parts without letters (3.14) are
// not added.
func (w *termWriter) parts(compound string, add func(string)) {
	for len(compound) > 0 {
		end := strings.IndexAny(compound, "_.:")
		if end < 0 {
			end = len(compound)
		}
		part := compound[:end]
		if utf8.RuneCountInString(part) > 1 && strings.ContainsFunc(part, unicode.IsLetter) {
			add(part)
		}
		compound = compound[min(end+1, len(compound)):]
	}
}

// joins reports whether a mark between two characters of a class is part of a word.
func joins(mark, class byte) bool {
	switch mark {
	case '.', '\'':
		return true
	case ':':
		return class == asciiLetter
	case ',', ';':
		return class == asciiDigit
	}
	return false
}

func (w *termWriter) asciiWord(word string) {
	var lower loweredWord
	lower.length = min(len(word), maxWord)
	for i := range lower.length {
		lower.bytes[i] = asciiLower[word[i]%utf8.RuneSelf]
	}
	w.add(lower.key(), lower.bytes[:lower.length])
}

var asciiLower = func() (lower [utf8.RuneSelf]byte) {
	for c := range lower {
		lower[c] = byte(unicode.ToLower(rune(c)))
	}
	return lower
}()

// add adds the term of a word in lower case, unless it is a stop word.
func (w *termWriter) add(key wordKey, word []byte) {
	term, ok := w.a.terms.get(key, word)
	if !ok {
		lower := string(word)
		term = w.a.rules.term(lower)
		w.a.terms.put(key, lower, term)
	}
	if term != "" {
		w.terms = append(w.terms, term)
	}
}

// unicode finds the words of a text without spaces.
func (w *termWriter) unicode(chunk string) {
	chunk = norm.NFKC.String(strings.ToValidUTF8(chunk, " "))
	var pair unspaced
	for it := words.FromString(chunk); it.Next(); {
		word := it.Value()
		first, _ := utf8.DecodeRuneInString(word)
		if unicode.In(first, unspacedScripts...) {
			pair.add(w, word, first)
			continue
		}
		pair.end(w)
		if unicode.IsLetter(first) || unicode.IsNumber(first) || first == '_' {
			folded := w.a.rules.fold(clip(word))
			w.add(keyOf(folded), []byte(folded))
			if strings.ContainsAny(folded, "_.:") {
				w.parts(folded, func(part string) { w.add(keyOf(part), []byte(part)) })
			}
		}
	}
	pair.end(w)
}

// clip cuts a word after maxWord characters.
func clip(word string) string {
	if len(word) <= maxWord {
		return word
	}
	n := 0
	for i := range word {
		if n == maxWord {
			return word[:i]
		}
		n++
	}
	return word
}

// unspacedScripts are the scripts whose words the annex does not find: there each character is a
// word.
var unspacedScripts = []*unicode.RangeTable{unicode.Han, unicode.Hiragana, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar}

// unspaced makes the terms of a run of characters of such scripts: every two adjacent characters
// are a term, and so is each ideograph, which often is a word.
type unspaced struct {
	last   string
	paired bool // last is part of a term
}

func (u *unspaced) add(w *termWriter, character string, first rune) {
	character = clip(character)
	if u.last != "" {
		w.terms = append(w.terms, u.last+character)
	}
	u.paired = u.last != ""
	if unicode.Is(unicode.Han, first) {
		w.terms = append(w.terms, strings.Clone(character))
		u.paired = true
	}
	u.last = character
}

func (u *unspaced) end(w *termWriter) {
	if u.last != "" && !u.paired {
		w.terms = append(w.terms, strings.Clone(u.last))
	}
	*u = unspaced{}
}
