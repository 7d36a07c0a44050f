package answer

// What a question asks for and a cited document does not fit is said: asked for 2018,
// and the document is of 2022.

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-rag/sluice/internal/identity"
	"github.com/sluice-rag/sluice/schema"
)

// otherPeriods says of which cited documents the name gives other years than the
// question, where no quote of them names one that is asked for.
func otherPeriods(question string, citations []schema.Citation) []string {
	asked := identity.Years(question)
	if len(asked) == 0 {
		return nil
	}
	said := map[string]map[int]bool{} // by document: what its quotes name
	for _, c := range citations {
		if said[c.Document] == nil {
			said[c.Document] = map[int]bool{}
		}
		maps.Copy(said[c.Document], identity.Years(c.Quote))
	}
	var out []string
	for _, c := range citations {
		quoted, ok := said[c.Document]
		if !ok {
			continue // said already
		}
		delete(said, c.Document)
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
