package convert

// NQ-open (Lee et al. 2019) and PopQA (Mallen et al. 2023): questions with answers, without
// documents.

import (
	"fmt"
	"strconv"
)

type openQuestionLine struct {
	Question string   `json:"question"`
	Answers  []string `json:"answer"`
}

func openQuestion(s *set, at position, r *openQuestionLine) error {
	return s.addByText(&query{text: r.Question, answers: r.Answers, place: at.String()})
}

func readPopQA(s *set, in *input) error {
	return rows(in, true, []string{"id", "question", "possible_answers"}, func(line int, cell func(string) string) error {
		answers, err := stringList(cell("possible_answers"))
		if err != nil {
			return fmt.Errorf("possible_answers: %w", err)
		}
		q := &query{id: cell("id"), text: cell("question"), answers: answers, place: position{"line", line}.String(), more: map[string]any{}}
		keep(q.more, "subject", cell("subj"))
		keep(q.more, "property", cell("prop"))
		keep(q.more, "object", cell("obj"))
		// The monthly views of the subject's page: rarer subjects are harder.
		if popularity := cell("s_pop"); popularity != "" {
			n, err := strconv.ParseInt(popularity, 10, 64)
			if err != nil {
				return fmt.Errorf("s_pop: %.40q is not a whole number", popularity)
			}
			q.more["popularity"] = n
		}
		return s.ask(q)
	})
}
