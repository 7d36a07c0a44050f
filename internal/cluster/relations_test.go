package cluster

import (
	"slices"
	"testing"

	"github.com/google/uuid"
)

// TestTargetsInASectionAreBesideTheDocument: links in metadata are external ids already.
func TestTargetsInASectionAreBesideTheDocument(t *testing.T) {
	if got, want := TargetsIn("a/b.md", 0, "c.md"), Targets("a/b.md", "c.md"); !slices.Equal(got, want) || len(got) == 0 {
		t.Errorf("in a section %q, not %q", got, want)
	}
	if got, want := TargetsIn("a/b.md", OfDocument, "c.md"), Targets("", "c.md"); !slices.Equal(got, want) || len(got) == 0 {
		t.Errorf("in metadata %q, not %q", got, want)
	}
}

// TestFolderEdges: each document of a folder is related to the next one in it, and to none of
// another folder. A single document is related to none.
func TestFolderEdges(t *testing.T) {
	first := map[string]uuid.UUID{"a/3.md": id(3), "a/1.md": id(1), "a/2.md": id(2), "b/4.md": id(4), "b/5.md": id(5), "c/6.md": id(6)}
	var got [][2]int
	for _, e := range FolderEdges(first) {
		if e.Relation != Folder {
			t.Errorf("the relation is %v", e.Relation)
		}
		got = append(got, [2]int{number(e.A), number(e.B)})
	}
	slices.SortFunc(got, func(a, b [2]int) int { return a[0] - b[0] })
	if want := [][2]int{{1, 2}, {2, 3}, {4, 5}}; !slices.Equal(got, want) {
		t.Errorf("related are %v, not %v", got, want)
	}
}

// TestAloneAreDocumentsWithoutLinks: one link relates a whole document, and a document that fills a
// cluster needs no relations.
func TestAloneAreDocumentsWithoutLinks(t *testing.T) {
	placed := func(n, version, tokens int) PositionedMember {
		return PositionedMember{Member: Member{ID: id(n), Tokens: tokens}, Position: Position{Version: id(100 + version), Ordinal: n}}
	}
	sections := []PositionedMember{placed(1, 1, 10), placed(2, 1, 10), placed(3, 2, 10), placed(4, 3, 10), placed(5, 3, 10), placed(6, 4, 60), placed(7, 4, 40)}
	got := Unlinked(sections, []Edge{{A: id(1), B: id(3), Relation: Link}}, 100)
	if want := []PositionedMember{sections[3], sections[4]}; !slices.Equal(got, want) {
		t.Errorf("alone are %+v", got)
	}
}
