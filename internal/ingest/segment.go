package ingest

// The second stage: blocks to sections and passages.

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/ingest/batch"
	"github.com/sluice-rag/sluice/internal/text"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// Segment cuts the versions of a batch into sections and passages.
func (a *Activities) Segment(ctx context.Context, in wire.IngestBatch) ([]wire.Outcome, error) {
	return a.run(ctx, "segment", in, a.segment)
}

// draft is a version while it is being cut.
type draft struct {
	item      wire.Attempt
	text      batch.Text
	sentences [][]text.Range // by section
	first     int            // its first run in the batch
}

func (a *Activities) segment(ctx context.Context, in wire.IngestBatch) ([]wire.Outcome, error) {
	parsed, err := a.parsed(ctx, in)
	if err != nil {
		return nil, err
	}
	// Read before anything is cut: a generation that goes live meanwhile makes
	// the writing refuse what is cut here.
	recipe, err := a.store.LiveRecipe(ctx, in.Tenant, in.Collection)
	if err != nil {
		return nil, fmt.Errorf("read the recipe of collection %s: %w", in.Collection, err)
	}
	var outcomes []wire.Outcome
	var drafts []*draft
	var runs [][]string
	done := timed(ctx, "segment", "text")
	for _, item := range in.Items {
		d, reason := sections(item, parsed[item.Version], recipe.Segmentation)
		if reason != nil {
			outcomes = append(outcomes, wire.Outcome{Version: item.Version, Reason: reason})
			continue
		}
		d.text.Generation, d.text.Later = recipe.Generation, recipe.Later
		runs = d.runs(runs)
		drafts = append(drafts, d)
	}
	done()
	if len(drafts) == 0 {
		return outcomes, nil
	}
	stop := timed(ctx, "segment", "model")
	scores, by, err := scoresOf(ctx, a.models, runs, recipe.Segmentation)
	stop()
	if errors.Is(err, schema.ErrInvalid) {
		return a.eachAlone(ctx, in, outcomes, a.segment, err)
	}
	if err != nil {
		return nil, fmt.Errorf("score %d runs of sentences: %w", len(runs), err)
	}
	var artifacts []batch.Artifact
	done = timed(ctx, "segment", "text")
	for _, d := range drafts {
		artifact, reason := d.finish(scores[d.first:d.first+len(d.text.Sections)], by)
		if reason != nil {
			outcomes = append(outcomes, wire.Outcome{Version: d.item.Version, Reason: reason})
			continue
		}
		artifacts = append(artifacts, *artifact)
	}
	done()
	defer timed(ctx, "segment", "store")()
	if err := a.store.SaveArtifacts(ctx, in.Tenant, batch.StageSegmented, artifacts); err != nil {
		return nil, fmt.Errorf("save passages: %w", err)
	}
	return outcomes, nil
}

func (a *Activities) parsed(ctx context.Context, in wire.IngestBatch) (map[uuid.UUID]schema.Parsed, error) {
	defer timed(ctx, "segment", "store")()
	raw, err := a.artifacts(ctx, batch.StageParsed, in)
	if err != nil {
		return nil, err
	}
	out := make(map[uuid.UUID]schema.Parsed, len(raw))
	for id, data := range raw {
		if out[id], err = batch.Unpack[schema.Parsed](data); err != nil {
			return nil, fmt.Errorf("read blocks of version %s: %w", id, err)
		}
	}
	return out, nil
}

// eachAlone does a stage once per version, after the model refused the batch
// with refusal: what it refuses alone fails.
func (a *Activities) eachAlone(ctx context.Context, in wire.IngestBatch, outcomes []wire.Outcome, do body, refusal error) ([]wire.Outcome, error) {
	items := without(in.Items, outcomes)
	if len(items) == 1 {
		return append(outcomes, failed(items[0].Version, schema.ReasonModel, "the model server cannot take it: %v", refusal)), nil
	}
	for _, item := range items {
		one := in
		one.Items = []wire.Attempt{item}
		out, err := do(ctx, one)
		if err != nil {
			return nil, err
		}
		outcomes = append(outcomes, out...)
	}
	return outcomes, nil
}

// sections cuts a parsed version into sections and their sentences, as g has
// them. A document that makes the cutting itself fail fails alone.
func sections(item wire.Attempt, parsed schema.Parsed, g schema.Segmentation) (d *draft, reason *schema.Reason) {
	defer caught(&reason)
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

// add adds a section with its sentences, as g has them.
func (d *draft) add(sec schema.Section, g schema.Segmentation) {
	d.text.Sections = append(d.text.Sections, batch.Section{Section: sec, Layout: sec.Layout})
	d.sentences = append(d.sentences, text.Units(sec.Text, g))
}

// runs appends the sentences of every section to those of the drafts before.
func (d *draft) runs(before [][]string) [][]string {
	d.first = len(before)
	for i, sec := range d.text.Sections {
		before = append(before, sentencesOf(sec.Text, d.sentences[i]))
	}
	return before
}

// finish cuts the sections into passages and packs the version.
func (d *draft) finish(scores [][]float64, g schema.Segmentation) (*batch.Artifact, *schema.Reason) {
	if reason := d.cut(scores, g); reason != nil {
		return nil, reason
	}
	data, err := batch.Pack(d.text)
	if err != nil {
		return nil, &schema.Reason{Code: schema.ReasonRejected, Message: err.Error()}
	}
	return &batch.Artifact{Attempt: d.item, Data: data}, nil
}

// cut cuts the sections into passages.
func (d *draft) cut(scores [][]float64, g schema.Segmentation) (reason *schema.Reason) {
	defer caught(&reason)
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

// caught turns a panic over one document into that document's failure.
func caught(reason **schema.Reason) {
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
