package planchoice

// This file gathers the questions of a choice: those that came with it, imported ones, those with
// answers that people rated good, and if these are not enough, questions made from passages.

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/evaluate"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// maxRatings bounds the ratings that are read.
const maxRatings = 5000

// gather finds or makes the questions of a choice.
func (c *Chooser) gather(ctx context.Context, in wire.PlanChoice, t Task, until time.Time) ([]Gathered, []string, error) {
	out, notes, err := c.labelled(ctx, t)
	if err != nil {
		return nil, nil, err
	}
	if len(out) < t.Limit {
		imported, more, err := c.imported(ctx, t, out, until)
		if err != nil {
			return nil, nil, err
		}
		out, notes = append(out, imported...), append(notes, more...)
	}
	if len(out) < t.Limit {
		rated, err := c.rated(ctx, t, t.Limit-len(out))
		if err != nil {
			return nil, nil, err
		}
		out = append(out, rated...)
	}
	if len(out) < t.Limit {
		questions, more, err := c.makeQuestions(ctx, t, t.Limit-len(out), until)
		if err != nil {
			return nil, nil, err
		}
		out, notes = append(out, questions...), append(notes, more...)
	}
	for i := range out {
		out[i].Number = i + 1
	}
	return out, notes, nil
}

// labelled returns the questions that came with the choice, without those whose documents do not
// exist.
func (c *Chooser) labelled(ctx context.Context, t Task) (out []Gathered, notes []string, err error) {
	var named []string
	for _, q := range t.Labelled {
		named = append(named, q.Documents...)
	}
	existing, err := c.Store.DocumentsNamed(ctx, t.Principal, t.CollectionID, named)
	if err != nil {
		return nil, nil, err
	}
	missing, example := 0, ""
	for _, q := range t.Labelled {
		if len(out) == t.Limit {
			break
		}
		g := Gathered{ChoiceQuestion: schema.ChoiceQuestion{Source: schema.QuestionLabelled, LabelledQuestion: q}}
		g.Documents = nil
		for _, d := range q.Documents {
			if id, ok := existing[d]; ok {
				g.Documents, g.DocumentIDs = append(g.Documents, d), append(g.DocumentIDs, id)
			}
		}
		if len(q.Documents) > 0 && len(g.Documents) == 0 {
			missing++
			example = q.Documents[0]
			continue
		}
		out = append(out, g)
	}
	if missing > 0 {
		notes = append(notes, fmt.Sprintf("%d labelled questions are left out: their documents, such as %q, are not in the collection", missing, example))
	}
	return out, notes, nil
}

// answersPlan finds passages that may have an answer, by words and by meaning.
const answersPlan = `name: answers
description: passages in which the answers of imported questions are looked for
stages:
  - hybrid:
      unit: passage
      k: 100
      of:
        - lexical: {unit: passage, weight: 1}
        - dense: {unit: passage, weight: 1}
`

// imported returns questions that were imported into the collection to teach what the language
// model knows, without those that came with the choice. The collection may not answer them, so a
// question is left out if no passage of a long search has its answer: all plans would miss it, and
// look more alike than they are.
func (c *Chooser) imported(ctx context.Context, t Task, have []Gathered, until time.Time) (out []Gathered, notes []string, err error) {
	drawn, err := c.Store.ImportedQuestions(ctx, t.Principal, t.CollectionID, t.ID, schema.MaxChoiceQuestions)
	if err != nil {
		return nil, nil, err
	}
	asked := map[string]bool{}
	for _, g := range have {
		asked[g.Question] = true
	}
	unanswered := 0
	for _, q := range drawn {
		if len(have)+len(out) == t.Limit || time.Now().After(until) {
			break
		}
		if asked[q.Question] {
			continue
		}
		asked[q.Question] = true
		found, err := c.Searcher.Search(ctx, wire.SearchQuery{Principal: t.Principal, Query: schema.Query{Collection: t.CollectionID, Text: q.Question, PlanText: answersPlan}})
		if err != nil {
			return nil, nil, fmt.Errorf("look for the answer of an imported question: %w", err)
		}
		answers := evaluate.NewAnswers(q.Answers)
		if !slices.ContainsFunc(found.Candidates, func(x schema.Candidate) bool { return answers.In(x.Text) }) {
			unanswered++
			continue
		}
		out = append(out, Gathered{ChoiceQuestion: schema.ChoiceQuestion{Source: schema.QuestionLabelled, LabelledQuestion: q}})
	}
	if unanswered > 0 {
		notes = append(notes, fmt.Sprintf("%d imported questions are left out: no passage that was found for them has their answer", unanswered))
	}
	return out, notes, nil
}

// rated returns questions whose answers more keys rate up than down. The cited documents are taken
// as right, and the short answer with the highest confidence as an answer.
func (c *Chooser) rated(ctx context.Context, t Task, limit int) ([]Gathered, error) {
	votes := map[uuid.UUID]int{}
	var order []schema.RatedAnswer
	q := schema.RatingQuery{Collection: t.CollectionID, PageQuery: schema.PageQuery{Limit: 500}}
	for seen := 0; seen < maxRatings; {
		page, next, err := c.Store.Ratings(ctx, t.Principal, q)
		if err != nil {
			return nil, fmt.Errorf("read ratings: %w", err)
		}
		for _, r := range page {
			if _, before := votes[r.Question]; !before {
				order = append(order, r)
			}
			if r.Rating.Rating == schema.ThumbsUp {
				votes[r.Question]++
			} else {
				votes[r.Question]--
			}
		}
		if seen, q.Cursor = seen+len(page), next; next == "" {
			break
		}
	}
	var out []Gathered
	texts := map[string]bool{}
	for _, r := range order {
		if len(out) == limit {
			break
		}
		if votes[r.Question] <= 0 || r.Withheld || !r.Supported || len(r.Choices) > 0 || texts[r.Answered()] {
			continue
		}
		g := Gathered{ChoiceQuestion: schema.ChoiceQuestion{Source: schema.QuestionRated, LabelledQuestion: schema.LabelledQuestion{Question: r.Answered()}}}
		best := 0.0
		for _, cited := range r.Citations {
			if !slices.Contains(g.Documents, cited.Document) {
				g.Documents, g.DocumentIDs = append(g.Documents, cited.Document), append(g.DocumentIDs, cited.DocumentID)
			}
			if cited.Answer.Text != "" && cited.Answer.Confidence > best {
				best, g.Answers, g.Evidence = cited.Answer.Confidence, []string{cited.Answer.Text}, cited.Quote
			}
		}
		existing, err := c.Store.DocumentsNamed(ctx, t.Principal, t.CollectionID, g.Documents)
		if err != nil {
			return nil, err
		}
		if len(g.Documents) == 0 || len(existing) < len(g.Documents) || strings.TrimSpace(r.Answered()) == "" {
			continue // deleted, or not visible to this key
		}
		texts[r.Answered()] = true
		out = append(out, g)
	}
	return out, nil
}
