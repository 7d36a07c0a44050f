package main

// This file exports ratings of a collection's answers as a BEIR folder: the questions, as relevant
// documents those that were cited by answers rated up, and the collection's current documents.

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sluice-rag/sluice/internal/apiclient"
	"github.com/sluice-rag/sluice/schema"
)

type ratingsExport struct {
	remote
	Folder     string `arg:"" help:"Folder to write; made when it is not there."`
	Collection string `short:"c" required:"" help:"Name or id of the collection whose answers were rated."`
	NoCorpus   bool   `help:"Leave corpus.jsonl out, which reads every document: for a folder that has it."`
	Own        bool   `help:"Only ratings of the key, also for an admin."`
}

// exportCounts counts what was written.
type exportCounts struct {
	Ratings      int `json:"ratings"`
	Questions    int `json:"questions"`
	Unanswerable int `json:"unanswerable"`
	Documents    int `json:"documents"`
	// Undecided counts questions rated down, or up and down equally often. Gone counts questions
	// whose cited documents are no longer in the collection.
	Undecided int `json:"undecided"`
	Gone      int `json:"gone"`
}

func (e *ratingsExport) Run(ctx context.Context) error {
	c, err := e.client()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(e.Folder, "qrels"), 0o755); err != nil {
		return fmt.Errorf("make %s: %w", e.Folder, err)
	}
	var done exportCounts
	var rated []schema.RatedAnswer
	for r, err := range c.Ratings(ctx, apiclient.RatingQuery{Collection: e.Collection, Own: e.Own}) {
		if err != nil {
			return err
		}
		rated = append(rated, r)
	}
	slices.Reverse(rated) // oldest first
	done.Ratings = len(rated)
	live, err := e.corpus(ctx, c)
	if err != nil {
		return err
	}
	done.Documents = len(live)
	questions := judgedQuestions(rated, live, &done)
	err = errors.Join(
		e.lines("ratings.jsonl", func(line func(any) error) error {
			for _, r := range rated {
				if err := line(r); err != nil {
					return err
				}
			}
			return nil
		}),
		e.lines("queries.jsonl", func(line func(any) error) error {
			for _, q := range questions {
				if err := line(q); err != nil {
					return err
				}
			}
			return nil
		}),
		write(filepath.Join(e.Folder, "qrels", "test.tsv"), func(w io.Writer) error { return writeJudgements(w, questions) }))
	if err != nil {
		return err
	}
	if e.JSON {
		return printJSON(done)
	}
	fmt.Printf("%d ratings: %d questions with documents, %d that the documents do not answer, %d undecided, %d whose documents are gone\n",
		done.Ratings, done.Questions, done.Unanswerable, done.Undecided, done.Gone)
	if done.Questions == 0 {
		fmt.Println("sluice eval needs a question with a document: there is none yet.")
	}
	return nil
}

// judgedQuestion is a line of queries.jsonl, with its relevant documents.
type judgedQuestion struct {
	ID       string         `json:"_id"`
	Text     string         `json:"text"`
	Metadata judgedMetadata `json:"metadata"`

	relevant []string
}

type judgedMetadata struct {
	Answers      []string `json:"answers,omitempty"`
	Evidence     []string `json:"evidence,omitempty"`
	Choices      []string `json:"choices,omitempty"`
	Unanswerable bool     `json:"unanswerable,omitempty"`
}

// judgedQuestions returns the questions whose answers more keys rate up than down. The documents
// that such an answer cites are relevant, and its quotes are evidence. The correct answer is the
// text that was read from the quote with the highest confidence, or the choice that was made. If
// the answer is that the documents do not say, the question is unanswerable. An answer that was
// rated down tells nothing: its documents may be relevant.
func judgedQuestions(rated []schema.RatedAnswer, live map[string]bool, done *exportCounts) []judgedQuestion {
	votes := map[string]int{}
	for _, r := range rated {
		if r.Rating.Rating == schema.ThumbsUp {
			votes[r.Question.String()]++
		} else {
			votes[r.Question.String()]--
		}
	}
	var out []judgedQuestion
	seen := map[string]bool{}
	for _, r := range rated {
		id := r.Question.String()
		if seen[id] {
			continue
		}
		seen[id] = true
		if votes[id] <= 0 {
			done.Undecided++
			continue
		}
		q := judgedQuestion{ID: id, Text: r.Answered(), Metadata: judgedMetadata{Choices: r.Choices}}
		if !r.Supported {
			q.Metadata.Unanswerable = true
			done.Unanswerable++
			out = append(out, q)
			continue
		}
		best := 0.0
		for _, c := range r.Citations {
			if !live[c.Document] {
				continue
			}
			if !slices.Contains(q.relevant, c.Document) {
				q.relevant = append(q.relevant, c.Document)
			}
			q.Metadata.Evidence = append(q.Metadata.Evidence, c.Quote)
			if c.Answer.Text != "" && c.Answer.Confidence > best {
				best, q.Metadata.Answers = c.Answer.Confidence, []string{c.Answer.Text}
			}
		}
		if r.Choice > 0 && r.Choice <= len(r.Choices) {
			q.Metadata.Answers = []string{r.Choices[r.Choice-1]}
		}
		if len(q.relevant) == 0 {
			done.Gone++
			continue
		}
		done.Questions++
		out = append(out, q)
	}
	return out
}

func writeJudgements(w io.Writer, questions []judgedQuestion) error {
	b := bufio.NewWriter(w)
	fmt.Fprint(b, "query-id\tcorpus-id\tscore\n")
	for _, q := range questions {
		for _, document := range q.relevant {
			fmt.Fprintf(b, "%s\t%s\t1\n", q.ID, document)
		}
	}
	return b.Flush()
}

// corpus writes the documents of the collection, and returns their external ids. A document is the
// text of its sections as parsed, without markup.
func (e *ratingsExport) corpus(ctx context.Context, c *apiclient.Client) (map[string]bool, error) {
	live := map[string]bool{}
	collection, err := c.Collection(ctx, e.Collection)
	if err != nil {
		return nil, err
	}
	total := 0
	for _, n := range collection.Counts {
		total += int(n)
	}
	skipped := 0
	bar := newCounter(os.Stderr, "documents")
	defer bar.end()
	each := func(line func(any) error) error {
		for d, err := range c.Documents(ctx, e.Collection, "", "") {
			if err != nil {
				return err
			}
			if !d.Live || strings.ContainsAny(d.ExternalID, "\t\r\n") { // a qrels file cannot hold such names
				skipped++
				continue
			}
			if e.NoCorpus {
				live[d.ExternalID] = true
				continue
			}
			text, err := documentText(ctx, c, d)
			if apiclient.IsStatus(err, http.StatusNotFound) { // deleted since it was listed
				skipped++
				continue
			}
			if err != nil {
				return err
			}
			live[d.ExternalID] = true
			if err := line(corpusLine{ID: d.ExternalID, Title: d.Title, Text: text, Metadata: d.Metadata}); err != nil {
				return err
			}
			bar.show(len(live)+skipped, total)
		}
		return nil
	}
	if e.NoCorpus {
		err = each(nil)
	} else {
		err = e.lines("corpus.jsonl", each)
	}
	if skipped > 0 {
		fmt.Fprintf(os.Stderr, "left out %d documents that are not live or have a tab or a line break in their name\n", skipped)
	}
	return live, err
}

// documentText returns the text of a document's sections.
func documentText(ctx context.Context, c *apiclient.Client, d schema.Document) (string, error) {
	var text []string
	for s, err := range c.Sections(ctx, d.ID) {
		if err != nil {
			return "", fmt.Errorf("read document %s: %w", d.ExternalID, err)
		}
		text = append(text, s.Text)
	}
	return strings.Join(text, "\n\n"), nil
}

// lines writes a file of JSON Lines.
func (e *ratingsExport) lines(name string, each func(line func(any) error) error) error {
	return write(filepath.Join(e.Folder, name), func(w io.Writer) error {
		b := bufio.NewWriter(w)
		encoder := json.NewEncoder(b)
		encoder.SetEscapeHTML(false)
		if err := each(encoder.Encode); err != nil {
			return err
		}
		return b.Flush()
	})
}
