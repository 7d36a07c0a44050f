package text_test

import (
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/text"
)

func TestSupported(t *testing.T) {
	const leave = "You may carry over up to five days of unused annual leave into the next year, which must be taken by 31 March."
	for _, c := range []struct {
		name, sentence, question, quote, context string
		added, whole                             float64 // minimum
		contradicts                              string
	}{
		{"a short answer", "Five days.", "How many days can I carry over?", leave, "", 1, 1, ""},
		{"digits for words", "You can carry over 5 days.", "How many days can I carry over?", leave, "", 1, 1, ""},
		{"another number", "You can carry over six days.", "How many days can I carry over?", leave, "", 0, 0, "number"},
		{"another date", "It must be taken by 30 March.", "", leave, "", 0, 0, "number"},
		{"denied", "You may not carry over unused annual leave.", "Can I carry over leave?", leave, "", 0, 0, "negation"},
		{"the quote denies", "Employees may smoke in the office.", "", "Employees may not smoke in the office.", "", 0, 0, "negation"},
		{"both deny", "Smoking is not allowed in the office.", "", "Employees are never allowed to smoke in an office.", "", 1, 0.7, ""},
		{"denied by another word", "The company has no debt.", "", "The company is free of debt.", "", 0.5, 0.5, ""},
		{"a name from nowhere", "The rule was made by Mr Smith.", "Who made the rule?", "The rule was made by Mr Jones.", "", 0, 0, "name"},
		{"a name of the title", "Acme allows five days.", "", "Five days are allowed.", "Acme handbook", 1, 1, ""},
		{"another year than asked for", "Profit was 5 million in 2022.", "What was the profit in 2022?", "In 2021 the profit was 5 million.", "", 0, 0, "number"},
		{"a year of the heading", "Profit was 5 million in 2022.", "What was the profit in 2022?", "The profit was 5 million.", "Report of 2022", 1, 1, ""},
		{"another model than asked for", "The EU has MP5 patents free.", "Where are MP5 patents free?", "MP3 patents are free in the EU.", "", 0, 0, "number"},
		{"another year of four digits", "It was renamed in Rome in 5995.", "Where was it renamed in 5995?", "It was renamed in Rome, in 1995.", "", 0, 0, "number"},
		{"a number like the one asked for", "Guns of 95 and 120 mm were used in 1950.", "When were 95 and 120 mm guns used?", "The 90 mm and 120 mm guns were used until 1950.", "", 0, 0, "number"},
		{"a number that the quote does not repeat", "They had 12 ships at Rhodes.", "Where did the 12 ships lie?", "The ships lay at Rhodes for 365 days.", "", 1, 0.5, ""},
		{"the answer's clause is denied", "A chartered flight moved the supplies.", "What moved the supplies?", "A flight, of all things, was not chartered for the supplies.", "", 0, 0, "negation"},
		{"another clause is denied", "Wrigley built a ballpark to house the Cubs.", "What did Wrigley build to house the Cubs?", "Wrigley built a ballpark to house the Cubs: it was not of the same size as the old field.", "", 1, 1, ""},
		{"not only", "The strike spread to Ohio.", "Where did the strike spread?", "The strike that spread soon, and not only to Ohio, was the first one.", "", 1, 1, ""},
		{"large numbers", "It cost 2.5 million euros.", "", "It cost €2,500,000, in euros.", "", 1, 1, ""},
		{"in words", "It has twenty-five pumps.", "", "It has 25 pumps.", "", 1, 1, ""},
		{"percent", "Sales rose 12%.", "", "Sales rose by 12 percent.", "", 1, 1, ""},
		{"the opposite", "Sales decreased in spring.", "", "Sales increased in spring.", "", 0, 0, "opposite"},
		{"words of a family", "He invented the telephone.", "", "The invention of the telephone was his.", "", 1, 1, ""},
		{"something else", "The canteen opens at eight.", "", leave, "", 0, 0, "number"},
		{"no content", "Yes.", "May I?", leave, "", 0, 0, ""},
		{"nothing", "", "", "", "", 1, 1, ""},
		{"German", "Die Kantine öffnet nicht am Freitag.", "", "Die Kantine öffnet am Freitag.", "", 0, 0, "negation"},
		{"other digits", "It has ٢٥ pumps.", "", "It has 25 pumps.", "", 1, 1, ""},
	} {
		got := text.Supported(c.sentence, c.question, c.quote, c.context)
		if got.Added < c.added || got.Whole < c.whole {
			t.Errorf("%s: got %+v", c.name, got)
		}
		said := ""
		for name, is := range map[string]bool{"number": got.Number, "name": got.Name, "negation": got.Negation, "opposite": got.Opposite} {
			if is {
				said += name
			}
		}
		if said != c.contradicts || got.Contradicts() != (said != "") {
			t.Errorf("%s: contradicts by %q, want %q: %+v", c.name, said, c.contradicts, got)
		}
	}
}

// TestSupportedTakesAnyText: hostile text may be long and without any sentence end.
func TestSupportedTakesAnyText(t *testing.T) {
	for _, s := range []string{strings.Repeat("not ", 20_000), strings.Repeat("1 ", 20_000), strings.Repeat("\u202e\u200b", 1000), "\xff\xfe", strings.Repeat("a", 1<<20)} {
		text.Supported(s, s, s, s)
		text.Supported("It is not one of 5 pumps.", "", s, "")
	}
}

func FuzzSupported(f *testing.F) {
	f.Add("It has 25 pumps.", "How many?", "It has twenty-five pumps, not 30.")
	f.Fuzz(func(t *testing.T, sentence, question, quote string) {
		s := text.Supported(sentence, question, quote, "")
		if !(s.Added >= 0 && s.Added <= 1 && s.Whole >= 0 && s.Whole <= 1) {
			t.Errorf("got %+v", s)
		}
	})
}
