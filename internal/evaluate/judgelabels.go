package evaluate

// This file reads people's labels of answers, which the judge is compared with.

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/sluice-rag/sluice/schema"
)

// HumanLabels are people's labels of whether answers are right. The zero value has none.
type HumanLabels struct{ byQuery map[string][]humanLabel }

// humanLabel is a line of the file. Dataset, plan and answer are optional: a label without them is
// for the question's answers in every dataset, under every plan, or with any text.
type humanLabel struct {
	Query   string `json:"query"`
	Correct *bool  `json:"correct"`
	Dataset string `json:"dataset"`
	Plan    string `json:"plan"`
	Answer  string `json:"answer"`
}

// maxLabels bounds a file of labels, in bytes.
const maxLabels = 64 << 20

// ReadHumanLabels reads a file of labels: JSON Lines with query, a question's id, and correct, true
// or false. The members dataset, plan and answer restrict a label.
func ReadHumanLabels(path string) (HumanLabels, error) {
	f, err := os.Open(path)
	if err != nil {
		return HumanLabels{}, fmt.Errorf("read the labels: %w", err)
	}
	defer f.Close() //nolint:errcheck // it is only read
	out := HumanLabels{byQuery: map[string][]humanLabel{}}
	in, read := bufio.NewReaderSize(f, 64<<10), 0
	for n := 1; ; n++ {
		line, err := in.ReadBytes('\n')
		if read += len(line); read > maxLabels {
			return out, schema.Invalid(path, "has over %d MB: split it", maxLabels>>20)
		}
		if n == 1 {
			line = bytes.TrimPrefix(line, []byte("\xef\xbb\xbf"))
		}
		if line = bytes.TrimSpace(line); len(line) > 0 {
			if err := out.add(line); err != nil {
				return out, fmt.Errorf("%s, line %d: %w", path, n, err)
			}
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return out, fmt.Errorf("read the labels: %w", err)
		}
	}
	if len(out.byQuery) == 0 {
		return out, schema.Invalid(path, `has no label; a line is {"query": "q1", "correct": true}`)
	}
	return out, nil
}

func (h HumanLabels) add(line []byte) error {
	if !utf8.Valid(line) {
		return schema.Invalid("line", "is not valid UTF-8")
	}
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	var l humanLabel
	if err := d.Decode(&l); err != nil {
		return schema.Invalid("line", `is no label such as {"query": "q1", "correct": true}, which may have dataset, plan and answer, too: %v`, err)
	}
	switch _, err := d.Token(); {
	case !errors.Is(err, io.EOF):
		return schema.Invalid("line", "has more than one object")
	case l.Query == "":
		return schema.Invalid("query", "is missing: the id of the question")
	case l.Correct == nil:
		return schema.Invalid("correct", "is missing: true or false")
	}
	l.Answer = spaced(l.Answer)
	for _, o := range h.byQuery[l.Query] {
		if o.Dataset == l.Dataset && o.Plan == l.Plan && o.Answer == l.Answer && *o.Correct != *l.Correct {
			return schema.Invalid("correct", "another line says the opposite of the same answer to %q: say which plan or answer each is of", l.Query)
		}
	}
	h.byQuery[l.Query] = append(h.byQuery[l.Query], l)
	return nil
}

// spaced returns a text with single spaces.
func spaced(s string) string { return strings.Join(strings.Fields(s), " ") }

// For returns the labels for a dataset's answers.
func (h HumanLabels) For(dataset string) HumanLabels {
	out := HumanLabels{byQuery: map[string][]humanLabel{}}
	for query, labels := range h.byQuery {
		for _, l := range labels {
			if l.Dataset == "" || l.Dataset == dataset {
				out.byQuery[query] = append(out.byQuery[query], l)
			}
		}
	}
	return out
}

// of returns the most specific label that matches an answer.
func (h HumanLabels) of(plan, query, answer string) (correct, known bool) {
	closest := -1
	for _, l := range h.byQuery[query] {
		exact, valid := 0, true
		if l.Dataset != "" {
			exact++
		}
		for _, field := range [][2]string{{l.Plan, plan}, {l.Answer, spaced(answer)}} {
			if field[0] != "" {
				exact, valid = exact+1, valid && field[0] == field[1]
			}
		}
		if valid && exact > closest {
			closest, correct, known = exact, *l.Correct, true
		}
	}
	return correct, known
}

// Label reports whether there are labels for any of the dataset's questions.
func (h HumanLabels) Label(d *Dataset) bool {
	own := h.For(d.Name)
	return slices.ContainsFunc(d.Draw(0, 0, true), func(q Topic) bool { return len(own.byQuery[q.ID]) > 0 })
}
