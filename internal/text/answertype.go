package text

// What kind of thing a question asks for, and whether a piece of text is of that kind. The rules
// check a short answer that a model found in a text without regard to its kind. They cover
// questions in English, German, French, Spanish, Italian, Portuguese and Dutch; any other question
// asks for anything.

import (
	"regexp"
	"strings"
	"unicode"

	"github.com/clipperhouse/uax29/v2/words"
)

// AnswerType is the kind of thing that a question asks for.
type AnswerType int

const (
	AnswerAnything AnswerType = iota
	AnswerExtent              // how long: a time, or a length
	AnswerTime                // when: a date, an hour, an event
	AnswerAmount              // how much, how many, how high: a number or a word that stands for one
	AnswerPerson              // who
	AnswerPlace               // where
	AnswerYesNo               // is it, does it
)

// answerTypeByPhrase maps question words and phrases to what they ask for.
var answerTypeByPhrase = func() map[string]AnswerType {
	out := map[string]AnswerType{}
	for kind, phrases := range map[AnswerType]string{
		AnswerExtent: `how long|for how long|wie lang|wie lange|combien de temps|pendant combien de temps|quelle est la durée|
			cuánto tiempo|cuanto tiempo|cuánto dura|cuanto dura|quanto tempo|quanto dura|hoe lang`,
		AnswerTime: `when|what year|which year|what date|which date|what day|which day|what month|which month|what time|what century|which century|
			wann|in welchem jahr|an welchem tag|in welchem monat|um wie viel uhr|quand|à quelle date|quelle date|en quelle année|à quelle heure|
			cuándo|en qué año|en qué fecha|qué día|a qué hora|quando|in che anno|in quale anno|em que ano|a che ora|a que horas|wanneer|in welk jaar|hoe laat`,
		AnswerAmount: `how much|how many|how high|how tall|how heavy|how fast|how deep|how wide|how large|how big|how old|what percentage|
			which percentage|what percent|wie viel|wie viele|wieviel|wieviele|wie hoch|wie schwer|wie schnell|wie tief|wie breit|wie groß|wie alt|wie teuer|
			combien|cuánto|cuánta|cuántos|cuántas|quanto|quanta|quanti|quante|quantos|quantas|hoeveel|hoe hoog|hoe zwaar|hoe oud|hoe groot|hoe duur`,
		AnswerPerson: `who|whose|whom|wer|wen|wem|wessen|quién|quiénes|quem|qui est|qui a|qui était|qui sont`,
		AnswerPlace:  `where|wo|woher|wohin|où|dónde|adónde|dove|onde|waar|waarheen`,
	} {
		for p := range strings.SplitSeq(phrases, "|") {
			out[strings.Join(strings.Fields(p), " ")] = kind
		}
	}
	return out
}()

// Words that ask only at the beginning of a question, and mean something else inside it.
var (
	answerTypeAtStart = map[string]AnswerType{"chi": AnswerPerson, "wie is": AnswerPerson, "wie was": AnswerPerson, "wie heeft": AnswerPerson,
		"qui": AnswerPerson, "quien": AnswerPerson, "cuando": AnswerTime, "donde": AnswerPlace, "cuanto": AnswerAmount, "cuantos": AnswerAmount,
		"cuanta": AnswerAmount, "cuantas": AnswerAmount, "ou": AnswerPlace, "est ce que": AnswerYesNo}
	// otherQuestions ask for anything, whatever words follow in the question.
	otherQuestions = set(`what which why how was welche welcher welches welchen warum wieso weshalb quel quelle quels quelles que pourquoi comment
		qué cuál cuáles cómo che quale quali perché come qual quais porque como wat welk welke waarom hoe`)
	// auxiliaries begin questions that are answered by yes or no.
	auxiliaries = set(`is are am was were do does did can could may might must shall should will would has have had isn't aren't doesn't don't didn't can't
		ist sind war waren hat haben hatte darf dürfen kann können muss müssen soll sollen wird werden gibt`)
	// subjects follow the English "was", but not the German one.
	subjects = set(`the a an it he she they this that these those there his her their its our your my any all some one`)
	// alternatives turn a question that begins like one for yes or no into a choice.
	alternatives = set(`or oder`)
)

// ExpectedAnswerType returns what a question asks for.
func ExpectedAnswerType(question string) AnswerType {
	all := askedWords(question)
	for i := range all {
		if i > 0 && otherQuestions[all[i-1]] && i == 1 {
			// "What was ... when ..." asks for anything; "what year" was matched before.
			return AnswerAnything
		}
		for n := min(4, len(all)-i); n > 0; n-- {
			phrase := strings.Join(all[i:i+n], " ")
			if kind, ok := answerTypeByPhrase[phrase]; ok && (n > 1 || i == 0 || asksAfterFirst(phrase, i)) {
				return kind
			}
			if kind, ok := answerTypeAtStart[phrase]; ok && i == 0 {
				return kind
			}
		}
		if i == 0 && auxiliaries[all[0]] && asksYesNo(all) {
			return AnswerYesNo
		}
	}
	return AnswerAnything
}

// asksAfterFirst reports whether a single question word that is not the first word asks. Words that
// also begin clauses ask only after one other word ("By when").
func asksAfterFirst(word string, i int) bool {
	switch word {
	case "when", "where", "who", "whose", "whom", "wo", "qui", "dove", "quando", "onde": // they also begin clauses
		return i == 1
	}
	return true
}

func asksYesNo(all []string) bool {
	for _, w := range all {
		if alternatives[w] {
			return false
		}
	}
	return len(all) > 2 && (all[0] != "was" || subjects[all[1]])
}

// askedWords returns the words of a question in lower case.
func askedWords(question string) []string {
	var out []string
	for it := words.FromString(strings.ReplaceAll(question, "’", "'")); it.Next(); {
		if w := it.Value(); hasLetterOrDigit(w) {
			out = append(out, strings.ToLower(w))
		}
	}
	return out
}

// Fits reports whether the part r of s is of the kind that a question asks for. The text around it
// counts where it has the unit of a number, or shows that the number is that of a clause.
func (a AnswerType) Fits(s string, r Range) bool {
	if a == AnswerAnything {
		return true
	}
	if reference(s, r) {
		return false
	}
	p := partsOf(r.Of(s))
	switch a {
	case AnswerExtent:
		return p.unit || p.period || p.number && (unitFollows(s[r.End:]) || unitPrecedes(s[:r.Start]))
	case AnswerTime:
		return p.time || p.period || !p.number && p.word && !p.money
	case AnswerAmount:
		return p.number && !p.date() || p.quantifier
	case AnswerPerson, AnswerPlace:
		return p.word
	case AnswerYesNo:
		return p.yesNo
	}
	return true
}

// parts describes what a short answer consists of.
type parts struct {
	number     bool // in digits or words
	quantifier bool // half, none, several
	unit       bool // of time or length
	time       bool // a year, a month, an hour, a weekday
	year       bool // in four digits
	calendar   bool // a month or a weekday by its name
	period     bool // until, since, for ever
	money      bool
	word       bool // any other word
	yesNo      bool // it begins with yes or no
}

// date reports whether the parts are a date with its year and nothing else.
func (p *parts) date() bool { return p.calendar && p.year && !p.unit && !p.money && !p.word }

func partsOf(s string) parts {
	var p parts
	for it := words.FromString(s); it.Next(); {
		for w := range strings.FieldsFuncSeq(strings.ToLower(it.Value()), func(r rune) bool { return r == '-' || r == '–' || r == '/' }) {
			p.add(w)
		}
	}
	p.money = p.money || strings.ContainsAny(s, "€$£¥%")
	p.time = p.time || clock.MatchString(s)
	start, _, _ := strings.Cut(strings.ToLower(s), ",")
	p.yesNo = yesNo[strings.Trim(start, " .!;:")]
	return p
}

func (p *parts) add(w string) {
	value, unit, _ := numberOf(w)
	numeral := value != "" || spelled[w]
	switch {
	case !hasLetterOrDigit(w):
		return
	case year(w) || ordinalDay(w) || len(strings.TrimLeft(w, "0123456789")) == 0 && len(w) > 4 || thousands.MatchString(w): // "74,000 years ago"
		p.number, p.time, p.year = true, true, p.year || year(w)
	case numeral:
		p.number = true
		p.unit = p.unit || extents[unit]
		p.time = p.time || unit == "am" || unit == "pm"
	case calendar[w]:
		p.time, p.calendar = true, true
	case extents[w]:
		p.unit, p.period = true, true
	case periods[w]:
		p.period = true
	case moneys[w]:
		p.money = true
	case quantifiers[w]:
		p.quantifier = true
	case measures[w], particles[w], stopWords[w]:
	case unicode.IsDigit(rune(w[0])): // a number with its measure as one word
		p.number = true
	default:
		p.word = true
	}
}

func year(w string) bool {
	w = strings.TrimSuffix(strings.TrimSuffix(w, "s"), "'")
	if len(w) != 4 || w[0] != '1' && w[0] != '2' {
		return false
	}
	return strings.Trim(w, "0123456789") == ""
}

// ordinalDay reports whether w is like "1st" or "20th", as of a day or a century.
func ordinalDay(w string) bool {
	for _, ending := range []string{"st", "nd", "rd", "th"} {
		if n, ok := strings.CutSuffix(w, ending); ok && n != "" && strings.Trim(n, "0123456789") == "" {
			return true
		}
	}
	return false
}

var thousands = regexp.MustCompile(`^[0-9]{1,3}([.,][0-9]{3})+$`)

// clock matches a time or a date written in digits: "10:30", "7h30", "12.03.2024".
var clock = regexp.MustCompile(`\b[0-9]{1,2}([:h][0-9]{2}|\.[0-9]{1,2}\.([0-9]{2}){0,2})`)

// unitFollows reports whether one of the next words of s is the unit of the number before them.
func unitFollows(s string) bool {
	s, _, _ = strings.Cut(s, "\n")
	n := 0
	for it := words.FromString(s); it.Next() && n < 3; {
		for w := range strings.FieldsFuncSeq(strings.ToLower(it.Value()), func(r rune) bool { return r == '-' }) {
			if extents[w] {
				return true
			}
			if hasLetterOrDigit(w) {
				n++
			}
		}
		if strings.ContainsAny(it.Value(), ".;:!?") {
			return false
		}
	}
	return false
}

// unitPrecedes reports whether a table cell or a label before a number contains its unit: "Duration
// (days): 30".
func unitPrecedes(s string) bool {
	line := s[strings.LastIndexByte(s, '\n')+1:]
	open := strings.LastIndexByte(line, '(')
	if open < 0 || len(line)-open > 20 {
		return false
	}
	unit, _, closed := strings.Cut(line[open+1:], ")")
	return closed && extents[strings.ToLower(strings.TrimSpace(unit))]
}

// reference reports whether a part of s is the number of a clause, a figure or a page: at the
// beginning of a line, or after the word for what it numbers.
func reference(s string, r Range) bool {
	part := strings.Trim(r.Of(s), " ().:§#")
	if part == "" || strings.Trim(part, "0123456789.") != "" && len(part) > 1 || len(part) > 12 {
		return referenceWords(r.Of(s))
	}
	before := strings.TrimRight(s[:r.Start], " (\t*#|")
	if strings.HasSuffix(before, "§") || strings.Contains(r.Of(s), "§") {
		return true
	}
	last := strings.ToLower(before[strings.LastIndexFunc(before, func(c rune) bool { return !unicode.IsLetter(c) && c != '.' })+1:])
	if numbered[strings.TrimSuffix(last, ".")] {
		return true
	}
	// "7.1 Notice", "3. Fees": the number of the text on this line.
	atFront := before == "" || strings.HasSuffix(before, "\n")
	after := s[r.End:]
	rest := strings.TrimLeft(after, ".): \t")
	next, _, _ := strings.Cut(rest, "\n")
	if !atFront || strings.TrimSpace(next) == "" {
		return false
	}
	dotted := strings.Contains(part, ".") || strings.HasPrefix(after, ".") || strings.HasPrefix(after, ")")
	head := []rune(rest)[0]
	return dotted && (unicode.IsUpper(head) || !unicode.IsLetter(head) && !unicode.IsDigit(head))
}

// referenceWords reports whether a short answer is only such a number with its word: "Section 7.1".
func referenceWords(s string) bool {
	all := askedWords(s)
	if len(all) != 2 || !numbered[all[0]] {
		return false
	}
	return strings.Trim(all[1], "0123456789.") == "" || len(all[1]) == 1
}
