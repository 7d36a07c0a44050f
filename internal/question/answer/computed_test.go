package answer

import (
	"testing"

	"github.com/sluice-rag/sluice/schema/wire"
)

// TestComputedNumbersAreChecked: a computed number needs no quote, but its figures do, and it has
// to follow from them.
func TestComputedNumbersAreChecked(t *testing.T) {
	const rest = "Revenue: Product, Year Ended 2021: 555, Year Ended 2022: 532 (in millions)"
	proofs := map[int]Evidence{0: {Quote: "Product | 532 | 555"}, 1: {Quote: "INCOME (in millions) | Year Ended 2022 | Year Ended 2021"}, 2: {Quote: "Revenue:"}}
	of := func(op, value string, figures ...string) *wire.Computed {
		return &wire.Computed{Operation: op, Value: value, Figures: figures}
	}
	for name, c := range map[string]struct {
		computed *wire.Computed
		rest     string
		want     bool
	}{
		"it follows":                           {of("percent change", "-4.14%", "555", "532"), rest, true},
		"a change":                             {of("change", "-23", "555", "532"), rest, true},
		"it does not follow":                   {of("percent change", "4.14%", "555", "532"), rest, false},
		"another operation":                    {of("sum", "-23", "555", "532"), rest, false},
		"one that there is not":                {of("guess", "-23", "555", "532"), rest, false},
		"of figures that the rest lacks":       {of("change", "-24", "556", "532"), rest, false},
		"of figures that the quotes lack":      {of("change", "-24", "556", "532"), "Revenue: Product, Year Ended 2021: 556, Year Ended 2022: 532 (in millions)", false},
		"it is said of what the quotes lack":   {of("change", "-23", "555", "532"), "Revenue: Subscription, Year Ended 2021: 555, Year Ended 2022: 532 (in millions)", false},
		"another number stands in front of it": {nil, "-25 (change): " + rest, false},
	} {
		sentence := c.rest
		if c.computed != nil {
			sentence = c.computed.Text() + c.rest
		}
		reply := wire.LLMReply{Text: sentence, Sentences: []wire.ReplySentence{{Start: 0, End: len(sentence), Quotes: []int{0, 1, 2}, Computed: c.computed}}}
		var q Question
		q.Query.Text = "What was the percentage change in product revenue from 2021 to 2022?"
		out, _ := sentencesOf(q, reply, []int{0, 1, 2}, proofs, notCompared)
		if len(out) != 1 || out[0].Supported != c.want {
			t.Errorf("%s: %+v", name, out)
		}
	}
}
