package text

import "strings"

// InContext returns the text of a passage that models read: the title of its document and its
// nearest heading, each on a line, and then the passage itself. A passage seldom repeats the name
// of its subject; its title and heading do. The models of the pack are trained on this form, so
// every text that is encoded, scored or fused has it.
//
// start is the offset in input of the passage, without the white space around it: byte i of input
// is byte i-start of strings.TrimSpace(passage).
func InContext(title string, headings []string, passage string) (input string, start int) {
	var b strings.Builder
	last, nearest := "", ""
	if len(headings) > 0 {
		nearest = headings[len(headings)-1]
	}
	for _, part := range []string{title, nearest} {
		part = strings.Join(strings.Fields(Clean(part)), " ")
		if part != "" && part != last && !strings.HasPrefix(passage, part) {
			b.WriteString(part)
			b.WriteString("\n")
			last = part
		}
	}
	start = b.Len()
	b.WriteString(strings.TrimSpace(passage))
	return b.String(), start
}
