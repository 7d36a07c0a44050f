package main

// QED: a line has a search question, a paragraph of Wikipedia, and where the answer is in it.

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"

	"github.com/sluice-rag/sluice/internal/evaluate/beir"
)

type qedLine struct {
	Question  string `json:"question_text"`
	Title     string `json:"title_text"`
	Paragraph string `json:"paragraph_text"`
	Answers   [][]struct {
		String string `json:"string"`
	} `json:"original_nq_answers"`
	Annotation struct {
		Type     string `json:"explanation_type"`
		Sentence *struct {
			String string `json:"string"`
		} `json:"selected_sentence"`
	} `json:"annotation"`
}

func qed(path string) (set, error) {
	f, err := os.Open(path)
	if err != nil {
		return set{}, err
	}
	defer func() { _ = f.Close() }()
	var out set
	documents := map[[2]string]string{}
	scanner := bufio.NewScanner(f)
	scanner.Buffer(nil, 16<<20)
	for n := 1; scanner.Scan(); n++ {
		var l qedLine
		if err := json.Unmarshal(scanner.Bytes(), &l); err != nil {
			return set{}, fmt.Errorf("%s line %d: %w", path, n, err)
		}
		if l.Question == "" || l.Paragraph == "" {
			return set{}, fmt.Errorf("%s line %d: has no question or no paragraph", path, n)
		}
		key := [2]string{l.Title, l.Paragraph}
		if documents[key] == "" {
			documents[key] = fmt.Sprintf("d%d", len(documents)+1)
			out.Documents = append(out.Documents, beir.CorpusLine{ID: documents[key], Title: l.Title, Text: l.Paragraph})
		}
		if l.Annotation.Type == "none" { // the annotators found no answer in the paragraph
			continue
		}
		out.ask(fmt.Sprintf("q%d", n), documents[key], l)
	}
	return out, scanner.Err()
}

func (s *set) ask(id, document string, l qedLine) {
	var single []string
	for _, annotator := range l.Answers {
		if len(annotator) == 1 { // several spans form a list, none of which is the answer alone
			single = append(single, annotator[0].String)
		}
	}
	q := beir.QueryLine{ID: id, Text: l.Question, Metadata: answers(single...)}
	if sentence := l.Annotation.Sentence; sentence != nil && sentence.String != "" {
		q.Metadata["evidence"] = []beir.Evidence{{Document: document, Text: sentence.String}}
	}
	s.Questions = append(s.Questions, q)
	s.Judgements = append(s.Judgements, [2]string{id, document})
}
