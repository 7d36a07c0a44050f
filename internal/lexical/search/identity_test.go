package search

import (
	"math"
	"testing"

	"github.com/sluice-rag/sluice/internal/lexical"
	"github.com/sluice-rag/sluice/internal/lexical/segment"
	"github.com/sluice-rag/sluice/schema"
)

// The field identity has the names of documents. It scores documents, including those whose names
// others have too, and no text.
func TestIdentityScoresDocumentsAndNoText(t *testing.T) {
	t.Parallel()
	s := newCorpus(t, smallLayout)
	text := [][][]string{{{"acme", "revenue"}, {"revenue"}}, {{"acme"}}}
	docs := []segment.VersionText{
		{Entry: numbered(1), Version: numbered(101), Sections: text, Identity: []string{"acme", "y 2018"}},
		{Entry: numbered(2), Version: numbered(102), Sections: text, Identity: []string{"acme", "y 2019"}},
		{Entry: numbered(3), Version: numbered(103), Sections: text, Identity: []string{"other"}, Labels: []string{"red"}},
		{Entry: numbered(4), Version: numbered(104), Sections: text, Identity: []string{"acme", "y 2018"}},
	}
	s.add(docs[:2]...)
	s.add(docs[2:]...)
	s.dead[docs[3].Entry] = true
	q := lexical.TermQuery{Unit: schema.UnitDocument, K: 10, Settings: lexical.Settings{K1: 1.2},
		Terms: []string{segment.IdentityTerm("acme"), segment.IdentityTerm("y 2018"), segment.IdentityTerm("other")}}
	s.merge([]int{0, 1})
	got, err := s.view(q).Search(q)
	if err != nil {
		t.Fatal(err)
	}
	// Three documents are live. Two of them are called acme, and one of these 2018; the third is
	// invisible.
	want := []float64{lexical.IDF(3, 2) + lexical.IDF(3, 1), lexical.IDF(3, 2)}
	if len(got.Hits) != 2 || got.Hits[0].Ref.Version != docs[0].Version || got.Hits[1].Ref.Version != docs[1].Version {
		t.Fatalf("found %+v", got.Hits)
	}
	for i, h := range got.Hits {
		if math.Abs(h.Score-want[i]) > 1e-6 {
			t.Errorf("document %d scores %g, want %g", i, h.Score, want[i])
		}
	}
	for _, unit := range []schema.Unit{schema.UnitPassage, schema.UnitSection} {
		q.Unit = unit
		if got, err := s.view(q).Search(q); err != nil || len(got.Hits) != 0 {
			t.Errorf("of unit %s found %+v, %v", unit, got.Hits, err)
		}
	}
	// The field does not count either if text is scored.
	q = lexical.TermQuery{Unit: schema.UnitDocument, K: 10, Terms: []string{"acme"}, Groups: []string{"red"}}
	got, err = s.view(q).Search(q)
	if err != nil || len(got.Hits) != 3 || got.Hits[0].Score != got.Hits[2].Score || got.Hits[0].Tokens != 4 {
		t.Errorf("by their text they score %+v, %v", got.Hits, err)
	}
}
