package llm

// This file defuses hostile text. What goes to a model is what a person would see: without
// characters that hide or reorder text, without the control words of chat templates, and without
// lines that look like a fence. What comes back has no link that the cited passages lack, no image
// and no markup that loads or runs something.

import (
	"crypto/rand"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/sluice-rag/sluice/internal/text"
	"github.com/sluice-rag/sluice/schema/wire"
)

// isInvisible reports whether a person does not see r: control characters, marks that change the
// direction of text, zero-width spaces, tags, and the second set of variation selectors, which can
// encode a whole text. The joiners that scripts and emoji need are not hidden.
func isInvisible(r rune) bool {
	switch {
	case r == '\n', r == '\t', r == '\u200c', r == '\u200d':
		return false
	case unicode.IsControl(r), r == '\u00ad', r == '\u034f', r == '\u061c', r == '\u115f', r == '\u1160', r == '\u3164', r == '\uffa0':
		return true
	case r >= 0x180b && r <= 0x180f, r >= 0xfff9 && r <= 0xfffb, r >= 0xe0000 && r <= 0xe0fff:
		return true
	}
	return unicode.Is(unicode.Cf, r) && !unicode.Is(unicode.Prepended_Concatenation_Mark, r)
}

// visible returns s without hidden characters. A joiner stays between letters of scripts that join,
// and in emoji.
func visible(s string) string {
	if !strings.ContainsFunc(s, func(r rune) bool { return isInvisible(r) || r == '\u200c' || r == '\u200d' }) {
		return s
	}
	var b strings.Builder
	b.Grow(len(s))
	before := rune(0)
	for _, r := range s {
		if isInvisible(r) || (r == '\u200c' || r == '\u200d') && before < utf8.RuneSelf {
			continue
		}
		b.WriteRune(r)
		before = r
	}
	return b.String()
}

// line returns s on one line, as titles, headings and locations stand in a prompt.
func line(s string) string {
	return strings.Join(strings.Fields(templateWords.ReplaceAllStringFunc(visible(text.Clean(s)), detachBracket)), " ")
}

// maxLabel bounds a title or location in a prompt, in characters: these stand outside the fences,
// where a long text does not belong.
const maxLabel = 200

// label returns a title or location as it stands in quotation marks in a prompt.
func label(s string) string {
	s = strings.ReplaceAll(line(s), `"`, "'")
	if runes := []rune(s); len(runes) > maxLabel {
		s = string(runes[:maxLabel]) + "…"
	}
	return s
}

// templateWords match the control words that chat templates put between speakers. Servers that
// build prompts from text take them for real ones.
var templateWords = regexp.MustCompile(`(?i)<\|[^|<>\n]{1,40}\|>|<｜[^｜<>\n]{1,40}｜>|</?s>|<</?SYS>>|\[/?(?:INST|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS|SYSTEM_PROMPT)\]|` +
	`</?(?:start_of_turn|end_of_turn|tool_call|tool_response|tools|think|system|assistant)>`)

// detachBracket adds a space after the first character of a control word.
func detachBracket(word string) string {
	_, n := utf8.DecodeRuneInString(word)
	return word[:n] + " " + word[n:]
}

// fenceLine matches the beginning of a line that looks like the beginning or the end of a fence.
var fenceLine = regexp.MustCompile(`(?im)^([ \t>|]*)([-–—_=]{2,}[ \t]*(?:begin|end)\b)`)

// shown returns a passage as it stands between fences.
func shown(s string) string {
	return fenceLine.ReplaceAllString(templateWords.ReplaceAllStringFunc(visible(s), detachBracket), "$1| $2")
}

// newMark returns a random mark for fences that does not occur in the request.
func newMark(r wire.LLMRequest) string {
	for {
		m := rand.Text()[:12]
		used := strings.Contains(r.Question+r.Answer+strings.Join(r.References, ""), m)
		for _, p := range r.Passages {
			used = used || strings.Contains(p.Title+p.Location+p.Text, m)
		}
		if !used {
			return m
		}
	}
}

var (
	images = regexp.MustCompile(`!\[[^\]\n]*\](?:\([^)\n]*\)?|\[[^\]\n]*\])`)
	links  = regexp.MustCompile(`\[([^\]\n]*)\]\(\s*<?([^)\s>]*)[^)\n]*\)`)
	named  = regexp.MustCompile(`\[([^\]\n]+)\]\[[^\]\n]*\]`)
	// references matches the definitions of links by name.
	references = regexp.MustCompile(`(?m)^[ \t]*\[[^\]\n]+\]:[ \t]*\S+.*$`)
	// loading matches markup that fetches or runs something.
	loading = regexp.MustCompile(`(?is)<(script|style|iframe|object|svg|form)\b.*?(?:</(?:script|style|iframe|object|svg|form)\s*>|$)|` +
		`</?(?:img|a|link|meta|base|video|audio|source|embed|input|button|textarea|body|html|head|script|style|iframe|object|svg|form|image|portal|frame|frameset)\b[^>]*(?:>|$)|` +
		`<[a-z][^>]*\s(?:on[a-z]+|src|href|style|srcset|action|background)\s*=[^>]*(?:>|$)|<!--.*?(?:-->|$)`)
)

// sanitize returns the text of an answer as it may be shown: without hidden characters and images,
// with links as words and address, and with only those addresses that occur in known, which are the
// cited passages and what the asker wrote.
func sanitize(s string, known []string) string {
	s = visible(s)
	s = loading.ReplaceAllString(s, "")
	s = references.ReplaceAllString(s, "")
	s = images.ReplaceAllString(s, "")
	s = named.ReplaceAllString(s, "$1")
	s = links.ReplaceAllStringFunc(s, func(link string) string {
		m := links.FindStringSubmatch(link)
		switch {
		case m[2] == "" || m[1] == m[2]:
			return m[1]
		case !isAddress(m[2]): // a location in the documents, or no address
			return m[1]
		case m[1] == "":
			return m[2]
		}
		return m[1] + " (" + m[2] + ")"
	})
	seen := make([]string, len(known))
	for i, k := range known {
		seen[i] = visible(k)
	}
	return withoutAddresses(s, seen)
}
