package main

// This file measures a matrix (eval --matrix): each row, a plan with its settings, on each dataset
// with each model pack. Questions whose figures are kept in the output folder are not asked again.

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sluice-rag/sluice/cmd/internal/matrix"
	"github.com/sluice-rag/sluice/internal/apiclient"
	"github.com/sluice-rag/sluice/internal/config"
	"github.com/sluice-rag/sluice/internal/evaluate"
	"github.com/sluice-rag/sluice/internal/inference/modelpack"
	"github.com/sluice-rag/sluice/internal/retrieval/plan"
	"github.com/sluice-rag/sluice/plans"
	"github.com/sluice-rag/sluice/schema"
)

// matrixRun is one run of a matrix.
type matrixRun struct {
	*evalCommand
	file     *matrix.File
	out      string
	datasets []*evaluate.Dataset
	rows     []matrix.Row
	asked    *apiclient.Client // the running server; nil: servers are started
	servers  []*matrixServer
	labels   evaluate.HumanLabels
	folder   *matrix.Folder
	kept     map[matrixCell]*matrix.CellResults
	progress *matrixProgress
}

// matrixCell is a dataset under a row with a pack, by their indexes.
type matrixCell struct{ dataset, pack, row int }

// matrixServer is a server with one model pack and one language model, and the rows whose questions
// it is asked.
type matrixServer struct {
	pack     int
	rows     []int
	settings *upCommand // nil: it is running already
	space    string     // hash of the model packs; collections of servers with different packs are kept apart
	identity string
}

// matrixRows are the rows of one dataset at one server.
type matrixRows struct {
	namePart string // part of the collections' names
	rows     map[string]matrix.Row
	plans    []schema.Plan // named after their rows
	kept     map[string]*matrix.CellResults
	needed   map[schema.Segmentation]bool // segmentations that rows of later servers need in the same collections
	ingested func(failed int)
}

// plan returns the name of a row's plan at the server, or its text.
func (m *matrixRows) plan(row string) (known, text string) {
	if r := m.rows[row]; r.Plan == "" {
		return "", r.Text
	}
	return m.rows[row].Plan, ""
}

// later reports whether a collection is needed again.
func (m *matrixRows) later(g *evalCollection) bool { return m.needed[g.segmentation] }

// withoutMatrix returns an error for flags that need --matrix.
func (c *evalCommand) withoutMatrix() error {
	switch {
	case len(c.Datasets) == 0:
		return schema.Invalid("dataset", "name at least one BEIR folder, or a --matrix")
	case c.Out != "" || c.Root != "" || c.DryRun:
		return schema.Invalid("matrix", "--out, --datasets and --dry-run go with --matrix FILE")
	}
	return nil
}

// withMatrix returns an error for flags that the matrix file replaces.
func (c *evalCommand) withMatrix() error {
	for flag, given := range map[string]bool{"dataset": len(c.Datasets) > 0, "plan": len(c.Plan) > 0, "plan-file": len(c.PlanFile) > 0, "split": c.Split != "test",
		"seed": c.Seed != 1, "language": c.Language != "en", "segmentation": c.Segmentation != "", "answers": c.Answers, "judge": c.Judge, "judge-labels": c.Labels != "", "risk": c.Risk != nil, "k": len(c.K) > 0,
		"price-in": c.PriceIn != 10, "price-out": c.PriceOut != 30} {
		if given {
			return schema.Invalid(flag, "cannot be used with --matrix: set it in that file")
		}
	}
	for flag, given := range map[string]bool{"json": c.JSON != "", "html": c.HTML != "", "questions": c.Questions != "", "store": c.Store} {
		if given {
			return schema.Invalid(flag, "cannot be used with --matrix, which writes its figures to the folder --out")
		}
	}
	return nil
}

func (c *evalCommand) runMatrix(ctx context.Context) (err error) {
	if err := c.withMatrix(); err != nil {
		return err
	}
	m := &matrixRun{evalCommand: c, kept: map[matrixCell]*matrix.CellResults{}}
	if m.file, err = matrix.Read(c.Matrix); err != nil {
		return err
	}
	m.out = cmp.Or(c.Out, notInNames.ReplaceAllString(m.file.Name, "-")+".results")
	m.folder = matrix.NewFolder(m.out)
	defer func() { err = errors.Join(err, m.folder.Close()) }()
	if err := errors.Join(m.read(), m.plan(ctx)); err != nil {
		return err
	}
	if err := m.open(); err != nil {
		return err
	}
	if c.DryRun {
		return m.list(os.Stdout)
	}
	if err := os.MkdirAll(m.out, 0o755); err != nil {
		return fmt.Errorf("make the folder of the figures: %w", err)
	}
	m.progress = &matrixProgress{out: os.Stderr, name: "matrix " + m.file.Name}
	m.progress.total = m.questionsLeft()
	for _, s := range m.servers {
		if err := m.ask(ctx, s); err != nil {
			return fmt.Errorf("%w\nThe results so far are kept in %s; run the same command again to continue", err, m.out)
		}
	}
	return m.report(ctx)
}

// read reads the datasets.
func (m *matrixRun) read() error {
	for i, d := range m.file.Datasets {
		if m.Limit < 0 {
			return schema.Invalid("limit", "must be 0 (the limit in the file) or more")
		}
		if m.Limit > 0 {
			m.file.Datasets[i].Limit = m.Limit
		}
		read, err := evaluate.ReadDataset(m.file.Dir(d, m.Root), d.Split)
		if err != nil {
			return fmt.Errorf("matrix %s: datasets[%d]: %w (--datasets names the folder that the datasets are in)", m.file.Path, i, err)
		}
		if read.AnswersAlone && !m.file.Answers {
			return schema.Invalid(fmt.Sprintf("datasets[%d]", i), "%s has no qrels, so only answers can be measured: the matrix needs answers: true", d.Folder)
		}
		read.Name = d.Name
		m.datasets = append(m.datasets, read)
	}
	var err error
	if m.labels, err = m.file.Labels(); err != nil {
		return fmt.Errorf("matrix %s: %w", m.file.Path, err)
	}
	if m.file.JudgeLabels != "" && !slices.ContainsFunc(m.datasets, m.labels.Label) {
		return schema.Invalid("judge_labels", "%s labels none of the questions", m.file.JudgeLabels)
	}
	m.file.Parallel = m.parallel(m.file.Parallel)
	if m.file.Parallel < 1 {
		return schema.Invalid("parallel", "must be at least 1")
	}
	return nil
}

// plan computes the rows, and the servers at which they are asked.
func (m *matrixRun) plan(ctx context.Context) error {
	data, err := dataDirectory(m.Data)
	if err != nil {
		return err
	}
	if m.URL != "" {
		if m.asked, err = apiclient.Find(m.APITLSCA, m.URL, m.APIKey, data); err != nil {
			return err
		}
	}
	if m.rows, err = m.file.Rows(m.named(ctx)); err != nil {
		return fmt.Errorf("matrix %s: %w", m.file.Path, err)
	}
	if m.asked == nil {
		return m.ownServers(data)
	}
	for i, r := range m.rows {
		if len(r.Model) > 0 {
			return schema.Invalid("language_model", "row %q has another one than the running server: leave out --url and SLUICE_URL", m.rows[i].Name)
		}
	}
	if len(m.file.Packs) > 0 {
		return schema.Invalid("packs", "a running server has its own pack: leave out --url and SLUICE_URL")
	}
	m.file.Packs = []string{""}
	m.servers = []*matrixServer{{rows: indexes(m.rows), identity: "server " + m.URL}}
	return nil
}

func indexes[T any](of []T) []int {
	out := make([]int, len(of))
	for i := range out {
		out[i] = i
	}
	return out
}

// named returns a function that finds plans by name, at the running server or among the plans that
// ship.
func (m *matrixRun) named(ctx context.Context) func(string) (string, error) {
	if m.asked != nil {
		return func(name string) (string, error) {
			p, err := m.asked.Plan(ctx, name)
			return p.Text, err
		}
	}
	shipped, err := plan.LoadCatalogue(plans.FS, plans.Default)
	return func(name string) (string, error) {
		if err != nil {
			return "", err
		}
		p, err := shipped.Plan(name)
		return p.Text(), err
	}
}

// ownServers plans one server for each pack and language model.
func (m *matrixRun) ownServers(data string) error {
	packs := m.file.Packs
	if len(packs) == 0 {
		packs = []string{""}
	}
	m.file.Packs = packs
	for i, name := range packs {
		byModel := map[string]*matrixServer{}
		for r, row := range m.rows {
			var flags []string
			for setting, value := range row.Model {
				flags = append(flags, "--llm-"+strings.ReplaceAll(setting, "_", "-")+"="+value)
			}
			slices.Sort(flags)
			key := strings.Join(flags, " ")
			if m.file.Judge && len(byModel) > 0 && byModel[key] == nil {
				return schema.Invalid("judge", "row %q has another language model than earlier rows, and each would judge its own answers: leave out judge, or give each language model a matrix of its own", row.Name)
			}
			if s := byModel[key]; s != nil {
				s.rows = append(s.rows, r)
				continue
			}
			s := &matrixServer{pack: i, rows: []int{r}}
			var err error
			if s.settings, err = ownSettings(filepath.Join(data, "eval"), flags...); err != nil {
				return schema.Invalid("language_model", "row %q: %v", row.Name, err)
			}
			if err := s.identify(data, name); err != nil {
				return schema.Invalid(fmt.Sprintf("packs[%d]", i), "%v", err)
			}
			byModel[key] = s
			m.servers = append(m.servers, s)
		}
	}
	return nil
}

// identify chooses the model packs, and sets an identity from everything about the server's models
// that affects figures.
func (s *matrixServer) identify(data, pack string) error {
	hash := func(chosen *string, name string) (string, error) {
		path, err := modelpack.Find(modelsDirectory(data), name)
		if err != nil {
			return "", err
		}
		manifest, err := os.ReadFile(filepath.Join(path, modelpack.ManifestName))
		if err != nil {
			return "", fmt.Errorf("read the manifest of model pack %s: %w", path, err)
		}
		*chosen = path
		sum := sha256.Sum256(manifest)
		return hex.EncodeToString(sum[:10]), nil
	}
	first, err := hash(&s.settings.ModelPack, cmp.Or(pack, s.settings.ModelPack))
	if err != nil {
		return err
	}
	s.space = first
	if s.settings.SecondPack != "" {
		second, err := hash(&s.settings.SecondPack, s.settings.SecondPack)
		if err != nil {
			return err
		}
		s.space += "+" + second
	}
	model := s.settings.LLM
	for _, key := range []*string{&model.LLMAPIKey, &model.AnthropicAPIKey, &model.EmbedKey, &model.RerankKey} {
		if *key != "" {
			*key = "set"
		}
	}
	model.LLMTimeout, model.LLMCacheAge = config.LLM{}.LLMTimeout, config.LLM{}.LLMCacheAge
	text, err := json.Marshal(model)
	if err != nil {
		return fmt.Errorf("describe the language model: %w", err)
	}
	s.identity = "pack " + s.space + ", language model " + string(text)
	return nil
}

// open reads the kept results of each cell.
func (m *matrixRun) open() error {
	for _, s := range m.servers {
		for _, r := range s.rows {
			cut, err := rowSegmentation(m.rows[r])
			if err != nil {
				return err
			}
			for d, set := range m.datasets {
				c, err := m.file.Cell(m.file.Datasets[d], set.Hash, m.rows[r], cut, s.identity)
				if err != nil {
					return err
				}
				if m.kept[matrixCell{d, s.pack, r}], err = m.folder.Results(c); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func rowSegmentation(r matrix.Row) (schema.Segmentation, error) {
	var cut schema.Segmentation
	if r.Described.Segmentation != nil {
		cut = *r.Described.Segmentation
	}
	cut, err := cut.Complete()
	if err != nil {
		return cut, fmt.Errorf("row %s: %w", r.Name, err)
	}
	return cut, nil
}

// questions returns the questions of a dataset that are asked.
func (m *matrixRun) questions(dataset int) []evaluate.Topic {
	d := m.file.Datasets[dataset]
	return m.datasets[dataset].Draw(d.Limit, d.Seed, m.file.Answers)
}

// missing returns the questions of a cell that have no kept figures.
func (m *matrixRun) missing(c matrixCell) []evaluate.Topic {
	return slices.DeleteFunc(slices.Clone(m.questions(c.dataset)), m.kept[c].Has)
}

// questionsLeft returns the number of questions to ask under all rows. Equal cells count once: two
// datasets may have the same documents and questions.
func (m *matrixRun) questionsLeft() int {
	type question struct {
		of   *matrix.CellResults
		hash string
	}
	ask := map[question]bool{}
	for cell, k := range m.kept {
		for _, q := range m.missing(cell) {
			ask[question{k, q.Hash()}] = true
		}
	}
	return len(ask)
}

// unfinished returns the rows of a server under which a dataset has questions to ask.
func (m *matrixRun) unfinished(s *matrixServer, dataset int) []int {
	var out []int
	for _, r := range s.rows {
		if len(m.missing(matrixCell{dataset, s.pack, r})) > 0 {
			out = append(out, r)
		}
	}
	return out
}

// ask asks a server the missing questions. A server without missing questions is not started.
func (m *matrixRun) ask(ctx context.Context, s *matrixServer) (err error) {
	if !slices.ContainsFunc(indexes(m.datasets), func(d int) bool { return len(m.unfinished(s, d)) > 0 }) {
		return nil
	}
	client := m.asked
	if s.settings != nil {
		own, stop, err := s.settings.started(ctx)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, stop()) }()
		client = own
	}
	if m.file.Judge {
		if err := canJudge(ctx, client); err != nil {
			return err
		}
	}
	for d := range m.datasets {
		if rows := m.unfinished(s, d); len(rows) > 0 {
			if err := m.measure(ctx, client, s, d, rows); err != nil {
				return fmt.Errorf("%s: %w", m.datasets[d].Name, err)
			}
		}
	}
	return nil
}

// measure asks the questions of a dataset under some rows.
func (m *matrixRun) measure(ctx context.Context, client *apiclient.Client, s *matrixServer, dataset int, rows []int) error {
	of := m.file.Datasets[dataset]
	command := *m.evalCommand
	command.Language, command.Risk = of.Language, m.file.Risk
	asked := &matrixRows{namePart: m.namePart(s), rows: map[string]matrix.Row{}, kept: map[string]*matrix.CellResults{}, needed: m.needed(s, dataset)}
	options := m.options(dataset)
	for _, r := range rows {
		row := m.rows[r]
		p := row.Described
		p.Name = row.Name
		asked.rows[row.Name], asked.plans = row, append(asked.plans, p)
		asked.kept[row.Name] = m.kept[matrixCell{dataset, s.pack, r}]
		options.Plans = append(options.Plans, row.Name)
	}
	asked.ingested = func(failed int) {
		for _, k := range asked.kept {
			k.Ingested(failed)
		}
		m.progress.begin()
	}
	defer m.progress.end()
	options.Kept = matrix.Rows{Of: asked.kept, Told: m.progress.count}
	e := &evaluation{evalCommand: &command, client: client, dataset: m.datasets[dataset], options: options, matrix: asked}
	if m.file.Answers {
		e.options.Answerer = e
	}
	if m.file.Judge {
		e.options.Judge = judge{client}
	}
	_, err := e.run(ctx)
	return err
}

func (m *matrixRun) options(dataset int) evaluate.Options {
	of := m.file.Datasets[dataset]
	return evaluate.Options{Limit: of.Limit, Seed: of.Seed, Parallel: m.file.Parallel, Cutoffs: m.file.Cutoffs, Prices: m.file.Prices, HumanLabels: m.labels.For(of.Name)}
}

// namePart returns a part of the collections' names that depends on the output folder and the model
// packs, so that matrices and packs do not share collections.
func (m *matrixRun) namePart(s *matrixServer) string {
	absolute, err := filepath.Abs(m.out)
	if err != nil {
		absolute = m.out
	}
	sum := sha256.Sum256([]byte(absolute + "\x00" + s.space))
	return "m" + hex.EncodeToString(sum[:4])
}

// needed returns the segmentations of a dataset that later servers need in the same collections.
func (m *matrixRun) needed(s *matrixServer, dataset int) map[schema.Segmentation]bool {
	out := map[schema.Segmentation]bool{}
	for _, other := range m.servers[slices.Index(m.servers, s)+1:] {
		if other.space != s.space {
			continue
		}
		for _, r := range m.unfinished(other, dataset) {
			if cut, err := rowSegmentation(m.rows[r]); err == nil {
				out[cut] = true
			}
		}
	}
	return out
}
