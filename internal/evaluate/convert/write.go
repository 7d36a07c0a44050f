package convert

// This file draws the questions and documents to keep, and writes them.

import (
	"fmt"
	"maps"
	"slices"

	"github.com/sluice-rag/sluice/internal/evaluate/beir"
	"github.com/sluice-rag/sluice/schema"
)

// sampleKey returns the number by which a key is drawn: the smallest numbers are.
func sampleKey(seed, key uint64) uint64 { return mixed(key ^ mixed(seed)) }

// mixed is the finaliser of SplitMix64 (Steele, Lea and Flood 2014).
func mixed(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// sample finds the size smallest numbers of a stream.
type sample struct {
	seed    uint64
	size    int
	numbers []uint64
	most    uint64 // the largest number in the sample, if enough
	enough  bool
}

// may adds a document to the sample. It reports false if the document cannot be drawn anymore.
func (s *sample) may(key uint64) bool {
	x := sampleKey(s.seed, key)
	if s.size == 0 || s.enough && x > s.most {
		return false
	}
	s.numbers = append(s.numbers, x)
	if len(s.numbers) >= 2*s.size+1000 {
		s.cut()
	}
	return true
}

// cut keeps the size smallest numbers.
func (s *sample) cut() {
	slices.Sort(s.numbers)
	s.numbers = s.numbers[:min(s.size, len(s.numbers))]
	if s.enough = s.size > 0 && len(s.numbers) == s.size; s.enough {
		s.most = s.numbers[s.size-1]
	}
}

// draw draws the questions.
func (s *set) draw() {
	if n := s.options.Limit; n > 0 && n < len(s.questions) {
		by := func(q *query) uint64 { return sampleKey(s.options.Seed, number(q.id)) }
		numbers := make([]uint64, len(s.questions))
		for i, q := range s.questions {
			numbers[i] = by(q)
		}
		slices.Sort(numbers)
		s.dropped[notSampled] += len(s.questions) - n
		s.questions = slices.DeleteFunc(s.questions, func(q *query) bool { return by(q) > numbers[n-1] })
	}
	s.wanted = map[uint64]bool{}
	for _, q := range s.questions {
		for _, document := range q.with {
			s.wanted[number(document)] = true
		}
		for _, j := range q.judgements {
			s.wanted[number(j.document)] = true
		}
	}
}

// write writes questions and judgements, and drops documents that are not kept.
func (s *set) write() (Summary, error) {
	done := Summary{Splits: []string{}}
	kept, err := s.corpus()
	if err != nil {
		return done, err
	}
	done.Documents = len(kept)
	splits := map[string]bool{}
	for _, q := range s.questions {
		relevant := false
		for _, j := range q.judgements {
			if !kept[number(j.document)] {
				s.drop(noDocument)
				continue
			}
			if err := s.folder.Judge(j.split, q.id, j.document, j.grade); err != nil {
				return done, err
			}
			splits[j.split] = true
			relevant = relevant || j.grade > 0
			done.Judgements++
		}
		line := q.line()
		if err := s.folder.Query(line); err != nil {
			return done, err
		}
		done.Questions++
		count(&done.WithDocuments, relevant)
		count(&done.WithAnswers, len(q.answers) > 0 || filled(line.Metadata["answers"]))
		count(&done.WithEvidence, len(q.evidence) > 0 || filled(line.Metadata["evidence"]))
		count(&done.Unanswerable, q.unanswerable)
	}
	done.Splits = slices.Sorted(maps.Keys(splits))
	done.LeftOut = s.leftOut()
	return done, nil
}

func count(n *int, yes bool) {
	if yes {
		*n++
	}
}

// line returns the question with its metadata.
func (q *query) line() beir.QueryLine {
	m := map[string]any{}
	maps.Copy(m, q.more)
	if len(q.answers) > 0 { // an empty list would mark it as unanswerable
		m["answers"] = q.answers
	}
	if len(q.evidence) > 0 {
		m["evidence"] = q.evidence
	}
	if len(q.choices) > 0 {
		m["choices"] = q.choices
	}
	if len(q.scope) > 0 {
		m["scope"] = q.scope
	}
	if q.unanswerable {
		m["unanswerable"] = true
	}
	return beir.QueryLine{ID: q.id, Text: q.text, Metadata: m}
}

// scopeKey is the key of documents' metadata with the ids of the questions that are restricted to
// them.
const scopeKey = "question"

// corpus drops the documents that are not kept, and adds to others the ids of the questions that
// are restricted to them. It returns the kept documents.
func (s *set) corpus() (map[uint64]bool, error) {
	keep := make(map[uint64]bool, len(s.order))
	if s.sample == nil {
		for _, key := range s.order {
			keep[key] = true
		}
	} else {
		others := &sample{seed: s.sample.seed, size: s.sample.size}
		for _, key := range s.order {
			if !s.wanted[key] {
				others.may(key)
			}
		}
		others.cut()
		for _, key := range s.order {
			if _, drawn := slices.BinarySearch(others.numbers, sampleKey(others.seed, key)); drawn || s.wanted[key] {
				keep[key] = true
			} else {
				s.drop(unusedDocuments)
			}
		}
	}
	asked := map[uint64][]string{}
	for _, q := range s.questions {
		if !q.own && !s.options.Scope || q.scope != nil || len(q.with) == 0 {
			continue
		}
		q.scope = map[string]any{scopeKey: q.id}
		for _, document := range unique(q.with) {
			key := number(document)
			asked[key] = append(asked[key], q.id)
		}
	}
	if len(keep) == len(s.order) && len(asked) == 0 {
		return keep, nil
	}
	err := s.folder.Rewrite(func(n int, d *beir.CorpusLine) (bool, error) {
		key := s.order[n]
		questions := asked[key]
		if len(questions) == 0 {
			return keep[key], nil
		}
		if d.Metadata == nil {
			d.Metadata = map[string]any{}
		}
		size := 0
		for _, q := range questions {
			size += len(q) + len(`"",`)
		}
		if size > schema.MaxMetadata {
			return false, fmt.Errorf("document %s came with %d questions that are asked about their documents alone: "+
				"too many for its metadata (%s); draw fewer with --limit",
				d.ID, len(questions), schema.FormatBytes(schema.MaxMetadata))
		}
		d.Metadata[scopeKey] = questions
		return keep[key], nil
	})
	return keep, err
}
