package receipt

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/text"
	"github.com/sluice-rag/sluice/schema"
)

// Sources provide what the citations of a receipt are verified against.
type Sources struct {
	// Bytes returns the alleged bytes of a citation's version. They are not trusted.
	Bytes func(ctx context.Context, c CitedQuote) ([]byte, error)
	// Parse parses a file as ingestion does.
	Parse func(ctx context.Context, f CitedFile, data []byte) (schema.Parsed, error)
}

// Proof says what was proved about a citation.
type Proof struct {
	CitedQuote
	// FileProved says that the bytes are the ones that the receipt names, TextProved that the quote
	// is in their text at the section and bytes that it names, and PlaceProved that its page and
	// boxes are the same.
	FileProved, TextProved, PlaceProved bool
	// Problem says why something was not proved.
	Problem string
}

// Proved reports whether everything was proved.
func (p Proof) Proved() bool { return p.FileProved && p.TextProved && p.PlaceProved }

// Prove verifies the citations of a receipt from Open, in their order. The only error is ctx's.
func (r Receipt) Prove(ctx context.Context, s Sources) ([]Proof, error) {
	out := make([]Proof, 0, len(r.Citations))
	cuts := map[uuid.UUID]cut{}
	for _, c := range r.Citations {
		p := Proof{CitedQuote: c}
		of, done := cuts[c.Version]
		if !done || of.file != c.File {
			of = cutting(ctx, s, c)
			cuts[c.Version] = of
		}
		if err := ctx.Err(); err != nil {
			return nil, context.Cause(ctx)
		}
		p.FileProved, p.Problem = of.proved, of.problem
		if p.Problem == "" {
			of.prove(&p)
		}
		out = append(out, p)
	}
	return out, nil
}

// cut is a file divided into sections.
type cut struct {
	file     CitedFile
	proved   bool // the bytes match the receipt
	sections []schema.Section
	problem  string
}

func cutting(ctx context.Context, s Sources, c CitedQuote) cut {
	out := cut{file: c.File}
	data, err := s.Bytes(ctx, c)
	if err != nil {
		out.problem = err.Error()
		return out
	}
	sum := sha256.Sum256(data)
	if got := hex.EncodeToString(sum[:]); got != c.File.SHA256 || int64(len(data)) != c.File.Bytes {
		out.problem = fmt.Sprintf("the file was changed: it has the SHA-256 %s and %d bytes, and the cited version %s and %d", got, len(data), c.File.SHA256, c.File.Bytes)
		return out
	}
	out.proved = true
	parsed, err := s.Parse(ctx, c.File, data)
	if err != nil {
		out.problem = "the file cannot be parsed: " + err.Error()
		return out
	}
	out.sections = text.Sections(parsed, text.SectionTokens)
	return out
}

// prove verifies the location of the citation.
func (c cut) prove(p *Proof) {
	if p.Section >= len(c.sections) || p.End > len(c.sections[p.Section].Text) || c.sections[p.Section].Text[p.Start:p.End] != p.Quote {
		p.Problem = "the quote is not in the file's text, as this program reads it; a program of the version that issued the receipt may read it otherwise"
		if i := slices.IndexFunc(c.sections, func(s schema.Section) bool { return strings.Contains(s.Text, p.Quote) }); i >= 0 {
			p.Problem = fmt.Sprintf("the quote is in section %d of the file's text and not at bytes %d to %d of section %d; "+
				"a program of the version that issued the receipt may cut it otherwise", i, p.Start, p.End, p.Section)
		}
		return
	}
	p.TextProved = true
	section := c.sections[p.Section]
	boxes, err := text.Boxes(section.Layout, section.Text, p.Start, p.End)
	switch page := section.PageAt(p.Start); {
	case err != nil:
		p.Problem = err.Error()
	case page != p.Page:
		p.Problem = fmt.Sprintf("the quote is on page %d, and the receipt says page %d", page, p.Page)
	case !slices.Equal(Boxes(boxes), p.Boxes):
		p.Problem = "the quote stands on its page in other boxes than the receipt says"
	default:
		p.PlaceProved = true
	}
}
