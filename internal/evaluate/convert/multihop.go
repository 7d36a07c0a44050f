package convert

// HotpotQA (Yang et al. 2018) and 2WikiMultihopQA (Ho et al. 2020), which share a format:
// paragraphs as lists of sentences, and the facts that support the answer as titles and numbers of
// sentences.

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

type multihopQuestion struct {
	ID       string              `json:"_id"`
	Question string              `json:"question"`
	Answer   string              `json:"answer"`
	Type     string              `json:"type"`
	Level    string              `json:"level"`
	Context  []multihopParagraph `json:"context"`
	Facts    []supportingFact    `json:"supporting_facts"`
	// Only in 2WikiMultihopQA: the facts that the answer follows from, and their and the answer's
	// ids in Wikidata.
	Triples   [][]string `json:"evidences"`
	TripleIDs [][]string `json:"evidences_id"`
	AnswerID  string     `json:"answer_id"`
}

// multihopParagraph is ["title", ["sentence", ...]].
type multihopParagraph struct {
	title     string
	sentences []string
}

// UnmarshalJSON implements json.Unmarshaler.
func (p *multihopParagraph) UnmarshalJSON(data []byte) error {
	if err := pair(data, &p.title, &p.sentences); err != nil {
		return fmt.Errorf("context: a paragraph is a title and a list of sentences: %w", err)
	}
	return nil
}

// supportingFact is ["title", number of the sentence, from 0].
type supportingFact struct {
	title    string
	sentence int
}

// UnmarshalJSON implements json.Unmarshaler.
func (f *supportingFact) UnmarshalJSON(data []byte) error {
	if err := pair(data, &f.title, &f.sentence); err != nil {
		return fmt.Errorf("supporting_facts: a fact is a title and the number of a sentence: %w", err)
	}
	return nil
}

// pair parses a list of two values.
func pair(data []byte, first, second any) error {
	var both []json.RawMessage
	if err := json.Unmarshal(data, &both); err != nil || len(both) != 2 {
		return fmt.Errorf("found %.60s", data)
	}
	return errors.Join(json.Unmarshal(both[0], first), json.Unmarshal(both[1], second))
}

// text joins the sentences. Sentences of HotpotQA begin with a space, those of 2WikiMultihopQA do
// not.
func (p multihopParagraph) text() string {
	var b strings.Builder
	for _, s := range p.sentences {
		if s == "" {
			continue
		}
		if b.Len() > 0 {
			begin, _ := utf8.DecodeRuneInString(s)
			end, _ := utf8.DecodeLastRuneInString(b.String())
			if !unicode.IsSpace(begin) && !unicode.IsSpace(end) {
				b.WriteByte(' ')
			}
		}
		b.WriteString(s)
	}
	return b.String()
}

func multihop(s *set, at position, r *multihopQuestion) error {
	q := &query{id: r.ID, text: r.Question, place: at.String(), answers: []string{r.Answer}, more: map[string]any{}}
	ids, texts := make([]string, len(r.Context)), make([]string, len(r.Context))
	for i, p := range r.Context {
		var err error
		texts[i] = p.text()
		if ids[i], err = s.byContent(p.title, texts[i]); err != nil {
			return err
		}
		q.addDocument(ids[i])
	}
	for _, f := range r.Facts {
		s.supports(q, f, r.Context, ids, texts)
	}
	if r.AnswerID != "" {
		q.answers = append(q.answers, s.aliases[r.AnswerID]...)
		q.more["answer_id"] = r.AnswerID
	}
	keep(q.more, "type", r.Type)
	keep(q.more, "level", r.Level)
	if len(r.Triples) > 0 {
		q.more["triples"] = r.Triples
	}
	if len(r.TripleIDs) > 0 {
		q.more["triple_ids"] = r.TripleIDs
	}
	return s.ask(q)
}

// supports adds a supporting fact: its paragraph is relevant, and its sentence is evidence.
func (s *set) supports(q *query, f supportingFact, context []multihopParagraph, ids, texts []string) {
	index := -1
	for i, p := range context {
		if p.title != f.title || ids[i] == "" {
			continue
		}
		if f.sentence >= 0 && f.sentence < len(p.sentences) {
			q.judge(s.split(), ids[i], 1)
			s.prove(q, ids[i], texts[i], p.sentences[f.sentence])
			return
		}
		index = i
	}
	if index < 0 {
		s.drop("supporting facts whose paragraph is not among those of the question")
		return
	}
	q.judge(s.split(), ids[index], 1)
	s.drop("supporting facts whose sentence the paragraph does not have")
}

// keep sets a text in metadata unless it is blank.
func keep(metadata map[string]any, key, text string) {
	if text = strings.TrimSpace(text); text != "" {
		metadata[key] = text
	}
}

// wikiEntity is a line of id_aliases.json.
type wikiEntity struct {
	ID       string   `json:"Q_id"`
	Aliases  []string `json:"aliases"`
	Demonyms []string `json:"demonyms"`
}

// entity adds the other names of an answer.
func entity(s *set, _ position, e *wikiEntity) error {
	if e.ID == "" {
		return missing("Q_id")
	}
	s.aliases[e.ID] = unique(append(e.Aliases, e.Demonyms...))
	return nil
}
