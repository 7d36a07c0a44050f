package search

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/lexical"
	"github.com/sluice-rag/sluice/internal/lexical/segment"
	"github.com/sluice-rag/sluice/schema"
)

// The corpus of the benchmarks: 300,000 passages of four sentences, drawn from English articles,
// with 4 passages per section and 13 sections per document.
const (
	benchPassages    = 300_000
	benchSection     = 4
	benchDocument    = 13 * benchSection
	benchPerSegments = 64
)

type benchCorpus struct {
	documents []segment.VersionText
	queries   [][]string
	texts     []string // some, for analysis
}

func bench(b *testing.B) *benchCorpus {
	b.Helper()
	benchOnce.Do(func() { benchLoaded = newBenchCorpus(b) })
	if benchLoaded == nil {
		b.Fatal("the dataset is not there")
	}
	return benchLoaded
}

var (
	benchOnce   sync.Once
	benchLoaded *benchCorpus
)

func newBenchCorpus(b *testing.B) *benchCorpus {
	data, ok := readDataset(b, "squad-paragraphs")
	if !ok {
		return nil
	}
	analyzer, err := lexical.NewAnalyzer("en")
	if err != nil {
		b.Fatal(err)
	}
	c := &benchCorpus{}
	var sentences [][]string
	for _, d := range data.documents {
		c.texts = append(c.texts, d.Text)
		for s := range strings.SplitSeq(d.Text, ". ") {
			sentences = append(sentences, analyzer.Terms(s))
		}
	}
	for _, q := range data.queries {
		c.queries = append(c.queries, analyzer.Terms(q.Text))
	}
	r := rand.New(rand.NewPCG(1, 2))
	for p := 0; p < benchPassages; p++ {
		if p%benchDocument == 0 {
			n := len(c.documents)
			c.documents = append(c.documents, segment.VersionText{Entry: numbered(n), Version: numbered(n), Title: sentences[n][:min(3, len(sentences[n]))]})
		}
		doc := &c.documents[len(c.documents)-1]
		if p%benchSection == 0 {
			doc.Sections = append(doc.Sections, nil)
		}
		var terms []string
		for range 4 {
			terms = append(terms, sentences[r.IntN(len(sentences))]...)
		}
		last := len(doc.Sections) - 1
		doc.Sections[last] = append(doc.Sections[last], terms)
	}
	return c
}

// views are the corpus in one segment and in 64.
var (
	viewsOnce sync.Once
	views     map[int]*View
)

func benchViews(b *testing.B) map[int]*View {
	c := bench(b)
	viewsOnce.Do(func() {
		views = map[int]*View{}
		var changes []lexical.ClusterChange
		n := 0
		for _, doc := range c.documents {
			for i := range doc.Sections {
				// A cluster has about 13 sections from anywhere: 5,500 clusters of 4K tokens.
				changes = append(changes, lexical.ClusterChange{Version: doc.Version, Section: i, Cluster: numbered(n*7919%5500 + 1)})
				n++
			}
		}
		clusters := lexical.NewClusters(changes)
		for _, segments := range []int{1, benchPerSegments} {
			v := &View{Statistics: NewStatisticsCache(), Clusters: clusters}
			bytes := int64(0)
			for i := range segments {
				from, to := i*len(c.documents)/segments, (i+1)*len(c.documents)/segments
				built, err := segment.Build(numbered(i+1), c.documents[from:to])
				if err != nil {
					b.Fatal(err)
				}
				bytes += built.Bytes
				v.Segments = append(v.Segments, openAll(b, built))
			}
			b.Logf("%d segments: %d bytes", segments, bytes)
			views[segments] = v
		}
	})
	return views
}

// processorTime reports the processor time of an operation, which is more reliable than wall time
// on a machine with other work. It includes the garbage collector's.
func processorTime(b *testing.B) (report func()) {
	begin := cpuTime(b)
	return func() { b.ReportMetric(float64(cpuTime(b)-begin)/float64(b.N), "cpu-ns/op") }
}

func cpuTime(b *testing.B) int64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return u.Utime.Nano() + u.Stime.Nano()
}

func BenchmarkSearch(b *testing.B) {
	c := bench(b)
	for _, segments := range []int{1, benchPerSegments} {
		for _, unit := range []schema.Unit{schema.UnitPassage, schema.UnitSection, schema.UnitDocument, schema.UnitCluster} {
			b.Run(fmt.Sprintf("%s/segments=%d", unit, segments), func(b *testing.B) {
				view := benchViews(b)[segments]
				defer processorTime(b)()
				b.ReportAllocs()
				b.ResetTimer()
				scored, pruned := 0, 0
				for i := 0; b.Loop(); i++ {
					found, err := view.Search(lexical.TermQuery{Unit: unit, Terms: c.queries[i%1000], K: 100})
					if err != nil {
						b.Fatal(err)
					}
					scored += found.Scored
					pruned += found.Pruned
				}
				b.ReportMetric(float64(scored)/float64(b.N), "scored/op")
				b.ReportMetric(float64(pruned)/float64(b.N), "pruned/op")
			})
		}
	}
}

// BenchmarkWithin searches the passages of 10 sections, as the later stages of a funnel do.
func BenchmarkWithin(b *testing.B) {
	c := bench(b)
	view := benchViews(b)[1]
	within := &lexical.Within{Sections: map[lexical.Ref]bool{}}
	for i := range 10 {
		within.Sections[lexical.Ref{Version: c.documents[i*100].Version, Section: i, Passage: -1}] = true
	}
	defer processorTime(b)()
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if _, err := view.Search(lexical.TermQuery{Unit: schema.UnitPassage, Terms: c.queries[i%1000], K: 100, Within: within}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkFirstSearch searches a collection with dead entries, without cached statistics.
func BenchmarkFirstSearch(b *testing.B) {
	c := bench(b)
	view := *benchViews(b)[benchPerSegments]
	view.Dead = map[uuid.UUID]bool{}
	for i := 0; i < len(c.documents); i += 20 {
		view.Dead[c.documents[i].Entry] = true
	}
	for _, unit := range []schema.Unit{schema.UnitPassage, schema.UnitCluster} {
		b.Run(string(unit), func(b *testing.B) {
			defer processorTime(b)()
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				view.Statistics = nil
				if _, err := view.Search(lexical.TermQuery{Unit: unit, Terms: c.queries[i%1000], K: 100}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkAnalysis(b *testing.B) {
	c := bench(b)
	analyzer, err := lexical.NewAnalyzer("en")
	if err != nil {
		b.Fatal(err)
	}
	defer processorTime(b)()
	b.ReportAllocs()
	bytes := 0
	for i := 0; b.Loop(); i++ {
		text := c.texts[i%len(c.texts)]
		bytes += len(text)
		analyzer.Terms(text)
	}
	b.ReportMetric(float64(bytes)/b.Elapsed().Seconds()/1e6, "MB/s")
}

func BenchmarkBuild(b *testing.B) {
	c := bench(b)
	docs := c.documents[:100]
	defer processorTime(b)()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := segment.Build(uuid.UUID{1}, docs); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N*len(docs)*benchDocument)/b.Elapsed().Seconds(), "passages/s")
}

func BenchmarkMerge(b *testing.B) {
	view := benchViews(b)[benchPerSegments]
	defer processorTime(b)()
	b.ReportAllocs()
	for b.Loop() {
		var inputs []segment.MergeInput
		for _, s := range view.Segments[:8] {
			inputs = append(inputs, segment.MergeInput{Header: s.Header, Directory: s.Directory, Page: func(n int) (*segment.Page, error) { return s.page(n), nil }})
		}
		if _, err := segment.Merge(uuid.UUID{1}, inputs, nil); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N*8*benchPassages/benchPerSegments)/b.Elapsed().Seconds(), "passages/s")
}

func BenchmarkDecodePage(b *testing.B) {
	c := bench(b)
	built, err := segment.Build(uuid.UUID{1}, c.documents[:100])
	if err != nil {
		b.Fatal(err)
	}
	pages := built.Pages[len(built.Pages)/4 : len(built.Pages)*3/4]
	defer processorTime(b)()
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if _, err := segment.DecodePage(pages[i%len(pages)].Data); err != nil {
			b.Fatal(err)
		}
	}
}
