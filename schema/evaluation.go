package schema

import (
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
)

// EvaluationReport are the figures of plans on one dataset, as `sluice eval
// --json` writes them. docs/evaluation.md defines the metrics.
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
	// Segmentation is how the documents were cut into passages, where that is the
	// same for all plans.
	Segmentation string `json:"segmentation,omitempty" maxLength:"1000" doc:"How documents were cut, where that is the same for all plans."`
	// Prices are what was reckoned for Nominal of the answers, which do not say what
	// they cost.
	Prices  *Prices `json:"prices,omitempty"`
	Nominal int     `json:"nominal,omitempty" minimum:"0" doc:"Answers whose cost was reckoned at these prices."`

	Plans []EvaluatedPlan `json:"plans" minItems:"1" maxItems:"64"`
	// Differences compare each plan with each before it, in the metrics that
	// decide.
	Differences []EvaluationDifference `json:"differences" maxItems:"50000"`
}

// EvaluatedPlan are the figures of one plan.
type EvaluatedPlan struct {
	Plan string `json:"plan" minLength:"1" maxLength:"128"`
	// Segmentation is how the documents that it searched were cut.
	Segmentation string              `json:"segmentation,omitempty" maxLength:"1000"`
	Metrics      map[string]float64  `json:"metrics" maxProperties:"300"`
	Intervals    map[string]Interval `json:"intervals" maxProperties:"300" doc:"95 % intervals of the metrics that decide."`
	Tokens       float64             `json:"tokens" doc:"Mean tokens of the selected context."`
	Millis       Latency             `json:"ms"`
	Stages       []StageLatency      `json:"stages" maxItems:"100"`
	// Answering is the time of a whole question with its answer, Errors how many
	// answers failed.
	Answering *Latency `json:"answer_ms,omitempty"`
	Errors    int      `json:"errors,omitempty" minimum:"0" doc:"Answers that failed."`
	// Judging is what a language model said of the answers; nil: none was asked.
	Judging *Judging `json:"judging,omitempty"`
	// Calibration compares the answers' confidence with how many are right; nil: none
	// has any.
	Calibration *Calibration `json:"calibration,omitempty"`
}

// Judging says what the language model that judged answers by the right ones said of them, as
// far as labels agree with it. The metric correctness is the share that it holds to be right.
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

// AgreementHuman names labels that people gave.
const AgreementHuman = "human"

// JudgeAgreement compares the verdicts of a judge with labels of the same answers.
type JudgeAgreement struct {
	With      string   `json:"with" maxLength:"64" doc:"The labels: em and contains are those measures of the right answers, human is what people said."`
	Answers   int      `json:"answers" minimum:"0" doc:"That have both."`
	Agreement float64  `json:"agreement" doc:"The share of them on which both say the same."`
	Interval  Interval `json:"interval" doc:"Of the agreement, 95 %."`
	// Kappa is Cohen's.
	Kappa         *float64  `json:"kappa,omitempty" doc:"Cohen's kappa; absent where both say the same of all answers."`
	KappaInterval *Interval `json:"kappa_interval,omitempty" doc:"95 %."`
}

// Calibration says whether the confidence of answers is the chance that they are right.
type Calibration struct {
	Answers int      `json:"answers" minimum:"0" doc:"Those that were given with a confidence."`
	Right   float64  `json:"right" doc:"The share of them that is right."`
	Error   float64  `json:"error" doc:"Expected calibration error, over the bins."`
	AUROC   *float64 `json:"auroc,omitempty" doc:"Area under the ROC curve of confidence telling right from wrong; absent when all are right, or none is."`
	// Bins are those of the reliability diagram, of equal width.
	Bins []CalibrationBin `json:"bins" maxItems:"100"`
}

// CalibrationBin are the answers whose confidence is in [Low, High).
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
	Difference float64  `json:"difference"` // plan's mean less against's
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

// Prices are what tokens cost where an answer does not say what it cost, in US
// dollars per million.
type Prices struct {
	Input  float64 `json:"input" minimum:"0"`
	Output float64 `json:"output" minimum:"0"`
}

// EvaluationFigures are what each question of a report gave: with them two
// evaluations of the same questions are compared question by question.
type EvaluationFigures struct {
	Queries []string      `json:"queries" doc:"The questions' ids in the dataset."`
	Plans   []PlanFigures `json:"plans" maxItems:"64"`
}

// PlanFigures are one plan's, by metric and then question; null where a question
// has no value.
type PlanFigures struct {
	Plan    string                `json:"plan" minLength:"1" maxLength:"128"`
	Metrics map[string][]*float64 `json:"metrics" maxProperties:"100" doc:"By metric, a value for each question; null where it has none."`
}

// MaxEvaluationFigures is how many figures of questions an evaluation holds at
// most: comparing takes time for each.
const MaxEvaluationFigures = 300_000

// NewEvaluation is an evaluation to be stored.
type NewEvaluation struct {
	Name    string
	Notes   string
	RanAt   time.Time // zero: now
	Reports []EvaluationReport
	Figures []EvaluationFigures // of each report, or none
}

// EvaluatedDataset is what a list of evaluations says of a report.
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
	Key       uuid.UUID          `json:"key_id"` // that stored it
	RanAt     time.Time          `json:"ran_at"`
	CreatedAt time.Time          `json:"created_at"`
	Datasets  []EvaluatedDataset `json:"datasets"`
	// Figures tells whether it holds what each question gave.
	Figures bool               `json:"figures"`
	Reports []EvaluationReport `json:"reports,omitempty"` // absent in lists
}

// EvaluationQuery asks for evaluations.
type EvaluationQuery struct {
	Dataset string // empty: any
	PageQuery
}

// EvaluationComparison sets two evaluations side by side, in what both measured.
type EvaluationComparison struct {
	Evaluation Evaluation          `json:"evaluation"` // without reports
	Against    Evaluation          `json:"against"`    // likewise
	Datasets   []DatasetComparison `json:"datasets"`
}

// DatasetComparison compares the plans on a dataset's split that both
// evaluations have.
type DatasetComparison struct {
	Dataset          string           `json:"dataset"`
	Split            string           `json:"split"`
	Documents        int              `json:"documents"`
	DocumentsAgainst int              `json:"documents_against"`
	Queries          int              `json:"queries"`
	QueriesAgainst   int              `json:"queries_against"`
	Plans            []PlanComparison `json:"plans"` // that both have
}

// PlanComparison compares a plan of one evaluation with the plan of the same name
// of the other.
type PlanComparison struct {
	Plan                string             `json:"plan"`
	Segmentation        string             `json:"segmentation,omitempty"`
	SegmentationAgainst string             `json:"segmentation_against,omitempty"`
	Metrics             []MetricComparison `json:"metrics"`
}

// MetricComparison compares two figures. Where the figures of questions are known
// everything is of the questions that both have, and the interval and p are those
// of the paired bootstrap over them.
type MetricComparison struct {
	Metric     string    `json:"metric"`
	Value      float64   `json:"value"`
	Against    float64   `json:"against"`
	Difference float64   `json:"difference"` // value less against
	Lower      bool      `json:"lower_is_better,omitempty"`
	Questions  int       `json:"questions,omitempty"` // compared one by one; 0: their figures are not known
	Interval   *Interval `json:"interval,omitempty"`
	P          *float64  `json:"p,omitempty"`
}

// Check reports what is wrong with the evaluation by its field.
func (n NewEvaluation) Check() error {
	if len(n.Reports) == 0 {
		return Invalid("reports", "holds no report")
	}
	datasets := map[[2]string]int{}
	for i, r := range n.Reports {
		at := fmt.Sprintf("reports[%d]", i)
		if before, twice := datasets[[2]string{r.Dataset, r.Split}]; twice {
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
		if before, twice := known[p.Plan]; twice {
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
			if _, there := known[plan]; !there {
				return Invalid(fmt.Sprintf("%s.differences[%d].%s", at, i, name), "%q is not a plan of the report", plan)
			}
		}
	}
	return nil
}

// check returns how many figures there are.
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

// metricName reports a name as this system gives metrics: ndcg@10.
func metricName(name string) bool {
	return name != "" && len(name) <= 64 && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789_@") == ""
}
