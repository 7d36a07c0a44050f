package suggest

import (
	"regexp"
	"strings"
	"unicode"
)

// aboutHeading asks what is said under a heading. It quotes the heading unchanged, so that the
// question is always grammatical.
var aboutHeading = map[string]string{
	"en": "What is said about “%”?",
	"de": "Was steht in den Unterlagen zu „%“?",
	"fr": "Que disent les documents sur « % » ?",
	"es": "¿Qué dicen los documentos sobre «%»?",
}

var (
	// clause matches the number at the beginning of a paragraph of a contract.
	clause    = regexp.MustCompile(`^(?:\d+(?:\.\d+)+\.?|\d+[.)])\s+`)
	numbering = regexp.MustCompile(`^(?:[A-Z]?\d+(?:\.\d+)*|[ivxIVX]+|[a-zA-Z])[.):]?\s+`)
	askedMark = regexp.MustCompile(`^(?:(?:Q|F|P|Question|Frage|Pregunta)\s*\d*\s*[.:)]\s*|\d+[.)]\s*|[-*•#]+\s*)+`)
	structure = regexp.MustCompile(`(?i)^(?:contents|table of contents|index|page|chapter|section|part|appendix|annex|figure|table|inhalt|` +
		`inhaltsverzeichnis|seite|kapitel|teil|anhang|anlage|abbildung|tabelle|sommaire|chapitre|partie|annexe|índice|capítulo|parte|anexo)\b`)
)

// fromHeading makes a question from a heading: the heading itself if it is a question, else a
// question about the text under it.
func fromHeading(heading, language string) (string, Kind) {
	h := collapse(heading)
	if q := askedBy(h); q != "" {
		return q, Asked
	}
	if m := numbering.FindString(h); m != "" && len(m) < len(h) {
		h = h[len(m):]
	}
	about := aboutHeading[language]
	if about == "" || strings.ContainsAny(h, "?“”„«»\"|/\\_@") || structure.MatchString(h) {
		return "", ""
	}
	words := strings.Fields(h)
	if len(words) > 6 || len(h) > 60 || len(h) < 5 {
		return "", ""
	}
	if strings.IndexFunc(h, unicode.IsDigit) >= 0 || strings.IndexFunc(h, unicode.IsLower) < 0 {
		return "", "" // a date, a number, a version, an exclamation
	}
	return strings.Replace(about, "%", strings.TrimRight(h, ".:"), 1), Heading
}

// askedBy returns the question that a line consists of; empty if it is anything else. A question of
// very few words is not taken, because it needs its context.
func askedBy(line string) string {
	q := collapse(line)
	q = strings.TrimSpace(q[len(askedMark.FindString(q)):])
	if !strings.HasSuffix(q, "?") || strings.Count(q, "?") > 1 || len(q) < minQuestion || len(q) > maxQuestion || len(strings.Fields(q)) < 4 {
		return ""
	}
	// Quotations, and questions after another sentence, are parts of a story.
	if strings.ContainsAny(q, "\"“”„«»|{}<>=_\\") || strings.Contains(q, ". ") || strings.Contains(q, "! ") || strings.HasPrefix(q, "—") {
		return ""
	}
	first := []rune(strings.TrimLeft(q, "¿"))
	if len(first) == 0 || !unicode.IsUpper(first[0]) {
		return ""
	}
	return q
}
