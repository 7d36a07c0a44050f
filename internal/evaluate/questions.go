package evaluate

// This file writes the results of each question under each plan, for closer inspection and for
// later runs that reuse them.

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math"
)

// QuestionCache stores results of questions under plans. Calls may be concurrent.
type QuestionCache interface {
	// Find returns the result of a question under a plan, if it is stored.
	Find(plan string, q Topic) (QuestionFigures, bool)
	// Keep stores a result.
	Keep(plan string, q Topic, f QuestionFigures) error
}

// QuestionFigures has the results of one question under one plan.
type QuestionFigures struct {
	Dataset  string             `json:"dataset"`
	Query    string             `json:"query"`
	Question string             `json:"question"`
	Plan     string             `json:"plan"`
	Metrics  map[string]float64 `json:"metrics"` // a measure without a value is absent
	Millis   float64            `json:"ms"`
	First    int                `json:"first,omitempty"` // rank of the first relevant document; 0: none found, -1: none known
	Stages   []StageMillis      `json:"stages,omitempty"`
	Answer   *QuestionAnswer    `json:"answer,omitempty"`
}

// StageMillis is the duration of a stage.
type StageMillis struct {
	Stage  string  `json:"stage"`
	Millis float64 `json:"ms"`
}

// QuestionAnswer is the answer to a question.
type QuestionAnswer struct {
	Text    string  `json:"text"`  // empty: there is none
	Short   string  `json:"short"` // what exact match and F1 compare
	Failed  bool    `json:"failed,omitempty"`
	Nominal bool    `json:"nominal,omitempty"` // its cost is at nominal prices
	Millis  float64 `json:"ms"`
	// Judgement is the outcome of judging it.
	Judgement *QuestionJudgement `json:"judgement,omitempty"`
	// These are set if the answer has a confidence.
	Confidence float64            `json:"confidence,omitempty"`
	Right      *bool              `json:"right,omitempty"`
	Features   map[string]float64 `json:"features,omitempty"`
}

// WriteQuestions writes one JSON object a line for each question and plan, with the questions in
// the order of the dataset.
func (r *Results) WriteQuestions(w io.Writer) error {
	e := json.NewEncoder(w)
	for q := range r.queries {
		for _, p := range r.plans {
			out := r.figures(p, q)
			if err := e.Encode(out); err != nil {
				return fmt.Errorf("write the figures of question %s: %w", out.Query, err)
			}
		}
	}
	return nil
}

// figures returns the results of a question under a plan.
func (r *Results) figures(p *planResults, q int) QuestionFigures {
	out := QuestionFigures{Dataset: r.dataset.Name, Query: r.queries[q].ID, Question: r.queries[q].Text, Plan: p.name, Metrics: map[string]float64{},
		Millis: p.millis[q], First: p.first[q]}
	for m, name := range r.names {
		if v := p.values[m][q]; !math.IsNaN(v) {
			out.Metrics[name] = v
		}
	}
	for _, s := range p.stages[q] {
		out.Stages = append(out.Stages, StageMillis{s.name, s.millis})
	}
	if len(p.answers) > 0 {
		a := p.answers[q]
		out.Answer = &QuestionAnswer{Text: a.text, Short: a.shortText, Failed: a.failed, Nominal: a.nominal, Millis: p.answering[q], Judgement: a.judgement}
		if a.rated {
			out.Answer.Confidence, out.Answer.Right, out.Answer.Features = a.confidence, &a.right, a.features
		}
	}
	return out
}

// restore sets the results of a question from a stored one.
func (r *Results) restore(p *planResults, q int, f QuestionFigures) {
	for m, name := range r.names {
		p.values[m][q] = math.NaN()
		if v, ok := f.Metrics[name]; ok {
			p.values[m][q] = v
		}
	}
	p.millis[q], p.first[q], p.stages[q] = f.Millis, f.First, nil
	for _, s := range f.Stages {
		p.stages[q] = append(p.stages[q], stageTime{s.Stage, s.Millis})
	}
	if len(p.answers) == 0 {
		return
	}
	a := &answerObservation{}
	if was := f.Answer; was != nil {
		a.text, a.shortText, a.failed, a.nominal, a.confidence, a.features = was.Text, was.Short, was.Failed, was.Nominal, was.Confidence, was.Features
		a.judgement = was.Judgement
		if a.rated = was.Right != nil; a.rated {
			a.right = *was.Right
		}
		p.answering[q] = was.Millis
	}
	p.answers[q] = a
}

// Hash returns a hash of everything known about the question. Stored results are valid as long as
// it is the same.
func (t Topic) Hash() string {
	text, err := json.Marshal(t)
	if err != nil {
		panic(err) // strings, numbers, maps and lists of them can be encoded
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}
