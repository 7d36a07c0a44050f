package source

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// CheckPatterns reports the first invalid pattern. `*` matches a part of a name, `**` matches
// folders; a pattern without a slash matches names in any folder.
func CheckPatterns(patterns []string) error {
	for _, p := range patterns {
		if p == "" || !doublestar.ValidatePattern(p) {
			return fmt.Errorf("%q is not a pattern, such as *.pdf or handbook/**", p)
		}
	}
	return nil
}

// Matches reports whether a path matches a pattern that CheckPatterns accepts.
func Matches(pattern, name string) bool {
	if !strings.Contains(pattern, "/") {
		name = path.Base(name)
	}
	return doublestar.MatchUnvalidated(pattern, name)
}

// Included reports whether an item at this path is followed: it matches a pattern of include, or
// include is empty, and it matches none of exclude.
func Included(include, exclude []string, name string) bool {
	match := func(p string) bool { return Matches(p, name) }
	return (len(include) == 0 || slices.ContainsFunc(include, match)) && !slices.ContainsFunc(exclude, match)
}
