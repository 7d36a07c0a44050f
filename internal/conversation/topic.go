package conversation

import "strings"

// pointing is the way in which a word refers back.
type pointing int

const (
	thing         pointing = 1 << iota
	person                 // he, she
	possessive             // its
	noun                   // this company
	demonstrative          // that
)

var pronouns = map[string]pointing{
	"it": thing, "they": thing, "them": thing, "its": thing | possessive, "their": thing | possessive,
	"he": person, "she": person, "him": person, "his": person | possessive, "her": person | possessive,
}

// companies are nouns that refer to a company by its kind.
var companies = set("company firm organisation organization corporation manufacturer supplier")

// pointsBack returns whether, and how, the word at i refers back, together with the words that
// belong to it; 0: it does not.
func pointsBack(text string, words []word, i int) (wordRange, pointing) {
	w := words[i]
	next := func(n int) string {
		if i+n < len(words) {
			return words[i+n].lower
		}
		return ""
	}
	one := wordRange{i, i + 1}
	switch kind := pronouns[w.lower]; {
	case kind != 0 && w.text == strings.ToUpper(w.text): // IT
		return one, 0
	case w.lower == "it" && expletive(words, i):
		return one, 0
	case w.lower == "her" && (next(1) == "" || prepositions[next(1)]):
		return one, person
	case kind != 0:
		return one, kind
	case w.lower == "the" && companies[next(1)] && !hasName(words):
		return wordRange{i, i + 2}, noun
	case w.lower != "this" && w.lower != "that" && w.lower != "these" && w.lower != "those", periods[next(1)], clauses[next(1)]:
		return one, 0
	}
	if w.lower == "that" || w.lower == "those" { // otherwise it may begin a clause
		first := i == 0 || leading[words[i-1].lower] || auxiliary[words[i-1].lower] || prepositions[words[i-1].lower]
		if !first && next(1) != "" {
			return one, 0
		}
	}
	if n := next(1); n == "" || words[i+1].function() || verbs[n] || words[i+1].comparative() || words[i+1].participle() {
		return one, demonstrative
	}
	return wordRange{i, i + 2}, noun
}

// expletive reports whether "it" refers to what follows: "is it allowed to", "it takes ... to".
func expletive(words []word, i int) bool {
	for j := i + 1; j < len(words) && j < i+4; j++ {
		if l := words[j].lower; j > i+1 && (l == "to" || l == "that" || l == "if") {
			before := words[j-1].lower
			return i > 0 && be[words[i-1].lower] || be[words[i+1].lower] || strings.HasPrefix(words[i+1].lower, "take") ||
				strings.HasPrefix(words[i+1].lower, "cost") || before == "possible"
		}
	}
	return false
}

func hasName(words []word) bool { return len(namesOf(words)) > 0 }

// antecedentInside reports whether a question itself contains the antecedent of a word in it. An
// object does not refer to the subject of its own clause ("can employees extend it?"), a possessive
// may ("did Acme sell its plant?").
func antecedentInside(text string, before []word, kind pointing) bool {
	if kind&(noun|demonstrative) != 0 {
		return false
	}
	began, named := false, false // after the question words; there is a noun
	for i, w := range before {
		began = began || auxiliary[w.lower]
		isNoun := !w.function() && (w.capital() || i > 0 && determiners[before[i-1].lower] || began && !verbs[w.lower] && !w.participle())
		named = named || isNoun
		if named && (kind&possessive != 0 || w.breaks || i+1 < len(before) && clauses[before[i+1].lower]) {
			return true
		}
	}
	return false
}

// namesOf returns the names among words: capitalized words, and the words that join them. Function
// words are not names, even if they are capitalized as the first word.
func namesOf(words []word) []wordRange {
	var out []wordRange
	for i := 0; i < len(words); i++ {
		if !words[i].capital() {
			continue
		}
		r := wordRange{i, i + 1}
		for j := i + 1; j < len(words) && !words[j-1].breaks; j++ {
			joins := (words[j].lower == "of" || words[j].lower == "&" || words[j].lower == "de" || words[j].lower == "von" || words[j].lower == "van") &&
				j+1 < len(words) && words[j+1].capital()
			// A single capital ("Zone A") or number ("Windows 11") is part of the name; a year is
			// not.
			part := words[j].capital() || len(words[j].text) == 1 && words[j].text != words[j].lower || strings.Trim(words[j].text, "0123456789") == "" && !words[j].isYear()
			if !joins && !part {
				break
			}
			if r.to = j + 1; words[j-1].end < words[j].start-1 && !joins { // a 's was between
				r.to = j
				break
			}
		}
		out = append(out, r)
		i = r.to - 1
	}
	return out
}

// topic returns what a question is about, as a noun phrase; empty: no rule matches.
func topic(question string) string {
	words := wordsOf(question)
	r, _ := subject(words)
	if r.from == r.to {
		return ""
	}
	return r.of(question, words)
}

// subject returns the subject of a question, or its object if the subject is what it asks for.
// copular reports whether a form of "be" joins it to what is asked for.
func subject(words []word) (r wordRange, copular bool) {
	at := 0
	for at < len(words) && !auxiliary[words[at].lower] {
		at++
	}
	if at == len(words) { // "who approved the budget?", "tell me about Acme"
		for i := 1; i < len(words); i++ {
			if words[i].capital() || determiners[words[i].lower] {
				return phrase(words, i), false
			}
		}
		return wordRange{}, false
	}
	if at+1 == len(words) || words[at+1].lower == "i" || words[at+1].lower == "we" || words[at+1].lower == "you" || words[at+1].lower == "there" {
		return wordRange{}, false
	}
	return phrase(words, at+1), be[words[at].lower]
}

// phrase returns the noun phrase that begins with a word and extends up to a verb.
func phrase(words []word, from int) wordRange {
	to := from
	for to < len(words) {
		w := words[to]
		first := to == from || to == from+1 && determiners[words[from].lower]
		if !first && (verbs[w.lower] || auxiliary[w.lower] || w.participle() || comparatives[w.lower] || clauses[w.lower]) {
			break
		}
		if to++; w.breaks {
			break
		}
	}
	// A bare name may be followed by its predicate: "where is Initech based?"
	if names := namesOf(words[:to]); words[from].capital() {
		for _, n := range names {
			if n.from == from && n.to < to && !words[n.to].function() {
				return n
			}
		}
	}
	for to > from && prepositions[words[to-1].lower] {
		to--
	}
	if to == from+1 && words[from].function() {
		return wordRange{}
	}
	return wordRange{from, to}
}
