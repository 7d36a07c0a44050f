package evaluate

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/sluice-rag/sluice/schema"
)

// threePlanResults returns the results of three plans on 200 questions. The first finds the gold
// first, the second always second, the third like the second except that it misses every tenth.
func threePlanResults(t *testing.T) *Results {
	t.Helper()
	s := &scripted{found: func(plan, question string) Found {
		f := Found{Documents: []string{"gold"}, Millis: 12, Stages: []schema.StageReport{{Stage: "lexical", Millis: 4}, {Stage: "zoom", Millis: 7}}}
		if plan != "first" {
			f.Documents = []string{"dirt", "gold"}
		}
		if plan == "third" && strings.HasSuffix(question, "7") {
			f.Documents = []string{"dirt"}
		}
		return f
	}}
	r, err := Run(t.Context(), questions(200), s, Options{Plans: []string{"first", "second", "third"}, Parallel: 1})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// answered returns results with answers. One of the plans gives none and cites nothing.
func answered(t *testing.T) *Results {
	t.Helper()
	d := questions(200)
	for i := range d.Queries {
		d.Queries[i].Answers = []string{"seven"}
	}
	r, err := Run(t.Context(), d, nothingFound(), Options{Plans: []string{"first", "second", "third"}, Parallel: 1, Prices: Prices{Input: 10, Output: 30},
		Answerer: answers(func(plan string, q Topic) (Answered, error) {
			switch {
			case plan == "second":
				return newAnswer(schema.NoAnswer, false), nil
			case plan == "third" && strings.HasSuffix(q.Text, "0"):
				return Answered{}, errors.New("gone")
			}
			return newAnswer(`seven <i>"days"</i>`, true, schema.Citation{Document: "gold"}), nil
		})})
	if err != nil {
		t.Fatal(err)
	}
	r.Segmentations = map[string]string{"first": "segmenter", "second": "segmenter", "third": "sentences"}
	return r
}

func TestTableMarksTheBest(t *testing.T) {
	table := threePlanResults(t).Summary().Table()
	if want := []string{"nDCG@10", "hit@1", "MRR@10", "recall@100", "tokens", "p50 ms", "p95 ms"}; !slices.Equal(table.Columns, want) {
		t.Fatalf("columns are %q; the dataset gives %q", table.Columns, want)
	}
	ndcg := func(row int) Cell { return table.Rows[row].Cells[0] }
	if got := ndcg(0); got != (Cell{Text: "1.0000", Best: true}) {
		t.Errorf("the best plan's cell is %+v", got)
	}
	if got := ndcg(1); got != (Cell{Text: "0.6309"}) { // 1/log2(3)
		t.Errorf("the second plan's cell is %+v", got)
	}
	recall := slices.Index(table.Columns, "recall@100")
	if first, second := table.Rows[0].Cells[recall], table.Rows[1].Cells[recall]; !first.Best || !second.Best {
		t.Errorf("equal values are %+v and %+v; both are best", first, second)
	}
}

func TestTableSaysWhatCannotBeToldApart(t *testing.T) {
	s := Summary{Plans: []PlanSummary{{Plan: "a", Metrics: map[string]float64{"ndcg@10": 0.5, "hit@1": 0.5}}, {Plan: "b", Metrics: map[string]float64{"ndcg@10": 0.51, "hit@1": 0.51}}},
		Differences: []Difference{{Metric: "ndcg@10", Plan: "b", Against: "a", P: 0.2}, {Metric: "hit@1", Plan: "b", Against: "a", P: 0.01}}}
	row := s.Table().Rows[0]
	if !row.Cells[0].Level || row.Cells[1].Level {
		t.Errorf("p = 0.2 and p = 0.01 gave %+v", row.Cells)
	}
}

func TestReportIsWholeAndAsksForNothing(t *testing.T) {
	// Two metrics decide without answers, then ar@4 too; hits, prices, times. Of the answers'
	// measures f1, em and contains are drawn, and f1 against tokens. citation_precision is not,
	// because one plan has none.
	for name, c := range map[string]struct {
		r        *Results
		drawings int
		message  []string
	}{
		"found":    {threePlanResults(t), 2 + 3, nil},
		"answered": {answered(t), 3 + 3 + 3 + 1, []string{"Answers", "20 answers failed", "For third cut by sentences.", `seven <i>"days"</i>`, "of input and output were reckoned (580 answers)"}},
	} {
		t.Run(name, func(t *testing.T) { reportIsWhole(t, c.r, c.drawings, c.message) })
	}
}

func reportIsWhole(t *testing.T, r *Results, drawn int, message []string) {
	r.plans[1].name = `<script>alert("second")</script>`
	r.queries[7].Text = `what is "7" <b>&</b>?`
	var out strings.Builder
	if err := WriteHTML(&out, []*Results{r, r}, []Summary{r.Summary(), r.Summary()}, "now & here"); err != nil {
		t.Fatal(err)
	}
	page, err := html.Parse(strings.NewReader(out.String()))
	if err != nil {
		t.Fatal(err)
	}
	drawings, rows := 0, 0
	var text strings.Builder
	for n := range page.Descendants() {
		switch {
		case n.Type == html.TextNode:
			text.WriteString(n.Data)
		case n.Data == "svg":
			drawings++
		case n.Data == "tr":
			rows++
		case slices.Contains([]string{"script", "link", "img", "iframe", "b", "object", "image", "use"}, n.Data):
			t.Errorf("the page has <%s>", n.Data)
		}
		for _, a := range n.Attr {
			if a.Key == "href" || a.Key == "src" || strings.HasPrefix(a.Key, "on") {
				t.Errorf("<%s> has %s=%q", n.Data, a.Key, a.Val)
			}
		}
	}
	if drawings != 2*drawn {
		t.Errorf("the page has %d drawings, not %d", drawings, 2*drawn)
	}
	if regexp.MustCompile(`(?i)(https?:)?//[a-z]|url\(|@import`).MatchString(out.String()) {
		t.Error("the page names something elsewhere")
	}
	for _, want := range append(message, "now & here", "200 questions", "first", `<script>alert("second")</script>`, "Differences") {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	if regexp.MustCompile(`NaN|Inf|%!|&lt;nil`).MatchString(out.String()) {
		t.Error("the page has a value that is none")
	}
	if rows < 2*(4+7+maxContests) {
		t.Errorf("the page has only %d rows", rows)
	}
}

func TestRoundMarks(t *testing.T) {
	for _, c := range []struct{ low, high, lowest, highest, step float64 }{
		{0.612, 0.653, 0.6, 0.66, 0.02}, {0, 129, 0, 150, 50}, {0.5, 0.5, 0.5, 1.5, 0.5}, {0, 0, 0, 1, 0.5}, {0.9, 1, 0.9, 1, 0.05},
	} {
		low, high, step := round(c.low, c.high)
		if fmt.Sprintf("%.6f %.6f %.6f", low, high, step) != fmt.Sprintf("%.6f %.6f %.6f", c.lowest, c.highest, c.step) {
			t.Errorf("%g to %g is %g to %g by %g; want %g to %g by %g", c.low, c.high, low, high, step, c.lowest, c.highest, c.step)
		}
	}
}
