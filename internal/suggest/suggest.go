// Package suggest finds questions that a text suggests, by rules: what a sentence defines, when
// something happened, how long or how much something is, what a heading asks. It has rules for
// sentences of English, German, French and Spanish; in other languages it takes only what is a
// question already. A suggested question may have no answer in the documents, so ask it before
// showing it.
package suggest

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/sluice-rag/sluice/internal/text"
	"github.com/sluice-rag/sluice/schema"
)

// Kind is the kind of rule that made a question.
type Kind string

// Kinds, from the one that makes the best questions to the one that makes the worst.
const (
	Asked      Kind = "asked"      // the text asks it
	When       Kind = "when"       // a sentence has a date or a time
	Extent     Kind = "extent"     // a sentence says how long something takes, or within what time it must be
	Amount     Kind = "amount"     // a sentence has an amount
	Reason     Kind = "reason"     // a sentence says why
	Place      Kind = "place"      // a sentence says where something is
	Person     Kind = "person"     // a sentence says who somebody is
	Definition Kind = "definition" // a sentence says what something is
	Heading    Kind = "heading"    // a heading names a subject
)

var kinds = []Kind{Asked, When, Extent, Amount, Reason, Place, Person, Definition, Heading}

// Suggestion is a question and its source.
type Suggestion struct {
	Text     string
	Kind     Kind
	Document string // external id
	Evidence string // the sentence with the answer; empty if it is not known
	Subject  string // the words of the question that name what it asks about, where a rule made it of a sentence
}

// Least and greatest lengths of sentences and questions, in bytes.
const (
	minSentence, maxSentence = 20, 320
	minQuestion, maxQuestion = 12, 140
)

// Questions returns the questions that the sections of a document suggest, in the order of the
// text, each once.
func Questions(document string, sections []schema.Section) []Suggestion {
	var out []Suggestion
	seen := map[string]bool{}
	add := func(q Suggestion) {
		q.Text = collapse(q.Text)
		key := strings.ToLower(q.Text)
		if n := len(q.Text); n < minQuestion || n > maxQuestion || seen[key] {
			return
		}
		seen[key] = true
		q.Document = document
		out = append(out, q)
	}
	words := map[string]int{}
	for _, s := range sections {
		wordsOf(s.Text, words)
	}
	for _, s := range sections {
		language := languageOf(s.Text)
		for _, h := range s.HeadingPath {
			if q, kind := fromHeading(h, language); q != "" {
				add(Suggestion{Text: q, Kind: kind})
			}
		}
		for line := range strings.SplitSeq(s.Text, "\n") {
			if q := askedBy(line); q != "" {
				add(Suggestion{Text: q, Kind: Asked})
			}
		}
		rules := rulesOf[language]
		if rules == nil {
			continue
		}
		for _, r := range text.Sentences(s.Text) {
			sentence := collapse(r.Of(s.Text))
			sentence = sentence[len(clause.FindString(sentence)):]
			if !plain(sentence) {
				continue
			}
			for _, rule := range rules() {
				if q, subject := rule.apply(sentence, words); q != "" {
					add(Suggestion{Text: q, Kind: rule.kind, Evidence: sentence, Subject: subject})
					break
				}
			}
		}
	}
	return out
}

// Order sorts questions so that the first ones are from many documents and of many kinds.
func Order(questions []Suggestion) []Suggestion {
	rest := slices.Clone(questions)
	out := make([]Suggestion, 0, len(rest))
	documents, used := map[string]int{}, map[Kind]int{}
	for len(rest) > 0 {
		best, bestCost := 0, 0
		for i, q := range rest {
			cost := 8*documents[q.Document] + 4*used[q.Kind] + slices.Index(kinds, q.Kind)
			if q.Kind == Heading {
				cost += 100 // only if there is nothing else
			}
			if i == 0 || cost < bestCost {
				best, bestCost = i, cost
			}
		}
		q := rest[best]
		documents[q.Document]++
		used[q.Kind]++
		out = append(out, q)
		rest = slices.Delete(rest, best, best+1)
	}
	return out
}

// plain reports whether a sentence is running text: it ends like a sentence, and is not a row of a
// table.
func plain(s string) bool {
	if len(s) < minSentence || len(s) > maxSentence || strings.ContainsAny(s, "|\t?{}<>=") || strings.Contains(s, "...") {
		return false
	}
	last, _ := utf8.DecodeLastRuneInString(s)
	return last == '.' || last == '!'
}

// collapse replaces every run of white space by one space.
func collapse(s string) string { return strings.Join(strings.Fields(s), " ") }

// wordsOf adds the counts of a text's words, as they are written, to out.
func wordsOf(s string, out map[string]int) {
	for w := range strings.FieldsSeq(s) {
		out[strings.Trim(w, `.,;:!?()"'“”„«»`)]++
	}
}

func set(words string) map[string]bool {
	out := map[string]bool{}
	for w := range strings.FieldsSeq(words) {
		out[w] = true
	}
	return out
}
