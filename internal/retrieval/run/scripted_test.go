package run_test

// Sources with scripted results: a small collection whose scores are set by the test instead of
// computed. Package queryworker's tests run plans on the real index, vectors and texts.

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/fstest"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/dense"
	"github.com/sluice-rag/sluice/internal/lexical"
	"github.com/sluice-rag/sluice/internal/lexical/search"
	"github.com/sluice-rag/sluice/internal/retrieval"
	"github.com/sluice-rag/sluice/internal/retrieval/plan"
	"github.com/sluice-rag/sluice/internal/retrieval/run"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// scriptedDocument is a document of the script: passages by section.
type scriptedDocument struct {
	name     string
	labels   []string
	metadata map[string]string
	sections [][]string
	deleted  bool // deleted after the index and the vectors were read
}

// scriptedCorpus implements all sources.
type scriptedCorpus struct {
	documents []*scriptedDocument
	clusters  map[lexical.Ref]uuid.UUID // sections in a cluster of several
	lexical   map[lexical.Ref]float64
	byCluster map[uuid.UUID]float64
	df        map[string]int          // number of sections with a term
	dense     map[lexical.Ref]float64 // of passages
	vectors   map[lexical.Ref][]float32
	encodes   map[string][]float32 // nil: the question has the vector 1, and there are no others
	unindexed int
	readers   *scriptedReaders // nil: no model server
	judges    retrieval.Judges // nil: no language model
	links     scriptedLinks    // nil: none are stored
	history   *scriptedHistory // nil: nothing is known of earlier questions
	prefers   *scriptedPreferences

	second *scriptedSecond // nil: the vectors are the first encoder's

	segmentation schema.Segmentation // zero: not known
	space        string              // of the stored vectors; empty: the question's

	calls  int             // of sources
	called func(calls int) // before each
	flips  int             // number of generations before the live one
	// revision of the collection, and the revision of its cached index; 0: none.
	revision, remembered int64
	places               []int // generations in which runs began
	queries              []lexical.TermQuery
	opened               []lexical.TermQuery // what the index was opened for
	members              int                 // calls of Members
	nearest              []dense.NearestQuery
}

func version(document int) uuid.UUID {
	return uuid.MustParse(fmt.Sprintf("00000000-0000-7000-8000-%012d", document+1))
}

func clusterID(n int) uuid.UUID {
	return uuid.MustParse(fmt.Sprintf("cccccccc-0000-7000-8000-%012d", n+1))
}

func doc(d int) lexical.Ref        { return lexical.Ref{Version: version(d), Section: -1, Passage: -1} }
func section(d, s int) lexical.Ref { return lexical.Ref{Version: version(d), Section: s, Passage: -1} }
func passage(d, s, p int) lexical.Ref {
	return lexical.Ref{Version: version(d), Section: s, Passage: p}
}
func (c *scriptedCorpus) number(v uuid.UUID) int {
	for i := range c.documents {
		if version(i) == v {
			return i
		}
	}
	return -1
}

func (c *scriptedCorpus) clusterOf(r lexical.Ref) uuid.UUID {
	r.Passage = -1
	if id, ok := c.clusters[r]; ok {
		return id
	}
	return lexical.SingletonCluster(r.Version, r.Section)
}

func (c *scriptedCorpus) visible(p schema.Principal, v uuid.UUID) bool {
	d := c.documents[c.number(v)]
	return len(d.labels) == 0 || slices.ContainsFunc(d.labels, func(l string) bool { return slices.Contains(p.Groups, l) })
}

func (c *scriptedCorpus) readable(p schema.Principal, v uuid.UUID) bool {
	return c.number(v) >= 0 && c.visible(p, v) && !c.documents[c.number(v)].deleted
}

func (c *scriptedCorpus) matches(f schema.Filter, v uuid.UUID) bool {
	for _, x := range f {
		if c.documents[c.number(v)].metadata[x.Key] != x.Values[0] {
			return false
		}
	}
	return true
}

// call counts a call of a source.
func (c *scriptedCorpus) call() {
	if c.called != nil {
		c.called(c.calls)
	}
	c.calls++
}

// checkState counts a call for a state, and checks the state.
func (c *scriptedCorpus) checkState(at retrieval.At) error {
	c.call()
	if at.Generation != c.Generation() {
		return &retrieval.GenerationError{Asked: at.Generation, Live: c.Generation()}
	}
	if at.Revision != 0 && at.Revision != c.revision {
		return &retrieval.ChangedError{}
	}
	return nil
}

// Generation implements search.Searcher.
func (c *scriptedCorpus) Generation() int { return 1 + c.flips }

// Revision implements search.Searcher.
func (c *scriptedCorpus) Revision() int64 { return c.remembered }

// View implements search.Searcher.
func (c *scriptedCorpus) View() *search.View { return nil }

// OpenCached implements retrieval.Lexical.
func (c *scriptedCorpus) OpenCached(_, _ uuid.UUID, _ lexical.TermQuery) (search.Searcher, bool) {
	return c, c.remembered != 0
}

// all lists the refs of a unit, in order.
func (c *scriptedCorpus) all(unit schema.Unit) (out []lexical.Ref) {
	for d, document := range c.documents {
		if unit == schema.UnitDocument {
			out = append(out, doc(d))
		}
		for s, passages := range document.sections {
			if unit == schema.UnitSection {
				out = append(out, section(d, s))
			}
			for p := range passages {
				if unit == schema.UnitPassage {
					out = append(out, passage(d, s, p))
				}
			}
		}
	}
	return out
}

// Open implements retrieval.Lexical.
func (c *scriptedCorpus) Open(_ context.Context, _, _ uuid.UUID, q lexical.TermQuery) (search.Searcher, error) {
	c.call()
	c.opened = append(c.opened, q)
	c.remembered = c.revision
	return c, nil
}

// Passes implements search.Searcher.
func (c *scriptedCorpus) Passes(v uuid.UUID) bool {
	return c.matches(c.opened[len(c.opened)-1].Filter, v)
}

// Counts implements search.Searcher.
func (c *scriptedCorpus) Counts(q lexical.TermQuery, most int) (map[string]int, error) {
	out := map[string]int{}
	for _, t := range q.Terms {
		out[t] = min(c.df[t], most)
	}
	return out, nil
}

// Search implements search.Searcher.
func (c *scriptedCorpus) Search(q lexical.TermQuery) (lexical.Result, error) {
	c.queries = append(c.queries, q)
	allowed := func(r lexical.Ref) bool {
		if !c.visible(schema.Principal{Groups: q.Groups}, r.Version) || !c.matches(q.Filter, r.Version) || q.Versions != nil && !q.Versions.Has(r.Version) {
			return false
		}
		if q.Within == nil {
			return true
		}
		s, d := r, r
		s.Passage, d.Section, d.Passage = -1, -1, -1
		if q.Within.Sections[s] || q.Within.Sections[d] {
			return true
		}
		return r.Section >= 0 && q.Within.Clusters[c.clusterOf(r)]
	}
	var hits []lexical.Hit
	if q.Unit == schema.UnitCluster {
		seen := map[uuid.UUID]bool{}
		for _, s := range c.all(schema.UnitSection) {
			id := c.clusterOf(s)
			score := c.byCluster[id]
			if score == 0 && c.clusters[s] == uuid.Nil {
				score = c.lexical[s]
			}
			if !seen[id] && allowed(s) && score > 0 {
				seen[id] = true
				hits = append(hits, lexical.Hit{Cluster: id, Score: score})
			}
		}
	}
	for _, r := range c.all(q.Unit) {
		if c.lexical[r] > 0 && allowed(r) {
			hits = append(hits, lexical.Hit{Ref: r, Score: c.lexical[r]})
		}
	}
	slices.SortStableFunc(hits, func(a, b lexical.Hit) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), bytes.Compare(a.Cluster[:], b.Cluster[:]))
	})
	return lexical.Result{Hits: hits[:min(q.K, len(hits))], Statistics: lexical.Statistics{Units: 7, DF: c.df}}, nil
}

// Nearest implements retrieval.Vectors.
func (c *scriptedCorpus) Nearest(_ context.Context, q dense.NearestQuery) ([]dense.Hit, error) {
	if err := c.checkState(retrieval.At{Generation: q.Generation}); err != nil {
		return nil, err
	}
	c.nearest = append(c.nearest, q)
	if c.space != "" {
		return nil, &retrieval.SpaceError{Collection: q.Collection, Stored: c.space, Served: q.Space}
	}
	var hits []dense.Hit
	for _, r := range c.all(schema.UnitPassage) {
		x, ok := c.dense[r]
		s, d := r, r
		s.Passage, d.Section, d.Passage = -1, -1, -1
		if !ok || !c.readable(q.Principal, r.Version) || !c.matches(q.Filter, r.Version) ||
			q.Within != nil && !slices.Contains(q.Within, r) && !slices.Contains(q.Within, s) && !slices.Contains(q.Within, d) {
			continue
		}
		hits = append(hits, dense.Hit{Ref: r, Similarity: x})
	}
	slices.SortStableFunc(hits, func(a, b dense.Hit) int { return cmp.Compare(b.Similarity, a.Similarity) })
	return hits[:min(q.K, len(hits))], nil
}

// EncodeQuery implements retrieval.Model.
func (c *scriptedCorpus) EncodeQuery(_ context.Context, _ wire.Lane, question string, passages []string) (wire.Vectors, string, error) {
	if c.encodes == nil {
		return wire.Vectors{Dimension: 1, Data: []float32{1}}, "scripted", nil
	}
	out := wire.Vectors{Dimension: 2}
	for _, text := range append([]string{question}, passages...) {
		out.Data = append(out.Data, c.encodes[text]...)
	}
	return out, "scripted", nil
}

// CollectionState implements retrieval.Texts, as the methods below.
func (c *scriptedCorpus) CollectionState(context.Context, schema.Principal, uuid.UUID) (retrieval.CollectionState, error) {
	c.call()
	c.places = append(c.places, c.Generation())
	space := cmp.Or(c.space, "scripted")
	if c.second != nil {
		space = "second"
	}
	return retrieval.CollectionState{Language: "en", Generation: c.Generation(), Revision: c.revision, Space: space, Second: c.second != nil, Unindexed: c.unindexed, Segmentation: c.segmentation}, nil
}

func (c *scriptedCorpus) Texts(_ context.Context, p schema.Principal, _ uuid.UUID, at retrieval.At, refs []lexical.Ref) (map[lexical.Ref]retrieval.Text, error) {
	if err := c.checkState(at); err != nil {
		return nil, err
	}
	out := map[lexical.Ref]retrieval.Text{}
	for _, r := range refs {
		if !c.readable(p, r.Version) {
			continue
		}
		d := c.documents[c.number(r.Version)]
		t := retrieval.Text{Document: r.Version, ExternalID: d.name, Section: schema.Section{ID: r.Version, Ordinal: max(r.Section, 0), Tokens: 100}}
		for i, text := range d.sections[max(r.Section, 0)] {
			if i == max(r.Passage, 0) {
				t.Passage = schema.Passage{Ordinal: i, Start: len(t.Section.Text), End: len(t.Section.Text) + len(text), Tokens: 10}
			}
			t.Section.Text += text
		}
		out[r] = t
	}
	return out, nil
}

func (c *scriptedCorpus) ExternalIDs(_ context.Context, p schema.Principal, _ uuid.UUID, versions []uuid.UUID) (map[uuid.UUID]string, error) {
	out := map[uuid.UUID]string{}
	for _, v := range versions {
		if c.readable(p, v) {
			out[v] = c.documents[c.number(v)].name
		}
	}
	return out, nil
}

func (c *scriptedCorpus) SectionRefs(_ context.Context, p schema.Principal, _ uuid.UUID, versions []uuid.UUID) (out []lexical.Ref, err error) {
	for _, r := range c.all(schema.UnitSection) {
		if slices.Contains(versions, r.Version) && c.readable(p, r.Version) {
			out = append(out, r)
		}
	}
	return out, nil
}

func (c *scriptedCorpus) PassageRefs(_ context.Context, p schema.Principal, _ uuid.UUID, at retrieval.At, places []lexical.Ref) (out []lexical.Ref, err error) {
	if err := c.checkState(at); err != nil {
		return nil, err
	}
	for _, r := range c.all(schema.UnitPassage) {
		s, d := r, r
		s.Passage, d.Section, d.Passage = -1, -1, -1
		if c.readable(p, r.Version) && (slices.Contains(places, s) || slices.Contains(places, d)) {
			out = append(out, r)
		}
	}
	return out, nil
}

func (c *scriptedCorpus) Members(_ context.Context, p schema.Principal, _ uuid.UUID, at retrieval.At, clusters []uuid.UUID) (map[uuid.UUID][]lexical.Ref, error) {
	if err := c.checkState(at); err != nil {
		return nil, err
	}
	c.members++
	out := map[uuid.UUID][]lexical.Ref{}
	for _, r := range c.all(schema.UnitSection) {
		if id, ok := c.clusters[r]; ok && slices.Contains(clusters, id) && c.readable(p, r.Version) {
			out[id] = append(out[id], r)
		}
	}
	return out, nil
}

func (c *scriptedCorpus) ClustersOf(_ context.Context, _ schema.Principal, _ uuid.UUID, at retrieval.At, sections []lexical.Ref) (map[lexical.Ref]uuid.UUID, error) {
	if err := c.checkState(at); err != nil {
		return nil, err
	}
	out := map[lexical.Ref]uuid.UUID{}
	for _, r := range sections {
		if id, ok := c.clusters[r]; ok {
			out[r] = id
		}
	}
	return out, nil
}

func (c *scriptedCorpus) VectorsOf(_ context.Context, q dense.PassagesQuery) (map[lexical.Ref][]float32, error) {
	if err := c.checkState(retrieval.At{Generation: q.Generation}); err != nil {
		return nil, err
	}
	out := map[lexical.Ref][]float32{}
	for _, r := range q.Passages {
		if v, ok := c.vectors[r]; ok {
			out[r] = v
		}
	}
	return out, nil
}

// corpus returns documents a, b, c... with these numbers of passages per section, and no scores.
func corpus(documents ...[]int) *scriptedCorpus {
	c := &scriptedCorpus{clusters: map[lexical.Ref]uuid.UUID{}, lexical: map[lexical.Ref]float64{}, byCluster: map[uuid.UUID]float64{},
		dense: map[lexical.Ref]float64{}, vectors: map[lexical.Ref][]float32{}}
	for d, sections := range documents {
		x := &scriptedDocument{name: string(rune('a' + d))}
		for s, n := range sections {
			var texts []string
			for p := range n {
				texts = append(texts, fmt.Sprintf("Text %s %d %d. ", x.name, s, p))
			}
			x.sections = append(x.sections, texts)
		}
		c.documents = append(c.documents, x)
	}
	return c
}

// run runs a plan's stages on the corpus: lines of YAML that begin with "- ", a stage each.
func (c *scriptedCorpus) run(t *testing.T, stages string, change ...func(*wire.SearchQuery)) run.Result {
	t.Helper()
	out, err := c.tryRun(t, stages, change...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// query asks for everything.
func query() wire.SearchQuery {
	return wire.SearchQuery{Query: schema.Query{Text: "words of the question", K: 100, Documents: 1000, Explain: true}}
}

// engine runs plan p, which has these stages.
func (c *scriptedCorpus) engine(t *testing.T, stages string) *run.Engine {
	t.Helper()
	catalogue, err := plan.LoadCatalogue(fstest.MapFS{"p.yaml": {Data: []byte("name: p\nstages:\n" + stages)}}, "p")
	if err != nil {
		t.Fatal(err)
	}
	sources := retrieval.Sources{Model: c, Judges: c.judges, Lexical: c, Vectors: c, Texts: c}
	if c.second != nil {
		sources.Second = c.second
	}
	if c.readers != nil {
		sources.Readers = c.readers
	}
	if c.links != nil {
		sources.Links = c
	}
	if c.history != nil {
		sources.History = c.history
	}
	if c.prefers != nil {
		sources.Preferences = c.prefers
	}
	engine, err := run.NewEngine(catalogue, sources)
	if err != nil {
		t.Fatal(err)
	}
	return engine
}

func (c *scriptedCorpus) tryRun(t *testing.T, stages string, change ...func(*wire.SearchQuery)) (run.Result, error) {
	t.Helper()
	engine, q := c.engine(t, stages), query()
	for _, f := range change {
		f(&q)
	}
	return engine.Run(t.Context(), q)
}

// places returns candidates as "a/0/1": document, section, passage.
func places(r run.Result) []string {
	var out []string
	for _, c := range r.Candidates {
		out = append(out, place(c))
	}
	return out
}

func place(c schema.Candidate) string {
	switch c.Unit {
	case schema.UnitPassage:
		var name string
		var s, p int
		if _, err := fmt.Sscanf(c.Text, "Text %1s %d %d.", &name, &s, &p); err != nil {
			return "? " + c.Text
		}
		return fmt.Sprintf("%s/%d/%d", name, s, p)
	case schema.UnitSection:
		var name string
		var s, p int
		if _, err := fmt.Sscanf(c.Text, "Text %1s %d %d.", &name, &s, &p); err != nil {
			return "? " + c.Text
		}
		return fmt.Sprintf("%s/%d", name, s)
	case schema.UnitCluster:
		return c.Cluster.String()[:8] + c.Cluster.String()[35:]
	}
	return c.ExternalID
}

func documents(r run.Result) []string {
	var out []string
	for _, d := range r.Documents {
		out = append(out, d.Document)
	}
	return out
}
