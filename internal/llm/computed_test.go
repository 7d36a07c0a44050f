package llm_test

import (
	"slices"
	"testing"

	"github.com/sluice-rag/sluice/internal/llm"
	"github.com/sluice-rag/sluice/schema/wire"
)

func TestWhatIsComputedQuotesItsFigures(t *testing.T) {
	r := request([]wire.LLMPassage{
		{Title: "Handbook", Text: works[1].Text},
		{Title: "Report", Text: "INCOME (in millions) | Year Ended 2022 | Year Ended 2021\nRevenue:\nSubscription | $16,388 | $14,573\nProduct | 532 | 555\n"},
	})
	r.Question = "What was the change in product revenue from 2021 to 2022?"
	c, err := llm.NewExtractive(nil, reads(nil)).Complete(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	if want := "-23 (change): Revenue: Product, Year Ended 2021: 555, Year Ended 2022: 532 (in millions)"; c.Text != want {
		t.Errorf("got %q, want %q", c.Text, want)
	}
	var quoted []string
	for _, q := range c.Quotes {
		quoted = append(quoted, r.Passages[q.Passage].Text[q.Start:q.End])
	}
	if want := []string{"Product | 532 | 555", "INCOME (in millions) | Year Ended 2022 | Year Ended 2021", "Revenue:"}; !slices.Equal(quoted, want) {
		t.Errorf("quoted %q, want %q", quoted, want)
	}
	if c.Quotes[0].Answer.Confidence < 0.5 || !c.Rated || len(c.Sentences) != 1 || c.Sentences[0].Computed == nil || c.Sentences[0].Computed.Value != "-23" {
		t.Errorf("got %+v", c)
	}
	sure := 0.01
	r.Risk = &sure
	if c, err := llm.NewExtractive(nil, reads(nil)).Complete(t.Context(), r); err != nil || c.Text != "" {
		t.Errorf("at a risk of 0.01: %q, %v", c.Text, err)
	}
}
