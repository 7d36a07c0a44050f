package parse

// JSON Lines, and JSON documents that are an object or a list of objects. Each object becomes a
// block of "key: value" lines, with the keys of textKeys first; its title becomes a heading.

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/sluice-rag/sluice/schema"
)

func parseJSONL(d *document, s string) error {
	s = strings.TrimSpace(s)
	if strings.HasPrefix(s, "[") || !json.Valid([]byte(firstLine(s))) && strings.HasPrefix(s, "{") && json.Valid([]byte(s)) {
		return parseJSON(d, s)
	}
	number := 0
	for line := range strings.SplitSeq(s, "\n") {
		number++
		line = strings.TrimSpace(line)
		switch {
		case line == "":
			continue
		case number > d.limits.Rows:
			return fail(schema.ReasonTooLarge, "The file has more than %d lines. Split it, or raise the limit.", d.limits.Rows)
		case len(line) > d.limits.LineBytes:
			return fail(schema.ReasonTooLarge, "Line %d has %s; the limit is %s.", number, schema.FormatBytes(int64(len(line))), schema.FormatBytes(int64(d.limits.LineBytes)))
		}
		if err := addRecord(d, line); err != nil {
			var e *Error
			if errors.As(err, &e) || d.err != nil {
				return err
			}
			return fail(schema.ReasonBroken, "Line %d is not JSON: %v.", number, err).because(err)
		}
	}
	return d.err
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

// parseJSON reads one JSON document.
func parseJSON(d *document, s string) error {
	if !strings.HasPrefix(s, "[") {
		return addRecord(d, s)
	}
	dec := json.NewDecoder(bufio.NewReader(strings.NewReader(s)))
	if _, err := dec.Token(); err != nil {
		return fail(schema.ReasonBroken, "The file is not JSON: %v.", err).because(err)
	}
	for n := 1; dec.More(); n++ {
		if n > d.limits.Rows {
			return fail(schema.ReasonTooLarge, "The list has more than %d elements. Split it, or raise the limit.", d.limits.Rows)
		}
		var raw json.RawMessage
		if err := dec.Decode(&raw); err != nil {
			return fail(schema.ReasonBroken, "Element %d of the list is not JSON: %v.", n, err).because(err)
		}
		if err := addRecord(d, string(raw)); err != nil {
			return err
		}
	}
	if _, err := dec.Token(); err != nil {
		return fail(schema.ReasonBroken, "The list has no end: %v.", err).because(err)
	}
	return d.err
}

// titleKeys are the keys of a record's title; the first one that the record has is its heading.
var titleKeys = []string{"title", "headline", "heading", "name", "subject"}

// textKeys are the keys of running text, in the order in which they are shown.
var textKeys = []string{"question", "abstract", "summary", "description", "text", "body", "content", "answer", "comment", "message"}

// entry is a scalar of a record with its path.
type entry struct {
	path  string
	value string
}

// addRecord adds one JSON value.
func addRecord(d *document, raw string) error {
	dec := json.NewDecoder(strings.NewReader(raw))
	dec.UseNumber()
	var entries []entry
	budget := d.limits.TextBytes
	if err := flatten(d, dec, "", 0, &budget, &entries); err != nil {
		return err
	}
	if _, err := dec.Token(); err != io.EOF {
		return errors.New("there is more behind the value")
	}
	title := -1
	for _, key := range titleKeys {
		if title = slices.IndexFunc(entries, func(e entry) bool { return strings.EqualFold(e.path, key) }); title >= 0 {
			break
		}
	}
	if title >= 0 && len(entries[title].value) <= 300 && len(entries) > 1 {
		d.heading(1, entries[title].value)
		entries = slices.Delete(entries, title, title+1)
	}
	rank := func(e entry) int {
		i := slices.IndexFunc(textKeys, func(k string) bool { return strings.EqualFold(k, e.path) })
		if i < 0 {
			return len(textKeys)
		}
		return i
	}
	slices.SortStableFunc(entries, func(a, b entry) int { return rank(a) - rank(b) })
	var b strings.Builder
	for _, e := range entries {
		if e.path != "" {
			b.WriteString(e.path + ": ")
		}
		b.WriteString(e.value + "\n")
	}
	d.add(schema.BlockParagraph, 0, b.String(), 0)
	return d.err
}

// flatten reads the next value of dec and appends its scalars to out; a list of scalars is one
// entry. budget is how many bytes are left for paths and values: long paths over many small values
// could be far larger than the file.
func flatten(d *document, dec *json.Decoder, path string, depth int, budget *int, out *[]entry) error {
	if depth > d.limits.Nesting {
		return d.tooDeep()
	}
	token, err := dec.Token()
	if err != nil {
		return err
	}
	open, nested := token.(json.Delim)
	if !nested {
		if s := scalar(token); s != "" {
			if *budget -= len(path) + len(s); *budget < 0 {
				return fail(schema.ReasonTooLarge, "A record has more than %s of text. Split it, or raise the limit.", schema.FormatBytes(int64(d.limits.TextBytes)))
			}
			*out = append(*out, entry{path, s})
		}
		return nil
	}
	if open == '{' {
		for dec.More() {
			key, err := dec.Token()
			if err != nil {
				return err
			}
			name := squeeze(fmt.Sprint(key))
			if path != "" {
				name = path + "." + name
			}
			if err := flatten(d, dec, name, depth+1, budget, out); err != nil {
				return err
			}
		}
	} else {
		var plain []string
		for dec.More() {
			var inner []entry
			if err := flatten(d, dec, path, depth+1, budget, &inner); err != nil {
				return err
			}
			if len(inner) == 1 && inner[0].path == path {
				plain = append(plain, inner[0].value)
			} else {
				*out = append(*out, inner...)
			}
		}
		if len(plain) > 0 {
			sep := ", "
			if slices.ContainsFunc(plain, func(s string) bool { return len(s) > 80 }) {
				sep = "\n"
			}
			*out = append(*out, entry{path, strings.Join(plain, sep)})
		}
	}
	_, err = dec.Token()
	return err
}

// scalar returns a JSON scalar as text; null is empty.
func scalar(token json.Token) string {
	switch v := token.(type) {
	case string:
		lines := strings.Split(v, "\n")
		kept := lines[:0]
		for _, line := range lines {
			if line = squeeze(line); line != "" {
				kept = append(kept, line)
			}
		}
		return strings.Join(kept, "\n")
	case json.Number:
		return v.String()
	case bool:
		return fmt.Sprint(v)
	}
	return ""
}
