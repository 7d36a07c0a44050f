package main

// This file calibrates model packs: it runs a pack on a NATS server of its own, lets package
// calibrate measure it, and writes the results into the pack.

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sluice-rag/sluice/cmd/internal/modelchild"
	"github.com/sluice-rag/sluice/internal/bus"
	"github.com/sluice-rag/sluice/internal/config"
	"github.com/sluice-rag/sluice/internal/evaluate"
	"github.com/sluice-rag/sluice/internal/evaluate/calibrate"
	"github.com/sluice-rag/sluice/internal/inference/modelpack"
	"github.com/sluice-rag/sluice/internal/lifecycle"
	"github.com/sluice-rag/sluice/internal/llm"
	"github.com/sluice-rag/sluice/internal/local"
	"github.com/sluice-rag/sluice/internal/modelclient"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

type modelsCalibrate struct {
	packs
	config.Model
	Pack      string `arg:"" help:"Name of an added pack; with --dry-run any, or a folder."`
	Dataset   string `arg:"" help:"A BEIR folder whose questions have answers (metadata.answers of queries.jsonl)."`
	Split     string `default:"test" help:"Which questions: those of qrels/SPLIT.tsv."`
	Questions int    `default:"600" help:"How many questions at most."`
	Language  string `default:"en" help:"Language of the dataset, BCP 47."`
	Seed      uint64 `default:"1" help:"Chooses questions and what else is drawn."`
	DryRun    bool   `help:"Say what was found, and leave the pack as it is."`
}

// Help returns the long help text.
func (c *modelsCalibrate) Help() string {
	return "A threshold fits only the graph whose scores it bounds: a pack whose encoder, pair model or reranker was replaced " +
		"has none for the new one. This command finds thresholds on questions with known answers, trains a detector on the pair model's scores, and fits the " +
		"confidence of answers. Use documents and questions that resemble your own, and not those that you evaluate on. " +
		"Running servers use the results after their next start. docs/model-packs.md has the details."
}

func (c *modelsCalibrate) Run(ctx context.Context) error {
	dir, err := c.dir()
	if err != nil {
		return err
	}
	pack, err := modelpack.Find(dir, c.Pack)
	if err != nil {
		return err
	}
	if !c.DryRun {
		if err := modelpack.Calibratable(dir, pack); err != nil {
			return err
		}
	}
	if c.Questions < 1 {
		return schema.Invalid("questions", "%d is not positive", c.Questions)
	}
	dataset, err := evaluate.ReadDataset(c.Dataset, c.Split)
	if err != nil {
		return err
	}
	checker, err := newChecker(c.Model)
	if err != nil {
		return err
	}
	found, err := c.find(ctx, checker, pack, dataset)
	if err != nil {
		return fmt.Errorf("calibrate %s on %s: %w", c.Pack, c.Dataset, err)
	}
	if !c.DryRun {
		if err := modelpack.Calibrate(ctx, pack, numbersOf(found), checker.validate); err != nil {
			return err
		}
	}
	if c.JSON {
		return printJSON(found)
	}
	c.print(pack, found)
	return nil
}

// find runs the pack and calibrates it.
func (c *modelsCalibrate) find(ctx context.Context, checker checker, pack string, dataset *evaluate.Dataset) (found calibrate.Found, err error) {
	work, err := os.MkdirTemp("", "sluice-calibrate-")
	if err != nil {
		return found, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	server, err := local.StartNATS(ctx, local.NATSOptions{Dir: filepath.Join(work, "nats")})
	if err != nil {
		return found, err
	}
	stop := func(s lifecycle.Service) {
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), calibratedEnd)
		defer cancel()
		err = errors.Join(err, s.Stop(ending))
	}
	defer stop(server)
	nc, err := bus.Connect(ctx, bus.Options{URL: server.Address(), Name: "sluice models calibrate",
		Program: wire.ProgramQueryWorker, Seed: server.Seed(wire.ProgramQueryWorker)})
	if err != nil {
		return found, err
	}
	defer nc.Close()
	seed, err := server.SeedFile(wire.ProgramGPUSegmenter)
	if err != nil {
		return found, err
	}
	client := modelclient.New(nc, modelclient.Options{BulkAttemptTimeout: time.Minute, Log: slog.New(slog.DiscardHandler)})
	child := modelchild.New(modelchild.Options{Program: checker.program, Log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
		Env: append(withoutSettings(), "SLUICE_NATS_URL="+server.Address(), "SLUICE_NATS_CREDENTIALS="+seed, "SLUICE_HEALTH_LISTEN=off",
			"SLUICE_MODEL_PACK="+pack, "SLUICE_MODEL_PROVIDER="+checker.model.ModelProvider, "SLUICE_MODEL_THREADS="+fmt.Sprint(checker.model.ModelThreads),
			"SLUICE_ONNXRUNTIME_LIB="+checker.model.ONNXRuntimeLib, "SLUICE_LOG_LEVEL=warn"),
		Ready: func(ctx context.Context) error { _, err := client.Info(ctx); return err }})
	starting, cancel := context.WithTimeout(ctx, checking)
	err = child.Start(starting)
	cancel()
	if err != nil {
		return found, err
	}
	defer stop(child)
	steps := newSteps()
	defer steps.end()
	return calibrate.Run(ctx, client, newReader(client), dataset,
		calibrate.Options{Questions: c.Questions, Language: c.Language, Seed: c.Seed, Progress: steps.show})
}

// calibratedEnd is the timeout for stopping the programs that were started.
const calibratedEnd = 15 * time.Second

// steps shows the progress of each step.
type steps struct {
	name string
	*counter
}

func newSteps() *steps { return &steps{} }

func (s *steps) show(step string, done, of int) {
	if step != s.name {
		s.end()
		s.name, s.counter = step, newCounter(os.Stderr, step)
	}
	s.counter.show(done, of)
}

func (s *steps) end() {
	if s.counter != nil {
		s.counter.end()
	}
}

// thresholdModels is a client whose Info has other thresholds than the pack.
type thresholdModels struct {
	*modelclient.Client
	thresholds map[string]float64
}

func (w thresholdModels) Info(ctx context.Context) (wire.ModelInfo, error) {
	info, err := w.Client.Info(ctx)
	info.Calibrated = maps.Clone(info.Calibrated)
	if info.Calibrated == nil {
		info.Calibrated = map[string]float64{}
	}
	maps.Copy(info.Calibrated, w.thresholds)
	return info, err
}

// newReader returns a reader that answers as the provider "extractive" does, at any risk.
func newReader(client *modelclient.Client) calibrate.Reader {
	return func(ctx context.Context, question string, passages []wire.LLMPassage, thresholds map[string]float64) (calibrate.ReadAnswer, error) {
		risk := 1.0
		got, err := llm.NewExtractive(client, thresholdModels{client, thresholds}).Complete(ctx,
			wire.LLMRequest{Envelope: wire.Header(), Task: wire.TaskAnswer, Question: question, Passages: passages, Risk: &risk})
		out := calibrate.ReadAnswer{Features: got.Features, Graph: wire.GraphPair}
		if strings.HasPrefix(got.Model, wire.GraphReranker) {
			out.Graph = wire.GraphReranker
		}
		if len(got.Quotes) > 0 {
			q := got.Quotes[0]
			body := passages[q.Passage].Text
			if out.Answer = body[q.Answer.Start:q.Answer.End]; out.Answer == "" {
				out.Answer = body[q.Start:q.End]
			}
		}
		return out, err
	}
}

// numbersOf returns the numbers to write into the pack.
func numbersOf(f calibrate.Found) modelpack.Numbers {
	n := modelpack.Numbers{Calibrated: f.Thresholds()}
	if f.Encoder != nil {
		n.Similarity = &f.Encoder.Similarity
	}
	if f.Pair != nil {
		n.PairHasAnswer = &f.Pair.HasAnswer
	}
	if f.Reranker != nil {
		n.RerankerHasAnswer = &f.Reranker.HasAnswer
	}
	if d := f.Detector; d != nil {
		n.DetectorThreshold = d.Threshold
		for _, l := range d.Layers {
			n.Detector = append(n.Detector, modelpack.Layer(l))
		}
	}
	if c := f.Confidence; c != nil {
		n.Graph = c.Graph
		n.Confidence = map[string]float64{"confidence_intercept": c.Intercept, "confidence_least": c.Least}
		for name, x := range c.Coefficients {
			n.Confidence["confidence_"+name] = x
		}
		for _, r := range c.Risks {
			n.Confidence[fmt.Sprintf("risk_%g", r.Risk)] = r.Confidence
		}
	}
	return n
}

func (c *modelsCalibrate) print(pack string, f calibrate.Found) {
	line := func(name, format string, args ...any) { fmt.Printf("%-12s%s\n", name, fmt.Sprintf(format, args...)) }
	line("dataset", "%s: %d questions, %d passages", f.Dataset, f.Questions, f.Passages)
	if e := f.Encoder; e != nil {
		line("encoder", "neighbouring sentences are split below a cosine of %.3f (area under the ROC curve %.3f)", e.Similarity, e.SimilarityArea)
		if e.Dedupe > 0 {
			line("", "a passage counts as a repetition of another above a cosine of %.3f; %.1f %% of the passages have another one that near", e.Dedupe, 100*e.Mistaken)
		}
	}
	pair := func(name string, p *calibrate.PairThresholds) {
		if p != nil {
			line(name, "a text has the answer from %.3f on (area under the ROC curve %.3f of %d texts)", p.HasAnswer, p.Area, p.Texts)
			line("", "a question is answered from %.3f on: nine of ten with an answer are, and %.0f %% of those without one are refused", p.Answerable, 100*p.Refused)
		}
	}
	pair("pair", f.Pair)
	pair("reranker", f.Reranker)
	if d := f.Detector; d != nil {
		line("detector", "windows are enough from %.2f on: on average %.1f of them, with the answer for %.1f %% of %d questions; all windows have it for %.1f %%",
			d.Threshold, d.Windows, 100*d.WithAnswer, d.Questions, 100*d.WithAnswerAll)
		line("", "area under the ROC curve %.3f; that of the highest has_answer alone %.3f", d.Area, d.HighestArea)
	}
	if a := f.Confidence; a != nil {
		line("confidence", "of answers read by the graph %s: calibration error %.3f, area under the ROC curve %.3f (has_answer alone %.3f), of %d answers, %.1f %% of them right",
			a.Graph, a.Error, a.Area, a.HasAnswerArea, a.Answers, 100*a.Right)
		var risks []string
		for _, r := range a.Risks {
			risks = append(risks, fmt.Sprintf("%g: %.0f %%", r.Risk, 100*r.Given))
		}
		line("", "share of answers given, by risk: %s", strings.Join(slices.Compact(risks), ", "))
	}
	for _, note := range f.Notes {
		line("note", "%s", printable(note))
	}
	if c.DryRun {
		fmt.Printf("\n%s is unchanged\n", pack)
		return
	}
	fmt.Printf("\nwritten into %s; restart the programs that use it\n", pack)
}
