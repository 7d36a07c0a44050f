package run_test

import (
	"reflect"
	"testing"

	"github.com/sluice-rag/sluice/internal/lexical"
	"github.com/sluice-rag/sluice/schema/wire"
)

// TestAFirstStageFindsWhatIsUsed: if neither documents nor an explanation are requested, the first
// stage finds no more than the limit after it takes and the result shows, and the result is the
// same.
func TestAFirstStageFindsWhatIsUsed(t *testing.T) {
	const plan = `
- lexical: {unit: passage, k: 500}
- limit: {k: 3}
`
	c := corpus([]int{60})
	c.lexical = map[lexical.Ref]float64{}
	for p := range 60 {
		c.lexical[passage(0, 0, p)] = float64(p + 1)
	}
	asked := func(k, documents int, explain bool) wire.SearchQuery {
		q := query()
		q.K, q.Documents, q.Explain = k, documents, explain
		return q
	}
	for name, x := range map[string]struct {
		q    wire.SearchQuery
		want int
	}{
		"by the default":     {asked(0, 0, false), 20},
		"by what is shown":   {asked(15, 0, false), 30},
		"with documents":     {asked(15, 5, false), 500},
		"with explanations":  {asked(15, 0, true), 500},
		"with more than all": {asked(100, 0, false), 200},
	} {
		c.queries = nil
		out := c.run(t, plan, func(q *wire.SearchQuery) { *q = x.q })
		if got := c.queries[0].K; got != x.want {
			t.Errorf("%s: %d were looked for, not %d", name, got, x.want)
		}
		all := c.run(t, plan, func(q *wire.SearchQuery) { *q = asked(x.q.K, 0, true) })
		if !reflect.DeepEqual(out.Candidates, all.Candidates) || !reflect.DeepEqual(out.Context, all.Context) {
			t.Errorf("%s: another result than of all", name)
		}
	}
}
