// Package calibrate finds the values of a model pack that depend on the scale of its encoder, pair
// model and reranker, from questions with known answers: thresholds of scores (pairs.go) and
// cosines (vectors.go), FIT-RAG's detector (detector.go), and the calibration of confidence
// (confidence.go).
//
// It calls a running model server. Package modelpack writes the result.
package calibrate

import (
	"context"
	"fmt"
	"slices"

	"github.com/sluice-rag/sluice/internal/evaluate"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// Models evaluates a pack's graphs. The model server's client implements it.
type Models interface {
	Info(ctx context.Context) (wire.ModelInfo, error)
	Encode(ctx context.Context, lane wire.Lane, texts []string) (wire.Vectors, string, error)
	Score(ctx context.Context, lane wire.Lane, question string, texts []string, answers bool) ([]wire.PairScore, string, error)
	Rerank(ctx context.Context, lane wire.Lane, question string, texts []string, answers bool) ([]wire.PairScore, string, error)
}

// Reader answers a question from passages without a language model. thresholds are the values found
// so far, which replace those of the pack.
type Reader func(ctx context.Context, question string, passages []wire.LLMPassage, thresholds map[string]float64) (ReadAnswer, error)

// ReadAnswer is an answer that the reader found.
type ReadAnswer struct {
	Answer   string             // the short answer; empty: there is none
	Features map[string]float64 // inputs of its confidence; nil: the pack finds no answers
	Graph    string             // wire.GraphPair or wire.GraphReranker
}

// Options of a calibration. Zero values take the defaults.
type Options struct {
	Questions int    // at most; default 600
	Language  string // of the dataset, BCP 47; default en
	Seed      uint64
	// Progress is called with the current step and its progress; may be nil.
	Progress func(step string, done, of int)
}

// minQuestions is the least number of questions with an answer for a calibration.
const minQuestions = 50

// Found is the result of a calibration. A nil part was not found; Notes say why.
type Found struct {
	Dataset    string          `json:"dataset"`
	Questions  int             `json:"questions"`
	Passages   int             `json:"passages"`
	Encoder    *VectorNumbers  `json:"encoder,omitempty"`
	Pair       *PairThresholds `json:"pair,omitempty"`
	Reranker   *PairThresholds `json:"reranker,omitempty"`
	Detector   *Detector       `json:"detector,omitempty"`
	Confidence *Confidence     `json:"confidence,omitempty"`
	Notes      []string        `json:"notes,omitempty"`
}

// Thresholds returns the thresholds under the names that plans and the reader use.
func (f *Found) Thresholds() map[string]float64 {
	out := map[string]float64{}
	if f.Encoder != nil && f.Encoder.Dedupe > 0 {
		out["dedupe"] = f.Encoder.Dedupe
	}
	if f.Pair != nil {
		out["answerable"] = f.Pair.Answerable
	}
	if f.Reranker != nil {
		out["answerable"+wire.RerankerSuffix] = f.Reranker.Answerable
	}
	return out
}

func (f *Found) note(format string, args ...any) {
	f.Notes = append(f.Notes, fmt.Sprintf(format, args...))
}

// Run calibrates, on a dataset, the pack that models serves.
func Run(ctx context.Context, models Models, read Reader, d *evaluate.Dataset, o Options) (Found, error) {
	if o.Questions <= 0 {
		o.Questions = 600
	}
	if o.Language == "" {
		o.Language = "en"
	}
	if o.Progress == nil {
		o.Progress = func(string, int, int) {}
	}
	info, err := models.Info(ctx)
	if err != nil {
		return Found{}, fmt.Errorf("ask the model server what it serves: %w", err)
	}
	s, err := draw(ctx, d, o)
	if err != nil {
		return Found{}, err
	}
	r := run{Options: o, models: models, read: read, info: info, sample: s,
		found: Found{Dataset: d.Name, Questions: len(s.questions), Passages: len(s.passages)}}
	for _, step := range []func(context.Context) error{r.vectors, r.pair, r.reranker, r.detector, r.confidence} {
		if err := step(ctx); err != nil {
			return Found{}, err
		}
	}
	return r.found, nil
}

// run is the state of a calibration.
type run struct {
	Options
	models Models
	read   Reader
	info   wire.ModelInfo
	sample *sample
	found  Found
}

// has reports whether the pack computes an operation itself. Models behind an API are not
// calibrated, because each of their calls costs a tenant money.
func (r *run) has(op wire.ModelOp, what string) bool {
	if slices.Contains(r.info.Remote, op) {
		r.found.note("%s is behind an API and keeps its thresholds", what)
		return false
	}
	return slices.Contains(r.info.Operations, op)
}

// each calls do for every question, and reports progress.
func (r *run) each(ctx context.Context, step string, do func(q *question) error) error {
	for i, q := range r.sample.questions {
		if err := ctx.Err(); err != nil {
			return err
		}
		r.Progress(step, i, len(r.sample.questions))
		if err := do(q); err != nil {
			return fmt.Errorf("%s: question %s: %w", step, q.id, err)
		}
	}
	r.Progress(step, len(r.sample.questions), len(r.sample.questions))
	return nil
}

// tooFewError returns the error for a dataset with too few questions.
func tooFewError(d *evaluate.Dataset, n int) error {
	return schema.Invalid("dataset", "%s has %d questions with an answer (metadata.answers of queries.jsonl) that stands in a relevant document; a calibration takes %d",
		d.Dir, n, minQuestions)
}
