package search

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/sluice-rag/sluice/internal/lexical"
	"github.com/sluice-rag/sluice/internal/lexical/segment"
	"github.com/sluice-rag/sluice/schema"
)

// diffHits compares a result with the expected hits and statistics.
func diffHits(want []lexical.Hit, st lexical.Statistics, k int, got lexical.Result) string {
	if st.Units != got.Statistics.Units || math.Abs(st.Average-got.Statistics.Average) > 1e-9 || !maps.Equal(st.DF, got.Statistics.DF) {
		return fmt.Sprintf("statistics %+v, want %+v", got.Statistics, st)
	}
	if len(got.Hits) != min(k, len(want)) {
		return fmt.Sprintf("%d hits, want %d of %d", len(got.Hits), k, len(want))
	}
	type unit struct {
		ref     lexical.Ref
		cluster uuid.UUID
	}
	all := map[unit]lexical.Hit{}
	for _, h := range want {
		all[unit{h.Ref, h.Cluster}] = h
	}
	for i, h := range got.Hits {
		w, ok := all[unit{h.Ref, h.Cluster}]
		delete(all, unit{h.Ref, h.Cluster})
		if !ok {
			return fmt.Sprintf("hit %d: %+v is none, or occurs twice", i, h)
		}
		if math.Abs(h.Score-w.Score) > 1e-6 || h.Tokens != w.Tokens {
			return fmt.Sprintf("hit %d: %+v, want %+v", i, h, w)
		}
		if math.Abs(w.Score-want[i].Score) > 1e-8 {
			return fmt.Sprintf("hit %d: %+v, where %+v belongs", i, h, want[i])
		}
		if i > 0 && (got.Hits[i-1].Score < h.Score || got.Hits[i-1].Score == h.Score && compareHits(got.Hits[i-1], h) >= 0) {
			return fmt.Sprintf("hits %d and %d are out of order: %+v, %+v", i-1, i, got.Hits[i-1], h)
		}
	}
	// No unit that was left out has the same score as the last hit and a lower id.
	if n := len(got.Hits); n > 0 {
		last := got.Hits[n-1]
		for _, h := range all {
			if h.Score == all[unit{last.Ref, last.Cluster}].Score && compareHits(h, last) < 0 {
				return fmt.Sprintf("%+v was left out for %+v", h, last)
			}
		}
	}
	return ""
}

// corpus is a collection in segments, with the oracle's copy of the live documents.
type corpus struct {
	t        testing.TB
	cut      segment.Layout
	segments []segment.Built
	dead     map[uuid.UUID]bool
	oracle   oracle
	clusters *lexical.Clusters
	ids      uint64
}

// smallLayout makes even little text take several blocks and pages.
var smallLayout = segment.Layout{Block: 4, Target: 256, Limit: 384, Room: 64}

func newCorpus(t testing.TB, cut segment.Layout) *corpus {
	return &corpus{t: t, cut: cut, dead: map[uuid.UUID]bool{}, oracle: oracle{clusters: map[lexical.Ref]uuid.UUID{}}}
}

// id returns a new id whose first byte is draw, so that ties come in any order.
func (s *corpus) id(draw uint8) uuid.UUID {
	s.ids++
	var id uuid.UUID
	id[0] = draw
	for i := range 8 {
		id[8+i] = byte(s.ids >> (8 * i))
	}
	return id
}

func (s *corpus) add(docs ...segment.VersionText) {
	s.t.Helper()
	built, err := s.cut.Build(s.id(0), docs)
	if err != nil {
		s.t.Fatal(err)
	}
	s.segments = append(s.segments, built)
	s.oracle.documents = append(s.oracle.documents, docs...)
}

func (s *corpus) markDead(i int) segment.VersionText {
	doc := s.oracle.documents[i]
	s.dead[doc.Entry] = true
	s.oracle.documents = slices.Delete(s.oracle.documents, i, i+1)
	return doc
}

func open(t testing.TB, b segment.Built) SegmentView {
	t.Helper()
	s, d, err := segment.Open(b.ID, b.Header, func(n int) []byte { return b.Pages[n].Data })
	if err != nil {
		t.Fatal(err)
	}
	return SegmentView{Header: s, Directory: d, clusters: new(atomic.Pointer[segmentClusters])}
}

// openAll opens a segment with all its pages.
func openAll(t testing.TB, b segment.Built) SegmentView {
	v := open(t, b)
	for n := len(v.DirectoryPages()); n < len(b.Pages); n++ {
		p, err := segment.DecodePage(b.Pages[n].Data)
		if err != nil {
			t.Fatal(err)
		}
		v.Pages = append(v.Pages, NumberedPage{n, p})
	}
	return v
}

// merge merges the segments with the given indexes, in that order.
func (s *corpus) merge(numbers []int) {
	s.t.Helper()
	var inputs []segment.MergeInput
	for _, n := range numbers {
		v := openAll(s.t, s.segments[n])
		inputs = append(inputs, segment.MergeInput{Header: v.Header, Directory: v.Directory, Page: func(n int) (*segment.Page, error) { return v.page(n), nil }})
	}
	built, err := s.cut.Merge(s.id(0), inputs, s.dead)
	if err != nil {
		s.t.Fatal(err)
	}
	slices.Sort(numbers)
	for _, n := range slices.Backward(numbers) {
		s.segments = slices.Delete(s.segments, n, n+1)
	}
	s.segments = append(s.segments, built)
}

// view opens only what a query needs.
func (s *corpus) view(q lexical.TermQuery) *View {
	v := &View{Dead: maps.Clone(s.dead), Clusters: s.clusters}
	for _, b := range s.segments {
		sv := open(s.t, b)
		sv.EachPage(slices.Sorted(slices.Values(Needs(q))), func(n int) {
			p, err := segment.DecodePage(b.Pages[n].Data)
			if err != nil {
				s.t.Fatal(err)
			}
			sv.Pages = append(sv.Pages, NumberedPage{n, p})
		})
		v.Segments = append(v.Segments, sv)
	}
	return v
}

var (
	vocabulary = []string{"a", "b", "c", "d", "e", "f", "ga", "gab", "gabe", "h", "语", "ü"}
	groups     = []string{"red", "green", "blue"}
)

func drawTerms(t *rapid.T, most int) []string {
	return rapid.SliceOfN(rapid.SampledFrom(vocabulary), 0, most).Draw(t, "terms")
}

func (s *corpus) drawDocument(t *rapid.T) segment.VersionText {
	doc := segment.VersionText{Entry: s.id(0), Version: s.id(rapid.Byte().Draw(t, "id"))}
	doc.Title = drawTerms(t, 4)
	doc.Labels = drawLabels(t)
	for range rapid.IntRange(0, 4).Draw(t, "sections") {
		var section [][]string
		for range rapid.IntRange(0, 4).Draw(t, "passages") {
			section = append(section, drawTerms(t, 8))
		}
		doc.Sections = append(doc.Sections, section)
	}
	return doc
}

func drawLabels(t *rapid.T) []string {
	if rapid.Bool().Draw(t, "open") {
		return nil
	}
	return rapid.SliceOfN(rapid.SampledFrom(groups), 1, 3).Draw(t, "labels")
}

func (s *corpus) drawQuery(t *rapid.T) lexical.TermQuery {
	q := lexical.TermQuery{
		Unit:   rapid.SampledFrom([]schema.Unit{schema.UnitPassage, schema.UnitSection, schema.UnitDocument, schema.UnitCluster}).Draw(t, "unit"),
		Terms:  append(drawTerms(t, 5), rapid.SampledFrom([]string{"a", "absent"}).Draw(t, "term")),
		K:      rapid.SampledFrom([]int{0, 1, 3, 10, 1000}).Draw(t, "k"),
		Groups: rapid.SliceOfN(rapid.SampledFrom(groups), 0, 2).Draw(t, "groups"),
	}
	if rapid.Bool().Draw(t, "set") {
		q.Settings = lexical.Settings{K1: rapid.Float64Range(0.1, 5).Draw(t, "k1"), B: rapid.Float64Range(0, 1).Draw(t, "b")}
	}
	if rapid.IntRange(0, 3).Draw(t, "filter") == 0 {
		var versions []uuid.UUID
		for _, doc := range s.oracle.documents {
			if rapid.Bool().Draw(t, "version") {
				versions = append(versions, doc.Version)
			}
		}
		q.Versions = lexical.VersionsOf(versions)
	}
	if rapid.IntRange(0, 2).Draw(t, "within") == 0 {
		q.Within = &lexical.Within{Sections: map[lexical.Ref]bool{}, Clusters: map[uuid.UUID]bool{}}
		for _, doc := range s.oracle.documents {
			switch rapid.IntRange(0, 4).Draw(t, "where") {
			case 0:
				q.Within.Sections[lexical.Ref{Version: doc.Version, Section: -1, Passage: -1}] = true
			case 1:
				section := rapid.IntRange(0, 5).Draw(t, "section")
				q.Within.Sections[lexical.Ref{Version: doc.Version, Section: section, Passage: -1}] = true
			case 2:
				q.Within.Clusters[s.oracle.clusterOf(doc.Version, rapid.IntRange(0, 5).Draw(t, "section"))] = rapid.Bool().Draw(t, "in")
			}
		}
	}
	return q
}

// recluster puts some sections into clusters and takes some out.
func (s *corpus) recluster(t *rapid.T) {
	var changes []lexical.ClusterChange
	for _, doc := range s.oracle.documents {
		for i := range doc.Sections {
			change := lexical.ClusterChange{Version: doc.Version, Section: i}
			switch n := rapid.IntRange(0, 6).Draw(t, "cluster"); n {
			case 0:
				delete(s.oracle.clusters, lexical.Ref{Version: doc.Version, Section: i, Passage: -1})
			case 1, 2, 3:
				change.Cluster = uuid.UUID{0: byte(n)}
				s.oracle.clusters[lexical.Ref{Version: doc.Version, Section: i, Passage: -1}] = change.Cluster
			default:
				continue
			}
			changes = append(changes, change)
		}
	}
	s.clusters = s.clusters.With(changes)
}

// step changes the corpus.
func (s *corpus) step(t *rapid.T) {
	live := len(s.oracle.documents)
	switch what := rapid.IntRange(0, 7).Draw(t, "step"); {
	case what == 0 && live > 0: // delete
		s.markDead(rapid.IntRange(0, live-1).Draw(t, "which"))
	case what == 1 && live > 0: // update
		s.markDead(rapid.IntRange(0, live-1).Draw(t, "which"))
		s.add(s.drawDocument(t))
	case what == 2 && live > 0: // other labels
		doc := s.markDead(rapid.IntRange(0, live-1).Draw(t, "which"))
		doc.Entry, doc.Labels = s.id(0), drawLabels(t)
		s.add(doc)
	case what == 3 && len(s.segments) > 0:
		numbers := rapid.Permutation(numbersTo(len(s.segments))).Draw(t, "order")
		s.merge(numbers[:rapid.IntRange(1, len(numbers)).Draw(t, "merged")])
	case what == 4:
		s.recluster(t)
	default:
		var docs []segment.VersionText
		for range rapid.IntRange(0, 6).Draw(t, "documents") {
			docs = append(docs, s.drawDocument(t))
		}
		s.add(docs...)
	}
}

func numbersTo(n int) []int {
	numbers := make([]int, n)
	for i := range numbers {
		numbers[i] = i
	}
	return numbers
}

func TestSearchesFindWhatTheFormulasSay(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		s := newCorpus(t, smallLayout)
		for range rapid.IntRange(1, 12).Draw(rt, "steps") {
			s.step(rt)
			shared := NewStatisticsCache()
			for range 3 {
				q := s.drawQuery(rt)
				v := s.view(q)
				v.parts = rapid.IntRange(0, 4).Draw(rt, "parts")
				if rapid.Bool().Draw(rt, "cached") {
					v.Statistics = shared
				}
				got, err := v.Search(q)
				if err != nil {
					rt.Fatalf("%+v: %v", q, err)
				}
				if why := s.oracle.diff(q, got); why != "" {
					rt.Fatalf("%+v (within %+v): %s", q, q.Within, why)
				}
			}
		}
	})
}
