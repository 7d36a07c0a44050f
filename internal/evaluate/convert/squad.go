package convert

// SQuAD 1.1 and 2.0 (Rajpurkar et al. 2016, 2018): articles of paragraphs, each with its questions.
// A paragraph is a document, and the evidence of its questions, because the annotators saw only the
// paragraph.

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"unicode/utf8"
)

type squadArticle struct {
	Title      string           `json:"title"`
	Paragraphs []squadParagraph `json:"paragraphs"`
}

type squadParagraph struct {
	Context   string          `json:"context"`
	Questions []squadQuestion `json:"qas"`
}

type squadQuestion struct {
	ID         string        `json:"id"`
	Question   string        `json:"question"`
	Answers    []squadAnswer `json:"answers"`
	Plausible  []squadAnswer `json:"plausible_answers"`
	Impossible bool          `json:"is_impossible"`
}

type squadAnswer struct {
	Text string `json:"text"`
}

// readSQuAD reads an object whose "data" is a list of articles, as published, or the list itself.
func readSQuAD(s *set, in *input) error {
	begin, err := in.Peek(peekBytes)
	if err != nil && len(begin) == 0 {
		return named(in.name, err)
	}
	v := valuesOf(in)
	articles := func() error {
		return each(v, "article", func(n int, a *squadArticle) error { return squad(s, n, a) })
	}
	if strings.HasPrefix(strings.TrimSpace(string(begin)), "[") {
		err = articles()
	} else {
		err = fields(v, func(field string) error {
			if field == "data" {
				return articles()
			}
			var other json.RawMessage
			return v.next(&other)
		})
	}
	if err == nil {
		err = v.after()
	}
	return named(in.name, err)
}

// fields calls one with every key of the next object. one reads the value.
func fields(v *values, one func(key string) error) error {
	if err := v.opens('{'); err != nil {
		return err
	}
	for v.More() {
		v.left.left = maxRecord
		token, err := v.Token()
		if err != nil {
			return v.decodingError(err)
		}
		key, _ := token.(string)
		if err := one(key); err != nil {
			return err
		}
	}
	return v.ends()
}

func squad(s *set, article int, a *squadArticle) error {
	title := plainTitle(a.Title)
	for i, p := range a.Paragraphs {
		if blank(p.Context) {
			return fmt.Errorf("paragraphs[%d]: %w", i, missing("context"))
		}
		id, err := s.byContent(title, p.Context)
		if err != nil {
			return err
		}
		for j, raw := range p.Questions {
			q := &query{id: raw.ID, text: raw.Question, unanswerable: raw.Impossible,
				place: fmt.Sprintf("article %d, paragraphs[%d].qas[%d]", article, i, j)}
			q.addDocument(id)
			for _, answer := range raw.Answers {
				q.answers = append(q.answers, answer.Text)
			}
			if len(unique(q.answers)) == 0 && !raw.Impossible {
				s.drop(noAnswers)
				continue
			}
			if raw.Impossible {
				q.answers = nil
				if plausible := textsOf(raw.Plausible); len(plausible) > 0 {
					q.more = map[string]any{"plausible_answers": plausible}
				}
			} else {
				q.judge(s.split(), id, 1)
				s.prove(q, id, p.Context, p.Context)
			}
			if err := s.ask(q); err != nil {
				return fmt.Errorf("paragraphs[%d].qas[%d]: %w", i, j, err)
			}
		}
	}
	return nil
}

func textsOf(answers []squadAnswer) []string {
	var out []string
	for _, a := range answers {
		out = append(out, a.Text)
	}
	return unique(out)
}

// plainTitle returns a readable title: "Beyoncé Knowles" for "Beyonc%C3%A9_Knowles".
func plainTitle(title string) string {
	if plain, err := url.PathUnescape(title); err == nil && utf8.ValidString(plain) {
		title = plain
	}
	return strings.TrimSpace(strings.ReplaceAll(title, "_", " "))
}
