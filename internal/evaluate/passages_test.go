package evaluate

import (
	"math"
	"testing"

	"github.com/sluice-rag/sluice/schema"
)

// TestPassagesAgainstEvidence checks SAKI-RAG's measures by hand: evidence of two sentences and of
// one, and four passages, of which the second and the fourth have parts of it.
func TestPassagesAgainstEvidence(t *testing.T) {
	evidence := evidenceSentences([]string{"The bridge is old. It is long.", "The mayor resigned."})
	text := func(s string) schema.Candidate { return schema.Candidate{Text: s} }
	r := newPassageRanking(evidence, []schema.Candidate{text("Mud is brown."), text("The bridge is old. Nobody knows why."), text("Rain fell."), text("The mayor resigned. It is long.")})
	for name, c := range map[string]struct{ got, want float64 }{
		"precision@1":  {r.precision(1), 0},
		"precision@3":  {r.precision(3), 1. / 3},
		"precision@5":  {r.precision(5), 2. / 4}, // of four passages
		"recall@1":     {r.recall(1), 0},
		"recall@3":     {r.recall(3), 0.25}, // half of the first piece
		"recall@5":     {r.recall(5), 1},
		"f1@3":         {r.f1(3), 2 * (1. / 3) * 0.25 / (1./3 + 0.25)},
		"reciprocal@1": {r.reciprocal(1), 0},
		"reciprocal@5": {r.reciprocal(5), 0.5},
		"eir@1":        {r.effective(1), 0},
		"eir@3":        {r.effective(3), 4. / (3 + 7 + 2)},
		"eir@5":        {r.effective(5), (4. + 3 + 3) / (3 + 7 + 2 + 6)},
	} {
		near(t, name, c.got, c.want)
	}
	// A plan without passages has no precision, and a recall of 0.
	none := newPassageRanking(evidence, nil)
	if !math.IsNaN(none.precision(3)) || !math.IsNaN(none.effective(3)) || none.recall(3) != 0 || none.reciprocal(3) != 0 {
		t.Errorf("of no passage: precision %v, recall %v, EIR %v", none.precision(3), none.recall(3), none.effective(3))
	}
	// Without evidence nothing is known.
	unknown := newPassageRanking(nil, []schema.Candidate{text("Rain fell.")})
	for _, of := range []func(passageRanking, int) float64{passageRanking.precision, passageRanking.recall, passageRanking.f1, passageRanking.reciprocal, passageRanking.effective} {
		if got := of(unknown, 3); !math.IsNaN(got) {
			t.Errorf("without evidence a figure is %v", got)
		}
	}
}

// TestEvidenceCountsOnce: the words of a sentence in two passages, or in two pieces of evidence,
// count once.
func TestEvidenceCountsOnce(t *testing.T) {
	evidence := evidenceSentences([]string{"The bridge is old.", "The bridge is old."})
	r := newPassageRanking(evidence, []schema.Candidate{{Text: "The bridge is old."}, {Text: "The bridge is old."}})
	near(t, "eir@2", r.effective(2), 0.5)
	near(t, "the first passage's reciprocal", r.reciprocal(2), 1)
	// Nested evidence has more words than the passage; the rate is at most 1.
	nested := newPassageRanking(evidenceSentences([]string{"The bridge is old.", "bridge is old."}), []schema.Candidate{{Text: "The bridge is old."}})
	near(t, "eir@1", nested.effective(1), 1)
}
