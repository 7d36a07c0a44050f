package main

// This file compares funnels with flat retrieval by the same models: an exact search of all
// vectors, and the pair model on many passages. A hybrid funnel narrows from clusters over their
// sections to their passages, a few of which the pair model reads. It is not a plan that ships;
// plans that ship, such as funnelrag, are measured beside it.

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

	"github.com/sluice-rag/sluice/internal/dense"
	"github.com/sluice-rag/sluice/internal/evaluate"
	"github.com/sluice-rag/sluice/internal/lexical/search"
	"github.com/sluice-rag/sluice/internal/retrieval"
	"github.com/sluice-rag/sluice/internal/retrieval/plan"
	planrun "github.com/sluice-rag/sluice/internal/retrieval/run"
	"github.com/sluice-rag/sluice/internal/text"
	"github.com/sluice-rag/sluice/plans"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

type funnelCommand struct {
	common
	Passages  int    `default:"1000000" help:"How many passages there are, the dataset's among them."`
	Questions int    `default:"150" help:"How many of the dataset's questions are asked."`
	Split     string `default:"test" help:"Which questions: those of qrels/SPLIT.tsv."`
	Flat      int    `default:"400" help:"How many passages the flat side's pair model reads."`
	Program   string `placeholder:"FILE" help:"The gpu-segmenter to measure with; the one beside this program when empty."`
	Pack      string `placeholder:"FOLDER" help:"Model pack; the one that comes with Sluice when empty."`
	// Settings are measured in one run, over one loaded collection.
	Settings []string `default:"400/200/40" placeholder:"K/N/READ" help:"Hybrid funnels to measure: how many clusters each keeps, how many sections of these, and how many passages its pair model reads; several with commas. Of several one is chosen on half of the questions and compared on the other half."`
	Plans    []string `default:"funnelrag" placeholder:"NAME" help:"Plans that ship, to be measured beside the funnels; several with commas, none when empty."`
}

// funnelSetting is the width of a funnel: clusters kept, sections kept of these, passages read.
type funnelSetting struct{ clusters, sections, read int }

// plan returns the name of the setting's plan.
func (s funnelSetting) plan() string {
	return fmt.Sprintf("funnel-%d-%d-%d", s.clusters, s.sections, s.read)
}

func (s funnelSetting) String() string {
	return fmt.Sprintf("%d/%d/%d", s.clusters, s.sections, s.read)
}

// parseFunnelSettings parses settings such as 400/200/40.
func parseFunnelSettings(texts []string) ([]funnelSetting, error) {
	var out []funnelSetting
	for _, text := range texts {
		var numbers []int
		for part := range strings.SplitSeq(text, "/") {
			n, err := strconv.Atoi(part)
			if err != nil || n < 1 {
				return nil, fmt.Errorf("settings: %q: %q is not a number above 0", text, part)
			}
			numbers = append(numbers, n)
		}
		if len(numbers) != 3 {
			return nil, fmt.Errorf("settings: %q has %d numbers: it must be clusters/sections/passages", text, len(numbers))
		}
		s := funnelSetting{numbers[0], numbers[1], numbers[2]}
		if slices.Contains(out, s) {
			return nil, fmt.Errorf("settings: %q occurs twice", text)
		}
		out = append(out, s)
	}
	if len(out) == 0 {
		return nil, errors.New("settings: name at least one, such as 400/200/40")
	}
	return out, nil
}

// flatSide is the name of flat retrieval, which is not a plan.
const flatSide = "flat"

// plans returns the names of the shipped plans to measure.
func (c *funnelCommand) plans() []string {
	return slices.DeleteFunc(slices.Clone(c.Plans), func(name string) bool { return name == "" })
}

func (c *funnelCommand) Run(ctx context.Context) error {
	if _, err := parseFunnelSettings(c.Settings); err != nil {
		return err
	}
	if c.Docs == "" {
		return errors.New("this part asks real questions: --docs FOLDER names a dataset in BEIR's layout, with metadata.answers")
	}
	return c.run(ctx, "funnel", c.measure)
}

func (c *funnelCommand) measure(ctx context.Context, b *workbench, _ texts, f *findings) (err error) {
	settings, err := parseFunnelSettings(c.Settings)
	if err != nil {
		return err
	}
	dataset, err := evaluate.ReadDataset(c.Docs, c.Split)
	if err != nil {
		return err
	}
	models, err := newModelInstallation(ctx, c.Program, c.Pack)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, models.close()) }()
	if !models.can(wire.OpScore) {
		return errors.New("the model pack has no pair graph, which both sides need")
	}
	progressf("funnel: encoding")
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
	read := &funnelReaders{Client: models.client}
	engine, err := c.engine(b, read, settings)
	if err != nil {
		return err
	}
	sides := &funnelSides{engine: engine, space: s, corpus: corpus, models: read, flat: c.Flat}
	if err := c.measuring("funnel"); err != nil {
		return err
	}
	asked := &funnelAsked{settings: settings, plans: c.plans(), flat: c.Flat}
	f.row("all questions", func() error { return asked.ask(ctx, dataset, sides, c.Rounds, c.Questions, c.Seed) })
	return asked.conclude(f)
}

// load writes the corpus, does curation's work, and notes the sizes.
func (c *funnelCommand) load(ctx context.Context, b *workbench, s space, corpus *funnelCorpus, f *findings) error {
	progressf("funnel: loading")
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
	progressf("funnel: merging and clustering")
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

// funnelPlan returns the plan of a setting.
func funnelPlan(s funnelSetting) string {
	return fmt.Sprintf(`name: %s
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
`, s.plan(), s.clusters, s.sections, s.read)
}

// engine returns an engine that runs the funnels and the shipped plans, as a query worker does.
func (c *funnelCommand) engine(b *workbench, models *funnelReaders, settings []funnelSetting) (*planrun.Engine, error) {
	folder := filepath.Join(b.dir, "plans")
	if err := os.Mkdir(folder, 0o755); err != nil {
		return nil, fmt.Errorf("write the plans: %w", err)
	}
	for _, s := range settings {
		if err := os.WriteFile(filepath.Join(folder, s.plan()+".yaml"), []byte(funnelPlan(s)), 0o644); err != nil {
			return nil, fmt.Errorf("write the plans: %w", err)
		}
	}
	catalogue, err := plan.LoadCatalogue(plans.FS, plans.Default)
	if err != nil {
		return nil, err
	}
	if err := catalogue.Add(os.DirFS(folder)); err != nil {
		return nil, err
	}
	for _, name := range c.plans() {
		if _, err := catalogue.Plan(name); err != nil {
			return nil, fmt.Errorf("plans: %w", err)
		}
	}
	index := search.NewIndex(b.store, indexCache)
	return planrun.NewEngine(catalogue, retrieval.Sources{
		Model: models, Readers: models, Lexical: index, Vectors: dense.NewMemoryVectors(b.store, index, indexCache), Texts: b.store,
	})
}

// funnelSides searches by plans or flat.
type funnelSides struct {
	engine *planrun.Engine
	space  space
	corpus *funnelCorpus
	models *funnelReaders
	flat   int
	took   map[string][]float64 // milliseconds by side
	tokens map[string][]float64 // tokens that models read, by side
	scan   []float64            // milliseconds of the flat side for comparing vectors
}

// Search implements evaluate.Searcher. Generated documents are returned without text, so that no
// answer is found in them.
func (s *funnelSides) Search(ctx context.Context, plan string, q evaluate.Topic, depth, passages int) (found evaluate.Found, err error) {
	s.models.texts = nil
	took, err := timed(func() error {
		if plan == flatSide {
			found, err = s.searchFlat(ctx, q.Text, passages)
		} else {
			found, err = s.searchFunnel(ctx, plan, q.Text, depth, passages)
		}
		return err
	})
	if err != nil {
		return evaluate.Found{}, fmt.Errorf("%s: %w", plan, err)
	}
	found.Plan, found.Millis = plan, took.Seconds()*1000
	s.took[plan] = append(s.took[plan], found.Millis)
	s.tokens[plan] = append(s.tokens[plan], float64(s.models.read())) // after the time is taken
	return found, nil
}

func (s *funnelSides) searchFunnel(ctx context.Context, plan, question string, depth, passages int) (evaluate.Found, error) {
	r, err := s.engine.Run(ctx, wire.SearchQuery{Principal: s.space.Principal, Query: schema.Query{Collection: s.space.collection, Plan: plan, Text: question, K: max(passages, 10), Documents: depth}})
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

// id returns the dataset's id of a document; "" for generated ones.
func (s *funnelSides) id(document string) string {
	n, err := strconv.Atoi(strings.TrimPrefix(document, "document-"))
	if err != nil || n >= len(s.corpus.ids) {
		return ""
	}
	return s.corpus.ids[n]
}

func (s *funnelSides) searchFlat(ctx context.Context, question string, passages int) (evaluate.Found, error) {
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
