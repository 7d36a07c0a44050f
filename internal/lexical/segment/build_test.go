package segment

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/lexical"
)

func TestBuildRefusesWhatItCannotKeep(t *testing.T) {
	t.Parallel()
	for name, docs := range map[string][]VersionText{
		"an empty term":     {{Sections: [][][]string{{{""}}}}},
		"a label as a term": {{Title: []string{OpenTerm}}},
		"a long term":       {{Title: []string{string(make([]byte, lexical.MaxTerm+1))}}},
		"an entry twice":    {{Entry: uuid.UUID{1}}, {Entry: uuid.UUID{1}}},
	} {
		if _, err := Build(uuid.UUID{1}, docs); err == nil {
			t.Errorf("%s was kept", name)
		}
	}
}

// Equal terms at different addresses make the same segment.
func TestBuildOfCopiedTerms(t *testing.T) {
	docs := func(of func(string) string) []VersionText {
		var out []VersionText
		for d := range 40 {
			doc := VersionText{Entry: nth(d), Version: nth(d), Title: []string{of("title")}, Labels: []string{fmt.Sprint(d % 3)}}
			for range 3 {
				var section [][]string
				for p := range 4 {
					var terms []string
					for i := range 60 {
						terms = append(terms, of(manyTerms[(d*p*i+i*i)%len(manyTerms)]))
					}
					section = append(section, terms)
				}
				doc.Sections = append(doc.Sections, section)
			}
			out = append(out, doc)
		}
		return out
	}
	same, err := Build(nth(1), docs(func(s string) string { return s }))
	if err != nil {
		t.Fatal(err)
	}
	copied, err := Build(nth(1), docs(strings.Clone))
	if err != nil {
		t.Fatal(err)
	}
	if len(same.Pages) < 2 || !slices.EqualFunc(same.Pages, copied.Pages, func(a, b BuiltPage) bool {
		return a.First == b.First && a.Last == b.Last && string(a.Data) == string(b.Data)
	}) || string(same.Header) != string(copied.Header) {
		t.Errorf("%d pages of %d bytes, of copied terms %d pages of %d bytes", len(same.Pages), same.Bytes, len(copied.Pages), copied.Bytes)
	}
}

var manyTerms = func() (out []string) {
	for i := range 5000 {
		out = append(out, fmt.Sprintf("term%d", i*i%7919))
	}
	return out
}()

func TestTheDirectoryNamesEveryPassage(t *testing.T) {
	t.Parallel()
	docs := []VersionText{
		{Entry: nth(1), Version: nth(11), Title: []string{"t"}, Sections: [][][]string{{{"a"}}, {}, {{"b", "b"}, {}}}},
		{Entry: nth(2), Version: nth(12)},
		{Entry: nth(3), Version: nth(13), Sections: [][][]string{{{"a", "b", "c"}}}},
	}
	built, err := tinyLayout.Build(uuid.UUID{1}, docs)
	if err != nil {
		t.Fatal(err)
	}
	_, d, err := Open(built.ID, built.Header, func(n int) []byte { return built.Pages[n].Data })
	if err != nil {
		t.Fatal(err)
	}
	passage := 0
	for e, doc := range docs {
		total := len(doc.Title)
		for i, section := range doc.Sections {
			if first, end := d.PassagesOf(e, i); first != passage || end != passage+len(section) {
				t.Errorf("section %d of entry %d has passages %d to %d", i, e, first, end)
			}
			length := 0
			for j, terms := range section {
				have := int(d.Lengths[ZoomPassage][passage+e+1]) // after as many titles
				if ref := d.RefOf(passage); ref != (lexical.Ref{Version: doc.Version, Section: i, Passage: j}) || d.EntryOf(passage) != e || have != len(terms) {
					t.Errorf("passage %d is %+v of entry %d, %d terms", passage, ref, d.EntryOf(passage), have)
				}
				length += len(terms)
				passage++
			}
			if have := int(d.Lengths[ZoomSection][int(d.FirstSection[e])+1+i]); have != length {
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

// tinyLayout makes even little text take several blocks and pages.
var tinyLayout = Layout{Block: 4, Target: 256, Limit: 384, Room: 64}

func nth(n int) uuid.UUID { return uuid.UUID{14: byte(n >> 8), 15: byte(n)} }
