package main

// This file prints the results of a part as one table: both sides, their ratio, and the target
// ratio.

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

// ratio compares two sides round by round.
type ratio struct {
	What  string    `json:"what"`
	Unit  string    `json:"unit"`
	Ours  []float64 `json:"ours"`            // by round
	Other []float64 `json:"other,omitempty"` // none: Ours is compared with Target directly
	// Against names the other side.
	Against string  `json:"against,omitempty"`
	Target  float64 `json:"target"` // 0: none
	AtMost  bool    `json:"at_most,omitempty"`
}

// each returns the ratio of every round.
func (r ratio) each() []float64 {
	if r.Other == nil {
		return r.Ours
	}
	out := make([]float64, min(len(r.Ours), len(r.Other)))
	for i := range out {
		out[i] = r.Ours[i] / r.Other[i]
	}
	return out
}

// value returns the median of the ratios over the rounds.
func (r ratio) value() float64 { return median(r.each()) }

// reached reports whether the target is reached.
func (r ratio) reached() bool {
	if r.AtMost {
		return r.value() <= r.Target
	}
	return r.value() >= r.Target
}

// MarshalJSON adds the values that are computed from the figures.
func (r ratio) MarshalJSON() ([]byte, error) {
	type figures ratio
	each := r.each()
	out := struct {
		figures
		Ratio   float64 `json:"ratio"`
		Low     float64 `json:"low"`
		High    float64 `json:"high"`
		Reached *bool   `json:"reached,omitempty"`
	}{figures: figures(r), Ratio: r.value(), Low: slices.Min(each), High: slices.Max(each)}
	if r.Target > 0 {
		reached := r.reached()
		out.Reached = &reached
	}
	return json.Marshal(out)
}

// note is a figure without a target.
type note struct {
	What string `json:"what"`
	Says string `json:"says"`
}

// findings are the results of one part.
type findings struct {
	Part   string  `json:"part"`
	Corpus string  `json:"corpus"`
	Ratios []ratio `json:"ratios"`
	Notes  []note  `json:"notes,omitempty"`
	Failed []note  `json:"failed,omitempty"` // rows that could not be measured, and why
}

func (f *findings) compare(r ratio) { f.Ratios = append(f.Ratios, r) }

func (f *findings) note(what, format string, args ...any) {
	f.Notes = append(f.Notes, note{what, fmt.Sprintf(format, args...)})
}

// row measures one row, or several that belong together. If it fails, the other rows are still
// measured.
func (f *findings) row(what string, measure func() error) {
	if err := measure(); err != nil {
		progressf("%s: %s: FAILED: %v", f.Part, what, err)
		f.Failed = append(f.Failed, note{what, err.Error()})
	}
}

// failure returns an error if some rows of a part could not be measured.
func (f *findings) failure() error {
	if len(f.Failed) == 0 {
		return nil
	}
	var names []string
	for _, n := range f.Failed {
		names = append(names, n.What)
	}
	return fmt.Errorf("%s: not measured: %s", f.Part, strings.Join(names, ", "))
}

// print writes the findings for people.
func (f *findings) print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	line := func(cells ...string) { _, _ = fmt.Fprintln(w, strings.Join(cells, "\t")) }
	line(f.Part, f.Corpus)
	for _, n := range f.Notes {
		line("  "+n.What, n.Says)
	}
	for _, n := range f.Failed {
		line("  "+n.What, "FAILED: "+n.Says)
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	if len(f.Ratios) == 0 {
		return nil
	}
	w = tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	line("")
	line("  what", "unit", "Sluice", "other", "ratio", "rounds", "target", "")
	for _, r := range f.Ratios {
		each := r.each()
		// Without another side, the target applies to the figure itself.
		other, ratio, target, verdict := "", "", "", ""
		if r.Other != nil {
			ratio = figure(r.value())
			other = strings.TrimSpace(figure(median(r.Other)) + " " + r.Against)
		}
		if r.Target > 0 {
			target, verdict = ">= "+figure(r.Target), "MISSED"
			if r.AtMost {
				target = "<= " + figure(r.Target)
			}
			if r.reached() {
				verdict = "reached"
			}
		}
		line("  "+r.What, r.Unit, figure(median(r.Ours)), other, ratio,
			fmt.Sprintf("%s to %s in %d", figure(slices.Min(each)), figure(slices.Max(each)), len(each)), target, verdict)
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}

// figure formats a number with three significant digits.
func figure(x float64) string {
	switch {
	case x >= 1000:
		return strconv.FormatFloat(x, 'f', 0, 64)
	case x == 0:
		return "0"
	}
	digits := 2
	for limit := 1.0; digits < 6 && x < limit; limit /= 10 {
		digits++
	}
	if x >= 100 {
		digits = 0
	} else if x >= 10 {
		digits = 1
	}
	return strconv.FormatFloat(x, 'f', digits, 64)
}

// report prints findings, and writes them to a file when one is named.
func report(file string, all ...*findings) error {
	for _, f := range all {
		if err := f.print(os.Stdout); err != nil {
			return err
		}
		fmt.Println()
	}
	if file == "" {
		return nil
	}
	return writeJSON(file, all)
}

// writeJSON writes findings into a file.
func writeJSON(file string, all []*findings) error {
	data, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return fmt.Errorf("write the findings: %w", err)
	}
	if err := os.WriteFile(file, append(data, '\n'), 0o644); err != nil {
		return fmt.Errorf("write the findings: %w", err)
	}
	return nil
}
