package main

// These tests keep examples/ consistent: the binary documents are made from their sources, and the
// documents that a question names contain its answer.

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const examples = "../../examples"

// files returns the paths of all files below the folder, relative to it.
func files(t *testing.T, folder string) []string {
	t.Helper()
	var paths []string
	err := fs.WalkDir(os.DirFS(folder), ".", func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			paths = append(paths, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

func read(t *testing.T, parts ...string) []byte {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(parts...))
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// madeFrom returns the path of each generated document with the text of its source.
func madeFrom(t *testing.T) map[string]string {
	t.Helper()
	texts := map[string]string{}
	for _, name := range files(t, filepath.Join(examples, "sources")) {
		source := read(t, examples, "sources", name)
		target, content, err := makeDocument(name, source)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if !bytes.Equal(content, read(t, examples, "documents", target)) {
			t.Errorf("%s is not what %s makes: run go run . in tools/examples", target, name)
		}
		texts[target] = string(source)
	}
	return texts
}

func TestDocumentsAreMadeFromTheirSources(t *testing.T) {
	made := madeFrom(t)
	documents := files(t, filepath.Join(examples, "documents"))
	if len(documents) < 25 {
		t.Errorf("there are %d documents, want at least 25", len(documents))
	}
	kinds := map[string]int{}
	for _, path := range documents {
		kind := filepath.Ext(path)
		kinds[kind]++
		if _, ok := made[path]; !ok && (kind == ".pdf" || kind == ".docx") {
			t.Errorf("%s has no source", path)
		}
	}
	for _, kind := range []string{".txt", ".md", ".html", ".pdf", ".docx", ".csv", ".jsonl"} {
		if kinds[kind] < 2 {
			t.Errorf("there are %d documents of kind %s, want at least 2", kinds[kind], kind)
		}
	}
}

func TestQuestionsAreAnsweredByTheirDocuments(t *testing.T) {
	made := madeFrom(t)
	documents := files(t, filepath.Join(examples, "documents"))
	answerable, unanswerable := 0, 0
	lines := bufio.NewScanner(bytes.NewReader(read(t, examples, "questions.jsonl")))
	for lines.Scan() {
		var q struct {
			Question       string   `json:"question"`
			Documents      []string `json:"documents"`
			AnswerContains []string `json:"answer_contains"`
		}
		if err := json.Unmarshal(lines.Bytes(), &q); err != nil {
			t.Fatal(err)
		}
		if len(q.Documents) == 0 {
			unanswerable++
			if len(q.AnswerContains) != 0 {
				t.Errorf("%q names an answer but no document", q.Question)
			}
			continue
		}
		answerable++
		if len(q.AnswerContains) == 0 {
			t.Errorf("%q names no answer", q.Question)
		}
		for _, path := range q.Documents {
			if !slices.Contains(documents, path) {
				t.Errorf("%q names %s, which does not exist", q.Question, path)
				continue
			}
			text, ok := made[path]
			if !ok {
				text = string(read(t, examples, "documents", path))
			}
			if !slices.ContainsFunc(strings.Split(text, "\n"), func(line string) bool { return containsAll(line, q.AnswerContains) }) {
				t.Errorf("%q: no line of %s contains %q", q.Question, path, q.AnswerContains)
			}
		}
	}
	if answerable != 10 || unanswerable != 2 {
		t.Errorf("%d questions have an answer and %d have none, want 10 and 2", answerable, unanswerable)
	}
}

func containsAll(s string, parts []string) bool {
	return !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(s, part) })
}

func TestSourcesThatCannotBeLaidOutAreRefused(t *testing.T) {
	const front = "---\ntitle: T\ndate: 2025-01-02\n---\n"
	for name, source := range map[string]string{
		"no front matter": "# Title\n",
		"unknown key":     "---\ntitle: T\ncolour: red\n---\n",
		"bad date":        "---\ntitle: T\ndate: tomorrow\n---\n",
		"code block":      front + "    code\n",
		"link":            front + "See [this](that).\n",
		"nested list":     front + "- one\n  - two\n",
		"not in WinAnsi":  front + "Water in \u6c34.\n",
	} {
		if _, err := makePDF([]byte(source)); err == nil {
			t.Errorf("%s: a PDF was made", name)
		}
	}
	if _, _, err := makeDocument("report.md", nil); err == nil {
		t.Error("a source whose name says no kind was made into a document")
	}
}
