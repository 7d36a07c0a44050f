package answer

// Notes on cited documents of another period than the question asks for: it asks about 2018, and
// the document is about 2022.

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-rag/sluice/internal/identity"
	"github.com/sluice-rag/sluice/schema"
)

// otherPeriods returns notes on cited documents whose name contains other years than the question,
// unless one of their quotes contains a year that the question asks for.
func otherPeriods(question string, citations []schema.Citation) []string {
	asked := identity.Years(question)
	if len(asked) == 0 {
		return nil
	}
	years := map[string]map[int]bool{} // the years in the quotes, by document
	for _, c := range citations {
		if years[c.Document] == nil {
			years[c.Document] = map[int]bool{}
		}
		maps.Copy(years[c.Document], identity.Years(c.Quote))
	}
	var out []string
	for _, c := range citations {
		quoted, ok := years[c.Document]
		if !ok {
			continue // already noted
		}
		delete(years, c.Document)
		named := identity.Years(c.Document + "\n" + c.Title)
		if len(named) > 0 && !identity.Overlap(asked, named) && !identity.Overlap(asked, quoted) {
			out = append(out, fmt.Sprintf("The question asks for %s; %s is of %s.", list(asked), name(c), list(named)))
		}
	}
	return out
}

func name(c schema.Citation) string {
	if c.Title != "" {
		return c.Title
	}
	return c.Document
}

func list(years map[int]bool) string {
	var out []string
	for _, y := range slices.Sorted(maps.Keys(years)) {
		out = append(out, strconv.Itoa(y))
	}
	return strings.Join(out, ", ")
}
