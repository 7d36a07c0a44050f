package parse

// Plain text: paragraphs are separated by empty lines; a paragraph whose lines
// were wrapped by hand becomes one line again; lists and aligned lines stay.

import (
	"iter"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/sluice-rag/sluice/schema"
)

var listItem = regexp.MustCompile(`^\s*([-*•–·▪◦‣]|\(?\d{1,3}[.)]|\(?[a-zA-Z][.)]|\(?[ivxlc]{1,5}[.)])\s+\S`)

func parsePlain(d *document, s string) error {
	// A form feed is a new page in text made by printers' tools.
	pages := strings.Split(strings.TrimRight(tidyPages(s), "\f\n "), "\f")
	for i, page := range pages {
		number := 0
		if len(pages) > 1 {
			number = i + 1
			d.out.Pages = len(pages)
		}
		var open []string // the paragraph before, which may be a heading
		for lines := range paragraphs(page) {
			addPlain(d, open, lines, number)
			if d.err != nil {
				return d.err
			}
			open = lines
		}
		addPlain(d, open, nil, number)
	}
	return d.err
}

// addPlain adds a paragraph that next follows.
func addPlain(d *document, lines, next []string, page int) {
	if len(next) > 0 && heads(lines, next) {
		d.add(schema.BlockHeading, 1, squeeze(lines[0]), page)
	} else {
		plainParagraph(d, lines, page)
	}
}

// paragraphs yields the lines between empty ones.
func paragraphs(page string) iter.Seq[[]string] {
	return func(yield func([]string) bool) {
		var lines []string
		for line := range strings.SplitSeq(page, "\n") {
			if strings.TrimSpace(line) != "" {
				lines = append(lines, line)
			} else if len(lines) > 0 {
				if !yield(lines) {
					return
				}
				lines = nil
			}
		}
		if len(lines) > 0 {
			yield(lines)
		}
	}
}

// heads guesses whether a paragraph is the heading of the next one: a short line
// of its own that reads like one, over running text.
func heads(lines, next []string) bool {
	if len(lines) != 1 || utf8.RuneCountInString(lines[0]) > 80 || lines[0] != strings.TrimLeft(lines[0], " ") {
		return false
	}
	s := strings.TrimSpace(lines[0])
	body := strings.TrimSpace(next[len(next)-1])
	return headline(s) && !strings.HasSuffix(s, ":") && len(strings.Join(next, " ")) > len(s) && endsSentence(body)
}

// tidyPages tidies lines and keeps form feeds.
func tidyPages(s string) string {
	if !strings.Contains(s, "\f") {
		return tidyLines(s)
	}
	pages := strings.Split(s, "\f")
	for i := range pages {
		pages[i] = tidyLines(pages[i])
	}
	return strings.Join(pages, "\f")
}

// plainParagraph adds the lines between two empty ones.
func plainParagraph(d *document, lines []string, page int) bool {
	switch {
	case len(lines) == 0:
		return d.withinTime()
	case underlined(lines):
		level := 1
		if strings.HasPrefix(strings.TrimSpace(lines[1]), "-") {
			level = 2
		}
		return d.add(schema.BlockHeading, level, squeeze(lines[0]), page) && plainParagraph(d, lines[2:], page)
	case listItem.MatchString(lines[0]) && len(lines) > 1:
		return d.add(schema.BlockList, 0, strings.Join(joinItems(lines), "\n"), page)
	case wrapped(lines):
		return d.add(schema.BlockParagraph, 0, squeeze(joinWrapped(lines)), page)
	case longLines(lines):
		// One paragraph a line.
		for _, line := range lines {
			if !d.add(schema.BlockParagraph, 0, squeeze(line), page) {
				return false
			}
		}
		return d.withinTime()
	}
	return d.add(schema.BlockParagraph, 0, strings.Join(lines, "\n"), page)
}

// underlined reports a heading with a line of = or - below it.
func underlined(lines []string) bool {
	if len(lines) < 2 {
		return false
	}
	rule := strings.TrimSpace(lines[1])
	return len(rule) >= 3 && (strings.Trim(rule, "=") == "" || strings.Trim(rule, "-") == "") &&
		utf8.RuneCountInString(lines[0]) <= 120 && strings.Trim(lines[0], "=- ") != ""
}

// joinItems joins the lines that continue a list item to it.
func joinItems(lines []string) []string {
	var out []string
	for _, line := range lines {
		if len(out) > 0 && !listItem.MatchString(line) {
			out[len(out)-1] += " " + squeeze(line)
			continue
		}
		indent := len(line) - len(strings.TrimLeft(line, " "))
		out = append(out, line[:indent]+squeeze(line))
	}
	return out
}

// wrapped guesses whether the lines are one paragraph that was wrapped at a
// column: all but the last are about equally long and none is set in columns.
func wrapped(lines []string) bool {
	if len(lines) < 2 {
		return true
	}
	longest := 0
	for _, line := range lines {
		if strings.Contains(strings.TrimSpace(line), "    ") {
			return false
		}
		longest = max(longest, utf8.RuneCountInString(line))
	}
	if longest < 40 || longest > 200 {
		return false
	}
	short := 0
	for i, line := range lines[:len(lines)-1] {
		next, _, _ := strings.Cut(strings.TrimSpace(lines[i+1]), " ")
		// The next word did not fit: the line was full.
		if utf8.RuneCountInString(line)+1+utf8.RuneCountInString(next) < longest*9/10 {
			short++
		}
	}
	return short*4 <= len(lines)-1
}

// longLines reports whether most of the text is in lines longer than anybody
// wraps them.
func longLines(lines []string) bool {
	long, all := 0, 0
	for _, line := range lines {
		all += len(line)
		if utf8.RuneCountInString(line) > 200 {
			long += len(line)
		}
	}
	return long*2 > all
}

// joinWrapped joins lines and takes back hyphenation.
func joinWrapped(lines []string) string {
	var b []byte
	for _, line := range lines {
		line = strings.TrimSpace(line)
		if len(b) > 0 {
			if hyphenated(b, line) {
				b = b[:len(b)-1]
			} else {
				b = append(b, ' ')
			}
		}
		b = append(b, line...)
	}
	return string(b)
}

// hyphenated reports whether before ends in a word that the line break cut:
// letters, a hyphen, and a small letter next.
func hyphenated(before []byte, next string) bool {
	if len(before) == 0 || before[len(before)-1] != '-' {
		return false
	}
	last, _ := utf8.DecodeLastRune(before[:len(before)-1])
	first, _ := utf8.DecodeRuneInString(next)
	return unicode.IsLower(last) && unicode.IsLower(first)
}
