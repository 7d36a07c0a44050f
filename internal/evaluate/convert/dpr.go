package convert

// What DPR (Karpukhin et al. 2020) publishes of Natural Questions, TriviaQA and others: questions
// with answers, questions with passages that do and do not answer them, and all of Wikipedia as
// passages of 100 words.

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/sluice-rag/sluice/internal/evaluate/beir"
)

// readAnswers reads rows of a question and a list of its answers.
func readAnswers(s *set, in *input) error {
	t := &tableReader{lines: lineReader{in: in.Reader}}
	for {
		cells, err := t.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = answersRow(s, t.line, cells)
		}
		if err != nil {
			return fmt.Errorf("%s: line %d: %w", in.name, t.line, err)
		}
	}
}

func answersRow(s *set, line int, cells []string) error {
	if len(cells) != 2 {
		return fmt.Errorf("has %d columns; two are expected, with a tab between: question, answers", len(cells))
	}
	answers, err := stringList(cells[1])
	if err != nil {
		return fmt.Errorf("answers: %w", err)
	}
	return s.addByText(&query{text: cells[0], answers: answers, place: position{"line", line}.String()})
}

type dprQuestion struct {
	Question  string       `json:"question"`
	Answers   []string     `json:"answers"`
	Positive  []dprPassage `json:"positive_ctxs"`
	Negative  []dprPassage `json:"negative_ctxs"`
	HardOther []dprPassage `json:"hard_negative_ctxs"`
}

type dprPassage struct {
	Title     string `json:"title"`
	Text      string `json:"text"`
	PassageID *dprID `json:"passage_id"`
	PsgID     *dprID `json:"psg_id"`
}

// dprID is a number, or a number as a string.
type dprID string

// UnmarshalJSON implements json.Unmarshaler.
func (d *dprID) UnmarshalJSON(data []byte) error {
	var text string
	if json.Unmarshal(data, &text) != nil {
		var n json.Number
		if json.Unmarshal(data, &n) != nil {
			return fmt.Errorf("passage_id: a number or text is expected; found %.60s", data)
		}
		text = n.String()
	}
	*d = dprID(strings.TrimSpace(text))
	return nil
}

func (p dprPassage) id() string {
	for _, id := range []*dprID{p.PassageID, p.PsgID} {
		if id != nil {
			return string(*id)
		}
	}
	return ""
}

// retrieved reads one record of the retriever's files.
func retrieved(s *set, at position, r *dprQuestion) error {
	q := &query{text: r.Question, answers: r.Answers, place: at.String()}
	for i, group := range [][]dprPassage{r.Positive, r.Negative, r.HardOther} {
		for _, p := range group {
			id, err := s.addPassage(p.id(), p.Title, p.Text, at.n)
			if err != nil {
				return err
			}
			q.addDocument(id)
			if i == 0 {
				q.judge(s.split(), id, 1)
			}
		}
	}
	return s.addByText(q)
}

// readPassages reads psgs_w100.tsv: id, text, title.
func readPassages(s *set, in *input) error {
	return rows(in, true, []string{"id", "text", "title"}, func(line int, cell func(string) string) error {
		if blank(cell("text")) {
			return missing("text")
		}
		return s.withID(beir.CorpusLine{ID: cell("id"), Title: cell("title"), Text: cell("text")}, line, "line")
	})
}
