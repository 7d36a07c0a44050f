package planchoice

// This file words a question anew that was made of a sentence, so that it does not repeat
// the sentence's words: a search by words would find it whatever the plan, and plans that
// search by meaning would look worse than they are. There is no thesaurus here: words that
// only describe others are left out, and some common ones are replaced. Whether the
// question still means one thing is for the round trip to say.

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/sluice-rag/sluice/internal/evaluate"
)

// otherWords are common words of the questions that rules make, and what says the same.
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

// openings replace how a question of a rule begins.
var openings = []struct{ from, to string }{
	{"When was ", "On what date was "},
}

// reworded are other wordings of a question about a subject, from the one that is
// farthest from the sentence that it was made of to the nearest; none where there is no
// other.
func reworded(question, subject string) []string {
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

// replaced has other words for those that there are others for.
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

// without leaves every n-th word of a subject out that describes the word behind it.
// Words of a name, which are written large, go together or stay.
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

// content reports a word that says something by itself.
func content(w string) bool {
	return utf8.RuneCountInString(w) >= 4 && evaluate.Overlap(w, w) == 1 && !slices.Contains(small, strings.ToLower(w))
}

// small are words of four letters and more that join others.
var small = strings.Fields("between within under over against during about after before into upon through eine einer eines einem einen zwischen unter gegen nach vor pour dans sous entre para sobre")

func capital(w string) bool {
	r, _ := utf8.DecodeRuneInString(w)
	return unicode.IsUpper(r)
}
