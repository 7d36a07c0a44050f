package schema_test

import (
	"testing"

	"github.com/sluice-rag/sluice/schema"
)

func TestLocation(t *testing.T) {
	pages := []schema.PageMark{{Start: 0, Page: 3}, {Start: 100, Page: 4}}
	for _, c := range []struct {
		section schema.Section
		offset  int
		want    string
	}{
		{schema.Section{Pages: pages, HeadingPath: []string{"Leave"}}, 99, "page 3"},
		{schema.Section{Pages: pages}, 100, "page 4"},
		{schema.Section{Pages: []schema.PageMark{{Start: 5, Page: 2}}}, 0, "page 2"},
		{schema.Section{HeadingPath: []string{"Leave", "Parental leave"}}, 7, "Leave > Parental leave"},
		{schema.Section{Ordinal: 1}, 7, "part 2"},
	} {
		if got := c.section.Location(c.offset); got != c.want {
			t.Errorf("offset %d of %+v: got %q, want %q", c.offset, c.section, got, c.want)
		}
	}
}
