package source

import "testing"

func TestPatterns(t *testing.T) {
	for _, c := range []struct {
		include, exclude []string
		at               string
		want             bool
	}{
		{nil, nil, "a/b.md", true},
		{[]string{"*.md"}, nil, "a/b.md", true},
		{[]string{"*.md"}, nil, "a/b.pdf", false},
		{[]string{"/*.md"}, nil, "a/b.md", false},
		{[]string{"a/**"}, nil, "a/b/c.md", true},
		{[]string{"a/*"}, nil, "a/b/c.md", false},
		{[]string{"**/c.*"}, nil, "c.md", true},
		{[]string{"*.{md,txt}"}, []string{"drafts/**"}, "drafts/x.md", false},
		{nil, []string{"~*"}, "a/~lock.docx", false},
	} {
		if got := Included(c.include, c.exclude, c.at); got != c.want {
			t.Errorf("include %q, exclude %q let %q: %t", c.include, c.exclude, c.at, got)
		}
	}
	if CheckPatterns([]string{"*.md", "a/**/b?"}) != nil || CheckPatterns([]string{"[a"}) == nil || CheckPatterns([]string{""}) == nil {
		t.Error("patterns are checked wrongly")
	}
}
