package suggest

import (
	"regexp"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// rule makes a question from sentences that match its pattern. In the question %subject, %verb and
// so on stand for the groups of the pattern.
type rule struct {
	kind     Kind
	pattern  *regexp.Regexp
	question string
	grammar  *grammar
	// make makes the question if a template is not enough; nil: the template is used.
	make func(m map[string]string) string
}

// grammar is what decides in a language whether a run of words can be the subject of a question.
type grammar struct {
	determiners  map[string]bool // may begin a subject, in lower case
	prepositions map[string]bool // in the middle of a subject a determiner must follow one of these
	never        map[string]bool // a run of words with one of these is not the name of one thing
	vague        map[string]bool // a subject must not consist only of these
	elides       bool            // an article may be joined to the next word
}

// rulesOf are the rules by language, which are made when they are first used: programs that use
// none would take a tenth longer to start. The first rule that matches a sentence is applied.
var rulesOf = map[string]func() []rule{
	"en": sync.OnceValue(english),
	"de": sync.OnceValue(german),
	"fr": sync.OnceValue(french),
	"es": sync.OnceValue(spanish),
}

// apply makes the question of a sentence, and returns also the words of it that name what it asks
// about.
func (r rule) apply(sentence string, words map[string]int) (question, subject string) {
	found := r.pattern.FindStringSubmatch(sentence)
	if found == nil {
		return "", ""
	}
	m := map[string]string{}
	for i, name := range r.pattern.SubexpNames() {
		if name != "" {
			m[name] = found[i]
		}
	}
	subject, ok := r.grammar.subject(m["subject"], words)
	if !ok {
		return "", ""
	}
	m["subject"] = subject
	if r.make != nil {
		return r.make(m), subject
	}
	q := r.question
	for name, value := range m {
		q = strings.ReplaceAll(q, "%"+name, value)
	}
	return q, subject
}

// maxSubject is the most words of the name of a thing.
const maxSubject = 7

// subject returns a subject as it is written inside a sentence, and whether it names one thing by
// itself.
func (g *grammar) subject(s string, words map[string]int) (string, bool) {
	fields := strings.Fields(s)
	if len(fields) == 0 || len(fields) > maxSubject {
		return "", false
	}
	named, seen := false, map[string]bool{}
	for i, w := range fields {
		lower := strings.ToLower(w)
		determiner := g.determiners[lower]
		switch {
		case g.never[lower], seen[lower] && !g.determiners[lower] && !g.prepositions[lower]:
			return "", false
		case determiner && i > 0 && !g.prepositions[lower] && !g.prepositions[strings.ToLower(fields[i-1])]:
			return "", false
		case i == 0 && g.prepositions[lower] && !determiner, i == len(fields)-1 && (determiner || g.prepositions[lower]):
			return "", false
		}
		seen[lower] = true
		if !determiner && !g.prepositions[lower] && !g.vague[lower] && strings.IndexFunc(w, unicode.IsLetter) >= 0 {
			named = true
		}
	}
	if !named || utf8.RuneCountInString(fields[len(fields)-1]) < 2 {
		return "", false
	}
	// The first word of a sentence is capitalised; the word itself may not be.
	first := strings.ToLower(fields[0])
	switch {
	case g.elides && (strings.HasPrefix(first, "l’") || strings.HasPrefix(first, "l'")):
		fields[0] = "l" + fields[0][1:]
	case g.determiners[first] || words[first] > 0 && words[first] >= words[fields[0]]:
		fields[0] = first
	}
	return strings.Join(fields, " "), true
}

// anySubject is the subject in a pattern: the text before the verb.
const anySubject = `(?P<subject>[^\s,;:()"“”„«»][^,;:()"“”„«»]{1,70}?)`

func sentence(pattern string) *regexp.Regexp { return regexp.MustCompile(`^` + pattern + `[.!]$`) }
