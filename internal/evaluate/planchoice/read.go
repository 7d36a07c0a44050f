package planchoice

// This file finds the answers to made questions in texts, and tests whether a question has one
// answer in the collection: the round trip from a text to a question and back.

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/text"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

const (
	// maxRivals is how many passages are read for other answers.
	maxRivals = 12
	// rivalLogit is how far another passage's logit of has_answer must be below the source's for
	// the question to be about the source only.
	rivalLogit = 1.0
	// maxAnswerBytes and maxAnswerWords bound a short answer, in bytes and words.
	maxAnswerBytes, maxAnswerWords = 100, 12
)

// rivalPlan finds passages by words and by meaning, so that the questions that are kept do not
// favour one way of searching.
const rivalPlan = `name: rivals
description: passages by their words and by their meaning, for the round trip of made questions
stages:
  - hybrid:
      unit: passage
      k: 12
      of:
        - lexical: {unit: passage, weight: 1}
        - dense: {unit: passage, weight: 1}
`

// errNoReader says that the model pack cannot find answers in texts.
var errNoReader = errors.New("the model pack has no model that finds answers in texts")

// answerReader finds answers with a model of a pack.
type answerReader struct {
	read     func(ctx context.Context, lane wire.Lane, question string, texts []string, answers bool) ([]wire.PairScore, string, error)
	minLogit float64 // logit of has_answer from which a text answers
}

// newReading returns a reader with the pair model, which is fast, or else with the reranker. It
// uses no models behind an API, because each of their calls costs money.
func newReading(ctx context.Context, r Reader) (answerReader, error) {
	info, err := r.Info(ctx)
	if err != nil {
		return answerReader{}, fmt.Errorf("ask what the model pack can do: %w", err)
	}
	has := func(op wire.ModelOp) bool {
		return slices.Contains(info.Operations, op) && !slices.Contains(info.Remote, op)
	}
	switch {
	case has(wire.OpScore) && !info.NoSpans:
		return answerReader{r.Score, info.Calibrated["answerable"]}, nil
	case has(wire.OpRerank) && !info.NoRerankSpans:
		return answerReader{r.Rerank, info.Calibrated["answerable"+wire.RerankerSuffix]}, nil
	}
	return answerReader{}, errNoReader
}

// origin is the text from which a question was made.
type origin struct {
	document   uuid.UUID
	externalID string
	title      string
	headings   []string
	text       string     // a sentence and its neighbours, or a passage
	evidence   text.Range // part of text that is to have the answer; all of it if unknown
}

// roundTrip finds the question's answer in its source, and searches other documents of the
// collection for an answer. answer is empty if the source has none, or another document has one,
// too.
func (m *maker) roundTrip(ctx context.Context, question string, s origin) (answer string, evidence string, err error) {
	own, has, err := m.answer(ctx, question, s)
	if err != nil || own.Start >= own.End {
		return "", "", err
	}
	answer = own.Of(s.text)
	found, err := m.chooser.Searcher.Search(ctx, wire.SearchQuery{Principal: m.task.Principal,
		Query: schema.Query{Collection: m.task.CollectionID, Text: question, PlanText: rivalPlan, K: maxRivals}})
	if err != nil {
		return "", "", fmt.Errorf("look for other answers: %w", err)
	}
	var texts, bodies []string
	var offsets []int
	for _, c := range found.Candidates {
		if c.Document == s.document {
			continue
		}
		input, offset := text.InContext(c.Title, c.HeadingPath, c.Text)
		texts, bodies, offsets = append(texts, input), append(bodies, strings.TrimSpace(c.Text)), append(offsets, offset)
	}
	if len(texts) > 0 {
		scores, _, err := m.reader.read(ctx, wire.LaneBulk, question, texts, true)
		if err != nil {
			return "", "", fmt.Errorf("read other passages: %w", err)
		}
		asked := text.ExpectedAnswerType(question)
		for i, x := range scores {
			if float64(x.HasAnswer) < max(m.reader.minLogit, has-rivalLogit) {
				continue
			}
			if at := rangeInBody(bodies[i], offsets[i], x.Answer); at.Start < at.End && asked.Fits(bodies[i], at) {
				return "", "", nil // the question may be about that document
			}
		}
	}
	return answer, sentenceOf(s.text, own), nil
}

// answer finds the short answer in a source; an empty range means that there is no usable one. has
// is the logit of has_answer.
func (m *maker) answer(ctx context.Context, question string, s origin) (at text.Range, has float64, err error) {
	input, offset := text.InContext(s.title, s.headings, s.text)
	scores, _, err := m.reader.read(ctx, wire.LaneBulk, question, []string{input}, true)
	if err != nil {
		return at, 0, fmt.Errorf("read the answer: %w", err)
	}
	if len(scores) != 1 {
		return at, 0, fmt.Errorf("read the answer: the model server gave %d scores for one text", len(scores))
	}
	has = float64(scores[0].HasAnswer)
	found := rangeInBody(s.text, offset, scores[0].Answer)
	short := found.Of(s.text)
	switch {
	case math.IsNaN(has) || has < m.reader.minLogit || found.Start >= found.End:
	case found.Start < s.evidence.Start || found.End > s.evidence.End:
	case len(short) > maxAnswerBytes || len(strings.Fields(short)) > maxAnswerWords || len(strings.TrimSpace(short)) < 2:
	case !text.ExpectedAnswerType(question).Fits(s.text, found):
	case strings.Contains(strings.ToLower(question), strings.ToLower(strings.TrimSpace(short))): // the question contains its answer
	default:
		return found, has, nil
	}
	return text.Range{}, has, nil
}

// rangeInBody converts a span of a model's input to a range of the body, which begins at offset.
func rangeInBody(body string, offset int, a *wire.AnswerSpan) text.Range {
	if a == nil || a.Start < offset || a.End > offset+len(body) || a.Start >= a.End {
		return text.Range{}
	}
	return text.Range{Start: a.Start - offset, End: a.End - offset}
}

// sentenceOf returns the sentence in which a range begins.
func sentenceOf(body string, at text.Range) string {
	for _, s := range text.Sentences(body) {
		if at.Start >= s.Start && at.Start < s.End {
			return strings.TrimSpace(s.Of(body))
		}
	}
	return ""
}
