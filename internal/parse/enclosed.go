package parse

// Files in files: attachments, messages of a mailbox, entries of an archive. The limits apply to
// all of them together.

import (
	"bytes"

	"github.com/sluice-rag/sluice/schema"
)

const (
	maxEnclosed = 20 // most levels of files around a file
	maxArchives = 2  // most levels of archives around a file
)

// enclosure describes the files around a file. The zero value means none.
type enclosure struct {
	depth    int
	archives int
	sum      *containers
}

// containers counts the contents of all zip containers of one file, nested ones included.
type containers struct {
	entries  int
	expanded int64
}

// enter counts a file. It returns an error for a file that is nested too deep or exceeds the limits
// of containers.
func (in enclosure) enter(data []byte, limits Limits) error {
	if in.depth > maxEnclosed {
		return fail(schema.ReasonTooLarge, "Files are nested more than %d deep.", maxEnclosed)
	}
	if !bytes.HasPrefix(data, magicZIP) {
		return nil
	}
	c, err := openZIP(bytes.NewReader(data), int64(len(data)), limits)
	if err != nil {
		return nil // the parser reports the error
	}
	in.sum.add(c)
	switch {
	case in.sum.entries > limits.Entries:
		return fail(schema.ReasonTooLarge, "The containers in the file have more than %d entries together. Split it.", limits.Entries)
	case in.sum.expanded > limits.ExpandedBytes:
		return fail(schema.ReasonTooLarge, "The containers in the file expand to more than %s together. Split it.", schema.FormatBytes(limits.ExpandedBytes))
	}
	return nil
}

// deeper returns the enclosure of a file in this one.
func (in enclosure) deeper() enclosure {
	in.depth++
	return in
}

// part returns a new document for a part of d, within d's limits.
func (d *document) part() *document {
	return &document{ctx: d.ctx, limits: d.limits, ocr: d.ocr, in: d.in}
}

// enclosed parses a file that is in d's file. Its text counts towards d's limit.
func (d *document) enclosed(name, media string, data []byte, in enclosure) (schema.Parsed, error) {
	limits := d.limits
	if limits.TextBytes -= d.size; limits.TextBytes <= 0 {
		return schema.Parsed{}, d.tooMuchText()
	}
	return parse(d.ctx, name, media, data, limits, d.ocr, in)
}

func (s *containers) add(c *container) {
	s.entries += len(c.files)
	s.expanded += int64(c.declared)
}
