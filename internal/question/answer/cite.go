package answer

// This file makes citations from a reply's quotes. A quote refers to bytes of a passage as it was
// sent; a citation refers to bytes of stored text. Each quote is looked up in the store as it is
// now and compared byte by byte, so that a citation is always verbatim. Quotes of documents that
// were deleted, or that the asker may no longer see, are left out.

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/text"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// cite makes citations from quotes. at holds, for each quote, the index of its citation, or -1.
// differing has notes on what other versions of the cited documents say instead.
func (a *Answerer) cite(ctx context.Context, q Question, passages []schema.Candidate, quotes []wire.Quote) (citations []schema.Citation, at []int, differing []string, err error) {
	citations = []schema.Citation{}
	if len(quotes) == 0 {
		return citations, nil, nil, nil
	}
	var ids []uuid.UUID
	for _, quote := range quotes {
		if quote.Passage < 0 || quote.Passage >= len(passages) {
			return nil, nil, nil, fmt.Errorf("cite: the reply quotes passage %d of %d", quote.Passage, len(passages))
		}
		for _, s := range passages[quote.Passage].Spans {
			ids = append(ids, s.Section)
		}
		for _, n := range passages[quote.Passage].NearDuplicates {
			ids = append(ids, n.Span.Section)
		}
	}
	sections, err := a.store.Sections(ctx, q.Query.Principal, ids)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("load the quoted sections: %w", err)
	}
	for _, quote := range quotes {
		c := passages[quote.Passage]
		if quote.Start < 0 || quote.End > len(c.Text) || quote.Start >= quote.End {
			return nil, nil, nil, fmt.Errorf("cite: the reply quotes bytes [%d, %d) of a passage of %d", quote.Start, quote.End, len(c.Text))
		}
		quoted := c.Text[quote.Start:quote.End]
		span, ok := locate(c, quote.Start, quoted, sections)
		if !ok {
			at = append(at, -1)
			continue
		}
		at = append(at, len(citations))
		section := sections[span.Section]
		citation := schema.Citation{
			Document: c.ExternalID, DocumentID: c.Document, Title: c.Title, Page: section.PageAt(span.Start),
			Location: section.Location(span.Start), Quote: quoted, Span: span, Answer: short(quote, c.Text),
		}
		citation.Boxes = boxes(ctx, section, span.Start, span.End)
		if s := citation.Answer; s.Text != "" {
			citation.Answer.Boxes = boxes(ctx, section, span.Start+s.Start, span.Start+s.End)
		}
		citations = append(citations, citation)
		differing = append(differing, otherVersions(c, quote.Start, quote.End, sections)...)
	}
	slices.Sort(differing)
	return citations, at, slices.Compact(differing), nil
}

// boxes returns where bytes of a section's text are on its pages. If the layout cannot be read,
// there are no boxes, but the answer stays.
func boxes(ctx context.Context, s schema.Section, start, end int) []schema.Box {
	out, err := text.Boxes(s.Layout, s.Text, start, end)
	if err != nil {
		slog.WarnContext(ctx, "cannot read a section's layout; its citations have no boxes", "section", s.ID, "error", err)
	}
	return out
}

// short returns the short answer inside a quote of text, or none if it lies outside.
func short(q wire.Quote, text string) schema.ShortAnswer {
	a := q.Answer
	if a.Start == 0 && a.End == 0 {
		return schema.ShortAnswer{Confidence: a.Confidence}
	}
	if a.Start < q.Start || a.End > q.End || a.Start >= a.End {
		return schema.ShortAnswer{}
	}
	return schema.ShortAnswer{Text: text[a.Start:a.End], Start: a.Start - q.Start, End: a.End - q.Start, Confidence: a.Confidence}
}

// locate finds quote, which begins at byte offset of the candidate's text, in the stored text of
// the candidate's spans.
func locate(c schema.Candidate, offset int, quote string, sections map[uuid.UUID]schema.Section) (schema.Span, bool) {
	for _, s := range c.Spans {
		section, ok := sections[s.Section]
		if !ok || s.Start < 0 || s.End > len(section.Text) || s.Start >= s.End {
			continue
		}
		stored := section.Text[s.Start:s.End]
		at := strings.Index(stored, quote)
		// The same words may occur twice; the offset in the span decides.
		if len(c.Spans) == 1 && offset+len(quote) <= len(stored) && stored[offset:offset+len(quote)] == quote {
			at = offset
		}
		if at >= 0 {
			return schema.Span{Version: s.Version, Section: s.Section, Start: s.Start + at, End: s.Start + at + len(quote)}, true
		}
	}
	return schema.Span{}, false
}
