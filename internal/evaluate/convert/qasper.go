package convert

// QASPER (Dasigi et al. 2021): papers with questions about each, which several people answered. A
// paper is a document, and its questions are restricted to it.

import (
	"fmt"
	"strings"

	"github.com/sluice-rag/sluice/internal/evaluate/beir"
)

type qasperPaper struct {
	Title    string `json:"title"`
	Abstract string `json:"abstract"`
	Sections []struct {
		Name       string   `json:"section_name"`
		Paragraphs []string `json:"paragraphs"`
	} `json:"full_text"`
	Figures []struct {
		Caption string `json:"caption"`
	} `json:"figures_and_tables"`
	Questions []qasperQuestion `json:"qas"`
}

type qasperQuestion struct {
	ID       string `json:"question_id"`
	Question string `json:"question"`
	Answers  []struct {
		Answer qasperAnswer `json:"answer"`
	} `json:"answers"`
}

type qasperAnswer struct {
	Unanswerable bool     `json:"unanswerable"`
	Spans        []string `json:"extractive_spans"`
	YesNo        *bool    `json:"yes_no"`
	FreeForm     string   `json:"free_form_answer"`
	Evidence     []string `json:"evidence"`
}

// floatMark is the prefix of evidence that is the caption of a figure or table.
const floatMark = "FLOAT SELECTED:"

// paperKey is the metadata key of a paper's id.
const paperKey = "paper"

// readQASPER reads an object of papers by id.
func readQASPER(s *set, in *input) error {
	v := valuesOf(in)
	n := 0
	err := fields(v, func(id string) error {
		n++
		var p qasperPaper
		err := v.next(&p)
		if err == nil {
			err = qasper(s, id, n, &p)
		}
		if err != nil {
			return fmt.Errorf("paper %.40q: %w", id, err)
		}
		return nil
	})
	if err == nil {
		err = v.after()
	}
	return named(in.name, err)
}

// text returns the text of the paper with headings, and the captions at the end.
func (p *qasperPaper) text() string {
	parts := []string{p.Abstract}
	for _, section := range p.Sections {
		parts = append(parts, section.Name)
		parts = append(parts, section.Paragraphs...)
	}
	for _, f := range p.Figures {
		parts = append(parts, f.Caption)
	}
	kept := parts[:0]
	for _, part := range parts {
		if part = strings.TrimSpace(part); part != "" {
			kept = append(kept, part)
		}
	}
	return strings.Join(kept, "\n\n")
}

func qasper(s *set, id string, n int, p *qasperPaper) error {
	text := p.text()
	if text == "" {
		return missing("full_text")
	}
	if err := s.withID(beir.CorpusLine{ID: id, Title: strings.TrimSpace(p.Title), Text: text, Metadata: map[string]any{paperKey: id}}, n, "paper"); err != nil {
		return err
	}
	for i, raw := range p.Questions {
		q := &query{id: raw.ID, text: raw.Question, place: fmt.Sprintf("paper %q, qas[%d]", id, i), scope: map[string]any{paperKey: id}}
		q.addDocument(id)
		forms, silent := []string{}, 0
		for _, a := range raw.Answers {
			if a.Answer.Unanswerable {
				silent++
				continue
			}
			form, answer := a.Answer.answer()
			if answer == "" {
				continue
			}
			forms, q.answers = append(forms, form), append(q.answers, answer)
			for _, piece := range a.Answer.Evidence {
				s.prove(q, id, text, strings.TrimPrefix(piece, floatMark))
			}
		}
		switch {
		case len(forms) > 0:
			q.judge(s.split(), id, 1)
			q.more = map[string]any{"answer_forms": unique(forms)}
			if silent > 0 {
				s.drop("annotators who found no answer where another one did")
			}
		case silent > 0:
			q.unanswerable = true
		}
		if err := s.ask(q); err != nil {
			return fmt.Errorf("qas[%d]: %w", i, err)
		}
	}
	return nil
}

// answer returns an annotator's answer, and its form.
func (a qasperAnswer) answer() (form, answer string) {
	switch {
	case len(unique(a.Spans)) > 0:
		return "extractive", strings.Join(unique(a.Spans), ", ")
	case !blank(a.FreeForm):
		return "free form", a.FreeForm
	case a.YesNo != nil && *a.YesNo:
		return "yes or no", "Yes"
	case a.YesNo != nil:
		return "yes or no", "No"
	}
	return "", ""
}
