package main

// This file reads the texts of a folder: a collection in BEIR's layout (corpus.jsonl), or files of
// plain text and Markdown. Texts are cut by length only, because they measure an index and not
// segmentation.

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// folderTexts are texts that were read from a folder.
type folderTexts struct {
	folder string
	docs   []written
}

func (g folderTexts) name() string           { return g.folder }
func (g folderTexts) maxDocuments() int      { return len(g.docs) }
func (g folderTexts) document(i int) written { return g.docs[i] }

// openTexts returns a folder's texts, or generated ones if folder is empty.
func openTexts(folder string, seed uint64) (texts, error) {
	if folder == "" {
		return newSynthetic(seed), nil
	}
	g := folderTexts{folder: folder}
	file, err := os.Open(filepath.Join(folder, "corpus.jsonl"))
	switch {
	case err == nil:
		defer func() { _ = file.Close() }()
		err = g.beir(file)
	case errors.Is(err, fs.ErrNotExist):
		err = g.files()
	}
	if err == nil && len(g.docs) == 0 {
		err = errors.New("there is no text in it: a corpus.jsonl, or .txt and .md files")
	}
	if err != nil {
		return nil, fmt.Errorf("read texts of %s: %w", folder, err)
	}
	return g, nil
}

func (g *folderTexts) beir(file io.Reader) error {
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 64<<20)
	for n := 1; lines.Scan(); n++ {
		var entry struct{ Title, Text string }
		if err := json.Unmarshal(lines.Bytes(), &entry); err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
		g.add(entry.Title, entry.Text)
	}
	return lines.Err()
}

func (g *folderTexts) files() error {
	return filepath.WalkDir(g.folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !slices.Contains([]string{".txt", ".md"}, filepath.Ext(path)) {
			return err
		}
		data, err := os.ReadFile(path)
		if err == nil {
			g.add(strings.TrimSuffix(entry.Name(), filepath.Ext(path)), string(data))
		}
		return err
	})
}

// Lengths of passages and sections.
const (
	folderPassageWords = 100 // words
	folderSectionWords = 8   // passages
)

func (g *folderTexts) add(title, text string) {
	text = strings.ToValidUTF8(strings.ReplaceAll(text, "\x00", " "), " ")
	if strings.IndexFunc(text, unicode.IsLetter) < 0 {
		return
	}
	d := written{title: title, topic: len(g.docs) % topicCount}
	var p sectionText
	begin := 0 // start of the section
	close := func(end int) {
		p.text = text[begin:end]
		d.pieces = append(d.pieces, p)
		p, begin = sectionText{}, end
	}
	words, inWord := 0, false
	p.starts = []int{0}
	for at, r := range text {
		space := unicode.IsSpace(r)
		if !space && !inWord {
			if words == folderPassageWords {
				words = 0
				if len(p.starts) == folderSectionWords {
					close(at)
				}
				p.starts = append(p.starts, at-begin)
			}
			words++
		}
		inWord = !space
	}
	close(len(text))
	g.docs = append(g.docs, d)
}

// wordsIn returns the length of a text in words.
func wordsIn(text string) int {
	n, inWord := 0, false
	for i := 0; i < len(text); {
		r, size := rune(text[i]), 1
		if r >= utf8.RuneSelf {
			r, size = utf8.DecodeRuneInString(text[i:])
		}
		space := unicode.IsSpace(r)
		if !space && !inWord {
			n++
		}
		inWord = !space
		i += size
	}
	return n
}
