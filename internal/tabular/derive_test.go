package tabular

import "testing"

func TestDerive(t *testing.T) {
	for _, c := range []struct {
		question, text, value string
		op                    Operation
		cells                 int
	}{
		{"What was the percentage change in total revenue from 2021 to 2022?", statement, "11.85%", PercentChange, 2},
		{"By what percentage did total revenue grow between fiscal 2021 and fiscal 2022? Round to one decimal place.", statement, "11.8%", PercentChange, 2},
		{"What is the year-over-year growth rate of total revenue in 2022?", statement, "11.85%", PercentChange, 2},
		{"What was the change in product revenue from 2021 to 2022?", statement, "-23", Change, 2},
		{"How much did product revenue decrease between 2021 and 2022?", statement, "23", Difference, 2},
		{"What was the difference in subscription revenue between 2021 and 2022?", statement, "1,815", Difference, 2},
		{"What was the average total revenue of 2021 and 2022?", statement, "16,024", Mean, 2},
		{"What was the total revenue of 2021 and 2022 combined?", statement, "32,048", Sum, 2},
		{"What was the change in the operating margin from 2021 to 2022?", statement, "-2 percentage points", Change, 2},
		{"What was the change in the plant's output in tons from 2021 to 2022?", schedule, "150", Change, 2},
	} {
		got, ok := Derive(c.question, []Input{{Text: c.text}})
		if !ok || got.Value != c.value || got.Operation != c.op || len(got.Cells) != c.cells {
			t.Errorf("%s: %t, %s %q of %d cells; want %s %q", c.question, ok, got.Operation, got.Value, len(got.Cells), c.op, c.value)
		}
		if got.Confidence < 0.5 {
			t.Errorf("%s: confidence %.2f", c.question, got.Confidence)
		}
	}
}

func TestDeriveRefuses(t *testing.T) {
	for _, question := range []string{
		"What was the change in total revenue from 2019 to 2022?", // no column has one of these years
		"What drove the change in total revenue from 2021 to 2022?",
		"Did total revenue increase from 2021 to 2022?",
		"What was total revenue in 2022?",
		"What was the change in the average total revenue between 2021 and 2022?",
		"What was the change in the number of employees from 2021 to 2022?",
		"",
	} {
		if got, ok := Derive(question, []Input{{Text: statement}}); ok && got.Confidence >= 0.5 {
			t.Errorf("%q is answered by %s with %.2f", question, got.Value, got.Confidence)
		}
	}
}

func TestOperations(t *testing.T) {
	for _, c := range []struct {
		op      Operation
		figures []string
		places  int
		want    string // "" if the result has no meaning
	}{
		{Change, []string{"$1,000.5", "2,000"}, -1, "999.5"},
		{Change, []string{"(3,990)", "(5,637)"}, -1, "-1,647"},
		{Change, []string{"40.0%", "38.1%"}, -1, "-1.9 percentage points"},
		{Change, []string{"40.0%", "38"}, -1, ""},
		{Change, []string{"5", "5"}, -1, "0"},
		{Difference, []string{"7", "3"}, -1, "4"},
		{PercentChange, []string{"(15,916)", "(19,911)"}, -1, "25.10%"},
		{PercentChange, []string{"519", "592"}, 1, "14.1%"},
		{PercentChange, []string{"(38)", "375"}, -1, ""}, // a loss became a profit
		{PercentChange, []string{"0", "375"}, -1, ""},
		{PercentChange, []string{"1", "2", "3"}, -1, ""},
		{Mean, []string{"3.7%", "3.7%", "1.6%"}, -1, "3%"},
		{Mean, []string{"206.2", "132.6"}, -1, "169.4"},
		{Mean, []string{"1", "2"}, 0, "2"},
		{Sum, []string{"(1)", "2,500", "1"}, -1, "2,500"},
		{Sum, []string{"1", "—"}, -1, ""},
		{"guess", []string{"1", "2"}, -1, ""},
	} {
		got, ok := c.op.Of(c.figures, c.places)
		if ok != (c.want != "") || got != c.want {
			t.Errorf("%s of %q is %q, want %q", c.op, c.figures, got, c.want)
		}
		if ok && !Gives(c.op, c.figures, got) || Gives(c.op, c.figures, "17") {
			t.Errorf("%s of %q: what it gives is not %q", c.op, c.figures, got)
		}
	}
}
