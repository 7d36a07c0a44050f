package tabular

import (
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/text"
	"pgregory.net/rapid"
)

const statement = `The table shows what was earned (in millions):

CONSOLIDATED STATEMENTS OF INCOME | Year Ended 2022 | Year Ended 2021
Revenue:
Subscription | $16,388 | $14,573
Product | 532 | 555
Total revenue | 16,920 | 15,128
Balance at beginning of period | 3,844 | 4,478
Balance at end of period | 4,236 | 3,844
Operating margin | 36% | 38%
`

// schedule has years in its rows, and Markdown's bars.
const schedule = `| Plant | Output in tons | Staff |
|---|---:|---:|
| 2021 | 1,200 | 31 |
| 2022 | 1,350 | 34 |
| Total | 2,550 | |
`

// prices has several cells that describe a row.
const prices = `Code | Model | Description | Liquid end | List price | From 10
KD-25-E-PV-F | KD-25 | Dosing pump 25 l/h, electronic | PVDF | 1036.00 | 974.00
KD-40-E-PV-F | KD-40 | Dosing pump 40 l/h, electronic | PVDF | 1284.00 | 1207.00
KD-40-E-SS-T | KD-40 | Dosing pump 40 l/h, electronic | Stainless steel | 1742.00 | 1637.00
KD-40-P-PV-E | KD-40 | Dosing pump 42 l/h, pulse input | PVDF | 897.00 | 843.00
`

func TestFind(t *testing.T) {
	for _, c := range []struct {
		question, text, cell, row, column, unit string
	}{
		{"What was total revenue in fiscal 2022?", statement, "16,920", "Total revenue", "Year Ended 2022", "in millions"},
		{"What was the total revenue in 2021?", statement, "15,128", "Total revenue", "Year Ended 2021", "in millions"},
		{"How much revenue did subscriptions bring in 2021?", statement, "$14,573", "Subscription", "Year Ended 2021", "in millions"},
		{"What was the product revenue?", statement, "532", "Product", "Year Ended 2022", "in millions"},
		{"What was the balance at the end of the period in 2022?", statement, "4,236", "Balance at end of period", "Year Ended 2022", "in millions"},
		{"What was the balance at the beginning of the period in 2022?", statement, "3,844", "Balance at beginning of period", "Year Ended 2022", "in millions"},
		{"In which year was product revenue higher?", statement, "2021", "Product", "", "in millions"},
		{"In which year was the operating margin lowest?", statement, "2022", "Operating margin", "", "in millions"},
		{"In which year was subscription revenue above 15,000?", statement, "2022", "Subscription", "", "in millions"},
		{"What is the price of an electronic KD-40 pump with a PVDF liquid end?", prices, "1284.00", "KD-40-E-PV-F", "List price", ""},
		{"What was the plant's output in tons in 2022?", schedule, "1,350", "2022", "Output in tons", ""},
	} {
		f, ok := Find(c.question, []Input{{Text: c.text}})
		if !ok || f.Cell.Text != c.cell || f.Row.Label != c.row || f.Column != c.column || f.Unit != c.unit || c.text[f.Cell.Start:f.Cell.End] != c.cell {
			t.Errorf("%s: %t, %q in row %q, column %q, %q; want %q, %q, %q, %q", c.question, ok, f.Cell.Text, f.Row.Label, f.Column, f.Unit, c.cell, c.row, c.column, c.unit)
		}
		if f.Confidence < 0.5 {
			t.Errorf("%s: confidence %.2f", c.question, f.Confidence)
		}
	}
}

func TestFindReadsWhatIsAsked(t *testing.T) {
	for _, question := range []string{
		"What is Northwind's FY2022 total revenue?",
		"By drawing on nothing but the statement of income, what is Northwind's total revenue for fiscal 2022 (in USD millions)? Round your answer to one decimal place.",
		"Answer as an analyst who has the income statement alone: how much total revenue did Northwind (formerly Southwind) report in 2022?",
		"Northwind's total revenue in 2022: how much?",
	} {
		f, ok := Find(question, []Input{{Text: statement, Context: "NORTHWIND.COM_2022_10K.pdf"}})
		if !ok || f.Cell.Text != "16,920" || f.Confidence < 0.5 {
			t.Errorf("%s: %t, %q in row %q with %.2f", question, ok, f.Cell.Text, f.Row.Label, f.Confidence)
		}
	}
}

func TestFindRefuses(t *testing.T) {
	for _, question := range []string{
		"What was total revenue in 2019?", // no column has this year
		"Who signed the statement?",
		"Is product revenue growing?",
		"What is the capital of France?",
		"How many employees were there at the end of 2022?",
		"Which year had equal revenue?",
		"",
	} {
		if f, ok := Find(question, []Input{{Text: statement}}); ok && f.Confidence >= 0.5 {
			t.Errorf("%q is answered by %q in row %q with %.2f", question, f.Cell.Text, f.Row.Label, f.Confidence)
		}
	}
	if _, ok := Find("What was total revenue in 2022?", []Input{{Text: "Total revenue was 16,920 in 2022."}}); ok {
		t.Error("a sentence is taken for a table")
	}
}

func TestOtherYears(t *testing.T) {
	row := strings.Index(statement, "Product")
	at := text.Range{Start: row, End: row + 20}
	for question, want := range map[string]bool{"What was product revenue in 2031?": true, "What was product revenue in 2021?": false, "What was product revenue?": false} {
		if got := OtherYears(question, statement, at); got != want {
			t.Errorf("%s: %t", question, got)
		}
	}
	if OtherYears("What was earned in 2031?", statement, text.Range{Start: 0, End: 10}) {
		t.Error("a sentence is taken for a row")
	}
}

func TestQuarters(t *testing.T) {
	for s, want := range map[string]int{"the fourth quarter of 2022": 4, "4 th Quarter": 4, "Q2 2023": 2, "first and second quarter": 2, "1st quarter, 2nd quarter": 0, "a quarter": 0} {
		if got := quarterOf(s); got != want {
			t.Errorf("%q names quarter %d, want %d", s, got, want)
		}
	}
}

func TestFigure(t *testing.T) {
	for s, want := range map[string]bool{
		"16,388": true, "$ (1,084)": true, "(112)": true, "12%": true, "(4)%": true, "€24.5": true, "2,447": true, "3.1x": true, "-51": true,
		"2022": false, "FY2021": false, "n/a": false, "—": false, "Level 2": false, "": false, "March 2": false, "10-K": false,
	} {
		if Figure(s) != want {
			t.Errorf("Figure(%q) is %t", s, !want)
		}
	}
}

// TestTablesPointAtTheText: in any text, cells are where their offsets say.
func TestTablesPointAtTheText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := strings.Join(rapid.SliceOf(rapid.StringMatching(`[a-zé |\-0-9,.$%\t]{0,40}`)).Draw(t, "lines"), "\n")
		for _, table := range Tables(s) {
			for _, r := range table.Rows {
				for _, c := range append([]TableCell{r.Group}, r.Cells...) {
					if s[c.Start:c.End] != c.Text || c != r.Group && (c.Start < r.Start || c.End > r.End) {
						t.Fatalf("cell %+v of row %+v", c, r)
					}
				}
			}
		}
	})
}

func FuzzFind(f *testing.F) {
	f.Add("What was total revenue in 2022?", statement)
	f.Add("In which year was output highest?", schedule)
	f.Fuzz(func(t *testing.T, question, s string) {
		if found, ok := Find(question, []Input{{Text: s}}); ok && s[found.Cell.Start:found.Cell.End] != found.Cell.Text {
			t.Errorf("%+v is not in the text", found.Cell)
		}
	})
}

// TestMarksOfNotesAreNoFigures: the mark of a note is part of neither the text nor the range of a
// figure.
func TestMarksOfNotesAreNoFigures(t *testing.T) {
	const table = "in millions | 2022 | 2021\nSales | 1,234(1) | (56) (a)\nTax | $7.5%* | (3)\nStaff | 1,200† | 31\n(1) Without the plant in Overton.\n"
	for question, want := range map[string]string{
		"What were the sales in 2022?": "1,234", "What were the sales in 2021?": "(56)",
		"How much was the tax in 2022?": "$7.5%", "How much was the tax in 2021?": "(3)", "How many staff were there in 2022?": "1,200",
	} {
		f, ok := Find(question, []Input{{Text: table}})
		if !ok || f.Cell.Text != want || table[f.Cell.Start:f.Cell.End] != want {
			t.Errorf("%s %t: %q, want %q", question, ok, f.Cell.Text, want)
		}
	}
}
