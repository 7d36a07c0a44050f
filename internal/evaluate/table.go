package evaluate

// This file makes the table of an evaluation, for the terminal and the report.

import (
	"math"
	"slices"
	"strconv"
)

// Table has a row per plan and a column per figure that the dataset has.
type Table struct {
	Columns []string
	Rows    []Row
}

// Row has the figures of a plan.
type Row struct {
	Plan  string
	Cells []Cell
}

// Cell is one figure.
type Cell struct {
	Text string
	Best bool // the best of its column
	// Level: it does not differ significantly from the best.
	Level bool
}

// column is a column of the table.
type column struct {
	title, metric string
	digits        int
	lower         bool // lower is better
}

var columns = []column{
	{"nDCG@10", "ndcg@10", 4, false}, {"hit@1", "hit@1", 4, false}, {"MRR@10", "mrr@10", 4, false}, {"recall@100", "document_recall@100", 4, false},
	{"AR@4", "ar@4", 4, false}, {"evidence", "evidence_recall", 4, false}, {"P@3", "passage_precision@3", 4, false}, {"IE sum", "passage_ie_sum", 4, false}, {"entropy@4", "entropy@4", 3, true},
	{"tokens", "tokens", 0, true}, {"p50 ms", "p50", 1, true}, {"p95 ms", "p95", 1, true},
}

var answerColumns = []column{
	{"EM", "em", 4, false}, {"F1", "f1", 4, false}, {"ROUGE-L", "rouge_l", 4, false}, {"BLEU-1", "bleu_1", 4, false}, {"BLEU-4", "bleu_4", 4, false},
	{"METEOR", "meteor", 4, false}, {"contains", "contains", 4, false}, {"correct", correctness, 4, false}, {"cites P", "citation_precision", 4, false}, {"cites R", "citation_recall", 4, false},
	{"quotes P", "quote_precision", 4, false}, {"quotes R", "quote_recall", 4, false}, {"unans.", "unanswerable_accuracy", 4, false},
	{"choice", "choice_accuracy", 4, false}, {"answered", "answered", 4, false}, {"skipped", "skipped", 4, false}, {"tokens in", "input_tokens", 0, true}, {"out", "output_tokens", 0, true},
	{"$/1000", "cost", 3, true}, {"F1/$", efficiency, 1, false}, {"rounds", "rounds", 2, true}, {"p50 ms", "answer_p50", 0, true}, {"p95 ms", "answer_p95", 0, true},
}

// figure returns a plan's value in a column; NaN: it has none.
func (c column) figure(p PlanSummary) float64 {
	switch c.metric {
	case "tokens":
		return p.Tokens
	case "p50":
		return p.Millis.P50
	case "p95":
		return p.Millis.P95
	case "cost":
		return 1000 * p.Metrics[c.metric]
	case "answer_p50":
		return p.Answering.P50
	case "answer_p95":
		return p.Answering.P95
	}
	if v, ok := p.Metrics[c.metric]; ok {
		return v
	}
	return math.NaN()
}

// Table returns the table of the search results.
func (s Summary) Table() Table { return s.table(columns) }

// Answers returns the table of the answers, without columns if there are none.
func (s Summary) Answers() Table {
	if slices.ContainsFunc(s.Plans, func(p PlanSummary) bool { return p.Answering == nil }) {
		return Table{}
	}
	return s.table(answerColumns)
}

func (s Summary) table(columns []column) Table {
	out := Table{Rows: make([]Row, len(s.Plans))}
	for i, p := range s.Plans {
		out.Rows[i].Plan = p.Plan
	}
	for _, c := range columns {
		best := -1
		for i, p := range s.Plans {
			v := c.figure(p)
			if !math.IsNaN(v) && (best < 0 || c.better(v, c.figure(s.Plans[best]))) {
				best = i
			}
		}
		if best < 0 {
			continue
		}
		out.Columns = append(out.Columns, c.title)
		for i, p := range s.Plans {
			cell := Cell{Text: "-"}
			if v := c.figure(p); !math.IsNaN(v) {
				cell.Text = strconv.FormatFloat(v, 'f', c.digits, 64)
				cell.Best = len(s.Plans) > 1 && v == c.figure(s.Plans[best])
				cell.Level = !cell.Best && s.level(c.metric, p.Plan, s.Plans[best].Plan)
			}
			out.Rows[i].Cells = append(out.Rows[i].Cells, cell)
		}
	}
	return out
}

func (c column) better(a, b float64) bool {
	if c.lower {
		return a < b
	}
	return a > b
}

// level reports whether two plans were compared and do not differ significantly.
func (s Summary) level(metric, a, b string) bool {
	for _, d := range s.Differences {
		if d.Metric == metric && (d.Plan == a && d.Against == b || d.Plan == b && d.Against == a) {
			return d.P >= Significant
		}
	}
	return false
}
