package stage

// This file makes the result of a run: the texts of the returned candidates, the documents ranked
// by their best candidate, and the report of every stage. It leaves out what has become invisible
// since a stage found it.

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/lexical"
	"github.com/sluice-rag/sluice/schema"
)

// maxReported is the most kept, and the most dropped, candidates in a report.
const maxReported = 10

// Result returns the ranking, and the context made of selected.
func (t *Task) Result(ctx context.Context, ranking, selected Candidates, steps []Step) (schema.SearchResult, error) {
	chosen := selected.items
	want := t.query.K
	if want == 0 {
		want = max(DefaultK, prefixLength(ranking.items, chosen))
	}
	want = min(want, max(MaxK, len(chosen)))
	var out schema.SearchResult
	position := map[key]int{}
	for rest := ranking.items; len(rest) > 0 && len(out.Candidates) < want; {
		batch := rest[:min(want-len(out.Candidates), len(rest))]
		rest = rest[len(batch):]
		batch = reduced(batch, chosen)
		shown, err := t.views(ctx, batch, ranking.unit)
		if err != nil {
			return schema.SearchResult{}, err
		}
		for i, c := range batch {
			if !shown[i].empty() {
				position[c.key] = len(out.Candidates)
				out.Candidates = append(out.Candidates, candidate(c, ranking.unit, shown[i]))
			}
		}
	}
	for _, c := range chosen {
		if i, ok := position[c.key]; ok {
			out.Context = append(out.Context, i)
		}
	}
	var err error
	if out.Documents, err = t.documents(ctx, ranking); err != nil {
		return schema.SearchResult{}, err
	}
	out.Trace, err = t.trace(ctx, steps)
	return out, err
}

// prefixLength returns how many candidates of the ranking include all chosen ones.
func prefixLength(ranking, chosen []item) int {
	in := map[key]bool{}
	for _, c := range chosen {
		in[c.key] = true
	}
	n := 0
	for i, c := range ranking {
		if in[c.key] {
			n = i + 1
		}
	}
	return n
}

// reduced gives the chosen candidates in the ranking the scores, and the text if it was reduced,
// that they had after the last stage.
func reduced(ranked, chosen []item) []item {
	last := map[key]item{}
	for _, c := range chosen {
		last[c.key] = c
	}
	out := slices.Clone(ranked)
	for i, c := range out {
		w, ok := last[c.key]
		if !ok {
			continue
		}
		out[i].scores = w.scores
		if w.shows != nil {
			out[i].shows = w.shows
		}
	}
	return out
}

// candidate converts an item to a result, with the text that it shows.
func candidate(c item, unit schema.Unit, shown view) schema.Candidate {
	first := shown[0]
	text := first.found
	out := schema.Candidate{
		Unit: unit, Cluster: cmp.Or(c.cluster, c.from), Passage: text.Passage.ID, Document: text.Document, ExternalID: text.ExternalID,
		Title: cmp.Or(text.Title, text.ExternalID), HeadingPath: text.Section.HeadingPath,
		Page: text.Section.PageAt(first.start), Location: text.Section.Location(first.start),
		Text: shown.text(), Tokens: shown.tokens(), Score: c.score, Scores: c.scores.byName(), Origin: c.origin,
	}
	for _, p := range shown {
		out.Spans = append(out.Spans, schema.Span{Version: p.ref.Version, Section: p.found.Section.ID, Start: p.start, End: p.end})
	}
	for _, n := range c.near {
		out.NearDuplicates = append(out.NearDuplicates, n.shown)
	}
	return out
}

// shown returns the places whose text candidates show: their own place, or that of the best passage
// of a document or cluster. That is the passage that it has its score from, or else the best by
// BM25.
func (t *Task) shown(ctx context.Context, items []item, unit schema.Unit) ([]lexical.Ref, error) {
	out := make([]lexical.Ref, len(items))
	if unit == schema.UnitPassage || unit == schema.UnitSection {
		for i, c := range items {
			out[i] = c.ref
		}
		return out, nil
	}
	var open []key
	for _, c := range items {
		if c.best == nil {
			open = append(open, c.key)
		}
	}
	best := map[key]lexical.Ref{}
	if len(open) > 0 {
		of := bm25{unit: schema.UnitPassage, settings: lexical.Defaults}
		if err := t.prepare(ctx, of); err != nil {
			return nil, err
		}
		f, err := of.score(ctx, t, open)
		if err != nil {
			return nil, err
		}
		for _, h := range f.hits {
			k := t.enclosing(h.key.ref, unit)
			if _, ok := best[k]; !ok {
				best[k] = h.key.ref
			}
		}
	}
	for i, c := range items {
		ref, ok := best[c.key]
		switch {
		case c.best != nil:
			ref = *c.best
		case ok:
		case c.cluster == uuid.Nil:
			ref = c.ref
		case len(t.members[c.cluster]) > 0:
			ref = t.members[c.cluster][0]
		}
		out[i] = ref
		if items[i].best == nil {
			items[i].best = &ref
		}
	}
	return out, nil
}

// documents ranks documents by their best candidate. All documents of a cluster have its rank, in
// reading order.
func (t *Task) documents(ctx context.Context, ranking Candidates) ([]schema.RankedDocument, error) {
	if t.query.Documents == 0 || len(ranking.items) == 0 {
		return nil, nil
	}
	if _, err := t.refsOf(ctx, keys(ranking.items)); err != nil { // all clusters with one statement
		return nil, err
	}
	var versions []uuid.UUID
	scores := map[uuid.UUID]float64{}
	for _, c := range ranking.items {
		refs, err := t.refsOf(ctx, []key{c.key})
		if err != nil {
			return nil, err
		}
		for _, r := range refs {
			if _, ok := scores[r.Version]; !ok {
				scores[r.Version] = c.score
				versions = append(versions, r.Version)
			}
		}
	}
	names, err := t.Texts.ExternalIDs(ctx, t.query.Principal, t.query.Collection, versions)
	if err != nil {
		return nil, err
	}
	var out []schema.RankedDocument
	for _, v := range versions {
		if name, ok := names[v]; ok && len(out) < t.query.Documents {
			out = append(out, schema.RankedDocument{Document: name, Score: scores[v]})
		}
	}
	return out, nil
}

// trace makes the reports of the stages. A report names kept and dropped candidates if the query
// asks to explain. Statistics are of all text, so only admins get them.
func (t *Task) trace(ctx context.Context, steps []Step) ([]schema.StageReport, error) {
	out := make([]schema.StageReport, len(steps))
	var refs []lexical.Ref
	for _, s := range steps {
		for _, c := range truncateReport(s.items) {
			refs = append(refs, c.ref)
		}
		for _, c := range truncateReport(s.dropped) {
			refs = append(refs, c.ref)
		}
	}
	refs = slices.DeleteFunc(refs, func(r lexical.Ref) bool { return r.Version == uuid.Nil })
	if t.query.Explain {
		if err := t.load(ctx, refs); err != nil {
			return nil, err
		}
	}
	for i, s := range steps {
		out[i] = schema.StageReport{Stage: s.name, Unit: s.unit, In: s.in, Out: len(s.items), Millis: millis(s.Took), Why: s.why}
		if !t.query.Explain {
			continue
		}
		for _, c := range truncateReport(s.items) {
			out[i].Kept = t.judge(out[i].Kept, judged{item: c}, s.unit)
		}
		for _, c := range truncateReport(s.dropped) {
			out[i].Dropped = t.judge(out[i].Dropped, c, s.unit)
		}
		if t.query.Principal.Has(schema.ScopeAdmin) {
			out[i].Statistics = s.statistics
		}
	}
	return out, nil
}

func truncateReport[T any](all []T) []T { return all[:min(maxReported, len(all))] }

// judge adds a candidate to a report, unless its text was deleted.
func (t *Task) judge(to []schema.Judged, c judged, unit schema.Unit) []schema.Judged {
	out := schema.Judged{Cluster: c.cluster, Version: c.ref.Version, Score: c.score, Scores: c.scores.byName(), Why: c.why}
	if c.cluster == uuid.Nil {
		text, ok := t.texts[c.ref]
		if !ok {
			return to
		}
		out.Document = text.ExternalID
		switch {
		case c.ref.Passage >= 0:
			out.Location = text.Section.Location(text.Passage.Start)
		case c.ref.Section >= 0:
			out.Location = text.Section.Location(0)
		}
	}
	return append(to, out)
}

// millis returns d in milliseconds, rounded down to microseconds.
func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
