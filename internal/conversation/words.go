package conversation

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// word is a word of a text: text[start:end], without surrounding punctuation and without 's.
type word struct {
	start, end int
	text       string
	lower      string
	breaks     bool // punctuation that ends a clause follows
}

// wordRange is the words [from, to).
type wordRange struct{ from, to int }

func (r wordRange) of(text string, words []word) string {
	return text[words[r.from].start:words[r.to-1].end]
}

func wordsOf(text string) []word {
	var out []word
	inWord := func(r rune) bool {
		return unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("&'’-.,/%_", r)
	}
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		if !inWord(r) {
			i += size
			continue
		}
		j := i
		for j < len(text) {
			r, size := utf8.DecodeRuneInString(text[j:])
			if !inWord(r) {
				break
			}
			j += size
		}
		core := strings.Trim(text[i:j], "'’-.,/_")
		start := i + strings.Index(text[i:j], core)
		after := text[start+len(core) : j]
		for _, s := range []string{"'s", "’s"} {
			core = strings.TrimSuffix(core, s)
		}
		if core != "" {
			out = append(out, word{start, start + len(core), core, strings.ToLower(core), strings.ContainsAny(after, ",.")})
		}
		i = j
	}
	return out
}

func (w word) capital() bool {
	r, _ := utf8.DecodeRuneInString(w.text)
	return unicode.IsUpper(r) && !w.function() && !months[w.lower] && !quarters[w.lower]
}

func (w word) isYear() bool {
	return len(w.text) == 4 && (strings.HasPrefix(w.text, "19") || strings.HasPrefix(w.text, "20")) &&
		strings.Trim(w.text, "0123456789") == ""
}

// function reports whether the word is a function word.
func (w word) function() bool {
	l := w.lower
	return auxiliary[l] || asking[l] || prepositions[l] || determiners[l] || small[l] || leading[l] || pronouns[l] != 0
}

func (w word) comparative() bool {
	return comparatives[w.lower] || len(w.lower) > 4 && (strings.HasSuffix(w.lower, "er") || strings.HasSuffix(w.lower, "est"))
}

// participle reports whether the word looks like a participle.
func (w word) participle() bool { return len(w.lower) > 4 && strings.HasSuffix(w.lower, "ed") }

// splice replaces words of a text by another text. If both have the same article there, it appears
// once.
func splice(text string, words []word, r wordRange, other string) string {
	if first, rest, more := strings.Cut(other, " "); more && r.from > 0 && strings.EqualFold(words[r.from-1].lower, first) {
		other = rest
	}
	after := text[words[r.to-1].end:]
	if owned, is := strings.CutPrefix(after, "' "); is { // Siemens' revenue
		after = " " + owned
		other = ofOwner(other)
	}
	return text[:words[r.from].start] + other + after
}

// ofOwner returns the genitive of a noun.
func ofOwner(s string) string {
	if strings.HasSuffix(s, "s") {
		return s + "'"
	}
	return s + "'s"
}

func upperFirst(s string) string {
	r, size := utf8.DecodeRuneInString(s)
	return string(unicode.ToUpper(r)) + s[size:]
}

func lowerFirst(s string) string {
	r, size := utf8.DecodeRuneInString(s)
	return string(unicode.ToLower(r)) + s[size:]
}

var contraction = regexp.MustCompile(`(?i)\b(what|who|where|when|how|that|it|he|she|they)['’](s|re)\b`)

// expand expands contractions of question words and pronouns.
func expand(s string) string {
	return contraction.ReplaceAllStringFunc(s, func(short string) string {
		if strings.HasSuffix(short, "re") {
			return strings.TrimRight(short[:len(short)-len("re")], "'’") + " are"
		}
		return strings.TrimRight(short[:len(short)-len("s")], "'’") + " is"
	})
}

func set(words string) map[string]bool {
	out := map[string]bool{}
	for w := range strings.FieldsSeq(words) {
		out[w] = true
	}
	return out
}

var (
	be           = set("is are was were am been being be")
	auxiliary    = set("is are was were am do does did has have had can could will would shall should may might must isn't aren't wasn't doesn't don't didn't can't won't")
	asking       = set("what who whom whose which when where why how")
	prepositions = set("in for on at by with during since until from of to under after before per within without about against between into over as than")
	determiners  = set("the a an any each every all some no our my your another")
	leading      = set("and or but so then also ok okay thanks well now")
	small        = set("if that this these those who because while whether not only more less most yes please i we you me us else there here one ones however")
	clauses      = set("if when where who which that because while whether and or but what how why")
	comparatives = set("more less most least better worse best worst")
	months       = set("january february march april may june july august september october november december monday tuesday wednesday thursday friday saturday sunday")
	quarters     = set("q1 q2 q3 q4 h1 h2")
	periods      = set("year years month months week weeks day days quarter morning time moment today century decade")
	titles       = set("mr mrs ms dr prof professor")
	// verbs are verbs that end a subject in questions about documents.
	verbs = set(`accept add affect allow apply approve ask become begin belong build buy call carry change come consist contain continue cost cover
create decide define deliver describe do end employ exist expire explain find follow get give go grow happen have help hold include increase keep
know last lead leave live make manage mean measure meet need offer open operate order own pay prevent produce protect provide publish reach receive
reduce refer replace report require rise run say see sell send serve show sign start state stay stop support take tell treat use want weigh work write`)
	bareQuestions = map[string]bool{"why": true, "why not": true, "when": true, "where": true, "who": true, "how": true, "how come": true, "how often": true,
		"how long": true, "how much": true, "how many": true, "since when": true, "until when": true, "by when": true, "by whom": true, "for whom": true,
		"to whom": true, "in which year": true, "which": true, "which ones": true, "what for": true, "who else": true, "where else": true, "what else": true}
)
