package evaluate

// This file writes what became of each question under each plan, for whoever
// wants to look closer than at means.

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
)

// questionFigures are one question's under one plan.
type questionFigures struct {
	Dataset  string             `json:"dataset"`
	Query    string             `json:"query"`
	Question string             `json:"question"`
	Plan     string             `json:"plan"`
	Metrics  map[string]float64 `json:"metrics"`
	Millis   float64            `json:"ms"`
	Answer   *questionAnswer    `json:"answer,omitempty"`
}

type questionAnswer struct {
	Text   string  `json:"text"`  // empty: none was given
	Short  string  `json:"short"` // what exact match and F1 compare
	Failed bool    `json:"failed,omitempty"`
	Millis float64 `json:"ms"`
	// Of an answer that has a confidence.
	Confidence float64            `json:"confidence,omitempty"`
	Right      *bool              `json:"right,omitempty"`
	Features   map[string]float64 `json:"features,omitempty"`
}

// WriteQuestions writes one JSON object a line for each question and plan, the
// questions in the order of the dataset. A measure that has no value is absent.
func (r *Results) WriteQuestions(w io.Writer) error {
	e := json.NewEncoder(w)
	for q := range r.queries {
		for _, p := range r.plans {
			out := questionFigures{Dataset: r.dataset.Name, Query: r.queries[q].ID, Question: r.queries[q].Text, Plan: p.name, Metrics: map[string]float64{}, Millis: p.millis[q]}
			for m, name := range r.names {
				if v := p.values[m][q]; !math.IsNaN(v) {
					out.Metrics[name] = v
				}
			}
			if len(p.answers) > 0 {
				a := p.answers[q]
				out.Answer = &questionAnswer{Text: a.text, Short: a.shortText, Failed: a.failed, Millis: p.answering[q]}
				if a.rated {
					out.Answer.Confidence, out.Answer.Right, out.Answer.Features = a.confidence, &a.right, a.features
				}
			}
			if err := e.Encode(out); err != nil {
				return fmt.Errorf("write the figures of question %s: %w", out.Query, err)
			}
		}
	}
	return nil
}
