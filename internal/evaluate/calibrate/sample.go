package calibrate

// This file draws the questions and cuts the documents of a dataset, and searches each question
// with BM25. The result is the same for every pack.

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/evaluate"
	"github.com/sluice-rag/sluice/internal/lexical"
	"github.com/sluice-rag/sluice/internal/lexical/search"
	"github.com/sluice-rag/sluice/internal/lexical/segment"
	"github.com/sluice-rag/sluice/internal/text"
	"github.com/sluice-rag/sluice/schema"
)

const (
	// candidates is how many of BM25's best passages a question has.
	candidates = 50
	// sentencesOfPassage is the length of passages, regardless of the pack's segmenter.
	sentencesOfPassage = 8
	// maxPassages bounds the corpus. It has all documents that are relevant to a question, and
	// others in order.
	maxPassages = 20_000
)

// passage is a passage of the corpus.
type passage struct {
	document, title, body string
}

// input returns a passage as models read it.
func (p passage) input() string {
	in, _ := text.InContext(p.title, nil, p.body)
	return in
}

// question is a question with an answer.
type question struct {
	id, text string
	answers  evaluate.Answers
	relevant map[string]int // ids of relevant documents
	best     []int          // candidates: indices of passages, BM25's best first
	holds    []bool         // whether the candidate contains an answer
	ranked   []int          // positions in best, sorted by the pair model
}

// inputs returns the texts of some of a question's candidates.
func (s *sample) inputs(q *question, positions []int) []string {
	out := make([]string, len(positions))
	for i, p := range positions {
		out[i] = s.passages[q.best[p]].input()
	}
	return out
}

// sample is the data of a calibration.
type sample struct {
	passages  []passage
	questions []*question
	random    *rand.Rand
}

// draw reads a dataset. The questions are those with an answer that occurs in a relevant document
// or, if no document is judged, in a candidate.
func draw(ctx context.Context, d *evaluate.Dataset, o Options) (*sample, error) {
	s := &sample{random: rand.New(rand.NewPCG(o.Seed, 1))}
	wanted := map[string]bool{}
	var queries []*question
	for _, i := range s.random.Perm(len(d.Queries)) {
		t := d.Queries[i]
		q := &question{id: t.ID, text: t.Text, answers: evaluate.NewAnswers(t.Answers), relevant: t.Relevant}
		if q.answers.None() || t.Unanswerable {
			continue
		}
		// Draw more than needed: the answers of some occur nowhere.
		if queries = append(queries, q); len(queries) == 3*o.Questions {
			break
		}
	}
	for _, q := range queries {
		for document := range q.relevant {
			wanted[document] = true
		}
	}
	err := d.EachDocument(func(id, title, body string) error {
		cut, err := cutDocument(id, title, body)
		if err != nil {
			return fmt.Errorf("cut document %s: %w", id, err)
		}
		if wanted[id] || len(s.passages)+len(cut) <= maxPassages {
			s.passages = append(s.passages, cut...)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	of := map[string][]int{} // passages by document
	for i, p := range s.passages {
		of[p.document] = append(of[p.document], i)
	}
	index, err := newIndex(s.passages, o.Language)
	if err != nil {
		return nil, err
	}
	for i, q := range queries {
		if len(s.questions) == o.Questions {
			break
		}
		o.Progress("search", i, len(queries))
		if q.best, err = index.best(ctx, q.text); err != nil {
			return nil, fmt.Errorf("search for question %s: %w", q.id, err)
		}
		q.holds = make([]bool, len(q.best))
		for j, p := range q.best {
			q.holds[j] = q.answers.In(s.passages[p].body)
		}
		if len(q.best) > 0 && s.answerable(q, of) {
			s.questions = append(s.questions, q)
		}
	}
	if len(s.questions) < minQuestions {
		return nil, tooFewError(d, len(s.questions))
	}
	return s, nil
}

// answerable reports whether an answer of the question occurs in a relevant document or, if no
// document is judged, in a candidate.
func (s *sample) answerable(q *question, of map[string][]int) bool {
	if len(q.relevant) == 0 {
		return slices.Contains(q.holds, true)
	}
	for document := range q.relevant {
		if slices.ContainsFunc(of[document], func(p int) bool { return q.answers.In(s.passages[p].body) }) {
			return true
		}
	}
	return false
}

// cutDocument cuts a document's text at sentence ends.
func cutDocument(id, title, body string) ([]passage, error) {
	g, err := schema.Segmentation{By: schema.BySentences, Sentences: sentencesOfPassage}.Complete()
	if err != nil {
		return nil, err
	}
	body = text.Clean(body)
	cut, err := text.Passages(body, text.Units(body, g), nil, g)
	if err != nil {
		return nil, err
	}
	out := make([]passage, 0, len(cut))
	for _, p := range cut {
		if s := strings.TrimSpace(body[p.Start:p.End]); s != "" {
			out = append(out, passage{id, title, s})
		}
	}
	return out, nil
}

// index is an in-memory lexical index of one segment.
type index struct {
	built    segment.Built
	words    *lexical.Analyzer
	search   *search.Index
	language string
}

// versionOf returns a version id that encodes the number of a passage.
func versionOf(i int) (id uuid.UUID) {
	binary.BigEndian.PutUint64(id[:], uint64(i)+1)
	return id
}

func newIndex(passages []passage, language string) (*index, error) {
	words, err := lexical.NewAnalyzer(language)
	if err != nil {
		return nil, err
	}
	texts := make([]segment.VersionText, len(passages))
	for i, p := range passages {
		texts[i] = segment.VersionText{Entry: versionOf(i), Version: versionOf(i), Title: words.Terms(p.title), Sections: [][][]string{{words.Terms(p.body)}}}
	}
	built, err := segment.Build(uuid.Max, texts)
	if err != nil {
		return nil, fmt.Errorf("index %d passages: %w", len(passages), err)
	}
	x := &index{built: built, words: words, language: language}
	x.search = search.NewIndex(x, 4*built.Bytes+1<<26)
	return x, nil
}

// best returns the indices of the passages that BM25 finds for a question. It searches titles, too.
func (x *index) best(ctx context.Context, question string) ([]int, error) {
	found, err := x.search.Search(ctx, uuid.Max, uuid.Max, lexical.TermQuery{Unit: schema.UnitDocument, Terms: x.words.Terms(question), K: candidates,
		Settings: lexical.Defaults})
	if err != nil {
		return nil, err
	}
	out := make([]int, len(found.Hits))
	for i, h := range found.Hits {
		out[i] = int(binary.BigEndian.Uint64(h.Ref.Version[:])) - 1
	}
	return out, nil
}

// LoadLexical implements search.Storage. The first call loads everything.
func (x *index) LoadLexical(_ context.Context, l search.Load) (search.Loaded, error) {
	out := search.Loaded{Generation: 1, Revision: 1, Language: x.language, Mark: search.ListMark{Generation: 1, Count: 1, XOR: 1},
		Dead: search.DeadFingerprint{Generation: 1}, Epoch: search.EpochMark{Generation: 1}, Headers: map[uuid.UUID][]byte{}, Pages: map[search.PageKey][]byte{}}
	if l.Live != out.Mark {
		out.Live = []uuid.UUID{x.built.ID}
	}
	if !slices.Contains(l.Known, x.built.ID) {
		out.Headers[x.built.ID] = x.built.Header
	}
	for i, p := range x.built.Pages {
		out.Pages[search.PageKey{Segment: x.built.ID, Page: i}] = p.Data
	}
	return out, nil
}

// LexicalRevision implements search.Storage. Nothing changes.
func (x *index) LexicalRevision(context.Context, uuid.UUID, uuid.UUID) (wait func() (int64, error)) {
	return func() (int64, error) { return 1, nil }
}

// MatchLexical implements search.Storage. The texts have no metadata.
func (x *index) MatchLexical(_ context.Context, _, _ uuid.UUID, queries []search.Match) ([][]uuid.UUID, error) {
	return make([][]uuid.UUID, len(queries)), nil
}
