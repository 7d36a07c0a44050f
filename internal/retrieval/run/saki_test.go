package run_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/sluice-rag/sluice/internal/retrieval"
	"github.com/sluice-rag/sluice/schema/wire"
)

// sakiStages are the plan's stages with small numbers: four passages are found, each with two
// linked ones, and judged three per request.
const sakiStages = "- dense: {k: 4}\n- relate: {depth: 4, k: 2}\n- score: {depth: 40, pieces: 2}\n" +
	"- judge: {by: filter, depth: 30, batch: 3, parallel: 3}\n- threshold: {score: judge, at: 1}\n- limit: {k: 3}"

// scriptedFilter judges by 1 or 0 and records the passages of each request.
type scriptedFilter struct {
	helps func(text string) bool
	mu    sync.Mutex
	sizes []int
}

func (j *scriptedFilter) Complete(_ context.Context, r wire.LLMRequest) (wire.LLMReply, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.sizes = append(j.sizes, len(r.Passages))
	var reply wire.LLMReply
	for _, p := range r.Passages {
		x := 0.0
		if j.helps(p.Text) {
			x = 1
		}
		reply.Scores = append(reply.Scores, x)
	}
	return reply, nil
}

// TestAlgorithmOneOfSAKI checks an example computed by hand: the nearest passages are joined with
// those that they are most strongly linked to, joined texts that are judged not to help are
// dropped, and the reranker ranks the others.
func TestAlgorithmOneOfSAKI(t *testing.T) {
	c := ranked([]float64{9, 8, 7, 6, 5, 4})
	at := func(p int) retrieval.Link { return retrieval.Link{To: passage(0, 0, p), Weight: 0.5} }
	c.links = scriptedLinks{
		passage(0, 0, 0): {at(4), at(5), at(1)}, // the third link is over k
		passage(0, 0, 1): {at(5)},
		passage(0, 0, 2): {at(3)},
		passage(0, 0, 3): {at(2)}, // joined already
	}
	// Joined: 0+4, 0+5, 1+5, 2+3. The reranker prefers later passages; a text helps if it has
	// passage 5 or 3.
	c.readers = everyOp(func(text string) float32 {
		for i, p := range []string{"a 0 2", "a 0 1", "a 0 0"} {
			if strings.Contains(text, p) {
				return float32(3 - i)
			}
		}
		return 0
	})
	judges := &scriptedFilter{helps: func(text string) bool { return strings.Contains(text, "a 0 5") || strings.Contains(text, "a 0 3") }}
	c.judges = judges
	got := c.run(t, sakiStages)
	var kept []string
	for _, i := range got.Context {
		x := got.Candidates[i]
		if len(x.Spans) != 2 || x.Scores["judge"] != 1 {
			t.Errorf("kept %+v", x)
		}
		kept = append(kept, strings.Join(strings.Fields(strings.NewReplacer("Text a 0 ", "", ".", "").Replace(x.Text)), "+"))
	}
	want(t, "what helps, best first", kept, []string{"2+3", "1+5", "0+5"})
	slices.Sort(judges.sizes)
	want(t, "judged in batches", judges.sizes, []int{1, 3})

	// When all are judged 0 the best stays.
	c.judges = &scriptedFilter{helps: func(string) bool { return false }}
	if got := c.run(t, sakiStages); len(got.Context) != 1 || !strings.Contains(got.Trace[4].Why, "the best one stays") {
		t.Errorf("the context is %v: %s", got.Context, got.Trace[4].Why)
	}
}
