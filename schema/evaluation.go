package schema

import (
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
)

// EvaluationReport is the results of plans on one dataset, as `sluice eval --json` writes them.
// docs/evaluation.md defines the metrics.
type EvaluationReport struct {
	Dataset   string `json:"dataset" minLength:"1" maxLength:"255"`
	Split     string `json:"split" maxLength:"255"`
	Documents int    `json:"documents" minimum:"0"`
	Failed    int    `json:"failed" minimum:"0" doc:"Documents that could not be ingested."`
	Queries   int    `json:"queries" minimum:"0" doc:"Questions asked."`
	Unjudged  int    `json:"unjudged" minimum:"0" doc:"Questions left out: nothing is relevant to them."`
	Limit     int    `json:"limit,omitempty" minimum:"0"`
	Seed      uint64 `json:"seed,omitempty"`
	Parallel  int    `json:"parallel" minimum:"0"`
	// Segmentation is how the documents were cut into passages, if that is the same for all plans.
	Segmentation string `json:"segmentation,omitempty" maxLength:"1000" doc:"How documents were cut, where that is the same for all plans."`
	// Prices are the prices assumed for the Nominal answers that do not state their cost.
	Prices  *Prices `json:"prices,omitempty"`
	Nominal int     `json:"nominal,omitempty" minimum:"0" doc:"Answers whose cost was reckoned at these prices."`

	Plans []EvaluatedPlan `json:"plans" minItems:"1" maxItems:"64"`
	// Differences compare each plan with each one before it, in the main metrics.
	Differences []EvaluationDifference `json:"differences" maxItems:"50000"`
}

// EvaluatedPlan is the results of one plan.
type EvaluatedPlan struct {
	Plan string `json:"plan" minLength:"1" maxLength:"128"`
	// Segmentation is how the documents that the plan searched were cut.
	Segmentation string              `json:"segmentation,omitempty" maxLength:"1000"`
	Metrics      map[string]float64  `json:"metrics" maxProperties:"300"`
	Intervals    map[string]Interval `json:"intervals" maxProperties:"300" doc:"95 % intervals of the metrics that decide."`
	Tokens       float64             `json:"tokens" doc:"Mean tokens of the selected context."`
	Millis       Latency             `json:"ms"`
	Stages       []StageLatency      `json:"stages" maxItems:"100"`
	// Answering is the time for a question with its answer. Errors is how many answers failed.
	Answering *Latency `json:"answer_ms,omitempty"`
	Errors    int      `json:"errors,omitempty" minimum:"0" doc:"Answers that failed."`
	// Judging is the verdict of a language model on the answers; nil: none was asked.
	Judging *Judging `json:"judging,omitempty"`
	// Calibration compares the confidence of answers with how many of them are right; nil: no
	// answer has a confidence.
	Calibration *Calibration `json:"calibration,omitempty"`
}

// Judging is the verdicts of a language model that compared answers with the right ones, and their
// agreement with labels. The metric correctness is the share of answers that it judged right.
type Judging struct {
	Model        string  `json:"model" maxLength:"1000" doc:"Provider and model that judged."`
	Judged       int     `json:"judged" minimum:"0" doc:"Answers with a verdict."`
	Failed       int     `json:"failed" minimum:"0" doc:"Judgements that failed; their answers have no correctness."`
	Unreadable   int     `json:"unreadable" minimum:"0" doc:"Replies that were no verdict, likewise."`
	InputTokens  int     `json:"input_tokens" minimum:"0" doc:"Of all judgements."`
	OutputTokens int     `json:"output_tokens" minimum:"0"`
	Cost         float64 `json:"cost" minimum:"0" doc:"US dollars, where the server knows the price."`
	// Agreement compares the verdicts with labels of the same answers.
	Agreement []JudgeAgreement `json:"agreement" maxItems:"10"`
}

// AgreementHuman is the name of labels by people.
const AgreementHuman = "human"

// JudgeAgreement compares the verdicts of a judge with labels of the same answers.
type JudgeAgreement struct {
	With      string   `json:"with" maxLength:"64" doc:"The labels: em and contains are those measures of the right answers, human is what people said."`
	Answers   int      `json:"answers" minimum:"0" doc:"That have both."`
	Agreement float64  `json:"agreement" doc:"The share of them on which both say the same."`
	Interval  Interval `json:"interval" doc:"Of the agreement, 95 %."`
	// Kappa is Cohen's kappa.
	Kappa         *float64  `json:"kappa,omitempty" doc:"Cohen's kappa; absent where both say the same of all answers."`
	KappaInterval *Interval `json:"kappa_interval,omitempty" doc:"95 %."`
}

// Calibration compares the confidence of answers with the probability that they are right.
type Calibration struct {
	Answers int      `json:"answers" minimum:"0" doc:"Those that were given with a confidence."`
	Right   float64  `json:"right" doc:"The share of them that is right."`
	Error   float64  `json:"error" doc:"Expected calibration error, over the bins."`
	AUROC   *float64 `json:"auroc,omitempty" doc:"Area under the ROC curve of confidence telling right from wrong; absent when all are right, or none is."`
	// Bins are the bins of the reliability diagram, of equal width.
	Bins []CalibrationBin `json:"bins" maxItems:"100"`
}

// CalibrationBin is the answers whose confidence is in [Low, High).
type CalibrationBin struct {
	Low        float64 `json:"low"`
	High       float64 `json:"high"`
	Answers    int     `json:"answers" minimum:"0"`
	Confidence float64 `json:"confidence" doc:"Their mean."`
	Right      float64 `json:"right" doc:"The share that is right."`
}

// Interval is a 95 % confidence interval.
type Interval struct {
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// EvaluationDifference compares two plans in one metric.
type EvaluationDifference struct {
	Metric     string   `json:"metric" minLength:"1" maxLength:"64"`
	Plan       string   `json:"plan" maxLength:"128"`
	Against    string   `json:"against" maxLength:"128"`
	Difference float64  `json:"difference"` // mean of the plan minus mean of against
	Interval   Interval `json:"interval"`   // of the difference
	P          float64  `json:"p" minimum:"0" maximum:"1"`
}

// Latency is time per question in milliseconds.
type Latency struct {
	P50  float64 `json:"p50" minimum:"0"`
	P95  float64 `json:"p95" minimum:"0"`
	Mean float64 `json:"mean" minimum:"0"`
}

// StageLatency is the time of one stage per question.
type StageLatency struct {
	Stage string `json:"stage" minLength:"1" maxLength:"128"`
	Latency
}

// Prices are prices of tokens for answers that do not state their cost, in US dollars per million.
type Prices struct {
	Input  float64 `json:"input" minimum:"0"`
	Output float64 `json:"output" minimum:"0"`
}

// EvaluationFigures are the results of a report by question. With them, two evaluations of the same
// questions can be compared question by question.
type EvaluationFigures struct {
	Queries []string      `json:"queries" doc:"The questions' ids in the dataset."`
	Plans   []PlanFigures `json:"plans" maxItems:"64"`
}

// PlanFigures are the results of one plan, by metric and then question; null if a question has no
// value.
type PlanFigures struct {
	Plan    string                `json:"plan" minLength:"1" maxLength:"128"`
	Metrics map[string][]*float64 `json:"metrics" maxProperties:"100" doc:"By metric, a value for each question; null where it has none."`
}

// MaxEvaluationFigures is the most figures of an evaluation. It bounds the time of a comparison.
const MaxEvaluationFigures = 300_000

// NewEvaluation is an evaluation to be stored.
type NewEvaluation struct {
	Name    string
	Notes   string
	RanAt   time.Time // zero: now
	Reports []EvaluationReport
	Figures []EvaluationFigures // of each report, or none
}

// EvaluatedDataset is the summary of a report in a list of evaluations.
type EvaluatedDataset struct {
	Dataset   string   `json:"dataset"`
	Split     string   `json:"split"`
	Documents int      `json:"documents"`
	Queries   int      `json:"queries"`
	Plans     []string `json:"plans"`
}

// Evaluation is a stored evaluation.
type Evaluation struct {
	ID        uuid.UUID          `json:"id"`
	Name      string             `json:"name"`
	Notes     string             `json:"notes,omitempty"`
	Key       uuid.UUID          `json:"key_id"` // the key that stored it
	RanAt     time.Time          `json:"ran_at"`
	CreatedAt time.Time          `json:"created_at"`
	Datasets  []EvaluatedDataset `json:"datasets"`
	// Figures reports whether it has the results by question.
	Figures bool               `json:"figures"`
	Reports []EvaluationReport `json:"reports,omitempty"` // absent in lists
}

// EvaluationQuery asks for evaluations.
type EvaluationQuery struct {
	Dataset string // empty: any
	PageQuery
}

// EvaluationComparison compares two evaluations in what both measured.
type EvaluationComparison struct {
	Evaluation Evaluation          `json:"evaluation"` // without reports
	Against    Evaluation          `json:"against"`    // likewise
	Datasets   []DatasetComparison `json:"datasets"`
}

// DatasetComparison compares the plans on a split of a dataset that both evaluations have.
type DatasetComparison struct {
	Dataset          string           `json:"dataset"`
	Split            string           `json:"split"`
	Documents        int              `json:"documents"`
	DocumentsAgainst int              `json:"documents_against"`
	Queries          int              `json:"queries"`
	QueriesAgainst   int              `json:"queries_against"`
	Plans            []PlanComparison `json:"plans"` // plans of both evaluations
}

// PlanComparison compares a plan of one evaluation with the plan of the same name
// of the other.
type PlanComparison struct {
	Plan                string             `json:"plan"`
	Segmentation        string             `json:"segmentation,omitempty"`
	SegmentationAgainst string             `json:"segmentation_against,omitempty"`
	Metrics             []MetricComparison `json:"metrics"`
}

// MetricComparison compares a metric of two plans. If the results by question are known, all values
// are over the questions that both have, and the interval and p are from a paired bootstrap over
// them.
type MetricComparison struct {
	Metric     string    `json:"metric"`
	Value      float64   `json:"value"`
	Against    float64   `json:"against"`
	Difference float64   `json:"difference"` // value minus against
	Lower      bool      `json:"lower_is_better,omitempty"`
	Questions  int       `json:"questions,omitempty"` // compared one by one; 0: the results by question are not known
	Interval   *Interval `json:"interval,omitempty"`
	P          *float64  `json:"p,omitempty"`
}

// Check returns an error that names the first invalid field.
func (n NewEvaluation) Check() error {
	if len(n.Reports) == 0 {
		return Invalid("reports", "holds no report")
	}
	datasets := map[[2]string]int{}
	for i, r := range n.Reports {
		at := fmt.Sprintf("reports[%d]", i)
		if before, ok := datasets[[2]string{r.Dataset, r.Split}]; ok {
			return Invalid(at+".dataset", "%q, %q is in reports[%d] already", r.Dataset, r.Split, before)
		}
		datasets[[2]string{r.Dataset, r.Split}] = i
		if err := r.check(at); err != nil {
			return err
		}
	}
	if len(n.Figures) == 0 {
		return nil
	}
	if len(n.Figures) != len(n.Reports) {
		return Invalid("figures", "has %d entries; there are %d reports", len(n.Figures), len(n.Reports))
	}
	total := 0
	for i, f := range n.Figures {
		count, err := f.check(fmt.Sprintf("figures[%d]", i), n.Reports[i])
		if err != nil {
			return err
		}
		if total += count; total > MaxEvaluationFigures {
			return Invalid("figures", "has more than %d entries", MaxEvaluationFigures)
		}
	}
	return nil
}

func (r EvaluationReport) check(at string) error {
	known := map[string]int{}
	for i, p := range r.Plans {
		field := fmt.Sprintf("%s.plans[%d]", at, i)
		if before, ok := known[p.Plan]; ok {
			return Invalid(field+".plan", "%q is %s.plans[%d] already", p.Plan, at, before)
		}
		known[p.Plan] = i
		for name := range p.Metrics {
			if !metricName(name) {
				return Invalid(field+".metrics", "%q is not a metric's name: small letters, digits, _ and @", name)
			}
		}
		for name, v := range p.Intervals {
			if !metricName(name) || v.Low > v.High {
				return Invalid(field+".intervals", "%q is not a metric with an interval", name)
			}
		}
	}
	for i, d := range r.Differences {
		for name, plan := range map[string]string{"plan": d.Plan, "against": d.Against} {
			if _, ok := known[plan]; !ok {
				return Invalid(fmt.Sprintf("%s.differences[%d].%s", at, i, name), "%q is not a plan of the report", plan)
			}
		}
	}
	return nil
}

// check returns the number of figures.
func (f EvaluationFigures) check(at string, r EvaluationReport) (count int, err error) {
	seen := make(map[string]bool, len(f.Queries))
	for i, q := range f.Queries {
		if q == "" || seen[q] {
			return 0, Invalid(fmt.Sprintf("%s.queries[%d]", at, i), "is empty or occurs twice")
		}
		seen[q] = true
	}
	plans := map[string]bool{}
	for _, p := range r.Plans {
		plans[p.Plan] = true
	}
	for i, p := range f.Plans {
		field := fmt.Sprintf("%s.plans[%d]", at, i)
		if !plans[p.Plan] {
			return 0, Invalid(field+".plan", "%q is not a plan of the report, or comes twice", p.Plan)
		}
		delete(plans, p.Plan)
		for name, values := range p.Metrics {
			if !metricName(name) {
				return 0, Invalid(field+".metrics", "%q is not a metric's name: small letters, digits, _ and @", name)
			}
			if len(values) != len(f.Queries) {
				return 0, Invalid(field+".metrics."+name, "has %d values for %d questions", len(values), len(f.Queries))
			}
			count += len(values)
		}
	}
	return count, nil
}

// metricName reports whether a name has the form of a metric's, such as ndcg@10.
func metricName(name string) bool {
	return name != "" && len(name) <= 64 && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789_@") == ""
}
