package lexical

import (
	"reflect"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/schema"
)

func TestVisibleEntriesLiveAndArePermitted(t *testing.T) {
	t.Parallel()
	s := newShelf(t, smallLayout)
	var docs []VersionText
	for i := range 70 {
		doc := VersionText{Entry: numbered(i), Version: numbered(100 + i), Sections: [][][]string{{{"a"}, {"b", "c"}}, {{"d"}}}}
		switch i % 3 {
		case 1:
			doc.Labels = []string{"red"}
		case 2:
			doc.Labels = []string{"green", "blue"}
		}
		docs = append(docs, doc)
	}
	s.add(docs...)
	s.dead[docs[3].Entry], s.dead[docs[4].Entry] = true, true
	versions := map[uuid.UUID]bool{docs[0].Version: true, docs[1].Version: true, docs[2].Version: true, docs[4].Version: true, docs[6].Version: false}
	for _, test := range []struct {
		groups   []string
		versions map[uuid.UUID]bool
		want     func(i int) bool
	}{
		{nil, nil, func(i int) bool { return i%3 == 0 }},
		{[]string{"red"}, nil, func(i int) bool { return i%3 != 2 }},
		{[]string{"blue", "grey"}, nil, func(i int) bool { return i%3 != 1 }},
		{[]string{"red", "green"}, nil, func(i int) bool { return true }},
		{[]string{"red"}, versions, func(i int) bool { return i == 0 || i == 1 }},
	} {
		v := s.view(TermQuery{Groups: test.groups})
		sets, err := v.Visible(test.groups, test.versions)
		if err != nil {
			t.Fatal(err)
		}
		d, n := v.Segments[0].Directory, 0
		for i, doc := range docs {
			e, ok := d.EntryByID(doc.Entry)
			if !ok || !reflect.DeepEqual(d.EntriesOf(doc.Version), []int{e}) {
				t.Fatalf("entry %d is not in the directory", i)
			}
			want := test.want(i) && !s.dead[doc.Entry]
			if sets[0].Has(e) != want {
				t.Errorf("groups %q, versions %d: entry %d visible: %t", test.groups, len(test.versions), i, !want)
			}
			if want {
				n++
			}
		}
		if got := sets[0].Count(); got != n {
			t.Errorf("groups %q: %d entries visible, want %d", test.groups, got, n)
		}
	}
}

func TestTheDirectoryNamesEveryPassage(t *testing.T) {
	t.Parallel()
	s := newShelf(t, smallLayout)
	docs := []VersionText{
		{Entry: numbered(1), Version: numbered(11), Title: []string{"t"}, Sections: [][][]string{{{"a"}}, {}, {{"b", "b"}, {}}}},
		{Entry: numbered(2), Version: numbered(12)},
		{Entry: numbered(3), Version: numbered(13), Sections: [][][]string{{{"a", "b", "c"}}}},
	}
	s.add(docs...)
	d := s.view(TermQuery{}).Segments[0].Directory
	passage := 0
	for e, doc := range docs {
		total := len(doc.Title)
		for i, section := range doc.Sections {
			if first, end := d.PassagesOf(e, i); first != passage || end != passage+len(section) {
				t.Errorf("section %d of entry %d has passages %d to %d", i, e, first, end)
			}
			length := 0
			for j, terms := range section {
				have := int(d.lengths[zoomPassage][passage+e+1]) // behind as many titles
				if ref := d.RefOf(passage); ref != (Ref{doc.Version, i, j}) || d.EntryOf(passage) != e || have != len(terms) {
					t.Errorf("passage %d is %+v of entry %d, %d terms", passage, ref, d.EntryOf(passage), have)
				}
				length += len(terms)
				passage++
			}
			if have := int(d.lengths[zoomSection][int(d.firstSection[e])+1+i]); have != length {
				t.Errorf("section %d of entry %d has %d terms, want %d", i, e, have, length)
			}
			total += length
		}
		if got := d.Entry(e); got.ID != doc.Entry || got.Version != doc.Version || got.Sections != len(doc.Sections) ||
			got.FirstPassage+got.Passages != passage || got.DocumentTerms != total || got.TitleTerms != len(doc.Title) {
			t.Errorf("entry %d is %+v", e, got)
		}
	}
}

func TestManyMaySearchAView(t *testing.T) {
	t.Parallel()
	s := newShelf(t, smallLayout)
	docs := manyPages()[:40]
	s.add(docs[:20]...)
	s.add(docs[20:]...)
	s.bury(5)
	q := TermQuery{Terms: []string{"common", "often", "some3"}, K: 10}
	v := s.view(q)
	v.Statistics = NewStatisticsCache()
	var group sync.WaitGroup
	for _, unit := range []schema.Unit{schema.UnitPassage, schema.UnitSection, schema.UnitDocument, schema.UnitCluster} {
		for range 2 {
			group.Go(func() {
				q := q
				q.Unit = unit
				for range 3 {
					got, err := v.Search(q)
					if err != nil {
						t.Error(err)
						return
					}
					if why := s.oracle.differ(q, got); why != "" {
						t.Errorf("%s: %s", unit, why)
					}
				}
			})
		}
	}
	group.Wait()
}
