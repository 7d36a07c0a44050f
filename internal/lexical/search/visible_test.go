package search

import (
	"reflect"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/lexical"
	"github.com/sluice-rag/sluice/internal/lexical/segment"
	"github.com/sluice-rag/sluice/schema"
)

func TestVisibleEntriesLiveAndArePermitted(t *testing.T) {
	t.Parallel()
	s := newCorpus(t, smallLayout)
	var docs []segment.VersionText
	for i := range 70 {
		doc := segment.VersionText{Entry: numbered(i), Version: numbered(100 + i), Sections: [][][]string{{{"a"}, {"b", "c"}}, {{"d"}}}}
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
	versions := lexical.VersionsOf([]uuid.UUID{docs[0].Version, docs[1].Version, docs[2].Version, docs[4].Version})
	for _, test := range []struct {
		groups   []string
		versions *lexical.Versions
		want     func(i int) bool
	}{
		{nil, nil, func(i int) bool { return i%3 == 0 }},
		{[]string{"red"}, nil, func(i int) bool { return i%3 != 2 }},
		{[]string{"blue", "grey"}, nil, func(i int) bool { return i%3 != 1 }},
		{[]string{"red", "green"}, nil, func(i int) bool { return true }},
		{[]string{"red"}, versions, func(i int) bool { return i == 0 || i == 1 }},
	} {
		v := s.view(lexical.TermQuery{Groups: test.groups})
		sets, err := v.visible(v.cache(), v.cache().liveEntriesOf(v), test.groups, test.versions, nil, true)
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
				t.Errorf("groups %q, versions given %t: entry %d visible: %t", test.groups, test.versions != nil, i, !want)
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

func TestManyMaySearchAView(t *testing.T) {
	t.Parallel()
	s := newCorpus(t, smallLayout)
	docs := manyPages()[:40]
	s.add(docs[:20]...)
	s.add(docs[20:]...)
	s.markDead(5)
	q := lexical.TermQuery{Terms: []string{"common", "often", "some3"}, K: 10}
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
					if why := s.oracle.diff(q, got); why != "" {
						t.Errorf("%s: %s", unit, why)
					}
				}
			})
		}
	}
	group.Wait()
}
