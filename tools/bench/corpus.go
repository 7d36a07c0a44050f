package main

// This file generates the documents to ingest if none are given: mostly prose in Markdown, HTML and
// text, some tables, and copies of the examples' PDF and DOCX files. The same seed gives the same
// bytes.

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"html"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// prose is the approximate size of a generated document's text in bytes: 5,000 tokens.
const prose = 25_000

// makeCorpus writes count documents into a new folder.
func makeCorpus(folder, examples string, count int, seed uint64) error {
	if count < 1 {
		return fmt.Errorf("documents: %d: it must be at least 1", count)
	}
	binary, err := binaries(examples)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("make documents: %w", err)
	}
	random := rand.New(rand.NewPCG(seed, 0))
	all := topics()
	for i := range count {
		t := all[i%len(all)]
		name, data := document(random, t, i, binary)
		name = fmt.Sprintf("%04d-%s", i, name)
		if err := os.WriteFile(filepath.Join(folder, name), data, 0o644); err != nil {
			return fmt.Errorf("make documents: %w", err)
		}
	}
	return nil
}

// binaryFile is an example in a format that is not generated here.
type binaryFile struct {
	name string
	data []byte
}

// binaries reads the examples' PDF and DOCX files.
func binaries(folder string) ([]binaryFile, error) {
	var out []binaryFile
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !slices.Contains([]string{".pdf", ".docx"}, filepath.Ext(path)) {
			return err
		}
		data, err := os.ReadFile(path)
		out = append(out, binaryFile{filepath.Base(path), data})
		return err
	})
	if err == nil && len(out) == 0 {
		err = errors.New("no PDF or DOCX file is there")
	}
	if err != nil {
		return nil, fmt.Errorf("examples %s: %w; name them with --examples", folder, err)
	}
	return out, nil
}

// document generates document i: of ten, four are Markdown, two HTML, two text, one is a table and
// one an example.
func document(random *rand.Rand, t topic, i int, binary []binaryFile) (name string, data []byte) {
	w := &writer{random: random, topic: t}
	w.turn()
	slug := strings.ReplaceAll(strings.ToLower(t.name), " ", "-")
	switch i % 10 {
	case 0, 3, 5, 8:
		return slug + ".md", w.markdown()
	case 1, 6:
		return slug + ".html", w.html()
	case 2, 7:
		return slug + ".txt", w.text()
	case 4:
		return slug + ".csv", w.table()
	}
	f := binary[i/10%len(binary)]
	return f.name, f.data
}

// sections calls begin with a heading and then add with each of its paragraphs, until there is
// enough text.
func (w *writer) sections(begin, add func(string)) {
	for size := 0; size < prose; {
		w.turn()
		begin(w.heading())
		for range 3 + w.random.IntN(4) {
			p := w.paragraph()
			size += len(p)
			add(p)
		}
	}
}

func (w *writer) markdown() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# %s: %s\n", w.topic.name, w.heading())
	w.sections(func(h string) {
		fmt.Fprintf(&b, "\n## %s\n", h)
		if w.random.IntN(3) == 0 {
			b.WriteByte('\n')
			for range 4 {
				fmt.Fprintf(&b, "- %s\n", w.sentence())
			}
		}
	}, func(p string) { fmt.Fprintf(&b, "\n%s\n", p) })
	return b.Bytes()
}

func (w *writer) html() []byte {
	var b bytes.Buffer
	title := html.EscapeString(w.topic.name + ": " + w.heading())
	fmt.Fprintf(&b, "<!DOCTYPE html>\n<html lang=\"en\">\n<head><title>%s</title><style>p { margin: 1em }</style></head>\n<body>\n"+
		"<nav><ul><li><a href=\"/\">Home</a></li><li><a href=\"/contact\">Contact</a></li></ul></nav>\n<article>\n<h1>%s</h1>\n", title, title)
	w.sections(func(h string) { fmt.Fprintf(&b, "<h2>%s</h2>\n", html.EscapeString(h)) },
		func(p string) { fmt.Fprintf(&b, "<p>%s</p>\n", html.EscapeString(p)) })
	b.WriteString("</article>\n<footer>All rights reserved.</footer>\n</body>\n</html>\n")
	return b.Bytes()
}

// text returns hard-wrapped text, as people and mail programs write it.
func (w *writer) text() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s\n%s\n", w.topic.name, strings.Repeat("=", len(w.topic.name)))
	w.sections(func(h string) { fmt.Fprintf(&b, "\n%s\n", h) }, func(p string) {
		b.WriteByte('\n')
		column := 0
		for _, word := range strings.Fields(p) {
			switch {
			case column == 0:
			case column+1+len(word) > 78:
				b.WriteByte('\n')
				column = 0
			default:
				b.WriteByte(' ')
				column++
			}
			b.WriteString(word)
			column += len(word)
		}
		b.WriteByte('\n')
	})
	return b.Bytes()
}

func (w *writer) table() []byte {
	var b bytes.Buffer
	c := csv.NewWriter(&b)
	write := func(row ...string) { _ = c.Write(row) } // writing to a buffer cannot fail
	write("number", "item", "condition", "responsible", "since", "remark")
	for i := 1; b.Len() < prose; i++ {
		write(fmt.Sprint(i), w.fill('O'), w.choose(w.topic.adjectives), w.fill('P'), w.fill('Y'), w.sentence())
		c.Flush()
	}
	return b.Bytes()
}
