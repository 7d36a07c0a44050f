package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/sluice-rag/sluice/schema"
)

type plansCommand struct {
	List   plansList   `cmd:"" default:"1" help:"List the retrieval plans and their stages."`
	Check  plansCheck  `cmd:"" help:"Read a plan of your own and say what is wrong with it."`
	Show   plansShow   `cmd:"" help:"Show a plan's YAML."`
	Put    plansPut    `cmd:"" help:"Store a plan of your own under its name; one of that name is replaced."`
	Delete plansDelete `cmd:"" help:"Delete a plan of your own."`
	Choose plansChoose `cmd:"" help:"Measure plans on a collection's own questions, and propose the cheapest that is within a point of the best."`
}

type plansList struct{ remote }

func (l *plansList) Run(ctx context.Context) error {
	c, err := l.client()
	if err != nil {
		return err
	}
	plans, err := c.Plans(ctx)
	if err != nil {
		return err
	}
	if l.JSON {
		return printJSON(plans)
	}
	for _, p := range plans {
		printPlan(os.Stdout, p)
	}
	return nil
}

type plansCheck struct {
	remote
	File string `arg:"" type:"existingfile" help:"A plan in YAML."`
}

func (k *plansCheck) Run(ctx context.Context) error {
	c, err := k.client()
	if err != nil {
		return err
	}
	text, err := readPlan(k.File)
	if err != nil {
		return err
	}
	plan, err := c.CheckPlan(ctx, text)
	if err != nil {
		return err
	}
	if k.JSON {
		return printJSON(plan)
	}
	printPlan(os.Stdout, plan)
	return nil
}

type plansShow struct {
	remote
	Name string `arg:"" help:"The plan's name."`
}

func (h *plansShow) Run(ctx context.Context) error {
	c, err := h.client()
	if err != nil {
		return err
	}
	plan, err := c.Plan(ctx, h.Name)
	if err != nil {
		return err
	}
	if h.JSON {
		return printJSON(plan)
	}
	fmt.Print(plan.Text)
	return nil
}

type plansPut struct {
	remote
	File string `arg:"" type:"existingfile" help:"A plan in YAML."`
}

func (u *plansPut) Run(ctx context.Context) error {
	c, err := u.client()
	if err != nil {
		return err
	}
	text, err := readPlan(u.File)
	if err != nil {
		return err
	}
	checked, err := c.CheckPlan(ctx, text)
	if err != nil {
		return err
	}
	plan, err := c.PutPlan(ctx, checked.Name, text)
	if err != nil {
		return err
	}
	if u.JSON {
		return printJSON(plan)
	}
	printPlan(os.Stdout, plan)
	return nil
}

type plansDelete struct {
	remote
	Name string `arg:"" help:"The plan's name."`
}

func (d *plansDelete) Run(ctx context.Context) error {
	c, err := d.client()
	if err != nil {
		return err
	}
	return c.DeletePlan(ctx, d.Name)
}

// readPlan reads a plan's file.
func readPlan(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", fmt.Errorf("read the plan: %w", err)
	}
	defer f.Close() //nolint:errcheck // it is only read
	text, err := io.ReadAll(io.LimitReader(f, schema.MaxPlanText+1))
	switch {
	case err != nil:
		return "", fmt.Errorf("read the plan: %w", err)
	case len(text) > schema.MaxPlanText:
		return "", schema.Invalid(file, "has more than %d bytes; is it a plan?", schema.MaxPlanText)
	case strings.TrimSpace(string(text)) == "":
		return "", schema.Invalid(file, "is empty; 'sluice plans show sluice' shows what a plan looks like")
	}
	return string(text), nil
}

func printPlan(w io.Writer, p schema.Plan) {
	name := printable(p.Name)
	if p.Default {
		name += " (default)"
	}
	if p.Own {
		name += " (your own)"
	}
	fmt.Fprintln(w, name)
	indent(w, "    ", p.Description, 96)
	if p.Problem != "" {
		fmt.Fprintf(w, "    cannot be run: %s\n", printable(p.Problem))
	}
	if p.Segmentation != nil {
		fmt.Fprintf(w, "    for collections cut by %s\n", printable(p.Segmentation.String()))
	}
	for i, s := range p.Stages {
		fmt.Fprintf(w, "    %d. %-8s -> %-8s  %s\n", i+1, s.Stage, s.Unit, printable(settings(s.Parameters)))
	}
}

// settings formats parameters on one line.
func settings(parameters map[string]any) string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(parameters)) {
		value := parameters[name]
		switch v := value.(type) {
		case map[string]any:
			value = "{" + settings(v) + "}"
		case []any:
			var items []string
			for _, item := range v {
				if m, ok := item.(map[string]any); ok {
					items = append(items, settings(m))
				}
			}
			value = "[" + strings.Join(items, "; ") + "]"
		}
		out = append(out, fmt.Sprintf("%s %v", name, value))
	}
	return strings.Join(out, ", ")
}
