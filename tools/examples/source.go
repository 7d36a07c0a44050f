package main

// This file reads a source: front matter between --- lines, then Markdown. It
// knows headings, paragraphs, lists, tables and bold text, which is all that the
// sources use; anything else is an error, so that no text is lost on the way.

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	tables "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/text"
)

// source is a document before it is laid out.
type source struct {
	title, author, subject string
	date                   time.Time
	chapters               bool // each first-level heading starts a page
	blocks                 []block
}

type blockKind int

const (
	heading blockKind = iota
	paragraph
	bullets
	numbers
	table
)

// block is one heading (with level), paragraph, list or table. A list has one
// row per item with one cell; a table's first row is its header.
type block struct {
	kind  blockKind
	level int
	rows  [][]cell
}

// cell is a run of text with parts in bold.
type cell []span

type span struct {
	text string
	bold bool
}

func (c cell) String() string {
	var b strings.Builder
	for _, s := range c {
		b.WriteString(s.text)
	}
	return b.String()
}

func parseSource(content []byte) (*source, error) {
	front, body, ok := bytes.Cut(bytes.TrimPrefix(content, []byte("---\n")), []byte("\n---\n"))
	if !ok {
		return nil, fmt.Errorf("no front matter between --- lines")
	}
	src := &source{}
	for line := range strings.Lines(string(front)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		switch key {
		case "title":
			src.title = value
		case "author":
			src.author = value
		case "subject":
			src.subject = value
		case "chapters":
			src.chapters = value == "true"
		case "date":
			date, err := time.Parse(time.DateOnly, value)
			if err != nil {
				return nil, fmt.Errorf("front matter: date: %w", err)
			}
			src.date = date
		default:
			return nil, fmt.Errorf("front matter: unknown key %q", key)
		}
	}
	if src.title == "" || src.date.IsZero() {
		return nil, fmt.Errorf("front matter: title and date are needed")
	}
	tree := goldmark.New(goldmark.WithExtensions(extension.Table)).Parser().Parse(text.NewReader(body))
	for node := tree.FirstChild(); node != nil; node = node.NextSibling() {
		b, err := parseBlock(node, body)
		if err != nil {
			return nil, err
		}
		src.blocks = append(src.blocks, b)
	}
	return src, nil
}

func parseBlock(node ast.Node, body []byte) (block, error) {
	switch node := node.(type) {
	case *ast.Heading:
		c, err := parseCell(node, body)
		return block{kind: heading, level: node.Level, rows: [][]cell{{c}}}, err
	case *ast.Paragraph:
		c, err := parseCell(node, body)
		return block{kind: paragraph, rows: [][]cell{{c}}}, err
	case *ast.List:
		b := block{kind: bullets}
		if node.IsOrdered() {
			b.kind = numbers
		}
		for item := node.FirstChild(); item != nil; item = item.NextSibling() {
			if item.ChildCount() != 1 {
				return b, fmt.Errorf("a list item must be one paragraph: %q", item.Lines().Value(body))
			}
			c, err := parseCell(item.FirstChild(), body)
			if err != nil {
				return b, err
			}
			b.rows = append(b.rows, []cell{c})
		}
		return b, nil
	case *tables.Table:
		b := block{kind: table}
		for row := node.FirstChild(); row != nil; row = row.NextSibling() {
			var cells []cell
			for part := row.FirstChild(); part != nil; part = part.NextSibling() {
				c, err := parseCell(part, body)
				if err != nil {
					return b, err
				}
				cells = append(cells, c)
			}
			b.rows = append(b.rows, cells)
		}
		return b, nil
	}
	return block{}, fmt.Errorf("no layout for a %s", node.Kind())
}

func parseCell(node ast.Node, body []byte) (cell, error) {
	var c cell
	for part := node.FirstChild(); part != nil; part = part.NextSibling() {
		switch part := part.(type) {
		case *ast.Text:
			s := string(part.Value(body))
			if part.SoftLineBreak() {
				s += " "
			}
			c = append(c, span{text: s})
		case *ast.Emphasis:
			inner, err := parseCell(part, body)
			if err != nil {
				return nil, err
			}
			c = append(c, span{text: inner.String(), bold: true})
		default:
			return nil, fmt.Errorf("no layout for a %s in %q", part.Kind(), node.Lines().Value(body))
		}
	}
	return c, nil
}
