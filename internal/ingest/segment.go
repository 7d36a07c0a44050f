package ingest

// The beginning of the second stage: blocks become sections and passages.

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/ingest/batch"
	"github.com/sluice-rag/sluice/internal/text"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// draft is a version while it is being cut.
type draft struct {
	item      wire.Attempt
	text      batch.Text
	sentences [][]text.Range            // by section
	first     int                       // index of its first run among those of its segmentation
	result    *wire.SegmentEncodeResult // from one request to the model server; nil if it is segmented and encoded step by step
}

// segment cuts versions into sections and passages, each by its collection's recipe. Versions that
// fail are in outcomes.
func (a *Activities) segment(ctx context.Context, w work, parsed map[uuid.UUID]schema.Parsed, recipes map[uuid.UUID]batch.Recipe) (drafts []*draft, outcomes []wire.Outcome, err error) {
	var order []schema.Segmentation
	bySegmentation := map[schema.Segmentation][]*draft{}
	done := timed(ctx, "index", "text")
	for _, part := range w.parts {
		recipe := recipes[part.Collection]
		by := recipe.Segmentation
		for _, item := range part.Items {
			d, reason := sections(item, parsed[item.Version], by)
			if reason != nil {
				outcomes = append(outcomes, wire.Outcome{Version: item.Version, Reason: reason})
				continue
			}
			d.text.Generation, d.text.Later = recipe.Generation, recipe.Later
			if bySegmentation[by] == nil {
				order = append(order, by)
			}
			bySegmentation[by] = append(bySegmentation[by], d)
		}
	}
	done()
	for _, segmentation := range order {
		all := bySegmentation[segmentation]
		if err := a.encodeTogether(ctx, all, segmentation); err != nil {
			return nil, nil, err
		}
		out, err := a.segmentRest(ctx, all, segmentation)
		if err != nil {
			return nil, nil, err
		}
		outcomes = append(outcomes, out...)
		for _, d := range all {
			if d.text.Sections != nil {
				drafts = append(drafts, d)
			}
		}
	}
	return drafts, outcomes, nil
}

// segmentRest cuts the drafts that were not made in one request. Drafts that fail are in outcomes,
// and lose their sections.
func (a *Activities) segmentRest(ctx context.Context, all []*draft, segmentation schema.Segmentation) (outcomes []wire.Outcome, err error) {
	drafts := slices.DeleteFunc(slices.Clone(all), func(d *draft) bool { return d.result != nil })
	if len(drafts) == 0 {
		return nil, nil
	}
	var runs [][]string
	for _, d := range drafts {
		runs = d.runs(runs)
	}
	stop := timed(ctx, "index", "model")
	scores, by, err := scoresOf(ctx, a.models, runs, segmentation)
	stop()
	if err != nil {
		return nil, fmt.Errorf("score %d runs of sentences: %w", len(runs), err)
	}
	defer timed(ctx, "index", "text")()
	for _, d := range drafts {
		if reason := d.cut(scores[d.first:d.first+len(d.text.Sections)], by); reason != nil {
			outcomes = append(outcomes, wire.Outcome{Version: d.item.Version, Reason: reason})
			d.text.Sections = nil
		}
	}
	return outcomes, nil
}

// parsed reads the blocks of versions.
func (a *Activities) parsed(ctx context.Context, w work) (map[uuid.UUID]schema.Parsed, error) {
	defer timed(ctx, "index", "store")()
	items := w.items()
	raw, err := a.store.Artifacts(ctx, w.tenant, batch.StageParsed, items)
	if err != nil {
		return nil, fmt.Errorf("read blocks: %w", err)
	}
	out := make(map[uuid.UUID]schema.Parsed, len(raw))
	for _, item := range items {
		data := raw[item.Version]
		if data == nil {
			return nil, &missingError{batch.StageParsed, item.Version}
		}
		if out[item.Version], err = batch.Unpack[schema.Parsed](data); err != nil {
			return nil, fmt.Errorf("read blocks of version %s: %w", item.Version, err)
		}
	}
	return out, nil
}

// sections cuts a parsed version into sections and, by g, into the units that passages are made of.
// If cutting panics, only this document fails.
func sections(item wire.Attempt, parsed schema.Parsed, g schema.Segmentation) (d *draft, reason *schema.Reason) {
	defer recoverFailure(&reason)
	d = &draft{item: item, text: batch.Text{
		MediaType: parsed.MediaType, Title: parsed.Title, Pages: parsed.Pages, Warnings: parsed.Warnings,
	}}
	for _, sec := range text.Sections(parsed, text.SectionTokens) {
		sec.ID = schema.NewID()
		d.add(sec, g)
	}
	if len(d.text.Sections) == 0 {
		return nil, &schema.Reason{Code: schema.ReasonEmpty, Message: "there is no text in it"}
	}
	return d, nil
}

// add adds a section with its units by g.
func (d *draft) add(sec schema.Section, g schema.Segmentation) {
	d.text.Sections = append(d.text.Sections, batch.Section{Section: sec, Layout: sec.Layout})
	d.sentences = append(d.sentences, text.Units(sec.Text, g))
}

// runs appends the sentences of each section, as one run, to those of the drafts before.
func (d *draft) runs(before [][]string) [][]string {
	d.first = len(before)
	for i, sec := range d.text.Sections {
		before = append(before, sentencesOf(sec.Text, d.sentences[i]))
	}
	return before
}

// cut cuts the sections into passages.
func (d *draft) cut(scores [][]float64, g schema.Segmentation) (reason *schema.Reason) {
	defer recoverFailure(&reason)
	for i := range d.text.Sections {
		sec := &d.text.Sections[i]
		passages, err := text.Passages(sec.Text, d.sentences[i], scores[i], g)
		if err != nil {
			return &schema.Reason{Code: schema.ReasonModel, Message: fmt.Sprintf("section %d: %v", sec.Ordinal, err)}
		}
		for j := range passages {
			passages[j].ID, passages[j].SectionID = schema.NewID(), sec.ID
		}
		sec.Passages = passages
	}
	return nil
}

// recoverFailure turns a panic over one document into the failure of that document.
func recoverFailure(reason **schema.Reason) {
	if p := recover(); p != nil {
		*reason = &schema.Reason{Code: schema.ReasonCrashed, Message: fmt.Sprintf("cutting it into passages failed: %v", p)}
	}
}

func sentencesOf(s string, ranges []text.Range) []string {
	out := make([]string, len(ranges))
	for i, r := range ranges {
		out[i] = strings.TrimSpace(r.Of(s))
	}
	return out
}
