package evaluate

// This file has a language model judge answers by the right ones, and summarizes the verdicts.

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/sluice-rag/sluice/schema"
)

// Judge judges whether answers are right.
type Judge interface {
	// Judge judges an answer by the question's right ones. A judgement without a verdict means that
	// the model's reply was unreadable.
	Judge(ctx context.Context, q Topic, answer string) (schema.Judgement, error)
}

// correctness is the metric of the judge's verdicts.
const correctness = "correctness"

// QuestionJudgement is the outcome of judging an answer. The verdict is the metric correctness.
type QuestionJudgement struct {
	Model string `json:"model,omitempty"`
	// Failed: there was no reply. Unreadable: the model's reply has no verdict.
	Failed       bool    `json:"failed,omitempty"`
	Unreadable   bool    `json:"unreadable,omitempty"`
	InputTokens  int     `json:"input_tokens"`
	OutputTokens int     `json:"output_tokens"`
	Cost         float64 `json:"cost"` // US dollars
}

// judge has an answer judged. A missing answer is incorrect without a call, and a question without
// a right answer is not judged. After a failed judgement the answer has no value of correctness.
func (r *Results) judge(ctx context.Context, plan *planResults, q int, a *answerObservation) error {
	query := &r.queries[q]
	if r.options.Judge == nil || query.Unanswerable || !slices.ContainsFunc(query.Answers, func(a string) bool { return strings.TrimSpace(a) != "" }) {
		return nil
	}
	if strings.TrimSpace(a.text) == "" {
		a.correct = 0
		return nil
	}
	judgement, err := r.options.Judge.Judge(ctx, query.Topic, a.text)
	a.judgement = &QuestionJudgement{Model: judgement.Model, Failed: err != nil, Unreadable: err == nil && judgement.Correct == nil,
		InputTokens: judgement.Usage.InputTokens, OutputTokens: judgement.Usage.OutputTokens, Cost: judgement.Usage.Cost}
	switch {
	case err == nil:
		plan.unjudged.Store(0)
	case ctx.Err() != nil:
		return err
	case plan.unjudged.Add(1) >= maxFailures:
		return fmt.Errorf("the last %d judgements failed: %w", maxFailures, err)
	}
	if judgement.Correct != nil && err == nil {
		a.correct = share(*judgement.Correct)
	}
	return nil
}

// judging summarizes the verdicts on a plan's answers, and how far labels agree with them; nil if
// nothing was judged. The labels are those of the right answers and, if known, those of people.
func (r *Results) judging(plan int) *schema.Judging {
	p := r.plans[plan]
	var out schema.Judging
	var models []string
	var judged []int // questions whose answer has a verdict
	asked := 0
	verdicts := r.column(plan, correctness)
	for q, a := range p.answers {
		if a == nil || a.judgement == nil {
			continue
		}
		asked++
		j := a.judgement
		out.InputTokens, out.OutputTokens, out.Cost = out.InputTokens+j.InputTokens, out.OutputTokens+j.OutputTokens, out.Cost+j.Cost
		if j.Model != "" && !slices.Contains(models, j.Model) {
			models = append(models, j.Model)
		}
		switch {
		case j.Failed:
			out.Failed++
		case j.Unreadable:
			out.Unreadable++
		default:
			judged = append(judged, q)
		}
	}
	if asked == 0 {
		return nil
	}
	out.Model, out.Judged, out.Agreement = strings.Join(models, ", "), len(judged), []schema.JudgeAgreement{}
	compare := func(with string, label func(q int) float64) {
		var judge, labels []float64
		for _, q := range judged {
			if l := label(q); !math.IsNaN(l) {
				judge, labels = append(judge, verdicts[q]), append(labels, l)
			}
		}
		if len(judge) > 0 {
			one := agreementOf(judge, labels)
			one.With = with
			out.Agreement = append(out.Agreement, one)
		}
	}
	for _, with := range []string{"em", "contains"} {
		column := r.column(plan, with)
		compare(with, func(q int) float64 { return column[q] })
	}
	compare(schema.AgreementHuman, func(q int) float64 {
		correct, known := r.options.HumanLabels.of(p.name, r.queries[q].ID, p.answers[q].text)
		if !known {
			return math.NaN()
		}
		return share(correct)
	})
	return &out
}

// agreementOf compares two raters of the same answers, with ratings of 1 or 0: the share that they
// rate alike, and Cohen's kappa (Cohen 1960), which is the excess of that share over chance,
// relative to the greatest possible excess. The intervals are from the bootstrap over the answers.
func agreementOf(judge, labels []float64) schema.JudgeAgreement {
	rows := make([][]float64, len(judge))
	for i := range rows {
		rows[i] = []float64{judge[i], labels[i], judge[i] * labels[i]}
	}
	column := func(c int) (out []float64) {
		for _, row := range rows {
			out = append(out, row[c])
		}
		return out
	}
	agreement, kappa := agreementAndKappa(mean(column(0)), mean(column(1)), mean(column(2)))
	out := schema.JudgeAgreement{Answers: len(rows), Agreement: agreement}
	means := resampled(rows)
	alikes, kappas := make([]float64, resamples), make([]float64, resamples)
	for r := range resamples {
		alikes[r], kappas[r] = agreementAndKappa(means[0][r], means[1][r], means[2][r])
	}
	out.Interval = interval(alikes)
	if !math.IsNaN(kappa) {
		out.Kappa = &kappa
		if redraw(kappas) {
			found := interval(kappas)
			out.KappaInterval = &found
		}
	}
	return out
}

// agreementAndKappa returns the agreement of two raters and Cohen's kappa, from the shares that
// one, the other, and both rate 1. Kappa is NaN if both give all answers the same rating, which
// chance would do as well.
func agreementAndKappa(one, other, both float64) (agreement, kappa float64) {
	agreement = 1 - one - other + 2*both
	chance := one*other + (1-one)*(1-other)
	return agreement, (agreement - chance) / (1 - chance)
}
