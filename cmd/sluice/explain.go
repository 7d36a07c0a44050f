package main

// This file prints what the stages of a plan did.

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/schema"
)

// printNotes prints notes that everybody should see, without the details of the stages.
func printNotes(w io.Writer, trace []schema.StageReport) {
	if i := slices.IndexFunc(trace, func(s schema.StageReport) bool { return s.Stage == schema.StageVectors }); i >= 0 {
		fmt.Fprintf(w, "note: %s\n", printable(trace[i].Why))
	}
}

func printTrace(w io.Writer, trace []schema.StageReport) {
	for i, s := range trace {
		fmt.Fprintf(w, "\n%d. %-9s %6d in %6d out %8.1f ms", i+1, s.Stage, s.In, s.Out, s.Millis)
		if s.Unit != "" {
			fmt.Fprintf(w, "  of unit %s", s.Unit)
		}
		fmt.Fprintln(w)
		if s.Why != "" {
			fmt.Fprintf(w, "   %s\n", printable(s.Why))
		}
		printJudged(w, "+", s.Kept, s.Out)
		printJudged(w, "-", s.Dropped, max(0, s.In-s.Out))
		printStatistics(w, s.Statistics)
	}
}

func printJudged(w io.Writer, sign string, judged []schema.Judged, of int) {
	for _, j := range judged {
		name := printable(j.Document)
		if j.Location != "" {
			name += "  (" + printable(j.Location) + ")"
		}
		if j.Cluster != uuid.Nil {
			name = cmp.Or(name, "cluster "+j.Cluster.String())
		}
		fmt.Fprintf(w, "   %s %8.4f  %s", sign, j.Score, cmp.Or(name, j.Version.String()))
		if len(j.Scores) > 1 {
			var parts []string
			for _, k := range slices.Sorted(maps.Keys(j.Scores)) {
				parts = append(parts, fmt.Sprintf("%s %.3f", k, j.Scores[k]))
			}
			fmt.Fprintf(w, "  [%s]", strings.Join(parts, ", "))
		}
		if j.Why != "" {
			fmt.Fprintf(w, "  %s", printable(j.Why))
		}
		fmt.Fprintln(w)
	}
	if more := of - len(judged); more > 0 && len(judged) > 0 {
		fmt.Fprintf(w, "   %s and %d more\n", sign, more)
	}
}

// printStatistics prints a line per scorer: "lexical.passage: units 40, ...".
func printStatistics(w io.Writer, all map[string]float64) {
	lines := map[string][]string{}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		parts := strings.SplitN(name, ".", 3)
		scorer := strings.Join(parts[:min(2, len(parts))], ".")
		lines[scorer] = append(lines[scorer], fmt.Sprintf("%s %.6g", strings.TrimPrefix(name, scorer+"."), all[name]))
	}
	for _, scorer := range slices.Sorted(maps.Keys(lines)) {
		fmt.Fprintf(w, "   = %s: %s\n", printable(scorer), printable(strings.Join(lines[scorer], ", ")))
	}
}

// numbers formats the positions of a context, counted from 1.
func numbers(context []int) string {
	if len(context) == 0 {
		return "none"
	}
	out := make([]string, len(context))
	for i, n := range context {
		out[i] = fmt.Sprint(n + 1)
	}
	return strings.Join(out, ", ")
}
