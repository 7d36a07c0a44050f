package main

// This file shows the progress of a matrix, and writes its results.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/sluice-rag/sluice/cmd/internal/matrix"
	"github.com/sluice-rag/sluice/internal/evaluate"
	"github.com/sluice-rag/sluice/schema"
)

// matrixProgress prints at intervals how many questions were asked, and about how long the rest
// takes.
type matrixProgress struct {
	out   io.Writer
	name  string
	total int // questions to ask under all rows

	mu    sync.Mutex
	done  int
	spent time.Duration // time spent asking before begun
	begun time.Time     // zero: nothing is being asked
	last  time.Time     // time of the last line
}

// begin starts the clock. Time before it, such as for ingestion, does not count.
func (p *matrixProgress) begin() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.begun = time.Now()
	p.print()
}

// end stops the clock.
func (p *matrixProgress) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.begun.IsZero() {
		p.spent, p.begun = p.spent+time.Since(p.begun), time.Time{}
		p.print()
	}
}

// count counts one question under a row.
func (p *matrixProgress) count() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.done++; time.Since(p.last) >= counterInterval {
		p.print()
	}
}

func (p *matrixProgress) print() {
	p.last = time.Now()
	fmt.Fprintf(p.out, "%s: %d of %d asked", p.name, p.done, p.total)
	spent := p.spent
	if !p.begun.IsZero() {
		spent += time.Since(p.begun)
	}
	if left := remaining(spent, p.done, p.total); left > 0 {
		fmt.Fprintf(p.out, "; about %s left", left)
	}
	fmt.Fprintln(p.out)
}

// remaining returns how long the rest takes at the same rate; 0: unknown.
func remaining(spent time.Duration, done, total int) time.Duration {
	if done == 0 {
		return 0
	}
	return (spent / time.Duration(done) * time.Duration(total-done)).Round(time.Second)
}

// list lists the cells and the number of their questions to ask.
func (m *matrixRun) list(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprint(w, "DATASET\tPACK\tROW\tQUESTIONS\tKEPT\tTO ASK\n")
	cells, all := 0, 0
	for d, set := range m.datasets {
		for p, pack := range m.file.Packs {
			for r, row := range m.rows {
				questions, missing := len(m.questions(d)), len(m.missing(matrixCell{d, p, r}))
				cells, all = cells+1, all+questions
				fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%d\t%d\n", printable(set.Name), printable(packName(pack)), printable(row.Name), questions, questions-missing, missing)
			}
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "%d cells, %d questions, %d to ask\n", cells, all, m.questionsLeft())
	return err
}

// packName returns the name of a pack for tables.
func packName(pack string) string {
	if pack == "" {
		return "(in use)"
	}
	return pack
}

// noEvaluator is asked only if a result is not kept, which is an error.
type noEvaluator struct{}

var errMissing = errors.New("its result is not kept")

func (noEvaluator) Search(context.Context, string, evaluate.Topic, int, int) (evaluate.Found, error) {
	return evaluate.Found{}, errMissing
}

func (noEvaluator) Ask(context.Context, string, evaluate.Topic) (evaluate.Answered, error) {
	return evaluate.Answered{}, errMissing
}

func (noEvaluator) Judge(context.Context, evaluate.Topic, string) (schema.Judgement, error) {
	return schema.Judgement{}, errMissing
}

// matrixReport is the content of matrix.json.
type matrixReport struct {
	Matrix      string               `json:"matrix"`
	Description string               `json:"description,omitempty"`
	Packs       []string             `json:"packs,omitempty"`
	Combination evaluate.Combination `json:"combination"`
	Reports     []evaluate.Summary   `json:"reports"` // one for each dataset and pack
}

// report writes the tables of all cells. All results must be kept.
func (m *matrixRun) report(ctx context.Context) error {
	out := matrixReport{Matrix: m.file.Name, Description: m.file.Description}
	many := len(m.file.Packs) > 1
	if m.file.Packs[0] != "" {
		out.Packs = m.file.Packs
	}
	label := func(pack int) func(string) string {
		return func(row string) string {
			if many {
				return row + " (" + packName(m.file.Packs[pack]) + ")"
			}
			return row
		}
	}
	var sets []*evaluate.Set
	var all []*evaluate.Results
	for d := range m.datasets {
		set := &evaluate.Set{Dataset: m.datasets[d].Name}
		for p := range m.file.Packs {
			r, err := m.results(ctx, d, p)
			if err != nil {
				return fmt.Errorf("%s: %w", set.Dataset, err)
			}
			set.Add(r, label(p))
			all, out.Reports = append(all, r), append(out.Reports, r.Summary())
		}
		sets = append(sets, set)
	}
	out.Combination = evaluate.Combine(sets, m.file.Metrics, label(0)(m.file.Baseline))
	about := fmt.Sprintf("%s, sluice %s", time.Now().Format("2 January 2006, 15:04"), version)
	path := func(name string) string { return filepath.Join(m.out, name) }
	err := errors.Join(
		write(path("matrix.json"), func(w io.Writer) error {
			e := json.NewEncoder(w)
			e.SetIndent("", "  ")
			return e.Encode(out)
		}),
		write(path("matrix.md"), func(w io.Writer) error { return out.Combination.WriteMarkdown(w, m.file.Name, about) }),
		write(path("matrix.html"), func(w io.Writer) error { return evaluate.WriteMatrixHTML(w, out.Combination, all, out.Reports, about) }))
	if err != nil {
		return err
	}
	return printCombination(os.Stdout, out.Combination, m.out)
}

// printCombination prints the tables without confidence intervals, which are too wide for a
// terminal.
func printCombination(out io.Writer, c evaluate.Combination, folder string) error {
	titles, datasets := c.Datasets, c.Datasets
	if len(c.Datasets) > 1 {
		titles, datasets = append([]string{fmt.Sprintf("All %d datasets", len(c.Datasets))}, titles...), append([]string{""}, datasets...)
	}
	for i, title := range titles {
		fmt.Fprintf(out, "\n%s\n\n", printable(title))
		if err := printTable(out, c.CombinedTable(datasets[i], false)); err != nil {
			return err
		}
	}
	for _, j := range c.Judged {
		fmt.Fprintf(out, "\n%s", printable(j.Dataset))
		if err := printJudge(out, j); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(out, "\n* differs from %s (paired bootstrap over the questions, p < %g); matrix.md, matrix.json and matrix.html in %s have the intervals\n",
		printable(c.Baseline), evaluate.Significant, folder)
	return err
}

// results returns the results of all rows on a dataset with a pack.
func (m *matrixRun) results(ctx context.Context, dataset, pack int) (*evaluate.Results, error) {
	d := *m.datasets[dataset]
	if len(m.file.Packs) > 1 {
		d.Name += ", " + packName(m.file.Packs[pack])
	}
	options := m.options(dataset)
	kept := map[string]*matrix.CellResults{}
	segmentations, failed := map[string]string{}, 0
	for r, row := range m.rows {
		k := m.kept[matrixCell{dataset, pack, r}]
		cut, err := rowSegmentation(row)
		if err != nil {
			return nil, err
		}
		kept[row.Name], segmentations[row.Name] = k, cut.String()
		failed = max(failed, k.Failed())
		options.Plans = append(options.Plans, row.Name)
	}
	options.Kept = matrix.Rows{Of: kept}
	if m.file.Answers {
		options.Answerer = noEvaluator{}
	}
	if m.file.Judge {
		options.Judge = noEvaluator{}
	}
	out, err := evaluate.Run(ctx, &d, noEvaluator{}, options)
	if err != nil {
		return nil, err
	}
	out.Failed, out.Segmentations = failed, segmentations
	return out, nil
}
