package llm

// This file keeps hostile text from working. What goes to a model is what a person
// would see: without characters that hide or turn text, without the words by which
// chat templates tell speakers apart, and no line of it looks like a fence. What
// comes back has no link that the cited passages do not have, no image and no
// markup that loads or runs something.

import (
	"crypto/rand"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/sluice-rag/sluice/internal/text"
	"github.com/sluice-rag/sluice/schema/wire"
)

// hidden reports whether a person sees nothing of r: controls, marks that turn the
// direction of text, spaces of no width, tags and the second set of variation
// selectors, which can spell a whole text. The joiners that scripts and emoji need
// stay.
func hidden(r rune) bool {
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

// visible is s without what nobody sees. A joiner stays between letters of
// scripts that join, and in emoji.
func visible(s string) string {
	if !strings.ContainsFunc(s, func(r rune) bool { return hidden(r) || r == '\u200c' || r == '\u200d' }) {
		return s
	}
	var b strings.Builder
	b.Grow(len(s))
	before := rune(0)
	for _, r := range s {
		if hidden(r) || (r == '\u200c' || r == '\u200d') && before < utf8.RuneSelf {
			continue
		}
		b.WriteRune(r)
		before = r
	}
	return b.String()
}

// line is s on one line, as titles, headings and places stand in a prompt.
func line(s string) string {
	return strings.Join(strings.Fields(templateWords.ReplaceAllStringFunc(visible(text.Clean(s)), detachBracket)), " ")
}

// maxLabel bounds a title or a place in a prompt, in characters: a longer one is a
// text, and stands outside of the fences.
const maxLabel = 200

// label is a title or a place as it stands in quotation marks in a prompt.
func label(s string) string {
	s = strings.ReplaceAll(line(s), `"`, "'")
	if runes := []rune(s); len(runes) > maxLabel {
		s = string(runes[:maxLabel]) + "…"
	}
	return s
}

// templateWords are what chat templates of models in use put between speakers.
// Servers that build prompts from text take them for the real ones.
var templateWords = regexp.MustCompile(`(?i)<\|[^|<>\n]{1,40}\|>|<｜[^｜<>\n]{1,40}｜>|</?s>|<</?SYS>>|\[/?(?:INST|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS|SYSTEM_PROMPT)\]|` +
	`</?(?:start_of_turn|end_of_turn|tool_call|tool_response|tools|think|system|assistant)>`)

// detachBracket adds a space after the bracket that begins a word.
func detachBracket(word string) string {
	_, n := utf8.DecodeRuneInString(word)
	return word[:n] + " " + word[n:]
}

// fenceLine is a line that could be taken for the end or the beginning of a fence.
var fenceLine = regexp.MustCompile(`(?im)^([ \t>|]*)([-–—_=]{2,}[ \t]*(?:begin|end)\b)`)

// shown is a passage as it stands between fences.
func shown(s string) string {
	return fenceLine.ReplaceAllString(templateWords.ReplaceAllStringFunc(visible(s), detachBracket), "$1| $2")
}

// newMark is a mark for fences that nothing in the request has.
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
	// references are the definitions to which links by name go.
	references = regexp.MustCompile(`(?m)^[ \t]*\[[^\]\n]+\]:[ \t]*\S+.*$`)
	// loading is markup that fetches or runs something.
	loading = regexp.MustCompile(`(?is)<(script|style|iframe|object|svg|form)\b.*?(?:</(?:script|style|iframe|object|svg|form)\s*>|$)|` +
		`</?(?:img|a|link|meta|base|video|audio|source|embed|input|button|textarea|body|html|head|script|style|iframe|object|svg|form|image|portal|frame|frameset)\b[^>]*(?:>|$)|` +
		`<[a-z][^>]*\s(?:on[a-z]+|src|href|style|srcset|action|background)\s*=[^>]*(?:>|$)|<!--.*?(?:-->|$)`)
)

// harmless is an answer's text as it may be shown: nothing hidden, no images, links
// as words and address, and of addresses only those that stand in known just so:
// in the passages that are cited, or in what the asker wrote.
func harmless(s string, known []string) string {
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
		case !addressed(m[2]): // a place in the documents, or nothing that leads out
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
