package main

// This file compares the lexical index with Lucene: the same passages and questions as the same
// terms, on one thread, in memory, without text analysis or a database.

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/lexical"
	"github.com/sluice-rag/sluice/internal/lexical/search"
	"github.com/sluice-rag/sluice/internal/lexical/segment"
	"github.com/sluice-rag/sluice/schema"
)

type luceneCommand struct {
	common
	Passages int    `default:"300000" help:"How many passages there are."`
	K        int    `default:"100" help:"How many passages are wanted."`
	Queries  int    `default:"400" help:"How many questions are asked in a round."`
	Lucene   string `placeholder:"FILE" help:"The program that is Lucene; bench-lucene beside this one when empty."`
}

func (c *luceneCommand) Run(ctx context.Context) error {
	f, err := c.findings(ctx)
	if f != nil {
		err = errors.Join(report(c.JSON, f), err)
	}
	return err
}

func (c *luceneCommand) findings(ctx context.Context) (_ *findings, err error) {
	if c.Rounds < 1 || c.Queries < 1 || c.Passages < 1 {
		return nil, errors.New("rounds, queries and passages must be above 0")
	}
	t, err := openTexts(c.Docs, c.Seed)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, c.Timeout, fmt.Errorf("not done after %s: raise --timeout", c.Timeout))
	defer cancel()
	folder, err := os.MkdirTemp("", "bench-lucene-")
	if err != nil {
		return nil, fmt.Errorf("make a folder for Lucene's index: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	progressf("lucene: starting")
	other, err := startLucene(ctx, c.Lucene, filepath.Join(folder, "index"))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, other.close()) }()
	f := &findings{Part: "lucene", Corpus: t.name()}
	if err := c.measure(ctx, other, t, f); err != nil {
		return nil, fmt.Errorf("lucene: %w", err)
	}
	return f, nil
}

// builtAtOnce is the number of documents of a segment, as many as curation indexes at once.
const builtAtOnce = indexedAtOnce

func (c *luceneCommand) measure(ctx context.Context, other *lucene, t texts, f *findings) error {
	analyzer, err := lexical.NewAnalyzer("en")
	if err != nil {
		return err
	}
	docs := first(t, c.Passages)
	progressf("lucene: analysing")
	texts := make([]segment.VersionText, len(docs))
	passages := 0
	for i, d := range docs {
		texts[i] = segment.VersionText{Entry: schema.NewID(), Version: schema.NewID()}
		for _, p := range d.pieces {
			var section [][]string
			for j := range p.starts {
				section = append(section, analyzer.Terms(p.passage(j)))
			}
			texts[i].Sections = append(texts[i].Sections, section)
		}
		passages += d.passages()
	}
	f.note("corpus", "%d passages of %d documents, as terms", passages, len(docs))

	var parts []segment.Built // segments by round
	ours := side{"Sluice", func(_ context.Context, round int) (float64, time.Duration, error) {
		part := texts[len(texts)*round/c.Rounds : len(texts)*(round+1)/c.Rounds]
		var built segment.Built
		took, err := timed(func() (err error) {
			built, err = builtOf(part)
			return err
		})
		parts = append(parts, built)
		return float64(built.Passages), took, err
	}}
	theirs := side{"Lucene", func(_ context.Context, round int) (float64, time.Duration, error) {
		lines := linesOf(texts[len(texts)*round/c.Rounds : len(texts)*(round+1)/c.Rounds])
		r, err := other.ask("index", lines)
		return float64(len(lines)), r.took(), err
	}}
	progressf("lucene: indexing")
	rates, err := rounds(ctx, c.Rounds, ours, theirs)
	if err != nil {
		return err
	}
	f.compare(ratio{What: "indexing passages", Unit: "passages/s", Ours: rates[0], Other: rates[1], Against: "Lucene"})
	progressf("lucene: merging")
	whole, err := mergedOf(parts)
	if err != nil {
		return err
	}
	if _, err := other.ask("merge", nil); err != nil {
		return err
	}
	size, err := other.ask("size", nil)
	if err != nil {
		return err
	}
	if size.Documents != passages || whole.Passages != passages {
		return fmt.Errorf("the index of Lucene has %d passages, that of Sluice %d, of %d", size.Documents, whole.Passages, passages)
	}
	f.note("index", "Sluice %.0f bytes per passage, Lucene %.0f", float64(whole.Bytes)/float64(passages), float64(size.Bytes)/float64(passages))
	return c.search(ctx, other, whole, texts, questions(docs, c.Queries, c.Seed), analyzer, f)
}

// search asks both indexes the same questions.
func (c *luceneCommand) search(ctx context.Context, other *lucene, whole segment.Built, texts []segment.VersionText, questions []string, analyzer *lexical.Analyzer, f *findings) error {
	storage := &segmentStorage{whole}
	index := search.NewIndex(storage, 1<<40)
	queries := make([]lexical.TermQuery, len(questions))
	lines := make([]string, len(questions))
	for i, q := range questions {
		terms := slices.Compact(slices.Sorted(slices.Values(analyzer.Terms(q)))) // Lucene counts a repeated term once
		queries[i] = lexical.TermQuery{Unit: schema.UnitPassage, Terms: terms, K: c.K, Settings: lexical.Defaults}
		lines[i] = strings.Join(terms, " ")
	}
	ask := func(i int) (lexical.Result, error) {
		s, ok := index.OpenCached(uuid.Max, uuid.Max, queries[i])
		if !ok {
			var err error
			if s, err = index.Open(ctx, uuid.Max, uuid.Max, queries[i]); err != nil {
				return lexical.Result{}, err
			}
		}
		return s.Search(queries[i])
	}
	if err := c.agree(other, texts, lines, ask, f); err != nil {
		return err
	}
	ours := side{"Sluice", func(context.Context, int) (float64, time.Duration, error) {
		took, err := timed(func() error {
			for i := range queries {
				if _, err := ask(i); err != nil {
					return err
				}
			}
			return nil
		})
		return float64(len(queries)), took, err
	}}
	theirs := side{"Lucene", func(context.Context, int) (float64, time.Duration, error) {
		r, err := other.ask(fmt.Sprintf("search %d", c.K), lines)
		return float64(len(lines)), r.took(), err
	}}
	progressf("lucene: warming up")
	for range 20 { // let Java's JIT compile the code
		for _, s := range []side{ours, theirs} {
			if _, _, err := s.measure(ctx, 0); err != nil {
				return err
			}
		}
	}
	if err := c.measuring("lucene"); err != nil {
		return err
	}
	rates, err := rounds(ctx, c.Rounds, ours, theirs)
	if err != nil {
		return err
	}
	f.compare(ratio{What: fmt.Sprintf("BM25 top %d of passages", c.K), Unit: "queries/s", Ours: rates[0], Other: rates[1], Against: "Lucene", Target: 0.7})
	return nil
}

// agree checks that both do the same work. Lucene omits the factor k1 + 1, and stores lengths in
// one byte, so scores differ by a few per cent and close ones may be in another order.
func (c *luceneCommand) agree(other *lucene, texts []segment.VersionText, lines []string, ask func(i int) (lexical.Result, error), f *findings) error {
	number := map[lexical.Ref]int{}
	for _, t := range texts {
		for s, passages := range t.Sections {
			for p := range passages {
				number[lexical.Ref{Version: t.Version, Section: s, Passage: p}] = len(number)
			}
		}
	}
	n := min(len(lines), 30)
	theirs, err := other.ask(fmt.Sprintf("hits %d", c.K), lines[:n])
	if err != nil {
		return err
	}
	both, all, furthest := 0, 0, 0.0
	for i := range n {
		r, err := ask(i)
		if err != nil {
			return err
		}
		scores := map[int]float64{}
		for _, h := range r.Hits {
			scores[number[h.Ref]] = h.Score
		}
		for j, id := range theirs.Hits[i] {
			all++
			if score, ok := scores[id]; ok {
				both++
				furthest = max(furthest, math.Abs(theirs.Scores[i][j]*(lexical.Defaults.K1+1)/score-1))
			}
		}
	}
	if all == 0 || float64(both)/float64(all) < 0.9 || furthest > 0.1 {
		return fmt.Errorf("of %d passages that Lucene finds Sluice finds %d, with scores that differ by %.2g: they do not do the same work", all, both, furthest)
	}
	f.note("agreement", "of Lucene's %d best passages of %d questions, %.1f %% are Sluice's, with scores that differ by %.1f %% at most", c.K, n, 100*float64(both)/float64(all), 100*furthest)
	return nil
}

// builtOf builds one segment of documents by merging smaller ones.
func builtOf(docs []segment.VersionText) (segment.Built, error) {
	var small []segment.Built
	for some := range slices.Chunk(docs, builtAtOnce) {
		b, err := segment.Build(schema.NewID(), some)
		if err != nil {
			return segment.Built{}, err
		}
		small = append(small, b)
	}
	return mergedOf(small)
}

// mergedOf merges segments into one.
func mergedOf(parts []segment.Built) (segment.Built, error) {
	inputs := make([]segment.MergeInput, len(parts))
	for i, b := range parts {
		header, directory, err := segment.Open(b.ID, b.Header, func(n int) []byte { return b.Pages[n].Data })
		if err != nil {
			return segment.Built{}, err
		}
		inputs[i] = segment.MergeInput{Header: header, Directory: directory, Page: func(n int) (*segment.Page, error) { return segment.DecodePage(b.Pages[n].Data) }}
	}
	return segment.Merge(schema.NewID(), inputs, nil)
}

// linesOf returns the passages of documents, each as a line of terms.
func linesOf(texts []segment.VersionText) []string {
	var out []string
	for _, t := range texts {
		for _, section := range t.Sections {
			for _, terms := range section {
				out = append(out, strings.Join(terms, " "))
			}
		}
	}
	return out
}

// segmentStorage stores one segment. It implements search.Storage.
type segmentStorage struct{ segment.Built }

// LoadLexical implements search.Storage.
func (s *segmentStorage) LoadLexical(_ context.Context, l search.Load) (search.Loaded, error) {
	out := search.Loaded{Generation: 1, Revision: 1, Language: "en", Mark: search.ListMark{Generation: 1, Count: 1}, Dead: search.DeadFingerprint{Generation: 1},
		Epoch: search.EpochMark{Generation: 1}, Headers: map[uuid.UUID][]byte{}, Pages: map[search.PageKey][]byte{}}
	if l.Live != out.Mark {
		out.Live = []uuid.UUID{s.ID}
	}
	if !slices.Contains(l.Known, s.ID) {
		out.Headers[s.ID] = s.Header
	}
	for i, p := range s.Pages {
		out.Pages[search.PageKey{Segment: s.ID, Page: i}] = p.Data
	}
	return out, nil
}

// LexicalRevision implements search.Storage. The revision never changes.
func (s *segmentStorage) LexicalRevision(context.Context, uuid.UUID, uuid.UUID) (wait func() (int64, error)) {
	return func() (int64, error) { return 1, nil }
}

// MatchLexical implements search.Storage. There is no metadata.
func (s *segmentStorage) MatchLexical(_ context.Context, _, _ uuid.UUID, queries []search.Match) ([][]uuid.UUID, error) {
	return make([][]uuid.UUID, len(queries)), nil
}

// lucene is the program tools/bench-lucene.
type lucene struct {
	*externalIndex
	out *bufio.Writer
}

// startLucene runs the program on a new folder. When ctx ends, it is killed.
func startLucene(ctx context.Context, program, folder string) (*lucene, error) {
	r, err := startExternalIndex(ctx, "bench-lucene", program, "make bench PART=lucene", folder)
	if err != nil {
		return nil, err
	}
	return &lucene{r, bufio.NewWriterSize(r.stdin, 1<<16)}, nil
}

// ask performs one operation with some lines. The time in the reply is Lucene's only.
func (l *lucene) ask(what string, lines []string) (bleveReply, error) {
	if lines != nil {
		what = fmt.Sprintf("%s %d", what, len(lines))
	}
	_, err := fmt.Fprintln(l.out, what)
	for _, line := range lines {
		if err == nil {
			_, err = fmt.Fprintln(l.out, line)
		}
	}
	if err == nil {
		err = l.out.Flush()
	}
	out, err := l.reply(err)
	if err != nil {
		return out, fmt.Errorf("lucene: %s: %w %s", what, err, l.stderr.String())
	}
	return out, nil
}
