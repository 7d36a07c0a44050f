package main

// This file lets the server choose a collection's plan, waits for the choice, and shows its table.

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/apiclient"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
)

type plansChoose struct {
	remote
	Collection string        `required:"" short:"c" help:"Name or id of the collection."`
	Questions  string        `type:"path" placeholder:"FILE" help:"Questions with known answers (answer, answer_contains) or the documents that have them (documents): JSON Lines, or CSV. Without a file: those of an earlier choice; then rated answers, then questions that are made of passages."`
	Plans      []string      `placeholder:"NAME" help:"Plans to compare, with commas between; all when left out."`
	Limit      int           `placeholder:"N" help:"So many questions at most; 300 when left out, or all of the file's."`
	AtMost     time.Duration `placeholder:"TIME" help:"Stop measuring after this time and choose from what there is, as 30m."`
	Apply      bool          `help:"Give the collection the plan that is proposed."`
	Every      int           `placeholder:"DAYS" help:"Measure again every so many days; webhooks hear plan.better."`
	NoWait     bool          `help:"Begin, and do not wait for the end."`

	Show   string `xor:"do" placeholder:"ID" help:"Show a choice and begin none; 'last' is the newest. With --apply it is applied."`
	List   bool   `xor:"do" help:"List the collection's choices."`
	Cancel string `xor:"do" placeholder:"ID" help:"Cancel a choice; 'last' is the newest."`
	Repeat *int   `xor:"do" placeholder:"DAYS" help:"Measure again every so many days what was chosen last; 0: no more."`
}

// Run starts a choice, or shows, lists, cancels or repeats choices.
func (k *plansChoose) Run(ctx context.Context) error {
	c, err := k.client()
	if err != nil {
		return err
	}
	var choice schema.PlanChoice
	switch {
	case k.List:
		return k.list(ctx, c)
	case k.Cancel != "":
		if choice, err = k.find(ctx, c, k.Cancel); err == nil {
			choice, err = c.CancelPlanChoice(ctx, k.Collection, choice.ID)
		}
	case k.Repeat != nil:
		choice, err = c.RepeatPlanChoice(ctx, k.Collection, *k.Repeat)
	case k.Show != "":
		choice, err = k.find(ctx, c, k.Show)
	default:
		if choice, err = k.begin(ctx, c); err == nil && !k.NoWait {
			choice, err = k.wait(ctx, c, choice)
		}
	}
	if err != nil {
		return err
	}
	if k.Apply && choice.State == schema.ChoiceDone {
		if choice, err = c.ApplyPlanChoice(ctx, k.Collection, choice.ID, ""); err != nil {
			return err
		}
	}
	if k.JSON {
		err = printJSON(choice)
	} else {
		printPlanChoice(os.Stdout, choice, k.Collection)
	}
	if err == nil && choice.State == schema.ChoiceFailed {
		err = errors.New("no plan was chosen: " + choice.Reason)
	}
	return err
}

func (k *plansChoose) begin(ctx context.Context, c *apiclient.Client) (schema.PlanChoice, error) {
	n := api.NewPlanChoice{Plans: k.Plans, Limit: k.Limit, Seconds: int(k.AtMost.Seconds()), Every: k.Every}
	if k.Questions != "" {
		questions, err := readKnownQuestions(k.Questions)
		if err != nil {
			return schema.PlanChoice{}, err
		}
		limit := schema.MaxChoiceQuestions
		if k.Limit > 0 {
			limit = min(limit, k.Limit)
		}
		for _, q := range sampleQuestions(questions, limit) {
			n.Questions = append(n.Questions, api.KnownQuestion(q))
		}
	}
	return c.ChoosePlan(ctx, k.Collection, n)
}

// find returns the choice with an id, or the newest for "last".
func (k *plansChoose) find(ctx context.Context, c *apiclient.Client, id string) (schema.PlanChoice, error) {
	if id != "last" {
		parsed, err := uuid.Parse(id)
		if err != nil {
			return schema.PlanChoice{}, schema.Invalid("id", "%q is neither an id nor 'last'; --list shows the ids", id)
		}
		return c.PlanChoice(ctx, k.Collection, parsed)
	}
	for choice, err := range c.PlanChoices(ctx, k.Collection) {
		return choice, err
	}
	return schema.PlanChoice{}, fmt.Errorf("no plan was chosen for %s yet: %w", k.Collection, schema.ErrNotFound)
}

func (k *plansChoose) list(ctx context.Context, c *apiclient.Client) error {
	all := []schema.PlanChoice{}
	for choice, err := range c.PlanChoices(ctx, k.Collection) {
		if err != nil {
			return err
		}
		all = append(all, choice)
	}
	if k.JSON {
		return printJSON(all)
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ID\tMADE\tSTATE\tQUESTIONS\tPROPOSED\tAPPLIED")
	for _, x := range all {
		proposed := ""
		if x.Result != nil {
			proposed = x.Result.Plan
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%d of %d\t%s\t%s\n", x.ID, x.CreatedAt.Format(time.RFC3339), x.State, x.Asked, x.Questions, printable(proposed), printable(x.Applied))
	}
	return w.Flush()
}

// wait polls a choice until it has ended.
func (k *plansChoose) wait(ctx context.Context, c *apiclient.Client, choice schema.PlanChoice) (schema.PlanChoice, error) {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	bar := newCounter(os.Stderr, "questions asked")
	defer bar.end()
	note := ""
	for !choice.State.Final() {
		if choice.Questions > 0 {
			bar.show(choice.Asked, choice.Questions)
		} else if stage := string(choice.State) + " " + choice.Stage; stage != note && !k.JSON {
			note = stage
			fmt.Fprintf(os.Stderr, "choice %s: %s\n", choice.ID, strings.TrimSpace(stage))
		}
		select {
		case <-ctx.Done():
			return choice, fmt.Errorf("stopped waiting; the server goes on ('sluice plans choose -c %s --cancel %s' ends it): %w", k.Collection, choice.ID, context.Cause(ctx))
		case <-tick.C:
		}
		var err error
		if choice, err = c.PlanChoice(ctx, k.Collection, choice.ID); err != nil {
			return choice, err
		}
	}
	return choice, nil
}

// printPlanChoice prints a choice with its table.
func printPlanChoice(w io.Writer, c schema.PlanChoice, collection string) {
	fmt.Fprintf(w, "choice     %s, %s\n", c.ID, c.State)
	if len(c.Sources) > 0 {
		var from []string
		for _, s := range c.Sources {
			from = append(from, fmt.Sprintf("%d %s", s.Questions, s.Source))
		}
		fmt.Fprintf(w, "questions  %d of %d asked: %s\n", c.Asked, c.Questions, strings.Join(from, ", "))
	}
	for _, n := range c.Notes {
		fmt.Fprintf(w, "note       %s\n", printable(n))
	}
	for _, l := range c.LeftOut {
		fmt.Fprintf(w, "left out   %s: %s\n", printable(l.Plan), printable(l.Reason))
	}
	if c.Reason != "" {
		fmt.Fprintf(w, "failed     %s\n", printable(c.Reason))
	}
	if c.Result != nil {
		printVerdicts(w, *c.Result)
		switch {
		case c.Applied != "":
			fmt.Fprintf(w, "\n%s is the collection's plan now.\n", printable(c.Applied))
		case c.State == schema.ChoiceDone:
			fmt.Fprintf(w, "\nGive it to the collection: sluice plans choose -c %s --show %s --apply\n", printable(collection), c.ID)
		}
	}
	if c.NextAt != nil {
		fmt.Fprintf(w, "It is measured again at %s.\n", c.NextAt.Format(time.RFC3339))
	}
}

func printVerdicts(w io.Writer, r schema.PlanVerdicts) {
	fmt.Fprintln(w)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "plan\tquality\t95 % interval\tloses\tat most\tnDCG@10\ttokens\tms\tquestions\tverdict\t")
	for _, v := range r.Plans {
		name, bound, gain := printable(v.Plan), "", ""
		if v.Current {
			name += " (now)"
		}
		if v.LossBound != nil {
			bound = fmt.Sprintf("%.1f", 100**v.LossBound)
		}
		if v.NDCG != nil {
			gain = fmt.Sprintf("%.1f", 100**v.NDCG)
		}
		fmt.Fprintf(t, "%s\t%.1f\t%.1f to %.1f\t%.1f\t%s\t%s\t%.0f\t%.0f\t%d\t%s\t\n", name, 100*v.Quality, 100*v.Interval.Low, 100*v.Interval.High, 100*v.Loss, bound, gain,
			v.Tokens, v.Millis, v.Questions, v.Verdict)
	}
	_ = t.Flush()
	fmt.Fprintln(w)
	switch {
	case r.Sure:
		fmt.Fprintf(w, "%s is proposed: it loses less than a point against every other plan, for sure.\n", printable(r.Plan))
	case r.Needed > 0:
		fmt.Fprintf(w, "%s is proposed: it is the cheapest within a point of the best (%s) by mean. Chance is not ruled out; about %d questions would.\n", printable(r.Plan), printable(r.Best), r.Needed)
	default:
		fmt.Fprintf(w, "%s is proposed: it is the cheapest within a point of the best (%s) by mean. Chance is not ruled out.\n", printable(r.Plan), printable(r.Best))
	}
	if r.Better {
		fmt.Fprintln(w, "It is better than the collection's plan, or as good and cheaper.")
	}
}
