package main

// This file measures a funnel against flat retrieval with the same models: clusters, their sections, their passages, and the
// pair model on a few of these, against an exact search of all vectors and the pair model on many.

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-rag/sluice/internal/evaluate"
	"github.com/sluice-rag/sluice/internal/lexical"
	"github.com/sluice-rag/sluice/internal/modelclient"
	"github.com/sluice-rag/sluice/internal/retrieval"
	"github.com/sluice-rag/sluice/internal/text"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

type funnelCommand struct {
	common
	Passages  int    `default:"1000000" help:"How many passages there are, the dataset's among them."`
	Questions int    `default:"150" help:"How many of the dataset's questions are asked."`
	Split     string `default:"test" help:"Which questions: those of qrels/SPLIT.tsv."`
	Flat      int    `default:"400" help:"How many passages the flat side's pair model reads."`
	Clusters  int    `default:"400" help:"How many clusters the funnel keeps."`
	Sections  int    `default:"200" help:"How many sections it keeps of these."`
	Read      int    `default:"40" help:"How many passages its pair model reads."`
	Program   string `placeholder:"FILE" help:"The gpu-segmenter to measure with; the one beside this program when empty."`
	Pack      string `placeholder:"FOLDER" help:"Model pack; the one that comes with Sluice when empty."`
}

// answered is up to which rank an answer counts.
const answered = 4

func (c *funnelCommand) Run(ctx context.Context) error {
	if c.Docs == "" {
		return errors.New("this part asks real questions: --docs FOLDER names a dataset in BEIR's layout, with metadata.answers")
	}
	return c.run(ctx, "funnel", c.measure)
}

func (c *funnelCommand) measure(ctx context.Context, b *workbench, _ texts, f *findings) (err error) {
	dataset, err := evaluate.ReadDataset(c.Docs, c.Split)
	if err != nil {
		return err
	}
	models, err := newModelBed(ctx, c.Program, c.Pack)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, models.close()) }()
	if !models.can(wire.OpScore) {
		return errors.New("the model pack has no pair graph, which both sides need")
	}
	say("funnel: encoding")
	corpus, err := readFunnelCorpus(ctx, c.Docs, c.Seed, models.client)
	if err != nil {
		return err
	}
	s, err := b.newSpace(ctx, "funnel")
	if err != nil {
		return err
	}
	if err := c.load(ctx, b, s, corpus, f); err != nil {
		return err
	}
	engine, err := c.engine(b, models.client)
	if err != nil {
		return err
	}
	sides := &funnelSides{engine: engine, space: s, corpus: corpus, models: models.client, flat: c.Flat, took: map[string][]float64{}}
	if err := c.measuring("funnel"); err != nil {
		return err
	}
	for _, warm := range []string{"funnel", "flat"} {
		if _, err := sides.Search(ctx, warm, dataset.Queries[0].Text, 10, 0); err != nil {
			return err
		}
	}
	clear(sides.took)
	results, err := evaluate.Run(ctx, dataset, sides, evaluate.Options{Plans: []string{"funnel", "flat"}, Limit: c.Questions, Seed: c.Seed, Parallel: 1})
	if err != nil {
		return err
	}
	return c.conclude(results.Summary(), sides, f)
}

// load writes the corpus, has curation's work done, and notes what there is.
func (c *funnelCommand) load(ctx context.Context, b *workbench, s space, corpus *funnelCorpus, f *findings) error {
	say("funnel: loading")
	l := &loader{workbench: b, space: s, vectors: corpus.rows, modelSpace: corpus.space}
	real := len(corpus.ids)
	took, err := timed(func() error {
		if err := l.load(ctx, corpus.docs[:real]); err != nil {
			return err
		}
		for corpus.passages() < c.Passages {
			var docs []written
			for len(docs) < 64 && corpus.passages() < c.Passages {
				docs = append(docs, corpus.make())
			}
			if err := l.load(ctx, docs); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	f.note("corpus", "%d passages, %d of them the dataset's; loaded in %.0f s", corpus.passages(), real, took.Seconds())
	say("funnel: merging and clustering")
	if err := b.mergeAll(ctx, s); err != nil {
		return err
	}
	took, err = timed(func() error {
		_, err := b.store.RebuildClusters(ctx, s.Tenant, s.collection, 1)
		return err
	})
	if err != nil {
		return err
	}
	clusters, err := single[int64](ctx, b, `SELECT count(*) FROM clusters WHERE collection_id = $1`, s.collection)
	if err != nil {
		return err
	}
	f.note("clusters", "%d, made in %.0f s", clusters, took.Seconds())
	return b.settle(ctx)
}

// engine runs the funnel as a query worker does.
func (c *funnelCommand) engine(b *workbench, models *modelclient.Client) (*retrieval.Engine, error) {
	plan := fmt.Sprintf(`name: funnel
description: clusters, their sections, their passages
stages:
  - lexical: {unit: cluster, k: %d}
  - zoom: {to: section}
  - hybrid:
      unit: section
      k: %d
      normalise: max
      of:
        - lexical: {unit: section, weight: 1}
        - dense: {unit: section, weight: 1}
  - zoom: {to: passage}
  - hybrid:
      unit: passage
      k: 1000
      normalise: max
      of:
        - lexical: {unit: section, weight: 1}
        - lexical: {unit: passage, weight: 1}
        - dense: {unit: passage, weight: 1}
  - score: {by: relevance, depth: %d, weight: 0.5, normalise: max}
  - limit: {k: 10}
`, c.Clusters, c.Sections, c.Read)
	folder := filepath.Join(b.dir, "plans")
	if err := errors.Join(os.Mkdir(folder, 0o755), os.WriteFile(filepath.Join(folder, "funnel.yaml"), []byte(plan), 0o644)); err != nil {
		return nil, err
	}
	plans, err := retrieval.LoadCatalogue(os.DirFS(folder), "funnel")
	if err != nil {
		return nil, err
	}
	index := lexical.NewIndex(b.store, indexCache)
	return retrieval.NewEngine(plans, retrieval.Sources{
		Model: models, Readers: models, Lexical: index, Vectors: b.store.Vectors(index, indexCache), Texts: b.store.Reader(),
	})
}

// conclude compares times, in as many groups of questions as there are rounds, and answer recall.
func (c *funnelCommand) conclude(summary evaluate.Summary, sides *funnelSides, f *findings) error {
	name := fmt.Sprintf("ar@%d", answered)
	recall := map[string]float64{}
	for _, p := range summary.Plans {
		v, known := p.Metrics[name]
		if !known {
			return fmt.Errorf("the dataset's questions have no answers (metadata.answers), so there is no %s", name)
		}
		recall[p.Plan] = v
		f.note(p.Plan, "answer recall at 1 and %d: %.3f, %.3f; hit at 1 %.3f; %.0f ms at the median, %.0f at the 95th percentile",
			answered, p.Metrics["ar@1"], v, p.Metrics["hit@1"], p.Millis.P50, p.Millis.P95)
	}
	f.note("funnel's stages", "%d clusters, %d sections, %d passages read; flat: %d passages read", c.Clusters, c.Sections, c.Read, c.Flat)
	f.note("of a flat question", "comparing all vectors, exactly, on all cores: %.0f ms", median(sides.scan))
	ours, other := means(sides.took["funnel"], c.Rounds), means(sides.took["flat"], c.Rounds)
	f.compare(ratio{What: "time per question", Unit: "ms", Ours: ours, Other: other, Against: "flat", Target: 0.6, AtMost: true})
	f.compare(ratio{What: fmt.Sprintf("answer recall at %d, of %d questions", answered, summary.Queries), Unit: "share", Ours: []float64{recall["funnel"]},
		Other: []float64{recall["flat"]}, Against: "flat", Target: 1 - 0.01/max(recall["flat"], 0.01)})
	return nil
}

// means are those of so many groups of values, in their order.
func means(values []float64, groups int) []float64 {
	out := make([]float64, 0, groups)
	for i := range groups {
		part := values[len(values)*i/groups : len(values)*(i+1)/groups]
		sum := 0.0
		for _, v := range part {
			sum += v
		}
		if len(part) > 0 {
			out = append(out, sum/float64(len(part)))
		}
	}
	return out
}

// funnelSides searches in either way.
type funnelSides struct {
	engine *retrieval.Engine
	space  space
	corpus *funnelCorpus
	models *modelclient.Client
	flat   int
	took   map[string][]float64 // milliseconds by side
	scan   []float64            // of the flat side, comparing vectors
}

// Search implements evaluate.Searcher. What is made has no text, so that no answer is found in it.
func (s *funnelSides) Search(ctx context.Context, plan, question string, depth, passages int) (found evaluate.Found, err error) {
	search := s.searchFunnel
	if plan == "flat" {
		search = s.searchFlat
	}
	took, err := timed(func() error {
		found, err = search(ctx, question, depth, passages)
		return err
	})
	if err != nil {
		return evaluate.Found{}, fmt.Errorf("%s: %w", plan, err)
	}
	found.Plan, found.Millis = plan, took.Seconds()*1000
	s.took[plan] = append(s.took[plan], found.Millis)
	return found, nil
}

func (s *funnelSides) searchFunnel(ctx context.Context, question string, depth, passages int) (evaluate.Found, error) {
	r, err := s.engine.Run(ctx, wire.Query{Principal: s.space.Principal, Collection: s.space.collection, Text: question, K: max(passages, 10), Documents: depth})
	if err != nil {
		return evaluate.Found{}, err
	}
	out := evaluate.Found{Passages: r.Candidates, Stages: r.Trace}
	for i := range out.Passages {
		p := &out.Passages[i]
		if p.ExternalID = s.id(p.ExternalID); p.ExternalID == "" {
			p.Text = ""
		}
	}
	for _, d := range r.Documents {
		out.Documents = append(out.Documents, s.id(d.Document))
	}
	return out, nil
}

// id is what the dataset calls a document; made ones have none.
func (s *funnelSides) id(document string) string {
	n, err := strconv.Atoi(strings.TrimPrefix(document, "document-"))
	if err != nil || n >= len(s.corpus.ids) {
		return ""
	}
	return s.corpus.ids[n]
}

func (s *funnelSides) searchFlat(ctx context.Context, question string, _, passages int) (evaluate.Found, error) {
	vectors, _, err := s.models.Encode(ctx, wire.LaneInteractive, []string{question})
	if err != nil {
		return evaluate.Found{}, fmt.Errorf("encode the question: %w", err)
	}
	var nearest []int
	took, _ := timed(func() error {
		nearest = s.corpus.nearest(vectors.Data, s.flat)
		return nil
	})
	s.scan = append(s.scan, float64(took)/float64(time.Millisecond))
	inputs := make([]string, len(nearest))
	for i, p := range nearest {
		title, body := s.corpus.passage(p)
		inputs[i], _ = text.InContext(title, nil, body)
	}
	scores, _, err := s.models.Score(ctx, wire.LaneInteractive, question, inputs, false)
	if err != nil {
		return evaluate.Found{}, fmt.Errorf("score %d passages: %w", len(inputs), err)
	}
	order := make([]int, len(nearest))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(scores[b].Relevance, scores[a].Relevance) })
	var out evaluate.Found
	for _, i := range order {
		id, body := "", ""
		if p := nearest[i]; p < len(s.corpus.ids) {
			id = s.corpus.ids[p]
			_, body = s.corpus.passage(p)
		}
		out.Documents = append(out.Documents, id)
		if len(out.Passages) < max(passages, 10) {
			out.Passages = append(out.Passages, schema.Candidate{ExternalID: id, Text: body})
		}
	}
	return out, nil
}
