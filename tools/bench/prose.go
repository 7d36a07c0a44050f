package main

// This file generates English prose about made-up matters: sentences with the lengths and words of
// real ones, paragraphs that keep to a few things and sections that change them, so that models and
// segmentation work as on real text.

import (
	_ "embed"
	"fmt"
	"math/rand/v2"
	"strings"
)

//go:embed topics.txt
var topicsText string

// topic is a field with its words.
type topic struct {
	name                             string
	nouns, adjectives, verbs, people []string
}

// topics reads topics.txt.
func topics() []topic {
	var out []topic
	for line := range strings.Lines(topicsText) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		value = strings.TrimSpace(value)
		words := strings.Split(value, "|")
		switch key {
		case "topic":
			out = append(out, topic{name: value})
		case "nouns":
			out[len(out)-1].nouns = words
		case "adjectives":
			out[len(out)-1].adjectives = words
		case "verbs":
			out[len(out)-1].verbs = words
		case "people":
			out[len(out)-1].people = words
		}
	}
	return out
}

// writer writes about one topic.
type writer struct {
	random *rand.Rand
	topic  topic
	focus  []string // the things that the section is about
}

// choose returns a random element.
func (w *writer) choose(some []string) string { return some[w.random.IntN(len(some))] }

// turn chooses other things to write about.
func (w *writer) turn() {
	order := w.random.Perm(len(w.topic.nouns))
	w.focus = w.focus[:0]
	for _, i := range order[:6] {
		w.focus = append(w.focus, w.topic.nouns[i])
	}
}

var (
	names    = strings.Fields("Adler Brennick Castell Dunmore Eriksen Fairweather Galloway Hallam Ivers Jarrow Kessler Lindqvist Marlowe Nyberg Ostrander Pemberton Quillford Rasmussen Stannick Tidewell")
	months   = strings.Fields("January February March April May June July August September October November December")
	openings = []string{"", "", "", "", "In most cases, ", "As a rule, ", "According to the report, ", "However, ", "For this reason, ",
		"Until recently, ", "Since then, ", "In addition, ", "By contrast, ", "At the same time, ", "Despite this, ", "Over the years, "}
	endings = []string{"", "", "", " as planned", " without further notice", " within five working days", " for the second time", " after a long delay",
		" under supervision", " at no extra cost", " e.g. during the winter", " in spite of the weather", ", which nobody had expected", ", although this is seldom necessary"}
	// Each pattern is a sentence without its opening, ending and full stop. T: a thing of the
	// section; A: the same with its trait; P: a person; D: a deed; N: a number; Y: a date; F: a
	// family name; O: a thing of the whole topic.
	patterns = []string{
		"the P D the A before the O reaches the T",
		"one A D the T, and the P is told of it on Y",
		"the T was N percent better in Y than in the year before",
		"Dr. F and the P describe how the T D the O",
		"every T must be checked by the P when one A is found near the O",
		"the A of the T was first described by F in Y",
		"nobody D the T unless the P has signed for the A",
		"about N of these cases concern the T, and the remainder concerns the A",
		"the P said that the T \"D the O more often than people think\"",
		"it costs N euros to replace the A, while the T costs no more than one O",
		"when the T fails, the P D the A and informs the O",
		"the T (see Fig. N) lies between the A and the O",
		"there are N reasons for this: the A, the T and the P's own experience",
		"it remains unclear whether the A D the T or only the O",
		"F Ltd. delivers the T to the P every Y",
		"this is why the A is kept apart from the T",
		"the T D the O, but the A does so only once in N years",
		"the P of Port Hallam asked for one A, one T and a new O",
	}
)

// sentence returns a sentence.
func (w *writer) sentence() string {
	var b strings.Builder
	b.WriteString(w.choose(openings))
	for i, word := range strings.Fields(w.choose(patterns)) {
		if i > 0 {
			b.WriteByte(' ')
		}
		// A letter may stand among punctuation: `(see Fig. N)`, `T,`.
		at := strings.IndexAny(word, "TAPDNYFO")
		if at < 0 || strings.ContainsAny(word, "bcdefghijklmnopqrtuvwxyz") {
			b.WriteString(word)
			continue
		}
		b.WriteString(word[:at] + w.fill(word[at]) + word[at+1:])
	}
	b.WriteString(w.choose(endings))
	s := b.String()
	return strings.ToUpper(s[:1]) + s[1:] + "."
}

// fill returns a replacement for a letter of a pattern.
func (w *writer) fill(letter byte) string {
	switch letter {
	case 'T':
		return w.choose(w.focus)
	case 'A':
		return w.choose(w.topic.adjectives) + " " + w.choose(w.focus)
	case 'O':
		return w.choose(w.topic.nouns)
	case 'P':
		return w.choose(w.topic.people)
	case 'D':
		return w.choose(w.topic.verbs)
	case 'N':
		return fmt.Sprint(2 + w.random.IntN(97))
	case 'Y':
		return fmt.Sprintf("%d %s %d", 1+w.random.IntN(28), w.choose(months), 1880+w.random.IntN(145))
	}
	return w.choose(names)
}

// paragraph returns a paragraph.
func (w *writer) paragraph() string {
	sentences := make([]string, 3+w.random.IntN(6))
	for i := range sentences {
		sentences[i] = w.sentence()
	}
	return strings.Join(sentences, " ")
}

// heading returns a short heading.
func (w *writer) heading() string {
	s := fmt.Sprintf("The %s and the %s", w.choose(w.focus), w.choose(w.focus))
	if w.random.IntN(2) == 0 {
		s = w.choose(w.topic.adjectives) + " " + w.choose(w.focus)
	}
	return strings.ToUpper(s[:1]) + s[1:]
}
