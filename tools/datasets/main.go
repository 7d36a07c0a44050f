// Command datasets writes question sets that have a form of their own as BEIR
// folders, which `sluice eval` reads:
//
//	go run . FROM TO
//
// makes TO/fairytaleqa-test (a section of a story is a document) of
// FROM/fairytaleqa and TO/qed-dev (a paragraph is a document) of FROM/qed.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// set is a BEIR folder to be.
type set struct {
	Documents  []document
	Questions  []question
	Judgements [][2]string // question and document; the grade is 1
}

type document struct {
	ID       string         `json:"_id"`
	Title    string         `json:"title"`
	Text     string         `json:"text"`
	Metadata map[string]any `json:"metadata"`
}

type question struct {
	ID       string   `json:"_id"`
	Text     string   `json:"text"`
	Metadata metadata `json:"metadata"`
}

type metadata struct {
	Answers  []string   `json:"answers"`
	Evidence []evidence `json:"evidence,omitempty"`
}

type evidence struct {
	Document string `json:"doc"`
	Text     string `json:"text"`
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: go run . FROM TO")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "datasets:", err)
		os.Exit(1)
	}
}

func run(from, to string, out io.Writer) error {
	for _, s := range []struct {
		name string
		read func() (set, error)
	}{
		{"fairytaleqa-test", func() (set, error) { return fairytales(filepath.Join(from, "fairytaleqa"), "test") }},
		{"qed-dev", func() (set, error) { return qed(filepath.Join(from, "qed", "qed-dev.jsonlines")) }},
	} {
		made, err := s.read()
		if err != nil {
			return err
		}
		if err := made.write(filepath.Join(to, s.name)); err != nil {
			return fmt.Errorf("write %s: %w", s.name, err)
		}
		fmt.Fprintf(out, "%s: %d documents, %d questions\n", filepath.Join(to, s.name), len(made.Documents), len(made.Questions))
	}
	return nil
}

func (s set) write(dir string) error {
	if err := os.MkdirAll(filepath.Join(dir, "qrels"), 0o755); err != nil {
		return err
	}
	var judgements strings.Builder
	judgements.WriteString("query-id\tcorpus-id\tscore\n")
	for _, j := range s.Judgements {
		fmt.Fprintf(&judgements, "%s\t%s\t1\n", j[0], j[1])
	}
	return errors.Join(
		writeLines(filepath.Join(dir, "corpus.jsonl"), s.Documents),
		writeLines(filepath.Join(dir, "queries.jsonl"), s.Questions),
		os.WriteFile(filepath.Join(dir, "qrels", "test.tsv"), []byte(judgements.String()), 0o644))
}

func writeLines[T any](path string, items []T) error {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	for _, item := range items {
		if err := e.Encode(item); err != nil {
			return err
		}
	}
	return os.WriteFile(path, []byte(b.String()), 0o644)
}

// unique are the texts that are not blank, each once, in their order.
func unique(texts ...string) []string {
	out := []string{}
	seen := map[string]bool{}
	for _, t := range texts {
		if t = strings.TrimSpace(t); t != "" && !seen[t] {
			seen[t] = true
			out = append(out, t)
		}
	}
	return out
}
