package planchoice

// This file processes a choice in steps. A step may be interrupted at any point and repeated by
// another worker: results are stored question by question.

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"

	"github.com/sluice-rag/sluice/internal/durable/heartbeat"
	"github.com/sluice-rag/sluice/internal/evaluate/choose"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

const (
	// maxMakeTime bounds the time for making questions, within the time limit of an activity.
	maxMakeTime = 10 * time.Minute
	// minQuestions is the least number of questions of a choice.
	minQuestions = 3
	// maxFaults is how often a step may fail for a reason other than an unavailable part of the
	// system.
	maxFaults = 5
)

// Register registers the activities of the workflow ChoosePlan.
func (c *Chooser) Register(r worker.ActivityRegistry) {
	r.RegisterActivityWithOptions(c.activity, activity.RegisterOptions{Name: wire.ActivityChooseStep})
	r.RegisterActivityWithOptions(func(ctx context.Context, in wire.PlanChoice, reason string) error {
		return over(c.Store.FailChoice(ctx, in, reason))
	}, activity.RegisterOptions{Name: wire.ActivityChooseFail})
}

// over ignores the error that a choice has ended.
func over(err error) error {
	if errors.Is(err, schema.ErrLostLease) {
		return nil
	}
	return err
}

// activity runs a step with heartbeats. Its error says whether a retry may help.
func (c *Chooser) activity(ctx context.Context, in wire.PlanChoice) (wire.ChoiceStep, error) {
	faults := heartbeat.Faults(ctx)
	defer heartbeat.Start(ctx, heartbeat.Every, faults)()
	more, err := c.Step(ctx, in)
	if err == nil {
		return wire.ChoiceStep{More: more}, nil
	}
	slog.WarnContext(ctx, "a step of a plan choice failed", "tenant", in.Tenant, "choice", in.Choice, "try", activity.GetInfo(ctx).Attempt, "error", err)
	if !retryable(err) {
		faults++
		activity.RecordHeartbeat(ctx, faults)
	}
	var refused impossibleError
	if errors.As(err, &refused) || errors.Is(err, schema.ErrNotFound) || faults >= maxFaults {
		return wire.ChoiceStep{}, temporal.NewNonRetryableApplicationError(err.Error(), wire.ErrorChoiceRefused, nil)
	}
	return wire.ChoiceStep{}, err
}

// retryable reports whether an error means that a part of the system is unavailable or full, which
// may pass, or that the step was cancelled.
func retryable(err error) bool {
	for _, e := range []error{schema.ErrUnavailable, schema.ErrOverloaded, context.Canceled} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// impossibleError is the reason why a choice is impossible, for any worker.
type impossibleError string

func (r impossibleError) Error() string { return string(r) }

// Step does part of the remaining work of a choice, and reports whether there is more.
func (c *Chooser) Step(ctx context.Context, in wire.PlanChoice) (more bool, err error) {
	t, err := c.Store.BeginChoice(ctx, in)
	if err != nil || t.State.Final() {
		return false, err
	}
	limit := time.Duration(t.Seconds) * time.Second
	if t.Questions == 0 {
		until := time.Now().Add(maxMakeTime)
		if half := t.StartedAt.Add(limit / 2); limit > 0 && half.Before(until) {
			until = half
		}
		questions, notes, err := c.gather(ctx, in, t, until)
		if err != nil {
			return false, err
		}
		if len(questions) < minQuestions {
			return false, impossibleError(tooFew(len(questions), notes))
		}
		return true, over(c.Store.SaveQuestions(ctx, in, questions, notes))
	}
	return c.measureSome(ctx, in, t, limit)
}

func tooFew(n int, notes []string) string {
	out := fmt.Sprintf("there are %d questions to measure plans on, and %d are needed: bring labelled ones (--questions), rate answers, or add documents with running text", n, minQuestions)
	for _, note := range notes {
		out += "; " + note
	}
	return out
}

// measureSome asks questions for a while.
func (c *Chooser) measureSome(ctx context.Context, in wire.PlanChoice, t Task, limit time.Duration) (more bool, err error) {
	slice := time.Now().Add(c.Slice)
	for {
		left := remaining(t)
		switch {
		case len(left) == 0:
			return false, impossibleError("no plan can be run here: " + reasons(t.LeftOut))
		case len(left) == 1 && len(t.Texts)-len(t.LeftOut) > 1 && len(t.Dropped) > 0,
			limit > 0 && t.Asked > 0 && time.Since(t.StartedAt) >= limit:
			return false, c.decide(ctx, in, t)
		}
		questions, err := c.Store.ChoiceQuestions(ctx, in, t.Asked, 1)
		if err != nil {
			return false, err
		}
		if len(questions) == 0 {
			return false, c.decide(ctx, in, t)
		}
		if done, err := c.ask(ctx, in, &t, left, questions[0]); err != nil || done {
			return false, over(err)
		}
		if time.Now().After(slice) {
			return true, nil
		}
	}
}

// ask asks a question under the remaining plans, and leaves plans out or drops them. done reports
// that the choice has ended meanwhile.
func (c *Chooser) ask(ctx context.Context, in wire.PlanChoice, t *Task, left []PlanText, q schema.ChoiceQuestion) (done bool, err error) {
	var figures []Figure
	var out []schema.LeftOut
	for i := range left {
		p := left[(i+q.Number)%len(left)] // rotated, to spread disturbances evenly
		f, err := c.measure(ctx, *t, p, q)
		if err != nil && !isFatal(ctx, err) {
			f, err = c.measure(ctx, *t, p, q)
		}
		switch {
		case err == nil:
			figures = append(figures, f)
		case isFatal(ctx, err):
			return false, fmt.Errorf("question %d under plan %s: %w", q.Number, p.Name, err)
		default:
			out = append(out, schema.LeftOut{Plan: p.Name, Reason: err.Error()})
		}
	}
	if len(out) > 0 {
		if err := c.Store.LeaveOut(ctx, in, out); err != nil {
			return errors.Is(err, schema.ErrLostLease), err
		}
		t.LeftOut = append(t.LeftOut, out...)
	}
	if err := c.Store.SaveFigures(ctx, in, q.Number, figures); err != nil {
		return errors.Is(err, schema.ErrLostLease), err
	}
	t.Asked = q.Number
	if !choose.Look(q.Number) {
		return false, nil
	}
	measured, _, err := c.measured(ctx, in, *t)
	if err != nil {
		return false, err
	}
	dropped := choose.Drop(measured, choose.Options{Alpha: t.Alpha, Current: t.Current})
	if len(dropped) == 0 {
		return false, nil
	}
	t.Dropped = append(t.Dropped, dropped...)
	err = c.Store.DropPlans(ctx, in, dropped)
	return errors.Is(err, schema.ErrLostLease), err
}

// isFatal reports whether an error is not the plan's fault, so that the step cannot continue.
func isFatal(ctx context.Context, err error) bool {
	return ctx.Err() != nil || retryable(err) || errors.Is(err, schema.ErrNotFound)
}

// remaining returns the plans that are still asked.
func remaining(t Task) []PlanText {
	return slices.DeleteFunc(slices.Clone(t.Texts), func(p PlanText) bool {
		return slices.Contains(t.Dropped, p.Name) || slices.ContainsFunc(t.LeftOut, func(l schema.LeftOut) bool { return l.Plan == p.Name })
	})
}

func reasons(left []schema.LeftOut) string {
	out := ""
	for i, l := range left {
		if i > 0 {
			out += "; "
		}
		out += l.Plan + ": " + l.Reason
	}
	return out
}

// decide has package choose propose a plan.
func (c *Chooser) decide(ctx context.Context, in wire.PlanChoice, t Task) error {
	measured, ndcg, err := c.measured(ctx, in, t)
	if err != nil {
		return err
	}
	result, err := choose.Choose(measured, choose.Options{Alpha: t.Alpha, Current: t.Current})
	if err != nil {
		return impossibleError(err.Error())
	}
	for i := range result.Plans {
		if gain, ok := ndcg[result.Plans[i].Plan]; ok {
			result.Plans[i].NDCG = &gain
		}
	}
	return over(c.Store.FinishChoice(ctx, in, result))
}

// measured returns the figures of each plan in the order of the questions, and the mean nDCG by
// plan.
func (c *Chooser) measured(ctx context.Context, in wire.PlanChoice, t Task) ([]choose.Measured, map[string]float64, error) {
	figures, err := c.Store.Figures(ctx, in)
	if err != nil {
		return nil, nil, err
	}
	left := map[string]bool{}
	for _, p := range remaining(t) {
		left[p.Name] = true
	}
	// A question counts if every remaining plan has a result.
	has := map[int]int{}
	for _, f := range figures {
		if left[f.Plan] {
			has[f.Number]++
		}
	}
	byPlan, sums, counts := map[string]*choose.Measured{}, map[string]float64{}, map[string]int{}
	var out []choose.Measured
	for _, p := range t.Texts {
		if left[p.Name] || slices.Contains(t.Dropped, p.Name) && !slices.ContainsFunc(t.LeftOut, func(l schema.LeftOut) bool { return l.Plan == p.Name }) {
			out = append(out, choose.Measured{Plan: p.Name, Dropped: !left[p.Name]})
		}
	}
	for i := range out {
		byPlan[out[i].Plan] = &out[i]
	}
	priced := map[string]bool{}
	for _, f := range figures {
		m := byPlan[f.Plan]
		if m == nil || has[f.Number] < len(left) {
			continue
		}
		m.Quality, m.Tokens, m.Millis = append(m.Quality, f.Quality), append(m.Tokens, f.Tokens), append(m.Millis, f.Millis)
		if f.Dollars != nil {
			priced[f.Plan] = true
			m.Dollars = append(m.Dollars, *f.Dollars)
		} else {
			m.Dollars = append(m.Dollars, 0)
		}
		if f.NDCG != nil {
			sums[f.Plan], counts[f.Plan] = sums[f.Plan]+*f.NDCG, counts[f.Plan]+1
		}
	}
	for i := range out {
		if !priced[out[i].Plan] {
			out[i].Dollars = nil
		}
	}
	for plan, n := range counts {
		sums[plan] /= float64(n)
	}
	return out, sums, nil
}
