package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

// examples are the product's example documents.
const examples = "../../examples/documents"

func made(t *testing.T, seed uint64) map[string][]byte {
	t.Helper()
	folder := filepath.Join(t.TempDir(), "corpus")
	if err := makeCorpus(folder, examples, 20, seed); err != nil {
		t.Fatal(err)
	}
	out := map[string][]byte{}
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(folder, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		out[e.Name()] = data
	}
	return out
}

func TestCorpusIsTheSameForASeed(t *testing.T) {
	a, b, c := made(t, 1), made(t, 1), made(t, 2)
	if len(a) != 20 {
		t.Fatalf("%d documents", len(a))
	}
	same := 0
	for name, data := range a {
		if !bytes.Equal(data, b[name]) {
			t.Errorf("%s differs", name)
		}
		if bytes.Equal(data, c[name]) {
			same++
		}
	}
	if same > 2 { // the examples do not depend on the seed
		t.Errorf("another seed makes %d of the same documents", same)
	}
}

func TestCorpusReadsLikeProse(t *testing.T) {
	formats := map[string]int{}
	for name, data := range made(t, 1) {
		formats[filepath.Ext(name)]++
		if ext := filepath.Ext(name); ext == ".pdf" || ext == ".docx" {
			continue
		}
		if len(data) < prose*9/10 || len(data) > prose*2 || !utf8.Valid(data) {
			t.Errorf("%s has %d bytes", name, len(data))
		}
	}
	for _, ext := range []string{".md", ".html", ".txt", ".csv"} {
		if formats[ext] == 0 {
			t.Errorf("there is no %s among %v", ext, formats)
		}
	}
	if formats[".pdf"]+formats[".docx"] == 0 {
		t.Errorf("there is neither PDF nor DOCX among %v", formats)
	}
	text := string(made(t, 1)["0002-staff-leave.txt"])
	if words := strings.Fields(text); len(words) < 3000 {
		t.Errorf("%d words in\n%s", len(words), text)
	}
	for line := range strings.Lines(text) {
		if len(line) > 80 {
			t.Errorf("a long line: %q", line)
		}
	}
}

func TestCorpusSaysWhatIsMissing(t *testing.T) {
	if err := makeCorpus(t.TempDir(), t.TempDir(), 5, 1); err == nil || !strings.Contains(err.Error(), "--examples") {
		t.Errorf("without examples: %v", err)
	}
	if err := makeCorpus(t.TempDir(), examples, 0, 1); err == nil {
		t.Error("no documents are a corpus")
	}
	for _, topic := range topics() {
		if topic.name == "" || len(topic.nouns) < 6 || len(topic.adjectives) == 0 || len(topic.verbs) == 0 || len(topic.people) == 0 {
			t.Errorf("the topic %+v is incomplete", topic)
		}
	}
}
