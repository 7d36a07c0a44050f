// Command datasets writes question sets that have a form of their own as BEIR
// folders, which `sluice eval` reads:
//
//	go run . FROM TO
//
// makes TO/fairytaleqa-test (a section of a story is a document) of
// FROM/fairytaleqa and TO/qed-dev (a paragraph is a document) of FROM/qed.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/sluice-rag/sluice/internal/evaluate/beir"
)

// set is the content of a BEIR folder.
type set struct {
	Documents  []beir.CorpusLine
	Questions  []beir.QueryLine
	Judgements [][2]string // question and document; the grade is 1
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

// write writes the set, and replaces an existing folder.
func (s set) write(dir string) (err error) {
	folder, err := beir.Create(dir, true)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, folder.Discard())
		}
	}()
	for _, d := range s.Documents {
		if err := folder.Document(d); err != nil {
			return err
		}
	}
	for _, q := range s.Questions {
		if err := folder.Query(q); err != nil {
			return err
		}
	}
	for _, j := range s.Judgements {
		if err := folder.Judge("test", j[0], j[1], 1); err != nil {
			return err
		}
	}
	return folder.Commit()
}

// answers returns the metadata of a question with these correct answers, of which there may be
// none.
func answers(texts ...string) map[string]any {
	return map[string]any{"answers": unique(texts...)}
}

// unique returns the texts that are not blank, without duplicates, in their order.
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
