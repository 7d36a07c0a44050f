package stage

// This file reads the texts of candidates for the stage "proximity".

import (
	"cmp"
	"math"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/lexical"
	"github.com/sluice-rag/sluice/internal/retrieval"
	"github.com/sluice-rag/sluice/internal/text"
	"github.com/sluice-rag/sluice/schema"
)

// reading are the sections of some candidates, analysed.
type reading struct {
	terms    []string           // of the question
	idf      map[string]float64 // of terms
	mass     float64            // of the question's terms, each as often as it is asked
	distinct float64            // each once
	pairs    float64            // of neighbours in the question
	sections map[uuid.UUID]*sectionReading
	average  float64 // terms of a section
	line     float64 // terms of a sentence
}

// sectionReading is one section.
type sectionReading struct {
	ranges            []text.Range
	title             []string
	lines             [][]string // terms by sentence
	length            int        // terms
	ordered, coverage float64
}

// features are what a candidate has beside its score, each between 0 and 1.
type features struct{ ordered, coverage, sentence float64 }

// read analyses the sections that places lie in, each once. Their texts must
// have been loaded.
func (t *Task) read(places []lexical.Ref, idf map[string]float64) *reading {
	r := &reading{terms: t.terms, idf: idf, sections: map[uuid.UUID]*sectionReading{}}
	seen := map[string]bool{}
	for i, term := range t.terms {
		r.mass += idf[term]
		if !seen[term] {
			seen[term] = true
			r.distinct += idf[term]
		}
		if i > 0 {
			r.pairs += idf[t.terms[i-1]] + idf[term]
		}
	}
	var terms, words, lines int
	titles := map[string][]string{}
	for _, place := range places {
		found, ok := t.texts[place]
		if !ok || r.sections[found.Section.ID] != nil {
			continue
		}
		s := &sectionReading{ranges: text.Sentences(found.Section.Text)}
		for _, sentence := range s.ranges {
			line := t.analyzer.Terms(sentence.Of(found.Section.Text))
			s.lines = append(s.lines, line)
			s.length += len(line)
		}
		title, ok := titles[found.Title]
		if !ok {
			title = t.analyzer.Terms(found.Title)
			titles[found.Title] = title
		}
		words, lines = words+s.length, lines+len(s.lines)
		s.title = title
		s.length += len(title)
		r.cover(s)
		r.sections[found.Section.ID] = s
		terms += s.length
	}
	r.average = cmp.Or(float64(terms)/float64(max(len(r.sections), 1)), 1)
	r.line = cmp.Or(float64(words)/float64(max(lines, 1)), 1)
	for _, s := range r.sections {
		r.order(s)
	}
	return r
}

// saturated is BM25's part for a frequency in a text of a length, between 0 and
// 1 times the weight: without the factor k1 + 1.
func saturated(weight, frequency, length, average float64) float64 {
	k1, b := lexical.Defaults.K1, lexical.Defaults.B
	return weight * frequency / (frequency + k1*(1-b+b*length/average))
}

// cover finds which part of the question the section has.
func (r *reading) cover(s *sectionReading) {
	if r.distinct == 0 {
		return
	}
	met := map[string]bool{}
	for _, words := range s.all() {
		for _, w := range words {
			if weight, asked := r.idf[w]; asked && !met[w] {
				met[w] = true
				s.coverage += weight / r.distinct
			}
		}
	}
}

// all are the lines with the title before them.
func (s *sectionReading) all() [][]string { return append([][]string{s.title}, s.lines...) }

// order finds how often neighbours in the question are neighbours in the section
// or its document's title.
func (r *reading) order(s *sectionReading) {
	if r.pairs == 0 {
		return
	}
	counts := map[[2]string]float64{}
	for _, words := range s.all() {
		for i := 1; i < len(words); i++ {
			if _, asked := r.idf[words[i]]; asked {
				counts[[2]string{words[i-1], words[i]}]++
			}
		}
	}
	for i := 1; i < len(r.terms); i++ {
		a, b := r.terms[i-1], r.terms[i]
		s.ordered += saturated(r.idf[a]+r.idf[b], counts[[2]string{a, b}], float64(s.length), r.average) / r.pairs
	}
}

// features are those of a candidate: its section's, and its own best sentence.
// A text that is gone has none.
func (r *reading) features(found retrieval.Text, unit schema.Unit) features {
	s := r.sections[found.Section.ID]
	if s == nil || r.mass == 0 {
		return features{}
	}
	start, end := 0, len(found.Section.Text)
	if unit == schema.UnitPassage {
		start, end = found.Passage.Start, found.Passage.End
	}
	out := features{ordered: s.ordered, coverage: s.coverage}
	for i, words := range s.lines {
		if s.ranges[i].Start >= end || s.ranges[i].End <= start {
			continue
		}
		out.sentence = math.Max(out.sentence, r.sentence(words)/r.mass)
	}
	return out
}

// sentence is BM25 of a sentence. It adds up in the order of the sentence: a
// question may be much longer, and sums do not hang on the order of a map.
func (r *reading) sentence(words []string) float64 {
	counts := map[string]float64{}
	for _, w := range words {
		if _, asked := r.idf[w]; asked {
			counts[w]++
		}
	}
	sum := 0.0
	for _, w := range words {
		if n := counts[w]; n > 0 {
			sum += saturated(r.idf[w], n, float64(len(words)), r.line)
			delete(counts, w)
		}
	}
	return sum
}
