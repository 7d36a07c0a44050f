package planchoice

// This file rewords a question that was made from a sentence, so that it does not repeat the
// sentence's words: lexical search would find it under any plan, and plans that search by meaning
// would look worse than they are. There is no thesaurus: words that only describe others are left
// out, and some common words are replaced. The round trip tests whether the question is still
// unambiguous.

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/sluice-rag/sluice/internal/evaluate"
)

// otherWords maps common words of rule-made questions to synonyms.
var otherWords = map[string]string{
	"located": "found", "situated": "found", "built": "constructed", "constructed": "built", "founded": "set up", "established": "set up",
	"purchased": "bought", "bought": "acquired", "acquired": "bought", "sold": "disposed of", "signed": "agreed", "issued": "given out",
	"published": "brought out", "introduced": "brought in", "begun": "started", "started": "begun", "completed": "finished", "finished": "completed",
	"opened": "inaugurated", "closed": "shut", "held": "organised", "elected": "chosen", "appointed": "chosen", "required": "needed", "replaced": "exchanged",
	"repaired": "mended", "installed": "put in", "removed": "taken away", "delivered": "supplied", "handed": "given", "paid": "settled", "approved": "agreed to",
	"reported": "notified", "submitted": "sent in", "returned": "sent back", "kept": "stored", "stored": "kept", "employees": "staff", "staff": "employees",
	"employee": "worker", "maximum": "highest", "minimum": "lowest", "annual": "yearly", "monthly": "every month's", "fee": "charge", "price": "cost", "cost": "price",
	"duration": "length", "period": "time", "location": "place", "purpose": "aim", "begin": "start", "start": "begin", "end": "finish", "buy": "purchase",
	"obtain": "get", "inform": "tell", "notify": "tell", "apply": "ask", "request": "ask for", "repair": "mend", "check": "inspect", "inspect": "check",
}

// openings replace the beginning of a rule-made question.
var openings = []struct{ from, to string }{
	{"When was ", "On what date was "},
}

// rewordings returns other wordings of a question about a subject, sorted by their distance from
// the original sentence, farthest first. It returns none if there are no other wordings.
func rewordings(question, subject string) []string {
	var out []string
	seen := map[string]bool{question: true}
	add := func(s string) {
		if s = strings.Join(strings.Fields(s), " "); !seen[s] {
			seen[s] = true
			out = append(out, s)
		}
	}
	about := func(other string) string { return strings.Replace(question, subject, other, 1) }
	all, half := about(without(subject, 1)), about(without(subject, 2))
	add(replaced(all))
	add(all)
	add(replaced(half))
	add(half)
	add(replaced(question))
	return out
}

// replaced replaces words that have synonyms.
func replaced(question string) string {
	for _, o := range openings {
		if rest, ok := strings.CutPrefix(question, o.from); ok {
			question = o.to + rest
			break
		}
	}
	fields := strings.Fields(question)
	for i, w := range fields {
		body := strings.TrimRight(w, "?,.")
		if other, ok := otherWords[body]; ok && i > 0 {
			fields[i] = other + w[len(body):]
		}
	}
	return strings.Join(fields, " ")
}

// without leaves out every n-th word of a subject that describes the word after it. The words of a
// name, which are capitalized, are left out or kept together.
func without(subject string, n int) string {
	fields := strings.Fields(subject)
	var out []string
	found := 0
	for i := 0; i < len(fields); {
		end := i + 1
		for capital(fields[i]) && end < len(fields) && capital(fields[end]) {
			end++
		}
		if content(fields[i]) && end < len(fields) && content(fields[end]) {
			if found++; found%n == 0 {
				i = end
				continue
			}
		}
		out = append(out, fields[i:end]...)
		i = end
	}
	return strings.Join(out, " ")
}

// content reports whether a word is a content word.
func content(w string) bool {
	return utf8.RuneCountInString(w) >= 4 && evaluate.Overlap(w, w) == 1 && !slices.Contains(small, strings.ToLower(w))
}

// small are function words of four letters and more.
var small = strings.Fields("between within under over against during about after before into upon through eine einer eines einem einen zwischen unter gegen nach vor pour dans sous entre para sobre")

func capital(w string) bool {
	r, _ := utf8.DecodeRuneInString(w)
	return unicode.IsUpper(r)
}
