package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/sluice-rag/sluice/internal/config"
	"github.com/sluice-rag/sluice/internal/evaluate"
	"github.com/sluice-rag/sluice/schema"
)

// evalCommand measures plans on datasets, through the public API.
type evalCommand struct {
	config.Client
	Datasets []string `arg:"" optional:"" name:"dataset" help:"BEIR folders: corpus.jsonl, queries.jsonl, qrels/."`
	Plan     []string `short:"p" sep:"," placeholder:"A,B,C" help:"Plans to compare; the default one when empty."`
	PlanFile []string `placeholder:"FILE" help:"More plans to compare, for a server that is started for this: a YAML file, or a folder of them."`
	Split    string   `default:"test" help:"Which questions: those of qrels/SPLIT.tsv."`
	Limit    int      `help:"Ask only so many questions, drawn at random; 0 is all."`
	Seed     uint64   `default:"1" help:"Seed of the draw."`
	Keep     bool     `help:"Leave the collection for another run, which then need not ingest again."`
	JSON     string   `name:"json" placeholder:"FILE" help:"Write the figures as JSON; - is standard output."`
	HTML     string   `name:"html" placeholder:"FILE" help:"Write a report with plots."`
	Parallel *int     `placeholder:"N" help:"Questions at once, 2 when left out; 1 for times that nothing else is in."`
	K        []int    `short:"k" sep:"," help:"More cutoffs k for the figures beside those always given."`
	Language string   `default:"en" help:"Language of the documents."`

	Segmentation string `placeholder:"BY[,SETTING=N]" help:"How sections become passages, for all plans: segmenter, similarity, sentences or recursive, and settings; when left out what each plan is meant for, else the segmenter."`

	Answers   bool     `help:"Have every question answered too, and measure the answers."`
	Judge     bool     `help:"Have the server's language model judge each answer by the right ones, too: a call for each answer. For --answers."`
	Labels    string   `name:"judge-labels" type:"existingfile" placeholder:"FILE" help:"What people say of answers, to compare the judge with: lines of JSON with query, the question's id, and correct, true or false."`
	Risk      *float64 `help:"Ask with this risk (see ask); 1 gives every answer, however unsure." placeholder:"RISK"`
	PriceIn   float64  `default:"10" placeholder:"DOLLARS" help:"Price of a million input tokens, for answers that do not state their cost."`
	PriceOut  float64  `default:"30" placeholder:"DOLLARS" help:"Price of a million output tokens, likewise."`
	Questions string   `placeholder:"FILE" help:"Write the figures of every question under every plan, one line of JSON each."`

	Store bool   `help:"Store the figures with the server (of SLUICE_URL, or the one that runs here), to be shown and compared later."`
	Name  string `help:"Name of what is stored; datasets and plans when left out."`
	Notes string `help:"What was tried, to be stored with it."`

	Matrix string `type:"existingfile" placeholder:"FILE" help:"Measure what a file names: datasets, model packs, plans and settings (docs/evaluation.md, A matrix)."`
	Out    string `placeholder:"DIR" help:"Folder for the figures of --matrix, with which a second run goes on; NAME.results when left out."`
	Root   string `name:"datasets" placeholder:"DIR" help:"Where the datasets of --matrix are; beside its file when left out."`
	DryRun bool   `help:"List what --matrix would ask, and ask nothing."`
}

// cleaning is the time limit for cleaning up after Ctrl-C.
const cleaning = time.Minute

func (c *evalCommand) Run(ctx context.Context) (err error) {
	if c.Matrix != "" {
		return c.runMatrix(ctx)
	}
	if err := c.withoutMatrix(); err != nil {
		return err
	}
	own, err := c.planFiles()
	if err != nil {
		return err
	}
	defer own.remove()
	c.Plan = append(c.Plan, own.names...)
	if len(c.Plan) == 0 {
		c.Plan = []string{""}
	}
	options := evaluate.Options{Plans: c.Plan, Limit: c.Limit, Seed: c.Seed, Parallel: c.parallel(2), Cutoffs: c.K,
		Prices: evaluate.Prices{Input: c.PriceIn, Output: c.PriceOut}}
	if c.Judge && !c.Answers {
		return schema.Invalid("judge", "judges answers, and no answers are asked for: add --answers")
	}
	labels, err := c.labels()
	if err != nil {
		return err
	}
	if err := errors.Join(options.Check(), writable("json", c.JSON), writable("html", c.HTML), writable("questions", c.Questions)); err != nil {
		return err
	}
	segmentation, err := c.segmentation()
	if err != nil {
		return err
	}
	if c.Risk != nil && !(*c.Risk >= 0 && *c.Risk <= 1) {
		return schema.Invalid("risk", "%g is not a probability from 0 to 1", *c.Risk)
	}
	datasets := make([]*evaluate.Dataset, len(c.Datasets))
	for i, dir := range c.Datasets {
		if datasets[i], err = evaluate.ReadDataset(dir, c.Split); err != nil {
			return err
		}
		if datasets[i].AnswersAlone && !c.Answers {
			return fmt.Errorf("%s has no qrels, so only answers can be measured: add --answers", dir)
		}
	}
	if c.Labels != "" && !slices.ContainsFunc(datasets, labels.Label) {
		return schema.Invalid("judge-labels", "%s labels none of the questions", c.Labels)
	}
	resultServer, err := c.resultServer(ctx)
	if err != nil {
		return err
	}
	client, stop, err := c.server(ctx, own.folder)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	if c.Judge {
		if err := canJudge(ctx, client); err != nil {
			return err
		}
	}
	begun := time.Now()
	done, summaries, err := c.measure(datasets, func(d *evaluate.Dataset) (*evaluate.Results, error) {
		e := &evaluation{evalCommand: c, client: client, dataset: d, options: options, segmentation: segmentation}
		if c.Answers {
			e.options.Answerer = e
		}
		if c.Judge {
			e.options.Judge, e.options.HumanLabels = judge{client}, labels.For(d.Name)
		}
		return e.run(ctx)
	})
	if resultServer != nil && len(done) > 0 && ctx.Err() == nil {
		err = errors.Join(err, c.store(ctx, resultServer, begun, done, summaries))
	}
	return err
}

// parallel returns how many questions are asked at once.
func (c *evalCommand) parallel(usual int) int {
	if c.Parallel != nil {
		return *c.Parallel
	}
	return usual
}

// segmentation returns the segmentation that is set for all plans, complete; the zero value if none
// is set.
func (c *evalCommand) segmentation() (schema.Segmentation, error) {
	if c.Segmentation == "" {
		return schema.Segmentation{}, nil
	}
	s, err := schema.ParseSegmentation(c.Segmentation)
	if err != nil {
		return s, err
	}
	return s.Complete()
}

// measure evaluates each dataset with one. Files are written after every dataset, with the results
// so far. JSON on standard output is written once, at the end.
func (c *evalCommand) measure(datasets []*evaluate.Dataset, one func(*evaluate.Dataset) (*evaluate.Results, error)) (done []*evaluate.Results, summaries []evaluate.Summary, err error) {
	screen := os.Stdout
	if c.JSON == "-" {
		screen = os.Stderr
		defer func() {
			if len(summaries) > 0 {
				err = errors.Join(err, c.writeJSON(summaries))
			}
		}()
	}
	for _, d := range datasets {
		results, err := one(d)
		if err != nil {
			return done, summaries, fmt.Errorf("%s: %w", d.Name, err)
		}
		summary := results.Summary()
		if err := printSummary(screen, summary); err != nil {
			return done, summaries, err
		}
		done, summaries = append(done, results), append(summaries, summary)
		if err := c.report(done, summaries); err != nil {
			return done, summaries, err
		}
	}
	return done, summaries, nil
}

// writable returns an error for a file that cannot be written, so that it is found before the work
// is done.
func writable(flag, path string) error {
	if path == "" || path == "-" {
		return nil
	}
	if info, err := os.Stat(filepath.Dir(path)); err != nil || !info.IsDir() {
		return schema.Invalid(flag, "%s: there is no folder %s", path, filepath.Dir(path))
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return schema.Invalid(flag, "%s is a folder", path)
	}
	return nil
}

// report writes the files.
func (c *evalCommand) report(done []*evaluate.Results, summaries []evaluate.Summary) error {
	if c.JSON != "" && c.JSON != "-" {
		if err := c.writeJSON(summaries); err != nil {
			return err
		}
	}
	if c.Questions != "" {
		err := write(c.Questions, func(w io.Writer) error {
			for _, r := range done {
				if err := r.WriteQuestions(w); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	if c.HTML == "" {
		return nil
	}
	about := fmt.Sprintf("%s, sluice %s", time.Now().Format("2 January 2006, 15:04"), version)
	return write(c.HTML, func(w io.Writer) error { return evaluate.WriteHTML(w, done, summaries, about) })
}

// writeJSON writes one object if one dataset was given, and a list if several were, however many of
// them are done.
func (c *evalCommand) writeJSON(summaries []evaluate.Summary) error {
	return write(c.JSON, func(w io.Writer) error {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		if len(c.Datasets) == 1 {
			return e.Encode(summaries[0])
		}
		return e.Encode(summaries)
	})
}

// write writes a file atomically; "-" is standard output.
func write(path string, content func(io.Writer) error) error {
	if path == "-" {
		return content(os.Stdout)
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	err = content(f)
	if err == nil {
		err = f.Chmod(0o644)
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", path, err), os.Remove(f.Name()))
	}
	return nil
}
