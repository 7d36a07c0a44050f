package suggest

import "strings"

var germanGrammar = &grammar{
	determiners:  set(`der die das ein eine unser unsere ihr ihre`),
	prepositions: set(`von für in im am an zu zum zur auf mit bei aus der des`),
	never: set(`es dies dieser diese dieses jener er sie wir ich du man hier dort was wer wenn weil als ob dass aber oder denn nicht kein keine
		ist sind war waren hat haben hatte wird werden wurde wurden kann können muss müssen soll sollen darf dürfen alle einige viele
		jeder jede jedes beide nichts etwas solche heute jetzt dann danach außerdem dabei damit dafür darin sonst auch noch nur
		allerdings später dennoch jedoch trotzdem anschließend schließlich zunächst deshalb daher somit zudem dadurch dagegen bereits
		inzwischen mittlerweile ursprünglich gleichzeitig hierzu hierbei insgesamt seitdem damals`),
	vague: set(`folgende folgendes ergebnis ziel grund problem frage mann frau`),
}

const (
	germanNumber = `(?:(?:etwa|rund|mindestens|höchstens|bis zu|maximal|ungefähr|ca\.|circa|nur|über) )?` +
		`(?:\d[\d.,]*|einen?|eine|zwei|drei|vier|fünf|sechs|sieben|acht|neun|zehn|elf|zwölf|vierzehn|zwanzig|dreißig|vierzig|fünfzig|sechzig)`
	germanTime   = `(?:Sekunden?|Minuten?|Stunden?|Tagen?|Tage?|Werktagen?|Arbeitstagen?|Wochen?|Monate?n?|Jahre?n?)\b`
	germanMoment = `(?:\d{1,2}\. ?(?:\d{1,2}\.|Januar|Februar|März|April|Mai|Juni|Juli|August|September|Oktober|November|Dezember)|(?:1[0-9]|20)\d\d\b|` +
		`(?:Januar|Februar|März|April|Mai|Juni|Juli|August|September|Oktober|November|Dezember) \d{4}\b)`
)

func german() []rule {
	return []rule{
		{kind: When, grammar: germanGrammar, make: whenGerman,
			pattern: sentence(anySubject + ` (?P<be>wurden?) (?P<gap>[^,;:()]{0,60}?` + germanMoment + `(?: [^,;:()]{0,60}?)?) (?P<part>\p{Ll}*(?:ge|be|ver|er|ent|zer|über|unter)\p{Ll}+(?:t|en))`)},
		{kind: Extent, grammar: germanGrammar, question: "Wie lang ist %subject?",
			pattern: sentence(anySubject + ` beträgt ` + germanNumber + ` ` + germanTime + `.*`)},
		{kind: Amount, grammar: germanGrammar, question: "Wie hoch ist %subject?",
			pattern: sentence(anySubject + ` beträgt ` + germanNumber + ` ?(?:%|Prozent|Euro|EUR|€).*`)},
		{kind: Extent, grammar: germanGrammar, question: "Wie lange %verb %subject?",
			pattern: sentence(anySubject + ` (?P<verb>dauert|dauern) ` + germanNumber + ` ` + germanTime + `.*`)},
		{kind: Amount, grammar: germanGrammar, question: "Wie viel %verb %subject?",
			pattern: sentence(anySubject + ` (?P<verb>kostet|kosten|wiegt|wiegen) ` + germanNumber + `.*`)},
		{kind: Definition, grammar: germanGrammar, question: "Was ist %subject?",
			pattern: sentence(`(?P<subject>(?:(?:Der|Die|Das|Ein|Eine) )?\p{Lu}[\p{L}-]+(?: \p{Lu}[\p{L}-]+)?) ist (?:ein|eine) (?:[\p{Ll}-]+e[rsn]? )?\p{Lu}\p{L}{3,}.{10,}`)},
	}
}

// whenGerman asks when something was done. After "und" the date may belong to something else.
func whenGerman(m map[string]string) string {
	if strings.Contains(m["gap"], " und ") {
		return ""
	}
	return "Wann " + m["be"] + " " + m["subject"] + " " + m["part"] + "?"
}
