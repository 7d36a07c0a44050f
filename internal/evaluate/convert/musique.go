package convert

// MuSiQue (Trivedi et al. 2022): one multi-step question per line, with its paragraphs. The full
// set has every question twice: with paragraphs that answer it, and without one of these. Other
// questions may bring the missing paragraph, so unanswerable questions are restricted to their own
// paragraphs.

import "fmt"

type musiqueQuestion struct {
	ID         string             `json:"id"`
	Question   string             `json:"question"`
	Answer     string             `json:"answer"`
	Aliases    []string           `json:"answer_aliases"`
	Answerable *bool              `json:"answerable"`
	Paragraphs []musiqueParagraph `json:"paragraphs"`
	Steps      []musiqueStep      `json:"question_decomposition"`
}

type musiqueParagraph struct {
	Title      string `json:"title"`
	Text       string `json:"paragraph_text"`
	Supporting bool   `json:"is_supporting"`
}

type musiqueStep struct {
	Question string `json:"question"`
	Answer   string `json:"answer"`
}

// unanswerableMark distinguishes an unanswerable question's id from that of its answerable twin.
const unanswerableMark = "-unanswerable"

func musique(s *set, at position, r *musiqueQuestion) error {
	q := &query{id: r.ID, text: r.Question, place: at.String(), answers: append([]string{r.Answer}, r.Aliases...), more: map[string]any{}}
	if r.ID == "" {
		return missing("id")
	}
	if q.unanswerable = r.Answerable != nil && !*r.Answerable; q.unanswerable {
		q.id, q.answers, q.own = r.ID+unanswerableMark, nil, true
	}
	for i, p := range r.Paragraphs {
		if blank(p.Text) {
			return fmt.Errorf("paragraphs[%d]: %w", i, missing("paragraph_text"))
		}
		id, err := s.byContent(p.Title, p.Text)
		if err != nil {
			return err
		}
		q.addDocument(id)
		if p.Supporting && !q.unanswerable {
			q.judge(s.split(), id, 1)
			s.prove(q, id, p.Text, p.Text)
		}
	}
	if len(r.Steps) > 0 {
		q.more["hops"] = len(r.Steps)
		steps := make([]map[string]string, len(r.Steps))
		for i, step := range r.Steps {
			steps[i] = map[string]string{"question": step.Question, "answer": step.Answer}
		}
		q.more["decomposition"] = steps
	}
	return s.ask(q)
}
