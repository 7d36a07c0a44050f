package convert

// This file collects the content of the files: documents are written to the folder at once,
// questions are kept until all are read.

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/sluice-rag/sluice/internal/evaluate/beir"
	"github.com/sluice-rag/sluice/schema"
)

// set is a question set that is being read.
type set struct {
	options Options
	folder  *beir.Folder

	// documents has the position of each document, a line or record from 1, by the hash of its id.
	// The number is negative if the document came with a question, under an id that the corpus may
	// have, too. Its content's hash is then in contents.
	documents map[uint64]int32
	contents  map[uint64]uint64
	order     []uint64 // of the documents in the folder

	questions []*query
	byID      map[string]*query
	aliases   map[string][]string // of entities, by their ids

	wanted  map[uint64]bool // documents of the drawn questions; nil: nothing is drawn yet
	sample  *sample         // draws the other documents
	dropped map[string]int  // counts of what was left out, by reason
}

// query is a question, while the files are read.
type query struct {
	id, text     string
	place        string // position in the files, for messages
	answers      []string
	evidence     []beir.Evidence
	choices      []string
	scope        map[string]any
	unanswerable bool
	more         map[string]any // further metadata
	judgements   []judgement
	with         []string // ids of the documents that it came with
	// own restricts the question to its documents, in which it is unanswerable.
	own bool
}

type judgement struct {
	split, document string
	grade           int
}

func newSet(o Options, folder *beir.Folder) *set {
	s := &set{options: o, folder: folder, documents: map[uint64]int32{}, contents: map[uint64]uint64{},
		byID: map[string]*query{}, aliases: map[string][]string{}, dropped: map[string]int{}}
	if o.Others >= 0 {
		s.sample = &sample{seed: o.Seed, size: o.Others}
	}
	return s
}

// drop counts something that is left out.
func (s *set) drop(what string) { s.dropped[what]++ }

// leftOut lists what was left out.
func (s *set) leftOut() []LeftOut {
	out := []LeftOut{}
	for _, what := range slices.Sorted(maps.Keys(s.dropped)) {
		out = append(out, LeftOut{what, s.dropped[what]})
	}
	return out
}

// Reasons to leave something out that several formats share.
const (
	noText             = "documents without text"
	notVerbatim        = "pieces of evidence that are not verbatim in their document"
	noAnswers          = "questions with neither answers nor documents"
	tooLong            = "questions that are too long to be asked"
	duplicateQuestions = "questions that are asked twice (answers and documents are put together)"
	notSampled         = "questions that were not drawn"
	unusedDocuments    = "documents that came with no question that is asked"
	noDocument         = "judgements of documents that are not there"
)

// split returns the name of the qrels file.
func (s *set) split() string {
	if s.options.Split == "" {
		return "test"
	}
	return s.options.Split
}

// digest returns a hash of several texts.
func digest(texts ...string) [sha256.Size]byte {
	h := sha256.New()
	for _, t := range texts {
		var size [8]byte
		binary.LittleEndian.PutUint64(size[:], uint64(len(t)))
		h.Write(size[:])
		h.Write([]byte(t))
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// number returns a 64-bit hash. Among 21 million ids there is a collision once in 80,000 sets.
func number(texts ...string) uint64 {
	d := digest(texts...)
	return binary.LittleEndian.Uint64(d[:])
}

// contentID returns an id derived from the content, so that it is the same in every set.
func contentID(mark string, texts ...string) string {
	d := digest(texts...)
	return mark + hex.EncodeToString(d[:10])
}

func blank(text string) bool { return strings.TrimSpace(text) == "" }

// add writes a document to the folder.
func (s *set) add(key uint64, place int, d beir.CorpusLine) error {
	s.documents[key] = int32(place)
	s.order = append(s.order, key)
	return s.folder.Document(d)
}

// byContent adds a document whose id is derived from its content, once, and returns the id. A
// document without text is left out, and has no id.
func (s *set) byContent(title, text string) (string, error) {
	if blank(text) {
		s.drop(noText)
		return "", nil
	}
	id := contentID("d", title, text)
	key := number(id)
	if _, ok := s.documents[key]; ok {
		return id, nil
	}
	return id, s.add(key, len(s.order)+1, beir.CorpusLine{ID: id, Title: title, Text: text})
}

// withID adds a document that has an id of its own, which must be unique. n is its line or record.
// After the questions are drawn, documents of other questions may be left out.
func (s *set) withID(d beir.CorpusLine, n int, what string) error {
	if err := beir.CheckID(d.ID); err != nil {
		return fmt.Errorf("id: %w", err)
	}
	key := number(d.ID)
	switch before := s.documents[key]; {
	case before > 0:
		return fmt.Errorf("id: %q is in %s %d already", d.ID, what, before)
	case before < 0: // it came with a question
		if s.contents[key] != number(d.Title, d.Text) {
			s.drop("passages of the corpus that differ from those which questions came with (these are kept)")
		}
		s.documents[key] = int32(n)
		return nil
	}
	s.documents[key] = int32(n)
	if blank(d.Text) && blank(d.Title) {
		s.drop(noText)
		return nil
	}
	if s.wanted != nil && s.sample != nil && !s.wanted[key] && !s.sample.may(key) {
		s.drop(unusedDocuments)
		return nil
	}
	return s.add(key, n, d)
}

// addPassage adds a passage that came with a question under its id in the corpus, and returns the
// id. If the id has another passage already, it gets an id derived from its content.
func (s *set) addPassage(id, title, text string, n int) (string, error) {
	if id == "" || blank(text) {
		return s.byContent(title, text)
	}
	if err := beir.CheckID(id); err != nil {
		return "", fmt.Errorf("passage_id: %w", err)
	}
	title, text = strings.TrimSpace(title), strings.TrimSpace(text)
	key, content := number(id), number(title, text)
	if _, ok := s.documents[key]; ok {
		if s.contents[key] == content {
			return id, nil
		}
		s.drop("ids of passages that other passages have, too (these get ids of their content)")
		return s.byContent(title, text)
	}
	s.contents[key] = content
	return id, s.add(key, -n, beir.CorpusLine{ID: id, Title: title, Text: text})
}

// ask adds a question, unless it has neither answers nor judgements and is not unanswerable.
func (s *set) ask(q *query) error {
	if blank(q.text) {
		return missing("question")
	}
	if q.answers = unique(q.answers); len(q.answers) == 0 && len(q.judgements) == 0 && !q.unanswerable {
		s.drop(noAnswers)
		return nil
	}
	return s.addQuestion(q)
}

// addQuestion adds a question as it is. Its id must be unique.
func (s *set) addQuestion(q *query) error {
	if q.text = strings.TrimSpace(q.text); q.text == "" {
		return missing("question")
	}
	if err := beir.CheckID(q.id); err != nil {
		return fmt.Errorf("id: %w", err)
	}
	if before := s.byID[q.id]; before != nil {
		return fmt.Errorf("id: %q is in %s already", q.id, before.place)
	}
	if utf8.RuneCountInString(q.text) > schema.MaxQuestion {
		s.drop(tooLong)
		return nil
	}
	s.byID[q.id] = q
	s.questions = append(s.questions, q)
	return nil
}

// addByText adds a question without an id, which is derived from its text. Equal questions are
// merged, with the answers and documents of both.
func (s *set) addByText(q *query) error {
	q.id = contentID("q", strings.TrimSpace(q.text))
	before := s.byID[q.id]
	if before == nil {
		return s.ask(q)
	}
	s.drop(duplicateQuestions)
	before.answers = unique(append(before.answers, q.answers...))
	for _, j := range q.judgements {
		before.judge(j.split, j.document, j.grade)
	}
	before.with = append(before.with, q.with...)
	return nil
}

// judge adds a grade of a document, once.
func (q *query) judge(split, document string, grade int) {
	j := judgement{split, document, grade}
	if document != "" && !slices.Contains(q.judgements, j) {
		q.judgements = append(q.judgements, j)
	}
}

// addDocument adds a document that came with the question.
func (q *query) addDocument(document string) {
	if document != "" {
		q.with = append(q.with, document)
	}
}

// prove adds a piece of evidence if it is verbatim in the document.
func (s *set) prove(q *query, document, text, piece string) {
	piece = strings.TrimSpace(piece)
	e := beir.Evidence{Document: document, Text: piece}
	switch {
	case piece == "" || slices.Contains(q.evidence, e):
	case document == "" || !strings.Contains(text, piece):
		s.drop(notVerbatim)
	default:
		q.evidence = append(q.evidence, e)
	}
}

// unique returns the texts that are not blank, without duplicates, in order.
func unique(texts []string) []string {
	var out []string
	for _, t := range texts {
		if t = strings.TrimSpace(t); t != "" && !slices.Contains(out, t) {
			out = append(out, t)
		}
	}
	return out
}
