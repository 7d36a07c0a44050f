package convert

// This file gathers what the files hold: documents go to the folder at once, questions
// are kept until all are read.

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

	// documents says where each document was read, by the hash of its id: a line or record
	// from 1. One that came with a question under an id of its own, and that the corpus may
	// have, too, has its number negated, and its content is in contents.
	documents map[uint64]int32
	contents  map[uint64]uint64
	order     []uint64 // of the documents in the folder

	questions []*query
	byID      map[string]*query
	aliases   map[string][]string // of entities, by their ids

	wanted  map[uint64]bool // documents that the drawn questions came with; nil: nothing is drawn yet
	sample  *sample         // of the others
	dropped map[string]int  // what is left out, by its reason
}

// query is a question as it is read.
type query struct {
	id, text     string
	place        string // where it is
	answers      []string
	evidence     []beir.Evidence
	choices      []string
	scope        map[string]any
	unanswerable bool
	more         map[string]any // further metadata
	judgements   []judgement
	with         []string // the documents that it came with
	// own: its documents alone are asked, as unanswerable is meant of them.
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

// leave counts something that is not taken over.
func (s *set) leave(what string) { s.dropped[what]++ }

// leftOut lists what is not taken over.
func (s *set) leftOut() []LeftOut {
	out := []LeftOut{}
	for _, what := range slices.Sorted(maps.Keys(s.dropped)) {
		out = append(out, LeftOut{what, s.dropped[what]})
	}
	return out
}

// What is left out, where several formats do.
const (
	noText        = "documents without text"
	notVerbatim   = "pieces of evidence that are not verbatim in their document"
	nothingKnown  = "questions with neither answers nor documents"
	tooLong       = "questions that are too long to be asked"
	askedTwice    = "questions that are asked twice (answers and documents are put together)"
	undrawn       = "questions that were not drawn"
	undrawnOthers = "documents that came with no question that is asked"
	noDocument    = "judgements of documents that are not there"
)

// split is the name of the qrels file.
func (s *set) split() string {
	if s.options.Split == "" {
		return "test"
	}
	return s.options.Split
}

// digest is a hash of several texts.
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

// number is a hash of 64 bits: of 21 million ids two are alike once in 80,000 sets.
func number(texts ...string) uint64 {
	d := digest(texts...)
	return binary.LittleEndian.Uint64(d[:])
}

// contentID is an id that is made of the content, so that it is the same in every set.
func contentID(mark string, texts ...string) string {
	d := digest(texts...)
	return mark + hex.EncodeToString(d[:10])
}

func blank(text string) bool { return strings.TrimSpace(text) == "" }

// add puts a document into the folder.
func (s *set) add(key uint64, place int, d beir.CorpusLine) error {
	s.documents[key] = int32(place)
	s.order = append(s.order, key)
	return s.folder.Document(d)
}

// byContent adds a document whose id is made of its content, once, and returns the id;
// none for a document without text.
func (s *set) byContent(title, text string) (string, error) {
	if blank(text) {
		s.leave(noText)
		return "", nil
	}
	id := contentID("d", title, text)
	key := number(id)
	if _, there := s.documents[key]; there {
		return id, nil
	}
	return id, s.add(key, len(s.order)+1, beir.CorpusLine{ID: id, Title: title, Text: text})
}

// withID adds a document that has an id of its own, which comes but once: n is its line or
// record. Once the questions are drawn, others than theirs may be left out.
func (s *set) withID(d beir.CorpusLine, n int, what string) error {
	if err := beir.CheckID(d.ID); err != nil {
		return fmt.Errorf("id: %w", err)
	}
	key := number(d.ID)
	switch before := s.documents[key]; {
	case before > 0:
		return fmt.Errorf("id: %q is in %s %d already", d.ID, what, before)
	case before < 0: // a question brought it
		if s.contents[key] != number(d.Title, d.Text) {
			s.leave("passages of the corpus that differ from those which questions came with (these are kept)")
		}
		s.documents[key] = int32(n)
		return nil
	}
	s.documents[key] = int32(n)
	if blank(d.Text) && blank(d.Title) {
		s.leave(noText)
		return nil
	}
	if s.wanted != nil && s.sample != nil && !s.wanted[key] && !s.sample.may(key) {
		s.leave(undrawnOthers)
		return nil
	}
	return s.add(key, n, d)
}

// brought adds a passage that came with a question under the id that it has in the corpus,
// and returns the id. Another passage of the same id gets one of its content.
func (s *set) brought(id, title, text string, n int) (string, error) {
	if id == "" || blank(text) {
		return s.byContent(title, text)
	}
	if err := beir.CheckID(id); err != nil {
		return "", fmt.Errorf("passage_id: %w", err)
	}
	title, text = strings.TrimSpace(title), strings.TrimSpace(text)
	key, content := number(id), number(title, text)
	if _, there := s.documents[key]; there {
		if s.contents[key] == content {
			return id, nil
		}
		s.leave("ids of passages that other passages have, too (these get ids of their content)")
		return s.byContent(title, text)
	}
	s.contents[key] = content
	return id, s.add(key, -n, beir.CorpusLine{ID: id, Title: title, Text: text})
}

// ask adds a question of which something is known.
func (s *set) ask(q *query) error {
	if blank(q.text) {
		return missing("question")
	}
	if q.answers = unique(q.answers); len(q.answers) == 0 && len(q.judgements) == 0 && !q.unanswerable {
		s.leave(nothingKnown)
		return nil
	}
	return s.askAs(q)
}

// askAs adds a question as it is. Its id may come but once.
func (s *set) askAs(q *query) error {
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
		s.leave(tooLong)
		return nil
	}
	s.byID[q.id] = q
	s.questions = append(s.questions, q)
	return nil
}

// askText adds a question without an id, which is made of its text. One that is asked
// twice is one, with the answers and documents of both.
func (s *set) askText(q *query) error {
	q.id = contentID("q", strings.TrimSpace(q.text))
	before := s.byID[q.id]
	if before == nil {
		return s.ask(q)
	}
	s.leave(askedTwice)
	before.answers = unique(append(before.answers, q.answers...))
	for _, j := range q.judgements {
		before.judge(j.split, j.document, j.grade)
	}
	before.with = append(before.with, q.with...)
	return nil
}

// judge notes a grade of a document, once.
func (q *query) judge(split, document string, grade int) {
	j := judgement{split, document, grade}
	if document != "" && !slices.Contains(q.judgements, j) {
		q.judgements = append(q.judgements, j)
	}
}

// brings notes a document that came with the question.
func (q *query) brings(document string) {
	if document != "" {
		q.with = append(q.with, document)
	}
}

// prove adds a piece of evidence, if the document has it word for word.
func (s *set) prove(q *query, document, text, piece string) {
	piece = strings.TrimSpace(piece)
	e := beir.Evidence{Document: document, Text: piece}
	switch {
	case piece == "" || slices.Contains(q.evidence, e):
	case document == "" || !strings.Contains(text, piece):
		s.leave(notVerbatim)
	default:
		q.evidence = append(q.evidence, e)
	}
}

// unique are the texts that are not blank, each once, in their order.
func unique(texts []string) []string {
	var out []string
	for _, t := range texts {
		if t = strings.TrimSpace(t); t != "" && !slices.Contains(out, t) {
			out = append(out, t)
		}
	}
	return out
}
