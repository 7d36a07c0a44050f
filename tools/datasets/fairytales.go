package main

// FairytaleQA: a story is a CSV file of sections. Another CSV file has its questions, each with the
// sections that it was written from.

import (
	"encoding/csv"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sluice-rag/sluice/internal/evaluate/beir"
)

func fairytales(dir, split string) (set, error) {
	base := filepath.Join(dir, "data-by-train-split")
	files, err := filepath.Glob(filepath.Join(base, "questions", split, "*-questions.csv"))
	if err != nil {
		return set{}, err
	}
	if len(files) == 0 {
		return set{}, fmt.Errorf("%s has no questions of split %s", base, split)
	}
	slices.Sort(files)
	var out set
	for _, file := range files {
		story := strings.TrimSuffix(filepath.Base(file), "-questions.csv")
		if err := out.story(story, filepath.Join(base, "section-stories", split, story+"-story.csv"), file); err != nil {
			return set{}, err
		}
	}
	return out, nil
}

// story adds one story; its sections are linked to their neighbours.
func (s *set) story(name, sectionFile, questionFile string) error {
	sections, err := table(sectionFile, "section", "text")
	if err != nil {
		return err
	}
	id := func(section string) string { return name + "-" + section }
	known := map[string]bool{}
	for i, row := range sections {
		var links []string
		if i > 0 {
			links = append(links, id(sections[i-1]["section"]))
		}
		if i+1 < len(sections) {
			links = append(links, id(sections[i+1]["section"]))
		}
		known[row["section"]] = true
		s.Documents = append(s.Documents, beir.CorpusLine{ID: id(row["section"]), Title: title(name), Text: row["text"],
			Metadata: map[string]any{"story": name, "links": links}})
	}
	questions, err := table(questionFile, "question_id", "question", "cor_section", "answer1")
	if err != nil {
		return err
	}
	for _, row := range questions {
		q := beir.QueryLine{ID: name + "-q" + row["question_id"], Text: row["question"],
			Metadata: answers(row["answer1"], row["answer2"], row["answer3"], row["answer4"], row["answer5"], row["answer6"])}
		s.Questions = append(s.Questions, q)
		for _, section := range unique(strings.Split(row["cor_section"], ",")...) {
			if !known[section] {
				return fmt.Errorf("%s: question %s is of section %s, which %s lacks", questionFile, row["question_id"], section, sectionFile)
			}
			s.Judgements = append(s.Judgements, [2]string{q.ID, id(section)})
		}
	}
	return nil
}

// table reads a CSV file with a header, which must have the named columns.
func table(path string, columns ...string) ([]map[string]string, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(rows) == 0 {
		return nil, fmt.Errorf("%s: is empty", path)
	}
	header := rows[0]
	header[0] = strings.TrimPrefix(header[0], "\ufeff")
	for _, column := range columns {
		if !slices.Contains(header, column) {
			return nil, fmt.Errorf("%s: has no column %s", path, column)
		}
	}
	var out []map[string]string
	for _, cells := range rows[1:] {
		row := map[string]string{}
		for i, cell := range cells {
			row[header[i]] = strings.TrimSpace(cell)
		}
		out = append(out, row)
	}
	return out, nil
}

// title makes a title from a file name: "golden-goose" becomes "Golden goose".
func title(name string) string {
	words := strings.ReplaceAll(name, "-", " ")
	return strings.ToUpper(words[:1]) + words[1:]
}
