package identity

// This file decides which of two documents is newer, by what they say of themselves.

import (
	"cmp"
	"encoding/json"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-rag/sluice/schema"
)

// Edition is what is known of how new a document is: the first version number and the first date
// that its title, its external id and its metadata each name, and when it was uploaded.
type Edition struct {
	versions [sources][]int // 2.3 is [2, 3]; nil where none is named
	dates    [sources]Period
	uploaded time.Time
}

// Where versions and dates are named, in order of precedence.
const (
	inTitle = iota
	inID
	inMetadata
	sources
)

// Keys of metadata that name a document's version or its date. Other dates, such as when a contract
// ends, do not show which document is newer.
var (
	versionKeys = []string{"version", "revision", "rev", "edition"}
	dateKeys    = []string{"date", "effective_date", "effective", "valid_from", "issued", "published", "published_at", "modified", "modified_at",
		"updated", "updated_at", "year"}
)

// EditionOf returns a document's edition. If the external id is a path, its file name has
// precedence.
func EditionOf(title, externalID string, metadata schema.Metadata, uploaded time.Time) Edition {
	e := Edition{uploaded: uploaded}
	e.read(inTitle, title)
	e.read(inID, path.Base(externalID))
	e.read(inID, externalID)
	values := map[string]string{}
	for key, value := range metadata {
		if text := scalar(value); text != "" {
			values[strings.ReplaceAll(strings.ToLower(key), "-", "_")] = text
		}
	}
	for _, key := range versionKeys {
		if v := values[key]; v != "" && e.versions[inMetadata] == nil {
			e.versions[inMetadata] = numbersOf(strings.TrimLeft(v, "vV "))
		}
	}
	for _, key := range dateKeys {
		if e.dates[inMetadata] == (Period{}) {
			e.dates[inMetadata] = firstDate(values[key])
		}
	}
	return e
}

// read sets the first version and date of a text, unless the source already named one.
func (e *Edition) read(source int, text string) {
	text = withoutKeys(text)
	for _, p := range Periods(text) {
		if e.versions[source] == nil && p.Version != "" {
			e.versions[source] = numbersOf(p.Version)
		}
	}
	if e.dates[source] == (Period{}) {
		e.dates[source] = firstDate(text)
	}
}

// firstDate returns the first date or period with a year that a text names.
func firstDate(text string) Period {
	for _, p := range Periods(text) {
		if p.Year > 0 {
			return p
		}
	}
	return Period{}
}

// scalar returns a value of metadata as text; empty for lists and the like.
func scalar(value any) string {
	switch v := value.(type) {
	case string:
		return strings.TrimSpace(v)
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	case int:
		return strconv.Itoa(v)
	case json.Number:
		return v.String()
	}
	return ""
}

// numbersOf returns the numbers of a version such as 2.3.1; nil for anything else.
func numbersOf(version string) []int {
	var out []int
	for part := range strings.SplitSeq(version, ".") {
		n, err := strconv.Atoi(part)
		if err != nil || n < 0 {
			return nil
		}
		out = append(out, n)
	}
	return out
}

// Compare returns whether e is newer than f (1) or older (-1), and by which rule. The version
// numbers decide if both documents name one and these differ, otherwise the dates, as precisely as
// both are given, and otherwise the time of upload; 0 means that they were uploaded at the same
// time. Numbers and dates of titles are first compared with those of titles.
//
// The order is not transitive: three documents may form a cycle if some name versions and others
// dates.
func (e Edition) Compare(f Edition) (int, schema.NewerBy) {
	if c := decide(e.versions, f.versions, func(v []int) bool { return v != nil }, compareVersions); c != 0 {
		return c, schema.NewerByVersion
	}
	if c := decide(e.dates, f.dates, func(p Period) bool { return p.Year > 0 }, compareDates); c != 0 {
		return c, schema.NewerByDate
	}
	return e.uploaded.Compare(f.uploaded), schema.NewerByUpload
}

// decide compares what two documents name in the same source; if that does not decide, it compares
// the first of each.
func decide[T any](a, b [sources]T, named func(T) bool, compare func(a, b T) int) int {
	for i := range sources {
		if named(a[i]) && named(b[i]) {
			if c := compare(a[i], b[i]); c != 0 {
				return c
			}
		}
	}
	i, j := slices.IndexFunc(a[:], named), slices.IndexFunc(b[:], named)
	if i < 0 || j < 0 || i == j {
		return 0
	}
	return compare(a[i], b[j])
}

// compareVersions compares number by number; 2 equals 2.0.
func compareVersions(a, b []int) int {
	at := func(v []int, i int) int {
		if i < len(v) {
			return v[i]
		}
		return 0
	}
	for i := range max(len(a), len(b)) {
		if c := cmp.Compare(at(a, i), at(b, i)); c != 0 {
			return c
		}
	}
	return 0
}

// compareDates compares as precisely as both are given: 2021 equals May 2021.
func compareDates(a, b Period) int {
	if c := cmp.Compare(a.Year, b.Year); c != 0 {
		return c
	}
	if a.Month > 0 && b.Month > 0 {
		if c := cmp.Compare(a.Month, b.Month); c != 0 || a.Day == 0 || b.Day == 0 {
			return c
		}
		return cmp.Compare(a.Day, b.Day)
	}
	if a.quarter() > 0 && b.quarter() > 0 {
		return cmp.Compare(a.quarter(), b.quarter())
	}
	return 0
}

// quarter returns the quarter of the year, also of a month.
func (p Period) quarter() int {
	if p.Month > 0 {
		return (p.Month + 2) / 3
	}
	return p.Quarter
}

// Values returns the values of metadata that may name a document, for Naming.
func Values(metadata schema.Metadata) []string {
	var out []string
	for key, value := range metadata {
		if key == "links" {
			continue
		}
		list, ok := value.([]any)
		if !ok {
			list = []any{value}
		}
		for _, v := range list {
			if text := scalar(v); text != "" {
				out = append(out, text)
			}
		}
	}
	slices.Sort(out)
	return out
}
