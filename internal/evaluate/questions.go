package evaluate

// This file is what became of each question under each plan: for whoever wants to
// look closer than at means, and for a later run that goes on with it.

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math"
)

// QuestionCache keeps what questions gave under plans. Calls may overlap.
type QuestionCache interface {
	// Find returns what a question gave under a plan, if that is known.
	Find(plan string, q Topic) (QuestionFigures, bool)
	// Keep is told what it gave.
	Keep(plan string, q Topic, f QuestionFigures) error
}

// QuestionFigures are one question's under one plan.
type QuestionFigures struct {
	Dataset  string             `json:"dataset"`
	Query    string             `json:"query"`
	Question string             `json:"question"`
	Plan     string             `json:"plan"`
	Metrics  map[string]float64 `json:"metrics"` // a measure without a value is absent
	Millis   float64            `json:"ms"`
	First    int                `json:"first,omitempty"` // rank of the first relevant document; 0: none was found, -1: none is known
	Stages   []StageMillis      `json:"stages,omitempty"`
	Answer   *QuestionAnswer    `json:"answer,omitempty"`
}

// StageMillis is how long a stage took.
type StageMillis struct {
	Stage  string  `json:"stage"`
	Millis float64 `json:"ms"`
}

// QuestionAnswer is the answer to a question.
type QuestionAnswer struct {
	Text    string  `json:"text"`  // empty: none was given
	Short   string  `json:"short"` // what exact match and F1 compare
	Failed  bool    `json:"failed,omitempty"`
	Nominal bool    `json:"nominal,omitempty"` // its cost is at nominal prices
	Millis  float64 `json:"ms"`
	// Judgement is what became of having it judged.
	Judgement *QuestionJudgement `json:"judgement,omitempty"`
	// Of an answer that has a confidence.
	Confidence float64            `json:"confidence,omitempty"`
	Right      *bool              `json:"right,omitempty"`
	Features   map[string]float64 `json:"features,omitempty"`
}

// WriteQuestions writes one JSON object a line for each question and plan, the
// questions in the order of the dataset.
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

// figures are what a question gave under a plan.
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

// restore takes what a question gave before.
func (r *Results) restore(p *planResults, q int, f QuestionFigures) {
	for m, name := range r.names {
		p.values[m][q] = math.NaN()
		if v, there := f.Metrics[name]; there {
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

// Hash is of everything that is known of the question: a figure of it is good as long
// as this is the same.
func (t Topic) Hash() string {
	text, err := json.Marshal(t)
	if err != nil {
		panic(err) // strings, numbers, maps and lists of them
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}
