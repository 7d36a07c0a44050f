// Package conversation rewrites follow-up questions as standalone ones, by rules for English: it
// replaces pronouns and noun phrases that refer back by their antecedents, completes fragments with
// the question that they continue, and adds to comparisons what is compared. A question that is
// standalone already stays as it is, and so does one that no rule matches.
package conversation

import (
	"slices"
	"strings"

	"github.com/sluice-rag/sluice/schema"
)

const (
	// turnsRead is how many turns of a history are read, from its end: references go back to recent
	// turns.
	turnsRead = 12
	// questionWords bounds the words of a question that refers back, and fragmentWords those of a
	// fragment.
	questionWords, fragmentWords = 40, 6
	// answerBytes is how much of an answer is searched for a person.
	answerBytes = 2000
)

// Standalone returns question in a form that can be understood without history, and whether that
// differs from question.
func Standalone(history []schema.Turn, question string) (whole string, changed bool) {
	var c dialogue
	for _, t := range history[max(0, len(history)-turnsRead):] {
		switch t.Role {
		case schema.RoleUser:
			c.asks(t.Content)
		case schema.RoleAssistant:
			c.said = t.Content[:min(len(t.Content), answerBytes)]
		}
	}
	whole = c.whole(question)
	if len([]rune(whole)) > schema.MaxQuestion {
		return question, false
	}
	return whole, whole != question
}

// dialogue is the history of a conversation.
type dialogue struct {
	asked []string // standalone questions, oldest first
	said  string   // the last answer
}

func (c *dialogue) asks(question string) {
	if whole := c.whole(question); len(wordsOf(question)) > 1 || whole != question {
		c.asked, c.said = append(c.asked, whole), ""
	}
}

// before returns the first sentence of the previous question.
func (c *dialogue) before() string {
	if len(c.asked) == 0 {
		return ""
	}
	last := expand(c.asked[len(c.asked)-1])
	if first, _, more := strings.Cut(last, "? "); more && len(wordsOf(first)) > 0 {
		return first + "?"
	}
	return last
}

func (c *dialogue) whole(question string) string {
	text := expand(strings.Join(strings.Fields(question), " "))
	words := wordsOf(text)
	if c.before() == "" || len(words) == 0 || len(words) > questionWords {
		return question
	}
	for _, rule := range []func(string, []word) string{c.fragment, c.comparison, c.reference} {
		if whole := rule(text, words); whole != "" {
			return whole
		}
	}
	return question
}

// goesOn joins the previous question and this one.
func (c *dialogue) goesOn(text string) string {
	before := c.before()
	if first := wordsOf(before)[0].lower; !strings.HasSuffix(before, "?") && !asking[first] && !auxiliary[first] {
		return ""
	}
	return strings.TrimRight(before, "?. ") + "? " + upperFirst(text)
}

// fragment completes a question that is not a sentence: "and in 2021?", "what about Germany?",
// "why?".
func (c *dialogue) fragment(text string, words []word) string {
	lead := 0
	for lead < len(words) && leading[words[lead].lower] {
		lead++
	}
	if lead < len(words)-1 && words[lead+1].lower == "about" && (words[lead].lower == "what" || words[lead].lower == "how") {
		lead += 2
	}
	words = words[lead:]
	if len(words) == 0 || len(words) > fragmentWords {
		return ""
	}
	rest := strings.TrimRight(text[words[0].start:], "?!. ")
	switch first := words[0].lower; {
	case slices.ContainsFunc(words, func(w word) bool { return auxiliary[w.lower] || verbs[w.lower] || pronouns[w.lower] != 0 }):
		return ""
	case first == "why" && len(words) == 1 && auxiliary[wordsOf(c.before())[0].lower]:
		return "Why " + lowerFirst(c.before())
	case bareQuestions[strings.ToLower(rest)]:
		return c.goesOn(rest + "?")
	case asking[first]:
		return ""
	case prepositions[first] && slices.ContainsFunc(words, func(w word) bool { return asking[w.lower] }): // "by how much?"
		return c.goesOn(rest + "?")
	case prepositions[first] && len(words) > 1:
		return c.replace(first, words[1:], text[words[1].start:words[len(words)-1].end])
	case lead > 0, strings.HasSuffix(text, "?") && len(words) < 3 && (words[0].isYear() || words[0].capital()):
		return c.replace("", words, text[words[0].start:words[len(words)-1].end])
	}
	return ""
}

// replace returns the previous question with a part of it replaced by another of the same kind:
// another year, another name, or another noun in the same role. If there is no such part, other is
// appended.
func (c *dialogue) replace(preposition string, words []word, other string) string {
	before := c.before()
	had := wordsOf(before)
	at := func(r wordRange) string { return splice(before, had, r, other) }
	if words[len(words)-1].isYear() && len(words) == 1 {
		for i := len(had) - 1; i >= 0; i-- {
			if had[i].isYear() {
				return at(wordRange{i, i + 1})
			}
		}
	}
	if names := namesOf(words); len(names) > 0 {
		if r, ok := likeName(had, words); ok {
			return at(r)
		}
	} else if r, ok := likeNoun(had, words); ok {
		return at(r)
	}
	if preposition == "" {
		preposition = "for"
		if words[0].isYear() {
			preposition = "in"
		}
	}
	return strings.TrimRight(before, "?. ") + " " + preposition + " " + other + "?"
}

// likeName returns the name in a question that another name replaces: the last one that begins with
// the same word, or else the last one of all.
func likeName(had, words []word) (wordRange, bool) {
	names := namesOf(had)
	if len(names) == 0 {
		return wordRange{}, false
	}
	other := words[namesOf(words)[0].from]
	for i := len(names) - 1; i >= 0; i-- {
		if had[names[i].from].lower == other.lower {
			return names[i], true
		}
	}
	return names[len(names)-1], true
}

// likeNoun returns the noun that another one replaces: one with the same last word; or, for a noun
// with an article, a subject with an article; or, for a bare word, a bare word after a preposition
// at the end, or as the subject.
func likeNoun(had, words []word) (wordRange, bool) {
	head := words[len(words)-1].lower
	for i := range had {
		if had[i].lower == head {
			from := i
			for from > 0 && !had[from-1].function() && !verbs[had[from-1].lower] {
				from--
			}
			return wordRange{from, i + 1}, true
		}
	}
	n := len(had)
	if determiners[words[0].lower] { // "where is the office?", "what about the warehouse?"
		r, _ := subject(had)
		alone := r.to == n && !slices.ContainsFunc(had[r.from:], func(w word) bool { return prepositions[w.lower] })
		return r, alone && r.from < r.to && determiners[had[r.from].lower]
	}
	if n > 1 && prepositions[had[n-2].lower] && !had[n-1].function() && !had[n-1].isYear() {
		return wordRange{n - 1, n}, true
	}
	for i := 1; i+1 < n; i++ {
		if auxiliary[had[i-1].lower] && !be[had[i-1].lower] && !had[i].function() && !had[i].capital() {
			return wordRange{i, i + 1}, true
		}
	}
	return wordRange{}, false
}

// comparison adds what is compared: "which is larger?"
func (c *dialogue) comparison(text string, words []word) string {
	i := 1
	for i < len(words) && (words[i].lower == "one" || words[i].lower == "ones") {
		i++
	}
	if words[0].lower != "which" || i+1 >= len(words) || len(words) > i+3 || !auxiliary[words[i].lower] || !words[i+1].comparative() {
		return ""
	}
	var all []string
	for _, q := range slices.Backward(c.asked) {
		had := wordsOf(q)
		for _, r := range slices.Backward(namesOf(had)) {
			if name := r.of(q, had); !slices.Contains(all, name) {
				all = append(all, name)
			}
		}
	}
	if len(all) < 2 {
		return ""
	}
	return strings.TrimRight(text, "?. ") + ", " + all[1] + " or " + all[0] + "?"
}

// reference replaces the first word that refers back by its antecedent: "it", "their", "this
// company".
func (c *dialogue) reference(text string, words []word) string {
	for i := range words {
		r, kind := pointsBack(text, words, i)
		if kind == 0 {
			continue
		}
		if antecedentInside(text, words[:i], kind) {
			return ""
		}
		meant := c.meant(words, r, kind)
		if meant == "" {
			return c.goesOn(text)
		}
		if kind&possessive != 0 {
			meant = ofOwner(meant)
		}
		if i == 0 {
			meant = upperFirst(meant)
		}
		return text[:words[r.from].start] + meant + text[words[r.to-1].end:]
	}
	return ""
}

// meant returns the antecedent of words that refer back; empty: no rule matches.
func (c *dialogue) meant(words []word, r wordRange, kind pointing) string {
	before := c.before()
	had := wordsOf(before)
	names := namesOf(had)
	last := ""
	if len(names) > 0 {
		last = names[len(names)-1].of(before, had)
	}
	switch {
	case kind&person != 0:
		if said := c.personSaid(before); said != "" {
			return said
		}
		if last != "" && len(names) == 1 && (names[0].from == 0 || !determiners[had[names[0].from-1].lower]) {
			return last
		}
		return topic(before)
	case kind&noun != 0:
		if same, ok := likeNoun(had, words[r.to-1:r.to]); ok && had[same.to-1].lower == words[r.to-1].lower {
			if same.from > 0 && determiners[had[same.from-1].lower] {
				same.from--
			}
			return phrase(had, same.from).of(before, had)
		}
		if last != "" {
			return last
		}
		return topic(before)
	case kind&demonstrative != 0:
		if asked, copular := subject(had); copular && asking[had[0].lower] && had[0].lower != "where" && had[0].lower != "when" {
			return asked.of(before, had)
		}
		return ""
	}
	about := topic(before)
	if kind&possessive != 0 {
		if _, owner, of := strings.Cut(about, " of "); of {
			return owner
		}
	}
	return about
}

// personSaid returns the only person that the last answer names and its question does not.
func (c *dialogue) personSaid(question string) string {
	said := wordsOf(c.said)
	found := ""
	for _, r := range namesOf(said) {
		name := r.of(c.said, said)
		switch titled := titles[said[r.from].lower]; {
		case r.to-r.from < 2 && !titled, strings.Contains(question, name), name == found:
		case found != "":
			return ""
		default:
			found = name
		}
	}
	return found
}
