package llm

// This file finds addresses in an answer: links with a scheme, and names without a scheme that
// clients and browsers make links of, such as a bare host. A host is recognized by the last label
// of its name, which is a top-level domain. File names, versions, abbreviations and sentences
// without a space between them contain points, too. They are told apart here.

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/idna"
	"golang.org/x/net/publicsuffix"
)

const (
	// point separates labels: a plain full stop, one escaped for Markdown or HTML, or a character
	// that browsers treat as a full stop.
	point = `(?:\\?\.|&#0*46;|&#[xX]0*2[eE];|&period;|[\x{3002}\x{ff0e}\x{ff61}])`
	// word is a character of a label.
	word = `[\p{L}\p{N}\p{M}_\-]`
	// rest is the part of an address after its scheme or host.
	rest = `[^\s<>"'“”„«»’` + "`" + `\])}]*`
	// ends are characters that are not part of an address when they stand at its end.
	ends = ".,;:!?…*"
)

var (
	// addresses are links with a scheme, and hosts with a path.
	addresses = regexp.MustCompile(`(?i)\b(?:[a-z][a-z0-9+.\-]{1,20}://|www\.|javascript:|data:[a-z]+/|mailto:)` + rest + `|` +
		`(?://|\b)[a-z0-9](?:[a-z0-9\-]*\.)+(?:[a-z]{2,63}|xn--[a-z0-9\-]{1,59})/` + rest)
	// hosts matches names with points between their labels. Group 1 is what precedes the host, such
	// as the user of a mail address. Group 2 is the host. Group 3 is what follows it: port, path
	// and query.
	hosts = regexp.MustCompile(`([\p{L}\p{N}._%+\-]+(?:@|&#64;|&commat;))?` +
		`(` + word + `+(?:` + point + word + `+)+)` +
		`(` + point + `?(?::\d{1,5}(?:[/\\?#]` + rest + `)?|[/\\?#][^\s<>"'“”„«»’` + "`" + `\])}.,;!*]` + rest + `))?`)
	points = regexp.MustCompile(point)
	quad   = regexp.MustCompile(`^\d{1,3}(?:\.\d{1,3}){3}$`)
	// width matches the prefix length of a network, such as "/24".
	width = regexp.MustCompile(`^/\d{1,2}$`)
)

// LinkRemoved replaces an address in an answer that the cited passages do not contain.
const LinkRemoved = "[link removed]"

// withoutAddresses replaces the addresses in s that do not occur in known.
func withoutAddresses(s string, known []string) string {
	s = addresses.ReplaceAllStringFunc(s, func(address string) string {
		body := strings.TrimRight(address, ends)
		if slices.ContainsFunc(known, func(k string) bool { return containsAddress(k, body) }) {
			return address
		}
		return LinkRemoved + address[len(body):]
	})
	var b strings.Builder
	done := 0
	for _, m := range hosts.FindAllStringSubmatchIndex(s, -1) {
		start, end := m[0], m[1]
		before, host, after := group(s, m, 1), group(s, m, 2), group(s, m, 3)
		if !isLinkable(before, host, after) {
			continue
		}
		body := strings.TrimRight(s[start:end], ends)
		if known := slices.ContainsFunc(known, func(k string) bool { return isWholeHost(k, body, before+after == "") }); known {
			continue
		}
		b.WriteString(s[done:start])
		b.WriteString(LinkRemoved)
		done = start + len(body)
	}
	b.WriteString(s[done:])
	return b.String()
}

func group(s string, m []int, i int) string {
	if m[2*i] < 0 {
		return ""
	}
	return s[m[2*i]:m[2*i+1]]
}

// isAddress reports whether the target of a link is an address.
func isAddress(target string) bool {
	if addresses.MatchString(target) {
		return true
	}
	m := hosts.FindStringSubmatch(target)
	return m != nil && isLinkable(m[1], m[2], m[3])
}

// fileEndings are top-level domains that are better known as endings of file names.
var fileEndings = []string{"cc", "md", "mov", "pl", "ps", "py", "rs", "sh", "zip"}

// isLinkable reports whether a name with points is a host that a client could make a link of.
// before is the user of a mail address; after is port, path and query.
func isLinkable(before, host, after string) bool {
	wide := strings.ContainsAny(host, "\u3002\uff0e\uff61")
	host = points.ReplaceAllString(host, ".")
	if quad.MatchString(host) { // without more it may be a version or a section number
		return before != "" || after != "" && !width.MatchString(strings.TrimRight(after, ends))
	}
	labels := strings.Split(strings.Trim(host, "-_"), ".")
	last := labels[len(labels)-1]
	top, err := idna.New(idna.MapForLookup(), idna.Transitional(false)).ToASCII(last)
	if err != nil || top == "" || wide && top != strings.ToLower(last) { // it is a sentence in a script without spaces
		return false
	}
	if _, listed := publicsuffix.PublicSuffix("host." + top); !listed {
		return false
	}
	if before != "" || after != "" || len(labels) > 2 && !isAbbreviation(labels[:len(labels)-1]) {
		return true
	}
	return !sentences(labels[len(labels)-2], last) && !slices.Contains(fileEndings, top)
}

// isAbbreviation reports whether all labels are single letters, as in "e.g." and "p.m.".
func isAbbreviation(labels []string) bool {
	for _, l := range labels {
		if utf8.RuneCountInString(l) > 1 {
			return false
		}
	}
	return true
}

// sentences reports whether two words with a point between them are the end of a sentence and the
// beginning of the next: the second has a capital at its beginning and no other.
func sentences(first, second string) bool {
	r, n := utf8.DecodeRuneInString(second)
	if !unicode.IsUpper(r) || strings.ToLower(second[n:]) != second[n:] {
		return false
	}
	r, _ = utf8.DecodeLastRuneInString(first)
	return unicode.IsLower(r) || unicode.IsDigit(r) || utf8.RuneCountInString(first) == 1
}

// containsAddress reports whether an address occurs in a passage as a whole. An occurrence at the
// beginning of a longer address does not count.
func containsAddress(passage, address string) bool {
	return containsWhole(passage, address, "/-_%=&#?@+~")
}

// isWholeHost reports whether a host occurs in a passage and is not a part of another name. With
// alone, the host has no user, port or path, and may have a path or be part of a link in the
// passage.
func isWholeHost(passage, host string, alone bool) bool {
	if alone {
		return containsWhole(passage, host, "-_@")
	}
	return containsAddress(passage, host)
}

// containsWhole reports whether s occurs in a passage as a whole: not in the middle of a word, and
// not followed by a letter, a digit or a character of more.
func containsWhole(passage, s, more string) bool {
	for at := 0; ; {
		i := strings.Index(passage[at:], s)
		if i < 0 {
			return false
		}
		before, _ := utf8.DecodeLastRuneInString(passage[:at+i])
		first, _ := utf8.DecodeRuneInString(s)
		whole := at+i == 0 || !isLabelChar(first) || !isLabelChar(before)
		at += i + len(s)
		next, n := utf8.DecodeRuneInString(passage[at:])
		if next == '.' || next == '?' { // part of a longer address, or the end of the sentence
			next, _ = utf8.DecodeRuneInString(passage[at+n:])
			if at+n == len(passage) || !isLabelChar(next) {
				next = ' '
			}
		}
		if whole && (at == len(passage) || !unicode.IsLetter(next) && !unicode.IsDigit(next) && !strings.ContainsRune(more, next)) {
			return true
		}
	}
}

// isLabelChar reports whether a character may be part of a host's label.
func isLabelChar(r rune) bool {
	return unicode.IsLetter(r) || unicode.IsDigit(r) || r == '-' || r == '_'
}
