package main

// This file shows stored evaluations.

import (
	"context"
	"fmt"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/apiclient"
	"github.com/sluice-rag/sluice/internal/evaluate"
	"github.com/sluice-rag/sluice/schema"
)

type evaluationsCommand struct {
	List    evaluationsList    `cmd:"" default:"withargs" help:"List evaluations, newest first."`
	Show    evaluationsShow    `cmd:"" help:"Show the figures of an evaluation."`
	Compare evaluationsCompare `cmd:"" help:"Compare an evaluation with another, in what both measured."`
	Delete  evaluationsDelete  `cmd:"" help:"Delete an evaluation."`
}

type evaluationsList struct {
	remote
	Dataset string `help:"Only those of this dataset."`
}

func (l *evaluationsList) Run(ctx context.Context) error {
	c, err := l.client()
	if err != nil {
		return err
	}
	return printList(l.JSON, c.Evaluations(ctx, l.Dataset), "ID RAN DATASETS NAME", func(e schema.Evaluation) []any {
		var datasets []string
		for _, d := range e.Datasets {
			datasets = append(datasets, d.Dataset)
		}
		return []any{e.ID, e.RanAt.Local().Format(time.DateTime), strings.Join(datasets, ","), e.Name}
	})
}

// evaluationArg is the argument of commands on an evaluation.
type evaluationArg struct {
	remote
	Evaluation string `arg:"" help:"The evaluation's id."`
}

func (o evaluationArg) resolve() (*apiclient.Client, uuid.UUID, error) {
	c, err := o.client()
	if err != nil {
		return nil, uuid.Nil, err
	}
	id, err := schema.ParseID("evaluation", o.Evaluation)
	return c, id, err
}

type evaluationsShow struct{ evaluationArg }

func (s *evaluationsShow) Run(ctx context.Context) error {
	c, id, err := s.resolve()
	if err != nil {
		return err
	}
	e, err := c.Evaluation(ctx, id)
	if err != nil {
		return err
	}
	if s.JSON {
		return printJSON(e)
	}
	fmt.Printf("%s\nran %s\n", printable(e.Name), e.RanAt.Local().Format(time.DateTime))
	indent(os.Stdout, "  ", e.Notes, 100)
	for _, r := range e.Reports {
		if err := printSummary(os.Stdout, evaluate.Summary(r)); err != nil {
			return err
		}
	}
	return nil
}

type evaluationsCompare struct {
	evaluationArg
	Against string `arg:"" help:"The id of the one to compare it with, for example an earlier one."`
}

func (s *evaluationsCompare) Run(ctx context.Context) error {
	c, id, err := s.resolve()
	if err != nil {
		return err
	}
	against, err := schema.ParseID("against", s.Against)
	if err != nil {
		return err
	}
	compared, err := c.CompareEvaluations(ctx, id, against)
	if err != nil {
		return err
	}
	if s.JSON {
		return printJSON(compared)
	}
	return printComparison(compared)
}

// printComparison prints one row per metric. A star marks a significant difference, better or
// worse.
func printComparison(compared schema.EvaluationComparison) error {
	fmt.Printf("%s, against %s\n", printable(compared.Evaluation.Name), printable(compared.Against.Name))
	if len(compared.Datasets) == 0 {
		fmt.Println("\nThey have no dataset in common.")
		return nil
	}
	for _, d := range compared.Datasets {
		for _, p := range d.Plans {
			fmt.Printf("\n%s, %s, plan %s\n\n", printable(d.Dataset), printable(d.Split), printable(p.Plan))
			w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
			fmt.Fprint(w, "metric\tvalue\tagainst\tdifference\t95 %\tp\tquestions\t\n")
			for _, m := range p.Metrics {
				fmt.Fprintf(w, "%s\t%.4f\t%.4f\t%+.4f\t", m.Metric, m.Value, m.Against, m.Difference)
				if m.Interval == nil || m.P == nil {
					fmt.Fprint(w, "\t\t\t\n")
					continue
				}
				mark := ""
				if *m.P < evaluate.Significant {
					if mark = "* worse"; (m.Difference < 0) == m.Lower {
						mark = "* better"
					}
				}
				fmt.Fprintf(w, "%+.4f to %+.4f\t%.4f\t%d\t%s\n", m.Interval.Low, m.Interval.High, *m.P, m.Questions, mark)
			}
			if err := w.Flush(); err != nil {
				return err
			}
		}
		if len(d.Plans) == 0 {
			fmt.Printf("\n%s, %s: they have no plan in common.\n", printable(d.Dataset), printable(d.Split))
		}
	}
	return nil
}

type evaluationsDelete struct{ evaluationArg }

func (d *evaluationsDelete) Run(ctx context.Context) error {
	c, id, err := d.resolve()
	if err != nil {
		return err
	}
	if err := c.DeleteEvaluation(ctx, id); err != nil {
		return err
	}
	if d.JSON {
		return printJSON(map[string]any{"id": id, "deleted": true})
	}
	fmt.Println("deleted " + id.String())
	return nil
}
