package main

// This file reads questions with known answers: JSON Lines, or CSV.

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/sluice-rag/sluice/schema"
)

const (
	maxQuestionsFile = 256 << 20
	maxQuestionsLine = 1 << 20
)

// readLabelledQuestions reads a file of questions with answers. Answers of a repeated question are
// merged. The format follows from the name: .csv, or else JSON Lines with {"question": ...,
// "answer": [...]} (answer or answers, a string or a list), or BEIR's {"text": ..., "metadata":
// {"answers": [...]}}. A CSV file has a header with the columns question and answer (or answers),
// whose cells are an answer or a JSON list.
func readLabelledQuestions(path string) ([]schema.LabelledQuestion, error) {
	return readQuestions(path, schema.LabelledQuestion.Check)
}

// readKnownQuestions reads questions for which it is known what answers them. The format is that of
// readLabelledQuestions, with "documents" (external ids) and "answer_contains", either of which may
// replace the answers. A CSV file may have a column documents, whose cells are an id or a JSON
// list.
func readKnownQuestions(path string) ([]schema.LabelledQuestion, error) {
	return readQuestions(path, schema.LabelledQuestion.CheckKnown)
}

func readQuestions(path string, check func(schema.LabelledQuestion) error) ([]schema.LabelledQuestion, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read the questions: %w", err)
	}
	defer f.Close() //nolint:errcheck // it is only read
	if info, err := f.Stat(); err != nil {
		return nil, fmt.Errorf("read the questions: %w", err)
	} else if info.IsDir() {
		return nil, schema.Invalid(path, "is a folder: name a file of questions with answers, of a BEIR folder its queries.jsonl")
	} else if info.Size() > maxQuestionsFile {
		return nil, schema.Invalid(path, "has %d MB, more than %d: split it", info.Size()>>20, maxQuestionsFile>>20)
	}
	c := collector{path: path, check: check, at: map[string]int{}}
	in := bufio.NewReaderSize(f, 64<<10)
	if start, err := in.Peek(3); err == nil && bytes.Equal(start, []byte("\xef\xbb\xbf")) {
		_, _ = in.Discard(3)
	}
	if strings.EqualFold(filepath.Ext(path), ".csv") {
		err = c.csv(in)
	} else {
		err = c.lines(in)
	}
	if err == nil && len(c.all) == 0 {
		err = schema.Invalid(path, "has no question")
	}
	return c.all, err
}

// collector collects questions and merges repeated ones.
type collector struct {
	path  string
	check func(schema.LabelledQuestion) error
	all   []schema.LabelledQuestion
	at    map[string]int
}

func (c *collector) add(line int, q schema.LabelledQuestion) error {
	q.Question = strings.TrimSpace(q.Question)
	if err := c.check(q); err != nil {
		return c.lineError(line, err)
	}
	at, known := c.at[q.Question]
	if !known {
		c.at[q.Question] = len(c.all)
		c.all = append(c.all, q)
		return nil
	}
	have := &c.all[at]
	have.Answers, have.Documents, have.Contains = mergeValues(have.Answers, q.Answers), mergeValues(have.Documents, q.Documents), mergeValues(have.Contains, q.Contains)
	if err := c.check(*have); err != nil {
		return c.lineError(line, err)
	}
	return nil
}

// mergeValues appends the values of more that are not in list.
func mergeValues(list, more []string) []string {
	for _, v := range more {
		if !slices.Contains(list, v) {
			list = append(list, v)
		}
	}
	return list
}

func (c *collector) lineError(line int, err error) error {
	return fmt.Errorf("%s:%d: %w", c.path, line, err)
}

// answerList is a string or a list of strings in JSON.
type answerList []string

func (a *answerList) UnmarshalJSON(data []byte) error {
	var one string
	if json.Unmarshal(data, &one) == nil {
		*a = answerList{one}
		return nil
	}
	var all []string
	if err := json.Unmarshal(data, &all); err != nil {
		return errors.New("answer: is neither a string nor a list of strings")
	}
	*a = all
	return nil
}

func (c *collector) lines(in io.Reader) error {
	s := bufio.NewScanner(in)
	s.Buffer(make([]byte, 0, 64<<10), maxQuestionsLine)
	for line := 1; s.Scan(); line++ {
		data := bytes.TrimSpace(s.Bytes())
		if len(data) == 0 {
			continue
		}
		if !utf8.Valid(data) {
			return c.lineError(line, errors.New("is not UTF-8: save the file in that encoding"))
		}
		var q struct {
			Question string     `json:"question"`
			Text     string     `json:"text"`
			Answer   answerList `json:"answer"`
			Answers  answerList `json:"answers"`

			Documents answerList `json:"documents"`
			Contains  answerList `json:"answer_contains"`

			Metadata struct {
				Answers answerList `json:"answers"`
			} `json:"metadata"`
		}
		if err := json.Unmarshal(data, &q); err != nil {
			return c.lineError(line, fmt.Errorf("is not a JSON object of a question and its answers, such as {\"question\": \"...\", \"answer\": [\"...\"]}: %w", err))
		}
		if q.Question == "" {
			q.Question = q.Text
		}
		if err := c.add(line, schema.LabelledQuestion{Question: q.Question, Answers: slices.Concat(q.Answer, q.Answers, q.Metadata.Answers),
			Documents: q.Documents, Contains: q.Contains}); err != nil {
			return err
		}
	}
	if errors.Is(s.Err(), bufio.ErrTooLong) {
		return schema.Invalid(c.path, "has a line of more than %d KB: a question is one line of JSON", maxQuestionsLine>>10)
	}
	return s.Err()
}

func (c *collector) csv(in io.Reader) error {
	r := csv.NewReader(in)
	header, err := r.Read()
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s: %w", c.path, err)
	}
	question, answer, documents := -1, -1, -1
	for i, name := range header {
		switch strings.ToLower(strings.TrimSpace(name)) {
		case "question":
			question = i
		case "answer", "answers":
			answer = i
		case "documents":
			documents = i
		}
	}
	if question < 0 || answer < 0 {
		return c.lineError(1, fmt.Errorf("the header %q has no columns question and answer", strings.Join(header, ",")))
	}
	for {
		row, err := r.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", c.path, err)
		}
		line, _ := r.FieldPos(question)
		if !utf8.ValidString(row[question] + row[answer]) {
			return c.lineError(line, errors.New("is not UTF-8: save the file in that encoding"))
		}
		q := schema.LabelledQuestion{Question: row[question], Answers: cell(row[answer])}
		if documents >= 0 && strings.TrimSpace(row[documents]) != "" {
			q.Documents = cell(row[documents])
		}
		if err := c.add(line, q); err != nil {
			return err
		}
	}
}

// cell parses the cell of a CSV file: one value, or a JSON list.
func cell(text string) []string {
	var list []string
	if strings.HasPrefix(strings.TrimSpace(text), "[") && json.Unmarshal([]byte(text), &list) == nil {
		return list
	}
	return []string{text}
}

// sampleQuestions draws up to limit questions by their hashes. A larger limit draws the same
// questions and more.
func sampleQuestions(all []schema.LabelledQuestion, limit int) []schema.LabelledQuestion {
	if limit <= 0 || limit >= len(all) {
		return all
	}
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b schema.LabelledQuestion) int {
		x, y := sha256.Sum256([]byte(a.Question)), sha256.Sum256([]byte(b.Question))
		return bytes.Compare(x[:], y[:])
	})
	return all[:limit]
}
