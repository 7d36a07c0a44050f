package search

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/sluice-rag/sluice/internal/lexical"
	"github.com/sluice-rag/sluice/internal/lexical/segment"
	"github.com/sluice-rag/sluice/schema"
)

func TestAMergeIsWhatBuildingAtOnceGives(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		s := newCorpus(t, rapid.SampledFrom([]segment.Layout{smallLayout, segment.DefaultLayout}).Draw(rt, "layout"))
		dead := map[uuid.UUID]bool{}
		var live []segment.VersionText
		for range rapid.IntRange(1, 4).Draw(rt, "segments") {
			var docs []segment.VersionText
			for range rapid.IntRange(0, 8).Draw(rt, "documents") {
				doc := s.drawDocument(rt)
				docs = append(docs, doc)
				if rapid.IntRange(0, 3).Draw(rt, "dead") == 0 {
					dead[doc.Entry] = true
				} else {
					live = append(live, doc)
				}
			}
			s.add(docs...)
		}
		s.dead = dead
		s.merge(numbersTo(len(s.segments)))
		got := s.segments[0]
		want, err := s.cut.Build(got.ID, live)
		if err != nil {
			rt.Fatal(err)
		}
		if !bytes.Equal(got.Header, want.Header) || len(got.Pages) != len(want.Pages) || got.Bytes != want.Bytes ||
			got.Documents != want.Documents || got.Passages != want.Passages {
			rt.Fatalf("merged %d pages, %d bytes; built %d, %d", len(got.Pages), got.Bytes, len(want.Pages), want.Bytes)
		}
		for i := range got.Pages {
			if !bytes.Equal(got.Pages[i].Data, want.Pages[i].Data) {
				rt.Fatalf("page %d differs", i)
			}
		}
	})
}

// manyPages returns documents whose most common term takes several pages.
func manyPages() (docs []segment.VersionText) {
	for i := range 600 {
		doc := segment.VersionText{Entry: numbered(i), Version: numbered(7*i%600 + 1), Title: []string{"title"}}
		for j := range 10 {
			var section [][]string
			for k := range 10 {
				n := (i*31 + j*17 + k*k) % 97
				passage := []string{"common", fmt.Sprint("some", n)}
				for range n % 5 {
					passage = append(passage, "often")
				}
				section = append(section, passage)
			}
			doc.Sections = append(doc.Sections, section)
		}
		docs = append(docs, doc)
	}
	return docs
}

func TestAListGoesOnInTheNextPages(t *testing.T) {
	t.Parallel()
	s := newCorpus(t, segment.DefaultLayout)
	docs := manyPages()
	s.add(docs[:500]...)
	s.add(docs[500:]...)
	check := func() {
		t.Helper()
		for _, unit := range []schema.Unit{schema.UnitPassage, schema.UnitSection, schema.UnitDocument} {
			q := lexical.TermQuery{Unit: unit, Terms: []string{"common", "often", "some3"}, K: 20}
			v := s.view(q)
			n := 0
			v.Segments[0].EachPage([]string{"common"}, func(int) { n++ })
			if n < 2 {
				t.Fatalf("the term lies in %d pages", n)
			}
			got, err := v.Search(q)
			if err != nil {
				t.Fatal(err)
			}
			if why := s.oracle.diff(q, got); why != "" {
				t.Errorf("%s: %s", unit, why)
			}
			if unit == schema.UnitPassage && got.Pruned == 0 {
				t.Error("no block was passed over")
			}
		}
	}
	check()
	for i, b := range s.segments {
		for n, p := range b.Pages {
			if len(p.Data) > 32<<10 {
				t.Errorf("page %d of segment %d has %d bytes", n, i, len(p.Data))
			}
		}
	}
	s.markDead(3)
	s.markDead(400)
	check()
	s.merge([]int{1, 0})
	check()
}

func TestPagesOfAnotherSegmentAreAnError(t *testing.T) {
	t.Parallel()
	s := newCorpus(t, smallLayout)
	docs := manyPages()
	s.add(docs[0])
	s.add(docs[1:]...)
	q := lexical.TermQuery{Unit: schema.UnitPassage, Terms: []string{"common"}, K: 1}
	v := s.view(q)
	v.Segments[0].Pages, v.Segments[1].Pages = v.Segments[1].Pages, v.Segments[0].Pages
	if _, err := v.Search(q); err == nil {
		t.Error("pages of another segment were searched")
	}
	v = s.view(lexical.TermQuery{})
	if _, err := v.Search(q); err == nil {
		t.Error("a view without the term's pages was searched")
	}
	failed := errors.New("no such page")
	in := segment.MergeInput{Header: v.Segments[0].Header, Directory: v.Segments[0].Directory, Page: func(int) (*segment.Page, error) { return nil, failed }}
	if _, err := segment.Merge(uuid.UUID{1}, []segment.MergeInput{in}, nil); !errors.Is(err, failed) {
		t.Errorf("merging without pages: %v", err)
	}
}
