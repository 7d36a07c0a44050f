package llm

// Models put citation marks into their text although they are asked not to: "[1]", "(passage 2)",
// "【3†source】". This file removes the marks, complete or not, and keeps them as hints of which
// passage proves which sentence.

import (
	"regexp"
	"strconv"
	"strings"
)

// mark is a removed citation mark. at is its byte offset in the text without marks.
type mark struct {
	at      int
	passage int // from 1
}

// markForms matches the forms of a mark. A number in round brackets needs a word, because many
// texts have such numbers. An unterminated mark in square brackets counts only at the end of the
// text.
var markForms = regexp.MustCompile(`(?i)[ \t]*(?:` +
	`\[\^?(?:passages?|sources?|citations?|quotes?|docs?|documents?|refs?|sentences?)?[ :#.]*\d{1,2}(?:[ ]*(?:,|;|-|–|and|&)[ ]*(?:passage|source)?[ ]*\d{1,2})*(?:†[^\]\n]{0,40})?\]` +
	`|【[^】\n]{0,60}】?` +
	`|\((?:passages?|sources?|citations?|quotes?)[ :#.]*\d{1,2}(?:[ ]*(?:,|;|-|–|and|&)[ ]*(?:passage|source)?[ ]*\d{1,2})*\)` +
	`|</?(?:cite|citation|ref|quote|source)\b[^>\n]{0,60}>` +
	`|\[(?:citation|source)[^\]\n]{0,20}\]` +
	`|\[\^?(?:passages?|sources?|citations?)?[ :#.]*\d{0,2}$` +
	`)`)

var markNumbers = regexp.MustCompile(`\d+`)

// withoutMarks removes the citation marks from an answer and returns them.
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
