package parse

// Files in files: attachments, messages of a mailbox, entries of an archive. What
// they cost is counted together.

import (
	"bytes"

	"github.com/sluice-rag/sluice/schema"
)

const (
	maxEnclosed = 20 // files around a file
	maxArchives = 2  // archives around a file
)

// enclosure is what a file lies in. The zero value is nothing.
type enclosure struct {
	depth    int
	archives int
	sum      *containers
}

// containers is what all zip containers of one file have, and those in them.
type containers struct {
	entries  int
	expanded int64
}

// enter counts a file, and refuses one that lies too deep or is one container too many.
func (in enclosure) enter(data []byte, limits Limits) error {
	if in.depth > maxEnclosed {
		return fail(schema.ReasonTooLarge, "Files are nested more than %d deep.", maxEnclosed)
	}
	if !bytes.HasPrefix(data, magicZIP) {
		return nil
	}
	c, err := openZIP(bytes.NewReader(data), int64(len(data)), limits)
	if err != nil {
		return nil // whoever reads it says why
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

// deeper is the enclosure of what lies in a file.
func (in enclosure) deeper() enclosure {
	in.depth++
	return in
}

// part is a document of its own for a part of d, within its limits.
func (d *document) part() *document {
	return &document{ctx: d.ctx, limits: d.limits, ocr: d.ocr, in: d.in}
}

// enclosed parses a file that lies in d's. Its text counts as d's.
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
