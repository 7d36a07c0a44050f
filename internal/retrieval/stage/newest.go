package stage

// The stage "newest": of documents whose texts are nearly the same, such as the versions of a
// contract, the newest is ranked first.

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/identity"
	"github.com/sluice-rag/sluice/internal/lexical"
	"github.com/sluice-rag/sluice/internal/minhash"
	"github.com/sluice-rag/sluice/internal/retrieval"
	"github.com/sluice-rag/sluice/internal/text"
	"github.com/sluice-rag/sluice/schema"
)

const (
	// searchDepthFactor limits how far down the ranking the same passage of a newer version is
	// looked for, as a multiple of depth.
	searchDepthFactor = 4
	// minSharedPairs is the share of the shorter passage's word pairs that another passage must
	// have to be the same passage.
	minSharedPairs = 0.5
	// maxNear is the most near passages shown with a candidate; maxNamed is the most names in a
	// question that are looked up.
	maxNear, maxNamed = 4, 8
)

type newest struct{ depth int }

var newestKind = Kind{
	Name:       "newest",
	Parameters: "`depth` (50)",
	Does: "of the first `depth`, ranks a passage of an older near-duplicate behind the same passage of the newest, unless the question names the older one " +
		"([versions](questions.md#versions-of-a-document))",
	read: readNewest,
}

// readNewest reads the stage "newest":
//
//	newest: {depth: 50}
//
// Documents are near-duplicates if the MinHash estimate says so (package minhash); identity.Edition
// decides which is newer. If one of the first depth candidates is of an older document, the same
// passage of a newer one, if it was found at all, is moved to just before it and gets its score. If
// the question names one of two documents and not the other, that one is ranked first even if it is
// older. A question names a document by its version, its date, a word of its title, or a name that
// only its text has. If it names both, their order stays.
func readNewest(p *Parameters) Stage {
	s := newest{depth: p.Int("depth", 50, 1, 200)}
	return Stage{Fit: proximity{}.fit, run: s.run}
}

// near is the same passage in another version of a candidate's text.
type near struct {
	key   key
	first bool // it is ranked before the candidate
	shown schema.NearPassage
}

// supersededBy reports whether the candidate is an older version of another one, and ranked after
// it.
func (i item) supersededBy(k key) bool {
	return slices.ContainsFunc(i.near, func(n near) bool { return n.first && n.key == k })
}

func (s newest) run(ctx context.Context, t *Task, in Candidates) (outcome, error) {
	out := outcome{unit: in.unit, items: in.items, why: "no document has near-duplicates"}
	head, _ := cut(in.items, s.depth)
	if !t.state.Paired || t.NearDuplicates == nil || len(head) == 0 {
		return out, nil
	}
	searched, _ := cut(in.items, searchDepthFactor*s.depth)
	e, err := t.editions(ctx, searched)
	if err != nil || len(e.other) == 0 {
		return out, err
	}
	if !slices.ContainsFunc(head, func(c item) bool { return len(e.other[c.ref.Version]) > 0 }) {
		return out, nil
	}
	items, err := t.passagesOf(ctx, e, searched)
	if err != nil {
		return outcome{}, err
	}
	if err := e.prefer(ctx, t); err != nil {
		return outcome{}, err
	}
	found := slices.Clone(in.items)
	for i := range head {
		found[i].near = items.same(e, i)
	}
	var moved int
	out.items, moved = before(found)
	out.why = fmt.Sprintf("%d of the first %d were behind the same passage of an older version", moved, len(head))
	return out, nil
}

// editions are the candidates' documents that are near-duplicates of each other.
type editions struct {
	of    map[uuid.UUID]retrieval.Compared // by version
	other map[uuid.UUID][]uuid.UUID        // near-duplicates
	first map[[2]uuid.UUID]bool            // whether the first document is ranked before the second
	newer map[[2]uuid.UUID]bool
	by    map[[2]uuid.UUID]schema.NewerBy
}

func (t *Task) editions(ctx context.Context, items []item) (*editions, error) {
	var versions []uuid.UUID
	seen := map[uuid.UUID]bool{}
	for _, c := range items {
		if !seen[c.ref.Version] {
			seen[c.ref.Version] = true
			versions = append(versions, c.ref.Version)
		}
	}
	e := &editions{other: map[uuid.UUID][]uuid.UUID{}, first: map[[2]uuid.UUID]bool{}, newer: map[[2]uuid.UUID]bool{}, by: map[[2]uuid.UUID]schema.NewerBy{}}
	if len(versions) < 2 {
		return e, nil
	}
	var err error
	if e.of, err = t.NearDuplicates.Paired(ctx, t.query.Principal, t.query.Collection, versions); err != nil {
		return nil, err
	}
	// The others are near-duplicates of none.
	versions = slices.DeleteFunc(versions, func(v uuid.UUID) bool { _, ok := e.of[v]; return !ok })
	for i, a := range versions {
		for _, b := range versions[i+1:] {
			if minhash.Similarity(e.of[a].Signature, e.of[b].Signature) >= minhash.Threshold {
				e.other[a], e.other[b] = append(e.other[a], b), append(e.other[b], a)
			}
		}
	}
	return e, nil
}

// prefer decides which of two near-duplicates is ranked first.
func (e *editions) prefer(ctx context.Context, t *Task) error {
	if err := t.analyse(); err != nil {
		return err
	}
	words := t.analyzer.Terms
	asked := identity.Asked(t.query.Text, words)
	naming := map[uuid.UUID]map[string]bool{} // the terms of the question that name the document
	for v := range e.other {
		c := e.of[v]
		terms := map[string]bool{}
		for _, term := range (identity.Naming{Title: c.Title, Names: []string{c.ExternalID}, Metadata: identity.Values(c.Metadata)}).Terms(words) {
			terms[term] = true
		}
		naming[v] = map[string]bool{}
		for _, term := range asked {
			if terms[term] {
				naming[v][term] = true
			}
		}
	}
	for _, name := range t.namesAsked() {
		with, err := t.versionsWith(ctx, name, e.other)
		if err != nil {
			return err
		}
		for v := range with {
			naming[v]["text "+name] = true
		}
	}
	for a, others := range e.other {
		for _, b := range others {
			order, by := editionOf(e.of[a]).Compare(editionOf(e.of[b]))
			pair := [2]uuid.UUID{a, b}
			e.newer[pair], e.by[pair] = order > 0, by
			own, other := hasOther(naming[a], naming[b]), hasOther(naming[b], naming[a])
			e.first[pair] = !other && (own || order > 0) // not if the question names the other document by something more
		}
	}
	return nil
}

// hasOther reports whether a has something that b lacks.
func hasOther(a, b map[string]bool) bool {
	for x := range a {
		if !b[x] {
			return true
		}
	}
	return false
}

// namesAsked returns the question's terms that may be names: capitalised words other than the
// first, and numbers.
func (t *Task) namesAsked() []string {
	var out []string
	for _, name := range identity.Named(t.query.Text, t.analyzer.Terms) {
		if slices.Contains(t.terms, name) && len(out) < maxNamed {
			out = append(out, name)
		}
	}
	return out
}

// versionsWith returns the versions whose text has a term of the question.
func (t *Task) versionsWith(ctx context.Context, term string, of map[uuid.UUID][]uuid.UUID) (map[uuid.UUID]bool, error) {
	var among []uuid.UUID
	for v := range of {
		among = append(among, v)
	}
	r, err := t.searchIndex(ctx, t.narrowed(lexical.TermQuery{Unit: schema.UnitDocument, Terms: []string{term}, K: len(among), Settings: lexical.Defaults,
		Versions: lexical.VersionsOf(among)}))
	if err != nil {
		return nil, fmt.Errorf("find the documents that name %q: %w", term, err)
	}
	out := map[uuid.UUID]bool{}
	for _, h := range r.Hits {
		out[h.Ref.Version] = true
	}
	return out, nil
}

func editionOf(c retrieval.Compared) identity.Edition {
	return identity.EditionOf(c.Title, c.ExternalID, c.Metadata, c.Uploaded)
}

// passagesRead are candidates with the texts of their passages.
type passagesRead struct {
	items []item
	views []view
	pairs []text.Pairs
}

// passagesOf loads the texts of the candidates whose documents have near-duplicates.
func (t *Task) passagesOf(ctx context.Context, e *editions, items []item) (passagesRead, error) {
	out := passagesRead{items: items, views: make([]view, len(items)), pairs: make([]text.Pairs, len(items))}
	var some []item
	var at []int
	for i, c := range items {
		if len(e.other[c.ref.Version]) > 0 {
			some, at = append(some, c), append(at, i)
		}
	}
	views, err := t.views(ctx, some, schema.UnitPassage)
	if err != nil {
		return out, err
	}
	for n, i := range at {
		if out.views[i] = views[n]; !views[n].empty() {
			out.pairs[i] = text.PairsOf(views[n].text())
		}
	}
	return out, nil
}

// same returns the passages of other versions that are the same as the i-th candidate's: from each
// version the most similar one.
func (p passagesRead) same(e *editions, i int) []near {
	var out []near
	own := p.items[i].ref.Version
	for _, other := range e.other[own] {
		best, at := 0.0, -1
		for j, c := range p.items {
			if c.ref.Version != other || p.views[j].empty() {
				continue
			}
			if x := p.pairs[i].Containment(p.pairs[j]); x >= minSharedPairs && x > best {
				best, at = x, j
			}
		}
		if at < 0 {
			continue
		}
		shows := p.views[at][0]
		pair := [2]uuid.UUID{other, own}
		out = append(out, near{key: p.items[at].key, first: e.first[pair], shown: schema.NearPassage{
			Document: e.of[other].ExternalID, DocumentID: e.of[other].Document, Newer: e.newer[pair], By: e.by[pair],
			Span: schema.Span{Version: other, Section: shows.found.Section.ID, Start: shows.start, End: shows.end},
		}})
	}
	slices.SortStableFunc(out, func(a, b near) int { return strings.Compare(a.shown.Document, b.shown.Document) })
	return out[:min(len(out), maxNear)]
}

// before moves each candidate behind those that are ranked before it, which get at least its score.
// It returns the number of candidates that moved.
func before(items []item) (out []item, moved int) {
	at := make(map[key]int, len(items))
	for i, c := range items {
		at[c.key] = i
	}
	out = make([]item, 0, len(items))
	done := make([]bool, len(items))
	var put func(i int, score float64)
	put = func(i int, score float64) {
		if done[i] {
			return
		}
		done[i] = true // set before the others are placed, since the order may have a cycle
		c := items[i]
		c.score = max(c.score, score)
		for _, n := range c.near {
			if j, ok := at[n.key]; n.first && ok {
				if j > i && !done[j] {
					moved++
				}
				put(j, c.score)
			}
		}
		out = append(out, c)
	}
	for i := range items {
		put(i, items[i].score)
	}
	return out, moved
}
