package main

// This file has the texts that parts are measured with: generated ones, which are determined by
// their numbers, or those of a folder. Questions are drawn from them.

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
)

// sectionText is a section: its text, and where its passages begin. The passages tile the text.
type sectionText struct {
	text   string
	starts []int
}

// passage returns the text of a passage.
func (p sectionText) passage(i int) string {
	end := len(p.text)
	if i+1 < len(p.starts) {
		end = p.starts[i+1]
	}
	return p.text[p.starts[i]:end]
}

// written is one document.
type written struct {
	title  string
	topic  int
	pieces []sectionText
}

// passages returns the number of passages.
func (w written) passages() int {
	n := 0
	for _, p := range w.pieces {
		n += len(p.starts)
	}
	return n
}

// texts are documents by number. The same number gives the same document.
type texts interface {
	name() string
	// maxDocuments returns the number of documents; generated ones have no limit.
	maxDocuments() int
	document(i int) written
}

// synthetic are texts in the generated language.
type synthetic struct {
	language *language
	seed     uint64
}

var sharedLanguage = sync.OnceValue(newLanguage)

func newSynthetic(seed uint64) synthetic { return synthetic{sharedLanguage(), seed} }

func (m synthetic) name() string      { return fmt.Sprintf("made from seed %d", m.seed) }
func (m synthetic) maxDocuments() int { return 1 << 40 }

func (m synthetic) document(i int) written {
	random := rand.New(rand.NewPCG(m.seed, uint64(i)))
	s := m.language.docGenerator(random)
	out := written{title: s.title(), topic: int(s.topic)}
	// A section has eight passages on average, about 1,000 tokens. A document usually has few
	// sections, and sometimes many.
	for range min(40, s.length(3, 0.7)) {
		var b strings.Builder
		var p sectionText
		for range 5 + random.IntN(7) {
			p.starts = append(p.starts, b.Len())
			s.passage(&b, s.length(passageWords, passageSpread))
		}
		p.text = b.String()
		out.pieces = append(out.pieces, p)
	}
	return out
}

// first returns the first documents with at least a number of passages in total, or all.
func first(t texts, passages int) []written {
	var out []written
	for i, n := 0, 0; n < passages && i < t.maxDocuments(); i++ {
		d := t.document(i)
		out = append(out, d)
		n += d.passages()
	}
	return out
}

// flat returns the passages of documents.
func flat(docs []written) []string {
	var out []string
	for _, d := range docs {
		for _, p := range d.pieces {
			for i := range p.starts {
				out = append(out, p.passage(i))
			}
		}
	}
	return out
}

// minor are words that are not used in questions.
var minor = func() map[string]bool {
	out := map[string]bool{}
	for _, w := range strings.Fields(commonWords) {
		out[w] = true
	}
	return out
}()

// questions draws questions: two to six different content words of one passage each, so that
// frequent and rare words are combined as in text.
func questions(docs []written, count int, seed uint64) []string {
	random := rand.New(rand.NewPCG(seed, 1<<32))
	out := make([]string, 0, count)
	for len(out) < count {
		d := docs[random.IntN(len(docs))]
		p := d.pieces[random.IntN(len(d.pieces))]
		words := contentWords(p.passage(random.IntN(len(p.starts))))
		if len(words) < 2 {
			continue
		}
		random.Shuffle(len(words), func(a, b int) { words[a], words[b] = words[b], words[a] })
		out = append(out, strings.Join(words[:min(len(words), 2+random.IntN(5))], " "))
	}
	return out
}

// contentWords returns the different words of a text that are not minor, in the order of the text.
func contentWords(text string) []string {
	var out []string
	for _, w := range strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return (r < 'a' || r > 'z') && r < 128 }) {
		if len(w) > 2 && !minor[w] && !slices.Contains(out, w) {
			out = append(out, w)
		}
	}
	return out
}
