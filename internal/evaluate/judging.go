package evaluate

// This file has a language model judge answers by the right ones, and says what came of it.

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/sluice-rag/sluice/schema"
)

// Judge says whether answers are right.
type Judge interface {
	// Judge judges an answer by the question's right ones. A judgement without a verdict is a
	// reply that could not be read.
	Judge(ctx context.Context, q Topic, answer string) (schema.Judgement, error)
}

// correctness is the measure of what the judge says.
const correctness = "correctness"

// QuestionJudgement is what became of having an answer judged; the verdict is the metric
// correctness.
type QuestionJudgement struct {
	Model string `json:"model,omitempty"`
	// Failed: nobody judged. Unreadable: what the model replied is no verdict.
	Failed       bool    `json:"failed,omitempty"`
	Unreadable   bool    `json:"unreadable,omitempty"`
	InputTokens  int     `json:"input_tokens"`
	OutputTokens int     `json:"output_tokens"`
	Cost         float64 `json:"cost"` // US dollars
}

// judge has an answer judged. One that was not given is incorrect without being judged, and
// one to a question without a right answer is not judged. A judgement that fails leaves
// the answer without a value.
func (r *Results) judge(ctx context.Context, plan *planResults, q int, a *answerObservation) error {
	query := &r.queries[q]
	if r.options.Judge == nil || query.Unanswerable || !slices.ContainsFunc(query.Answers, func(a string) bool { return strings.TrimSpace(a) != "" }) {
		return nil
	}
	if strings.TrimSpace(a.text) == "" {
		a.correct = 0
		return nil
	}
	said, err := r.options.Judge.Judge(ctx, query.Topic, a.text)
	a.judgement = &QuestionJudgement{Model: said.Model, Failed: err != nil, Unreadable: err == nil && said.Correct == nil,
		InputTokens: said.Usage.InputTokens, OutputTokens: said.Usage.OutputTokens, Cost: said.Usage.Cost}
	switch {
	case err == nil:
		plan.unjudged.Store(0)
	case ctx.Err() != nil:
		return err
	case plan.unjudged.Add(1) >= patience:
		return fmt.Errorf("the last %d judgements failed: %w", patience, err)
	}
	if said.Correct != nil && err == nil {
		a.correct = share(*said.Correct)
	}
	return nil
}

// judging says what the judge said of a plan's answers, and how far the labels agree; nil:
// nobody judged. Beside the right answers' labels those of people count, where they are known.
func (r *Results) judging(plan int) *schema.Judging {
	p := r.plans[plan]
	var out schema.Judging
	var models []string
	var judged []int // questions whose answers have a verdict
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

// agreementOf compares two raters of the same answers, 1 or 0 each: the share that they rate
// alike, and Cohen's kappa (Cohen 1960), which is what that share has more than chance, of
// what it could have. The intervals are those of the bootstrap over the answers.
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
	alike, kappa := alikeAndKappa(mean(column(0)), mean(column(1)), mean(column(2)))
	out := schema.JudgeAgreement{Answers: len(rows), Agreement: alike}
	means := resampled(rows)
	alikes, kappas := make([]float64, resamples), make([]float64, resamples)
	for r := range resamples {
		alikes[r], kappas[r] = alikeAndKappa(means[0][r], means[1][r], means[2][r])
	}
	out.Interval = interval(alikes)
	if !math.IsNaN(kappa) {
		out.Kappa = &kappa
		if drawnAgain(kappas) {
			found := interval(kappas)
			out.KappaInterval = &found
		}
	}
	return out
}

// alikeAndKappa are the agreement of two raters and Cohen's kappa, from the shares that the
// one, the other, and both rate 1. Kappa is NaN where both rate all answers the same, of which
// chance alone makes as much.
func alikeAndKappa(one, other, both float64) (alike, kappa float64) {
	alike = 1 - one - other + 2*both
	chance := one*other + (1-one)*(1-other)
	return alike, (alike - chance) / (1 - chance)
}
