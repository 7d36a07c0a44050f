package text

// This file measures how far a quote supports a sentence, by rules and without a model. The quote
// must contain what the sentence says, above all its numbers and names, and neither may deny what
// the other states. The rules know words, not meaning: they do not recognise support in quite
// different words, and they accept a sentence that arranges the same words differently.

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/clipperhouse/uax29/v2/words"
)

// Support says how far a quote supports a sentence.
type Support struct {
	// Added is the share, in [0, 1], of the sentence's content that was not in the question and is
	// in the quote; 1 if there is none. Content is words that are no stop words, numbers and names.
	Added float64
	// Whole is the same for all of the sentence's content, in which words of the question weigh
	// less.
	Whole float64
	// Words is the number of content words in the sentence.
	Words int
	// Number, Name, Negation and Opposite say what contradicts the quote or is made up: a number or
	// a name that the quote and its context do not have, a negation on one side only, a word whose
	// opposite is in the quote.
	Number, Name, Negation, Opposite bool
}

// Contradicts reports whether something in the sentence contradicts the quote.
func (s Support) Contradicts() bool { return s.Number || s.Name || s.Negation || s.Opposite }

// questionWordWeight is the weight of a word of the question in Support.Whole.
const questionWordWeight = 0.35

// Supported compares a sentence of an answer to question with a quote. context is the title and the
// headings of the quote; names and numbers may come from there.
func Supported(sentence, question, quote, context string) Support {
	sentenceText, quoteText := analyse(sentence), analyse(quote)
	questionText, contextText := analyse(question), analyse(context)
	out := Support{Added: 1, Whole: 1}
	var added, addedSupported, quoted, whole, wholeSupported float64
	capitalsMarkNames := sentenceText.capitalsMarkNames()
	for i, w := range sentenceText.content {
		inQuestion := questionText.find(w) != nil
		inQuote := quoteText.find(w) != nil
		out.Words++
		weight := 1.0
		if inQuestion {
			weight = questionWordWeight
		} else {
			added++
		}
		supported := inQuote || contextText.find(w) != nil
		if supported {
			wholeSupported += weight
			if !inQuestion {
				addedSupported++
			}
			if !inQuestion && inQuote {
				quoted++
			}
		}
		whole += weight
		switch {
		case supported:
		case w.number != "" && !w.ambiguous && !inQuestion:
			out.Number = true
		case w.number != "" && inQuestion && (quoteText.hasSimilarNumber(w, sentenceText) || sentenceText.hasOtherCount(i, quoteText)), inQuestion && quoteText.hasOtherVariant(w, sentenceText):
			out.Number = true
		case w.name && capitalsMarkNames && !inQuestion:
			out.Name = true
		}
		if !inQuote && quoteText.opposite(w) {
			out.Opposite = true
		}
	}
	if added > 0 {
		out.Added = min(addedSupported, 2*quoted) / added // the context proves nothing alone
	}
	if whole > 0 {
		out.Whole = wholeSupported / whole
	}
	out.Negation = sentenceText.denies(quoteText) || quoteText.denies(sentenceText) ||
		len(sentenceText.negations) > 0 && len(quoteText.negations)+len(quoteText.softNegations) == 0 ||
		len(sentenceText.negations)+len(sentenceText.softNegations) == 0 && (sentenceText.mostlyDenied(quoteText) || sentenceText.clauseDenied(questionText, quoteText))
	return out
}

// word is one content word of a text.
type word struct {
	stem      string
	number    string // its value, if it is a number
	ambiguous bool   // a number word that just as often is something else: one, first, second
	name      bool   // it is capitalised inside a sentence
	pos       int    // its position among all words
	clause    int
}

func (w word) year() bool {
	return len(w.number) == 4 && (w.number[0] == '1' || w.number[0] == '2')
}

// analysedText is a text in the form in which it is compared.
type analysedText struct {
	content []word
	byStem  map[string]int // index in content
	numbers map[string]int
	// negations are the words that negate; soft are those that may.
	negations, softNegations []word
	capitals, nonInitial     int
}

// capitalsMarkNames reports whether capitals distinguish names from other words. They do not in
// headings and in German.
func (r *analysedText) capitalsMarkNames() bool {
	return r.nonInitial > 0 && float64(r.capitals) <= 0.6*float64(r.nonInitial)
}

// analyse analyses a text for comparison.
func analyse(s string) *analysedText {
	r := &analysedText{byStem: map[string]int{}, numbers: map[string]int{}}
	pos, clause, initial := 0, 0, true
	it := words.FromString(strings.ReplaceAll(s, "’", "'"))
	for it.Next() {
		token := it.Value()
		lower := strings.ToLower(token)
		if !hasLetterOrDigit(token) {
			switch {
			case strings.ContainsAny(token, ".!?\n"):
				initial = true
				clause++
			case strings.ContainsAny(token, ",;:()—–"):
				clause++
			case token == "%":
				r.add(word{stem: "percent", pos: pos, clause: clause})
			}
			continue
		}
		pos++
		if lower == "but" || lower == "although" || lower == "though" || lower == "whereas" || lower == "while" {
			clause++
		}
		if last := len(r.negations) - 1; notOnly[lower] && last >= 0 && r.negations[last].pos == pos-1 {
			r.negations = r.negations[:last] // "not only" negates nothing
			continue
		}
		w := word{stem: lower, pos: pos, clause: clause}
		if negations[lower] || strings.HasSuffix(lower, "n't") {
			r.negations = append(r.negations, w)
			continue
		}
		if denials[lower] {
			r.softNegations = append(r.softNegations, w)
		}
		first, _ := utf8.DecodeRuneInString(token)
		capital := unicode.IsUpper(first)
		if !initial {
			r.nonInitial++
			if capital {
				r.capitals++
			}
		}
		value, unit, ambiguous := numberOf(lower)
		if value == "" && stopWords[lower] {
			initial = false
			continue
		}
		w.stem, w.number, w.ambiguous = stem(lower), value, ambiguous
		w.name = capital && !initial && value == ""
		initial = false
		r.add(w)
		if unit != "" {
			r.add(word{stem: stem(unit), pos: pos, clause: clause})
		}
	}
	return r
}

// add adds a word; a number is combined with the number before it ("5 million").
func (r *analysedText) add(w word) {
	if w.number != "" && len(r.content) > 0 {
		if last := &r.content[len(r.content)-1]; last.number != "" && last.pos == w.pos-1 && last.clause == w.clause {
			if joined, ok := joinNumbers(last.number, w.number); ok {
				last.number, last.ambiguous, last.pos = joined, false, w.pos
				r.numbers[joined] = len(r.content) - 1
				return
			}
		}
	}
	if w.number != "" {
		r.numbers[w.number] = len(r.content)
	}
	if _, ok := r.byStem[w.stem]; !ok {
		r.byStem[w.stem] = len(r.content)
	}
	r.content = append(r.content, w)
}

// find finds a word in a text: by the same number, by its stem, or by a stem with a common
// beginning ("invent", "invention"). It returns nil if there is none.
func (r *analysedText) find(w word) *word {
	if w.number != "" {
		if i, ok := r.numbers[w.number]; ok {
			return &r.content[i]
		}
		if !w.ambiguous {
			return nil
		}
	}
	if i, ok := r.byStem[w.stem]; ok {
		return &r.content[i]
	}
	if len(w.stem) < minStemPrefix {
		return nil
	}
	for i := range r.content {
		if p := &r.content[i]; p.number == "" && relatedStems(p.stem, w.stem) {
			return p
		}
	}
	return nil
}

// minStemPrefix is the minimum number of bytes that stems of related words share.
const minStemPrefix = 4

func relatedStems(a, b string) bool {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n >= minStemPrefix && 3*n >= 2*max(len(a), len(b))
}

// hasOtherCount reports whether other has a number that r does not have next to a word that r has
// next to its number i: "6 teams" where r says "5 teams".
func (r *analysedText) hasOtherCount(i int, other *analysedText) bool {
	neighbours := func(r *analysedText, i int) []word {
		out := r.content[max(i-1, 0):min(i+2, len(r.content))]
		return slices.DeleteFunc(slices.Clone(out), func(w word) bool { return w.number != "" || w.clause != r.content[i].clause })
	}
	own := neighbours(r, i)
	for value, j := range other.numbers {
		if _, ok := r.numbers[value]; ok || other.content[j].ambiguous {
			continue
		}
		for _, w := range neighbours(other, j) {
			if slices.ContainsFunc(own, func(o word) bool { return o.stem == w.stem }) {
				return true
			}
		}
	}
	return false
}

// opposite reports whether a text contains the opposite of a word.
func (r *analysedText) opposite(w word) bool {
	for _, o := range opposites[w.stem] {
		if _, ok := r.byStem[o]; ok {
			return true
		}
	}
	return false
}

// negationReach is the maximum number of words after a negation that it negates.
const negationReach = 5

// denies reports whether r negates something that other states: one of the first content words
// after one of r's negations, in the same clause, is in other without a negation near it.
func (r *analysedText) denies(other *analysedText) bool {
	for _, n := range r.negations {
		found := 0
		for i := range r.content {
			w := &r.content[i]
			if w.pos <= n.pos || w.pos > n.pos+negationReach || w.clause != n.clause {
				continue
			}
			if found++; found > 2 {
				break
			}
			match := other.find(*w)
			if match == nil {
				continue
			}
			if !other.negated(match) {
				return true
			}
			break
		}
	}
	return false
}

// mostlyDenied reports whether most of what r and quote share is in one clause of quote, after a
// negation.
func (r *analysedText) mostlyDenied(quote *analysedText) bool {
	for _, n := range quote.negations {
		shared, afterNegation := 0, 0
		for i := range r.content {
			w := quote.find(r.content[i])
			if w == nil {
				continue
			}
			if shared++; w.clause == n.clause && w.pos > n.pos && w.pos <= n.pos+2*negationReach {
				afterNegation++
			}
		}
		if afterNegation > 1 && 2*afterNegation >= shared {
			return true
		}
	}
	return false
}

// negated reports whether a negation, or a word that may be one, is near a word.
func (r *analysedText) negated(w *word) bool {
	for _, list := range [][]word{r.negations, r.softNegations} {
		for _, n := range list {
			if n.pos >= w.pos-negationReach-2 && n.pos <= w.pos+negationReach {
				return true
			}
		}
	}
	return false
}

var (
	// negations negate what follows.
	negations = set(`not no never none nobody nothing nowhere neither nor cannot without
		nicht kein keine keinen keinem keiner nie niemals ohne ne pas jamais aucun aucune sans nunca ninguna ninguno`)
	// denials negate in some contexts.
	denials = set(`lack lacks lacked lacking fail fails failed unable refuse refuses refused deny denies denied except
		prevent prevented prohibit prohibits prohibited forbid forbids forbidden ban banned impossible absent absence free
		hardly rarely seldom scarcely barely few little instead rather unlike stop stopped avoid avoided only until unless exclude excluded excluding
		reject rejected illegal unlawful unknown unclear false untrue incorrect wrong non un less dis`)
	opposites = func() map[string][]string {
		out := map[string][]string{}
		for _, pair := range strings.Split(`increase decrease|increase reduce|increase decline|rise fall|rise decline|grow shrink|higher lower|high low|more fewer|more less|most least|
			before after|above below|over under|maximum minimum|allow forbid|allow prohibit|permit forbid|permit prohibit|permitted prohibited|mandatory optional|required optional|win lose|won lost|
			gain loss|profit loss|accept reject|approve reject|open close|enable disable|include exclude|true false|legal illegal|north south|east west|northern southern|eastern western|
			largest smallest|highest lowest|oldest youngest|longest shortest|first last|earlier later|hot cold|left right|male female|begin end|start end|buy sell|import export|
			upper lower|majority minority|positive negative|success failure|succeed fail|agree disagree|strong weak|early late|old new|former latter|ascend descend|expand contract|
			possible impossible|likely unlikely|safe unsafe|valid invalid|public private|external internal|input output|better worse|best worst|always never`, "|") {
			f := strings.Fields(pair)
			a, b := stem(f[0]), stem(f[1])
			out[a], out[b] = append(out[a], b), append(out[b], a)
		}
		return out
	}()
)
