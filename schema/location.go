package schema

import (
	"fmt"
	"sort"
	"strings"
)

// PageAt returns the page on which byte offset of the section's text lies, 0
// when the section has no pages.
func (s Section) PageAt(offset int) int {
	i := sort.Search(len(s.Pages), func(i int) bool { return s.Pages[i].Start > offset })
	switch {
	case len(s.Pages) == 0:
		return 0
	case i == 0:
		return s.Pages[0].Page
	}
	return s.Pages[i-1].Page
}

// Location describes for people where in its document a byte offset of the section's text is: "page
// 3", "Leave > Parental leave", or "part 2" in a document that has neither pages nor headings.
func (s Section) Location(offset int) string {
	if page := s.PageAt(offset); page > 0 {
		return fmt.Sprintf("page %d", page)
	}
	if len(s.HeadingPath) > 0 {
		return strings.Join(s.HeadingPath, " > ")
	}
	return fmt.Sprintf("part %d", s.Ordinal+1)
}
