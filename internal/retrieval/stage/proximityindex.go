package stage

// The analysed texts of candidates, for the stage proximity.

import (
	"cmp"
	"math"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/lexical"
	"github.com/sluice-rag/sluice/internal/retrieval"
	"github.com/sluice-rag/sluice/internal/text"
	"github.com/sluice-rag/sluice/schema"
)

// proximityIndex holds the analysed sections of candidates.
type proximityIndex struct {
	terms           []string           // of the question
	idf             map[string]float64 // of terms
	totalIDF        float64            // of the question's terms, repetitions counted
	distinctIDF     float64            // each once
	pairIDF         float64            // of adjacent terms in the question
	sections        map[uuid.UUID]*analysedSection
	average         float64 // terms of a section
	averageSentence float64 // terms of a sentence
}

// analysedSection is a section as terms.
type analysedSection struct {
	ranges            []text.Range
	title             []string
	sentences         [][]string // terms by sentence
	length            int        // terms
	ordered, coverage float64
}

// features are a candidate's features, each between 0 and 1.
type features struct{ ordered, coverage, sentence float64 }

// analyseSections analyses the sections of refs, each once. Their texts must have been loaded.
func (t *Task) analyseSections(refs []lexical.Ref, idf map[string]float64) *proximityIndex {
	r := &proximityIndex{terms: t.terms, idf: idf, sections: map[uuid.UUID]*analysedSection{}}
	seen := map[string]bool{}
	for i, term := range t.terms {
		r.totalIDF += idf[term]
		if !seen[term] {
			seen[term] = true
			r.distinctIDF += idf[term]
		}
		if i > 0 {
			r.pairIDF += idf[t.terms[i-1]] + idf[term]
		}
	}
	var terms, words, lines int
	titles := map[string][]string{}
	for _, ref := range refs {
		found, ok := t.texts[ref]
		if !ok || r.sections[found.Section.ID] != nil {
			continue
		}
		s := &analysedSection{ranges: text.Sentences(found.Section.Text)}
		for _, sentence := range s.ranges {
			line := t.analyzer.Terms(sentence.Of(found.Section.Text))
			s.sentences = append(s.sentences, line)
			s.length += len(line)
		}
		title, ok := titles[found.Title]
		if !ok {
			title = t.analyzer.Terms(found.Title)
			titles[found.Title] = title
		}
		words, lines = words+s.length, lines+len(s.sentences)
		s.title = title
		s.length += len(title)
		r.cover(s)
		r.sections[found.Section.ID] = s
		terms += s.length
	}
	r.average = cmp.Or(float64(terms)/float64(max(len(r.sections), 1)), 1)
	r.averageSentence = cmp.Or(float64(words)/float64(max(lines, 1)), 1)
	for _, s := range r.sections {
		r.order(s)
	}
	return r
}

// saturated is BM25's saturated frequency times the weight, without the factor k1 + 1.
func saturated(weight, frequency, length, average float64) float64 {
	k1, b := lexical.Defaults.K1, lexical.Defaults.B
	return weight * frequency / (frequency + k1*(1-b+b*length/average))
}

// cover sets which part of the question's terms, by IDF, the section has.
func (r *proximityIndex) cover(s *analysedSection) {
	if r.distinctIDF == 0 {
		return
	}
	met := map[string]bool{}
	for _, words := range s.texts() {
		for _, w := range words {
			if weight, inQuestion := r.idf[w]; inQuestion && !met[w] {
				met[w] = true
				s.coverage += weight / r.distinctIDF
			}
		}
	}
}

// texts returns the title and the sentences.
func (s *analysedSection) texts() [][]string { return append([][]string{s.title}, s.sentences...) }

// order scores how often adjacent terms of the question are adjacent in the section or its
// document's title.
func (r *proximityIndex) order(s *analysedSection) {
	if r.pairIDF == 0 {
		return
	}
	counts := map[[2]string]float64{}
	for _, words := range s.texts() {
		for i := 1; i < len(words); i++ {
			if _, inQuestion := r.idf[words[i]]; inQuestion {
				counts[[2]string{words[i-1], words[i]}]++
			}
		}
	}
	for i := 1; i < len(r.terms); i++ {
		a, b := r.terms[i-1], r.terms[i]
		s.ordered += saturated(r.idf[a]+r.idf[b], counts[[2]string{a, b}], float64(s.length), r.average) / r.pairIDF
	}
}

// features returns the features of a candidate: those of its section, and its own best sentence.
// They are zero if its text was deleted.
func (r *proximityIndex) features(found retrieval.Text, unit schema.Unit) features {
	s := r.sections[found.Section.ID]
	if s == nil || r.totalIDF == 0 {
		return features{}
	}
	start, end := 0, len(found.Section.Text)
	if unit == schema.UnitPassage {
		start, end = found.Passage.Start, found.Passage.End
	}
	out := features{ordered: s.ordered, coverage: s.coverage}
	for i, words := range s.sentences {
		if s.ranges[i].Start >= end || s.ranges[i].End <= start {
			continue
		}
		out.sentence = math.Max(out.sentence, r.sentence(words)/r.totalIDF)
	}
	return out
}

// sentence returns the BM25 score of a sentence. It sums in the order of the sentence, so that the
// result does not depend on the order of a map.
func (r *proximityIndex) sentence(words []string) float64 {
	counts := map[string]float64{}
	for _, w := range words {
		if _, inQuestion := r.idf[w]; inQuestion {
			counts[w]++
		}
	}
	sum := 0.0
	for _, w := range words {
		if n := counts[w]; n > 0 {
			sum += saturated(r.idf[w], n, float64(len(words)), r.averageSentence)
			delete(counts, w)
		}
	}
	return sum
}
