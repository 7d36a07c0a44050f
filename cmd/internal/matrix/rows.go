package matrix

// This file makes the rows of a matrix: each plan under each setting that applies to it.

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sluice-rag/sluice/internal/retrieval/plan"
	"github.com/sluice-rag/sluice/schema"
)

// Row is a plan with its settings.
type Row struct {
	Name string
	Plan string // name of a plan of the server that is used unchanged; empty: Text is sent with each question
	Text string // the plan's YAML
	// Model has settings of the language model that differ from the server's, by name.
	Model     map[string]string
	Described schema.Plan
}

// maxName is the maximum length of a row's name, the same as that of a plan in a report.
const maxName = 128

// Rows returns the rows. named returns the YAML of a plan of the server.
func (f *File) Rows(named func(name string) (string, error)) ([]Row, error) {
	texts := make([]string, len(f.plans))
	for i, p := range f.plans {
		if slices.ContainsFunc(f.plans[:i], func(o planEntry) bool { return o.as == p.as }) {
			return nil, schema.Invalid(fmt.Sprintf("plans[%d]", i), "%q is already the name of another plan: give this one another name with as:", p.as)
		}
		if texts[i] = p.text; p.name != "" {
			text, err := named(p.name)
			if err != nil {
				return nil, inside(fmt.Sprintf("plans[%d]", i), err)
			}
			texts[i] = text
		}
	}
	for _, s := range f.settings {
		for i, name := range s.plans {
			if !slices.ContainsFunc(f.plans, func(p planEntry) bool { return p.as == name }) {
				return nil, schema.Invalid(fmt.Sprintf("%s.plans[%d]", s.field, i), "there is no plan %q; there are: %s", name, f.planNames())
			}
		}
	}
	var out []Row
	for i, p := range f.plans {
		applied := false
		for _, s := range f.settings {
			if len(s.plans) > 0 && !slices.Contains(s.plans, p.as) {
				continue
			}
			applied = true
			rows, err := s.rows(p, texts[i])
			if err != nil {
				return nil, err
			}
			out = append(out, rows...)
		}
		if !applied {
			row, err := setting{field: fmt.Sprintf("plans[%d]", i)}.row(p, texts[i], nil, nil)
			if err != nil {
				return nil, err
			}
			out = append(out, row)
		}
	}
	return out, f.checkRows(out)
}

func (f *File) checkRows(rows []Row) error {
	var names []string
	for _, r := range rows {
		switch {
		case slices.Contains(names, r.Name):
			return schema.Invalid("settings", "two rows are named %q: give the settings different names", r.Name)
		case len(r.Name) > maxName:
			return schema.Invalid("settings", "the row %.60q has a name of more than %d bytes", r.Name, maxName)
		}
		names = append(names, r.Name)
	}
	if len(rows) > maxRows {
		return schema.Invalid("settings", "the settings make %d rows; a matrix has at most %d", len(rows), maxRows)
	}
	if f.Baseline == "" {
		f.Baseline = names[0]
	}
	if !slices.Contains(names, f.Baseline) {
		return schema.Invalid("baseline", "there is no row %q; there are: %s", f.Baseline, strings.Join(names, "; "))
	}
	return nil
}

func (f *File) planNames() string {
	var names []string
	for _, p := range f.plans {
		names = append(names, p.as)
	}
	return strings.Join(names, ", ")
}

// rows returns the rows of a plan under a setting: one, or with vary one for each combination of
// the values.
func (s setting) rows(p planEntry, text string) ([]Row, error) {
	choices := [][]plan.Setting{nil}
	for _, a := range s.vary {
		var next [][]plan.Setting
		for _, before := range choices {
			for _, v := range a.values {
				next = append(next, append(slices.Clone(before), plan.Setting{Field: a.field, Value: v}))
			}
		}
		if choices = next; len(choices) > maxRows {
			return nil, schema.Invalid(s.field+".vary", "makes more than %d rows", maxRows)
		}
	}
	var out []Row
	for _, choice := range choices {
		var parts []string
		for _, c := range choice {
			parts = append(parts, c.Field+"="+written(c.Value))
		}
		row, err := s.row(p, text, choice, parts)
		if err != nil {
			return nil, err
		}
		out = append(out, row)
	}
	return out, nil
}

// row returns the row of a plan under a setting, with more fields set.
func (s setting) row(p planEntry, text string, more []plan.Setting, suffix []string) (Row, error) {
	names := []string{p.as}
	if s.name != "" {
		names = append(names, s.name)
	}
	change := s.change
	change.Set = slices.Concat(change.Set, more)
	out := Row{Name: strings.Join(append(names, suffix...), ", "), Plan: p.name, Text: text, Model: maps.Clone(s.model)}
	if len(change.Set) > 0 || len(change.Append) > 0 || len(change.Without) > 0 {
		out.Plan = ""
	}
	read, err := plan.Plan{}, error(nil)
	if out.Plan == "" {
		out.Text, read, err = plan.Changed(text, change)
	} else {
		read, err = plan.Parse([]byte(text))
	}
	if err == nil && out.Plan == "" {
		err = read.Affordable()
	}
	if err != nil {
		return Row{}, fmt.Errorf("plan %s: %w", p.as, inside(s.field, err))
	}
	out.Described = read.Describe()
	return out, nil
}

// written formats a value on one line.
func written(n *yaml.Node) string {
	if n.Kind == yaml.ScalarNode {
		return n.Value
	}
	flow := *n
	flow.Style = yaml.FlowStyle
	var b bytes.Buffer
	if err := yaml.NewEncoder(&b).Encode(&flow); err != nil {
		return "?"
	}
	return strings.TrimSpace(b.String())
}
