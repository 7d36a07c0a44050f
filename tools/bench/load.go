package main

// This file fills collections: documents are stored, claimed and written as in the last stage of
// ingestion, with generated vectors and without parsing.

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/sluice-rag/sluice/internal/documents"
	"github.com/sluice-rag/sluice/internal/ingest/batch"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// loader fills one collection.
type loader struct {
	*workbench
	space
	points *points // generates vectors of passages; nil: all vectors are the same
	// vectors returns the vectors of a document's passages instead, if it is not nil. They are in
	// the model's space.
	vectors    func(number int) []float32
	modelSpace string
	loaded     int // documents
	// kept has the written documents if keep is set. Parts search for them.
	keep bool
	kept []batch.Document
	// segments are the ids of index segments that are to be kept.
	segments []string
	// spent is the time spent in WriteVersions.
	spent time.Duration
}

// batches divides documents into batches within ingestion's limits on number and size.
func batches(docs []written) [][]written {
	var out [][]written
	for from := 0; from < len(docs); {
		size, to := 0, from
		for to < len(docs) && to-from < batch.MaxVersions {
			for _, p := range docs[to].pieces {
				size += len(p.text)
			}
			if size > batch.MaxBytes && to > from {
				break
			}
			to++
		}
		out = append(out, docs[from:to])
		from = to
	}
	return out
}

// load stores documents in batches.
func (l *loader) load(ctx context.Context, docs []written) error {
	for _, b := range batches(docs) {
		ready, err := l.prepare(ctx, b)
		if err == nil {
			err = l.write(ctx, ready)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// prepare stores documents and claims their versions.
func (l *loader) prepare(ctx context.Context, docs []written) ([]batch.Document, error) {
	uploads := make([]schema.Upload, len(docs))
	for i, d := range docs {
		name := fmt.Sprintf("document-%d", l.loaded+i)
		uploads[i] = schema.Upload{ExternalID: name, Title: d.title, MediaType: "text/plain", Content: strings.NewReader(name)}
	}
	taken, err := documents.New(l.store, documents.Options{}).Upload(ctx, l.Principal, l.collection, uploads)
	if err != nil {
		return nil, err
	}
	items := make([]wire.Attempt, len(taken))
	for i, u := range taken {
		items[i] = wire.Attempt{Version: u.Version, Attempt: 1}
	}
	claimed, err := l.store.ClaimVersions(ctx, l.Tenant, items, batch.Lease{Holder: "bench", TTL: time.Hour})
	if err != nil {
		return nil, fmt.Errorf("claim versions: %w", err)
	}
	if len(claimed) != len(items) {
		return nil, fmt.Errorf("claimed %d of %d versions", len(claimed), len(items))
	}
	out := make([]batch.Document, len(docs))
	for i, d := range docs {
		rows, in := []float32(nil), vectorSpace
		if l.vectors != nil {
			rows, in = l.vectors(l.loaded+i), l.modelSpace
		} else {
			rows = l.points.rows(d, l.loaded+i)
		}
		out[i] = ready(items[i], d, in, rows)
	}
	l.loaded += len(docs)
	return out, nil
}

// ready returns what the stages before writing make of a document.
func ready(item wire.Attempt, d written, in string, rows []float32) batch.Document {
	out := batch.Document{Attempt: item, Text: batch.Text{MediaType: "text/plain", Title: d.title}}
	for n, p := range d.pieces {
		sec := batch.Section{Section: schema.Section{ID: schema.NewID(), Ordinal: n, Text: p.text}}
		for i, start := range p.starts {
			text := p.passage(i)
			tokens := max(1, wordsIn(text)*4/3)
			sec.Tokens += tokens
			sec.Passages = append(sec.Passages, schema.Passage{
				ID: schema.NewID(), SectionID: sec.ID, Ordinal: i, Start: start, End: start + len(text), Tokens: tokens,
			})
		}
		out.Text.Sections = append(out.Text.Sections, sec)
	}
	out.Vectors = batch.NewVectors(in, dimension, rows)
	return out
}

// write runs the last stage of ingestion.
func (l *loader) write(ctx context.Context, docs []batch.Document) error {
	begin := time.Now()
	lost, err := l.store.WriteVersions(ctx, l.Tenant, l.collection, docs)
	l.spent += time.Since(begin)
	if err != nil {
		return fmt.Errorf("write %d versions: %w", len(docs), err)
	}
	if len(lost) > 0 {
		return fmt.Errorf("%d of %d versions did not become ready: %+v", len(lost), len(docs), lost[0])
	}
	if l.keep {
		l.kept = append(l.kept, docs...)
	}
	return nil
}
