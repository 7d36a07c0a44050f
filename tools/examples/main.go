// Command examples makes the binary documents under examples/documents from
// the text sources under examples/sources.
//
// What a source becomes is in its name: report.pdf.md makes report.pdf,
// lease.docx.md makes lease.docx, guide.utf-16le.txt makes guide.txt in UTF-16,
// minutes.windows-1252.txt makes minutes.txt in Windows-1252. The output depends
// on the sources alone (dates come from their front matter), so a second run
// writes the same bytes.
//
// It makes no plain UTF-8 document: those are kept in examples/documents as they
// are.
package main

import (
	"flag"
	"fmt"
	"io/fs"
	"log"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	log.SetFlags(0)
	examples := flag.String("examples", "../../examples", "the examples folder, with its sources and documents")
	flag.Parse()

	made, err := makeAll(filepath.Join(*examples, "sources"), filepath.Join(*examples, "documents"))
	if err != nil {
		log.Fatal(err)
	}
	for _, path := range made {
		fmt.Println(path)
	}
}

// makers maps the suffix of a source's name to the suffix of the document's name and to the
// function that makes the document's bytes.
var makers = []struct {
	source, document string
	make             func([]byte) ([]byte, error)
}{
	{".pdf.md", ".pdf", makePDF},
	{".docx.md", ".docx", makeDOCX},
	{".utf-16le.txt", ".txt", makeUTF16},
	{".windows-1252.txt", ".txt", makeWindows1252},
}

// makeAll makes every document that has a source and returns their paths
// relative to the documents folder, in the order of the sources' names.
func makeAll(sources, documents string) ([]string, error) {
	var made []string
	err := filepath.WalkDir(sources, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(sources, path)
		if err != nil {
			return err
		}
		source, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		target, content, err := makeDocument(name, source)
		if err != nil {
			return fmt.Errorf("make a document from %s: %w", path, err)
		}
		out := filepath.Join(documents, target)
		if err := os.MkdirAll(filepath.Dir(out), 0o755); err != nil {
			return err
		}
		made = append(made, target)
		return os.WriteFile(out, content, 0o644)
	})
	return made, err
}

// makeDocument returns the path and the bytes of the document that is made from a source with this
// name.
func makeDocument(name string, source []byte) (target string, content []byte, err error) {
	for _, maker := range makers {
		if stem, ok := strings.CutSuffix(name, maker.source); ok {
			content, err = maker.make(source)
			return stem + maker.document, content, err
		}
	}
	return "", nil, fmt.Errorf("the name says no known kind of document")
}
