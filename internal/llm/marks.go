package llm

// Models mark what they cite in their text although they are asked not to: "[1]",
// "(passage 2)", "【3†source】". The marks are taken out, whole or broken, and kept
// as hints of what proves which sentence.

import (
	"regexp"
	"strconv"
	"strings"
)

// mark is a citation's mark: it stood before byte at of the text without marks.
type mark struct {
	at      int
	passage int // from 1
}

// markForms are the ways to write a mark. In round brackets it needs a word, for
// a number in them is part of many texts; a mark that was begun and not ended can
// only be the end of the text.
var markForms = regexp.MustCompile(`(?i)[ \t]*(?:` +
	`\[\^?(?:passages?|sources?|citations?|quotes?|docs?|documents?|refs?|sentences?)?[ :#.]*\d{1,2}(?:[ ]*(?:,|;|-|–|and|&)[ ]*(?:passage|source)?[ ]*\d{1,2})*(?:†[^\]\n]{0,40})?\]` +
	`|【[^】\n]{0,60}】?` +
	`|\((?:passages?|sources?|citations?|quotes?)[ :#.]*\d{1,2}(?:[ ]*(?:,|;|-|–|and|&)[ ]*(?:passage|source)?[ ]*\d{1,2})*\)` +
	`|</?(?:cite|citation|ref|quote|source)\b[^>\n]{0,60}>` +
	`|\[(?:citation|source)[^\]\n]{0,20}\]` +
	`|\[\^?(?:passages?|sources?|citations?)?[ :#.]*\d{0,2}$` +
	`)`)

var markNumbers = regexp.MustCompile(`\d+`)

// withoutMarks takes the marks of citations out of an answer.
func withoutMarks(s string) (string, []mark) {
	s = strings.TrimSpace(s)
	var b strings.Builder
	var marks []mark
	last := 0
	for _, at := range markForms.FindAllStringIndex(s, -1) {
		b.WriteString(s[last:at[0]])
		last = at[1]
		for _, n := range markNumbers.FindAllString(s[at[0]:at[1]], -1) {
			if i, err := strconv.Atoi(n); err == nil {
				marks = append(marks, mark{at: b.Len(), passage: i})
			}
		}
	}
	b.WriteString(s[last:])
	return strings.TrimSpace(b.String()), marks
}
