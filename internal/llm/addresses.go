package llm

// This file finds addresses in an answer: links with a scheme, and what clients and
// browsers take for one without, such as a bare host. A host is known by the last
// label of its name, which is a top-level domain; much else has points, too: file
// names, versions, abbreviations, sentences without a space between them. Each of
// these is told apart here.

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
	// point is what separates labels: a full stop as it stands, escaped for Markdown or
	// HTML, or one of those that browsers read as one.
	point = `(?:\\?\.|&#0*46;|&#[xX]0*2[eE];|&period;|[\x{3002}\x{ff0e}\x{ff61}])`
	// word is a character of a label.
	word = `[\p{L}\p{N}\p{M}_\-]`
	// rest is the rest of an address.
	rest = `[^\s<>"'“”„«»’` + "`" + `\])}]*`
	// ends are no part of an address that they end.
	ends = ".,;:!?…*"
)

var (
	// addresses are links with a scheme, and hosts with a path.
	addresses = regexp.MustCompile(`(?i)\b(?:[a-z][a-z0-9+.\-]{1,20}://|www\.|javascript:|data:[a-z]+/|mailto:)` + rest + `|` +
		`(?://|\b)[a-z0-9](?:[a-z0-9\-]*\.)+(?:[a-z]{2,63}|xn--[a-z0-9\-]{1,59})/` + rest)
	// hosts are names with points between their labels, with what may stand before
	// a host (1) and what follows it: port, path, query (3).
	hosts = regexp.MustCompile(`([\p{L}\p{N}._%+\-]+(?:@|&#64;|&commat;))?` +
		`(` + word + `+(?:` + point + word + `+)+)` +
		`(` + point + `?(?::\d{1,5}(?:[/\\?#]` + rest + `)?|[/\\?#][^\s<>"'“”„«»’` + "`" + `\])}.,;!*]` + rest + `))?`)
	points = regexp.MustCompile(point)
	quad   = regexp.MustCompile(`^\d{1,3}(?:\.\d{1,3}){3}$`)
	// width is the number of bits of a network.
	width = regexp.MustCompile(`^/\d{1,2}$`)
)

// LinkRemoved stands in an answer where an address stood that the cited passages
// do not have.
const LinkRemoved = "[link removed]"

// withoutAddresses replaces the addresses in s that do not stand in known.
func withoutAddresses(s string, known []string) string {
	s = addresses.ReplaceAllStringFunc(s, func(address string) string {
		body := strings.TrimRight(address, ends)
		if slices.ContainsFunc(known, func(k string) bool { return stands(k, body) }) {
			return address
		}
		return LinkRemoved + address[len(body):]
	})
	var b strings.Builder
	done := 0
	for _, m := range hosts.FindAllStringSubmatchIndex(s, -1) {
		start, end := m[0], m[1]
		before, host, after := group(s, m, 1), group(s, m, 2), group(s, m, 3)
		if !leadsOut(before, host, after) {
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

// addressed reports whether the target of a link is an address.
func addressed(target string) bool {
	if addresses.MatchString(target) {
		return true
	}
	m := hosts.FindStringSubmatch(target)
	return m != nil && leadsOut(m[1], m[2], m[3])
}

// fileEndings are top-level domains that are better known as endings of file names.
var fileEndings = []string{"cc", "md", "mov", "pl", "ps", "py", "rs", "sh", "zip"}

// leadsOut reports whether a name with points is a host that a client could make a
// link of. before is the user of an address of mail, after is port, path and query.
func leadsOut(before, host, after string) bool {
	wide := strings.ContainsAny(host, "\u3002\uff0e\uff61")
	host = points.ReplaceAllString(host, ".")
	if quad.MatchString(host) { // alone it may be a version, or the number of a section
		return before != "" || after != "" && !width.MatchString(strings.TrimRight(after, ends))
	}
	labels := strings.Split(strings.Trim(host, "-_"), ".")
	last := labels[len(labels)-1]
	top, err := idna.New(idna.MapForLookup(), idna.Transitional(false)).ToASCII(last)
	if err != nil || top == "" || wide && top != strings.ToLower(last) { // a sentence of a script without spaces
		return false
	}
	if _, listed := publicsuffix.PublicSuffix("host." + top); !listed {
		return false
	}
	if before != "" || after != "" || len(labels) > 2 && !abbreviated(labels[:len(labels)-1]) {
		return true
	}
	return !sentences(labels[len(labels)-2], last) && !slices.Contains(fileEndings, top)
}

// abbreviated reports whether labels are single letters, as in "e.g." and "p.m.".
func abbreviated(labels []string) bool {
	for _, l := range labels {
		if utf8.RuneCountInString(l) > 1 {
			return false
		}
	}
	return true
}

// sentences reports whether two words with a point between them are the end of a
// sentence and the beginning of the next: the second begins with a capital and goes
// on without.
func sentences(first, second string) bool {
	r, n := utf8.DecodeRuneInString(second)
	if !unicode.IsUpper(r) || strings.ToLower(second[n:]) != second[n:] {
		return false
	}
	r, _ = utf8.DecodeLastRuneInString(first)
	return unicode.IsLower(r) || unicode.IsDigit(r) || utf8.RuneCountInString(first) == 1
}

// stands reports whether an address is in text as a whole: a longer one there,
// of which it is the beginning, is another.
func stands(passage, address string) bool {
	return standsBefore(passage, address, "/-_%=&#?@+~")
}

// isWholeHost reports whether a host occurs in a passage and is not a part of another name. One
// that is alone may have a path, or be in a link.
func isWholeHost(passage, host string, alone bool) bool {
	if alone {
		return standsBefore(passage, host, "-_@")
	}
	return stands(passage, host)
}

// standsBefore reports whether s is in text, with no letter or digit and none of more
// behind it, and no part of a word before it.
func standsBefore(passage, s, more string) bool {
	for at := 0; ; {
		i := strings.Index(passage[at:], s)
		if i < 0 {
			return false
		}
		before, _ := utf8.DecodeLastRuneInString(passage[:at+i])
		first, _ := utf8.DecodeRuneInString(s)
		whole := at+i == 0 || !continues(first) || !continues(before)
		at += i + len(s)
		next, n := utf8.DecodeRuneInString(passage[at:])
		if next == '.' || next == '?' { // of a longer one, or of the sentence
			next, _ = utf8.DecodeRuneInString(passage[at+n:])
			if at+n == len(passage) || !continues(next) {
				next = ' '
			}
		}
		if whole && (at == len(passage) || !unicode.IsLetter(next) && !unicode.IsDigit(next) && !strings.ContainsRune(more, next)) {
			return true
		}
	}
}

// continues reports whether a character may be part of a host's label.
func continues(r rune) bool {
	return unicode.IsLetter(r) || unicode.IsDigit(r) || r == '-' || r == '_'
}
