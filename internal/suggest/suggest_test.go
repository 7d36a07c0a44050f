package suggest

import (
	"slices"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/schema"
)

// texts surround the sentences of a language, so that the language is clear.
var texts = map[string]string{
	"en": "This is what we have found out about plans that were lost, and what is to be done with it by all of those who are here. ",
	"de": "Das ist es, was wir von den anderen und mit der Hilfe des Hauses auf dem Weg in die Stadt nicht und auch nicht wissen. ",
	"fr": "C’est dans la ville et avec les gens que le travail est fait, pour que des enfants puissent aller sur la place du marché. ",
	"es": "En la ciudad y con los vecinos se hizo el trabajo para que los niños no se queden en las calles por la noche del día. ",
}

func questionsOf(language, sentence string) []string {
	var out []string
	for _, q := range Questions("d", []schema.Section{{Text: texts[language] + sentence}}) {
		out = append(out, q.Text)
	}
	return out
}

func TestSentencesSuggestQuestions(t *testing.T) {
	for _, c := range []struct{ language, sentence, want string }{
		{"en", "Kestermoor Pumps Ltd was founded in 1974 by Edwin and Marjorie Kester in a former dye house.", "When was Kestermoor Pumps Ltd founded?"},
		{"en", "Your network account is closed at 18:00 on the last working day.", "When is your network account closed?"},
		{"en", "Plans for the relay were announced on April 26, 2007, in Beijing.", "When were plans for the relay announced?"},
		{"en", "The certificate is issued by March 31 at the latest.", "By when is the certificate issued?"},
		{"en", "Lost devices must be reported on extension 2444 within two hours, at any time of day.", "Within what time must lost devices be reported on extension 2444?"},
		{"en", "The probationary period is six months for all new employees.", "How long is the probationary period?"},
		{"en", "The drive to Port Hallam takes about an hour in good weather.", "How long does the drive to Port Hallam take?"},
		{"en", "The pump weighs 9.8 kg with a plastic head.", "How much does the pump weigh?"},
		{"en", "The minimum cover is 5 million pounds.", "What is the minimum cover?"},
		{"en", "The median age was 28 years in the last census.", "What was the median age?"},
		{"en", "The disease is called hairy cell leukemia because the cells look hairy under a microscope.", "Why is the disease called hairy cell leukemia?"},
		{"en", "The spare keys are kept in the safe behind the reception.", "Where are the spare keys kept?"},
		{"en", "The Works Manager is Janet Ouseley.", "Who is the Works Manager?"},
		{"en", "An alloy is a mixture of metals or of a metal and another element.", "What is an alloy?"},
		{"en", "Marie Curie was a Polish and French physicist and chemist who worked on radioactivity.", "Who was Marie Curie?"},
		{"en", "“Confidential Information” means all information that one party gives to the other.", "What does “Confidential Information” mean?"},
		{"en", "4.2 The deposit is £2,500 and is paid on signature.", "What is the deposit?"},
		{"de", "Die meisten Gebäude der Altstadt wurden im Jahr 1944 zerstört.", "Wann wurden die meisten Gebäude der Altstadt zerstört?"},
		{"de", "Die Kündigungsfrist beträgt drei Monate zum Quartalsende.", "Wie lang ist die Kündigungsfrist?"},
		{"de", "Die Jahresgebühr beträgt 45 Euro und ist im Januar fällig.", "Wie hoch ist die Jahresgebühr?"},
		{"de", "Die Probezeit dauert sechs Monate.", "Wie lange dauert die Probezeit?"},
		{"de", "Die Komplexitätstheorie ist ein Zweig der Berechnungstheorie in der Informatik.", "Was ist die Komplexitätstheorie?"},
		{"fr", "La visite guidée du musée dure 45 minutes.", "Combien de temps dure la visite guidée du musée ?"},
		{"fr", "L’adhésion annuelle coûte 30 euros.", "Combien coûte l’adhésion annuelle ?"},
		{"fr", "La photosynthèse est un processus par lequel les plantes vertes fabriquent des sucres.", "Qu’est-ce que la photosynthèse ?"},
		{"es", "La biblioteca municipal fue fundada en 1898.", "¿Cuándo fue fundada la biblioteca municipal?"},
		{"es", "La visita guiada dura 45 minutos.", "¿Cuánto tiempo dura la visita guiada?"},
		{"es", "La entrada general cuesta 12 euros.", "¿Cuánto cuesta la entrada general?"},
	} {
		if got := questionsOf(c.language, c.sentence); !slices.Equal(got, []string{c.want}) {
			t.Errorf("%s: %q, want %q", c.sentence, got, c.want)
		}
	}
}

// TestOtherSentencesSuggestNothing: a wrong question is worse than none.
func TestOtherSentencesSuggestNothing(t *testing.T) {
	for _, c := range []struct{ language, sentence string }{
		{"en", "It was built in 1990 by two brothers."},
		{"en", "In 1990 the company was founded in a shed."},
		{"en", "Every year the alarm is tested on Monday."},
		{"en", "The bridge is 40 years old and still in use."},
		{"en", "The zone is about 66 km long and 20 km wide."},
		{"en", "American Idol was based on the British show Pop Idol."},
		{"en", "The result was a disaster for everybody who took part in it."},
		{"en", "The prince was a proud young man of great beauty."},
		{"en", "Name | was founded in 1990 | Leeds."},
		{"en", "The boy was 12 when his father left."},
		{"en", "Targeted therapy Targeted therapy is a type of treatment that uses drugs."},
		{"de", "Allerdings wurden nach der Saison 2014 alle gesperrt."},
		{"de", "Die Börse wurde im Jahr 1817 gegründet und bis zum Krieg weitergeführt."},
		{"de", "Es dauert drei Wochen, bis alles trocken ist."},
		{"fr", "Il coûte 30 euros par an."},
		{"es", "Esto dura 45 minutos como mucho."},
	} {
		if got := questionsOf(c.language, c.sentence); len(got) > 0 {
			t.Errorf("%s: %q", c.sentence, got)
		}
	}
}

// TestTextsOfOtherLanguages: no rules are applied to their sentences, but their questions are
// found.
func TestTextsOfOtherLanguages(t *testing.T) {
	for _, s := range []string{
		"La biblioteca comunale è stata fondata nel 1898. La visita dura 45 minuti e il biglietto costa 12 euro, con uno sconto per gli studenti della città.",
		"A biblioteca municipal foi fundada em 1898. A visita dura 45 minutos e o bilhete custa 12 euros, com desconto para os estudantes da cidade.",
		"De bibliotheek is in 1898 opgericht. Het bezoek duurt 45 minuten en een kaartje kost 12 euro, met korting voor de studenten van de stad.",
		"Biblioteket grundades 1898 och är ett av de äldsta i landet. Ett besök tar 45 minuter och det kostar inte mer än en kopp kaffe för den som är student.",
		"Библиотека была основана в 1898 году. Экскурсия длится 45 минут.",
		"图书馆成立于1898年。参观需要45分钟。",
		"",
	} {
		for _, q := range Questions("d", []schema.Section{{HeadingPath: []string{"Biblioteca"}, Text: s}}) {
			t.Errorf("%.40s: %q", s, q.Text)
		}
	}
	const asked = "Hur länge är biblioteket öppet?"
	got := Questions("d", []schema.Section{{HeadingPath: []string{asked}, Text: "Det är öppet till klockan 18."}})
	if len(got) != 1 || got[0].Text != asked || got[0].Kind != Asked {
		t.Errorf("%+v", got)
	}
}

func TestHeadings(t *testing.T) {
	for _, c := range []struct{ language, heading, want string }{
		{"en", "Notice periods", "What is said about “Notice periods”?"},
		{"en", "3.1 Notice periods:", "What is said about “Notice periods”?"},
		{"de", "§ Kündigungsfrist", "Was steht in den Unterlagen zu „§ Kündigungsfrist“?"},
		{"fr", "Horaires d’ouverture", "Que disent les documents sur « Horaires d’ouverture » ?"},
		{"es", "Horario de apertura", "¿Qué dicen los documentos sobre «Horario de apertura»?"},
		{"en", "Can I carry over unused leave?", "Can I carry over unused leave?"},
		{"de", "2. Wie lange dauert die Probezeit?", "Wie lange dauert die Probezeit?"},
		{"", "Orario di apertura", ""},
		{"en", "Why not?", ""},
		{"en", "Chapter 4", ""},
		{"en", "CONTENTS", ""},
		{"en", "Version 2.1 of 2025", ""},
		{"en", "reports/2025 | draft", ""},
	} {
		if got, _ := fromHeading(c.heading, c.language); got != c.want {
			t.Errorf("%s %q: %q, want %q", c.language, c.heading, got, c.want)
		}
	}
}

func TestQuestionsInATextStandAlone(t *testing.T) {
	for line, want := range map[string]string{
		"Q: How do I return a pump?":                                "How do I return a pump?",
		"¿Puedo devolver un producto dañado?":                       "¿Puedo devolver un producto dañado?",
		"“Why did you leave the house?” she asked.":                 "",
		"He was late. Why was he always so late?":                   "",
		"and what about the others who came?":                       "",
		"What is it? Where is it? When is it?":                      "",
		"Really?":                                                   "",
		strings.Repeat("What about a very long question ", 9) + "?": "",
	} {
		if got := askedBy(line); got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}

func TestOrderMixesDocumentsAndKinds(t *testing.T) {
	got := Order([]Suggestion{
		{Text: "1", Kind: Definition, Document: "a"}, {Text: "2", Kind: When, Document: "a"}, {Text: "3", Kind: When, Document: "a"},
		{Text: "4", Kind: When, Document: "b"}, {Text: "5", Kind: Amount, Document: "b"}, {Text: "6", Kind: Heading, Document: "c"},
	})
	var order []string
	for _, q := range got {
		order = append(order, q.Text)
	}
	if want := []string{"2", "5", "3", "4", "1", "6"}; !slices.Equal(order, want) {
		t.Errorf("%v, want %v", order, want)
	}
}

func FuzzQuestions(f *testing.F) {
	f.Add("Heading", "The pump weighs 9.8 kg. It is what we have to do with the thing.\nWhat is it for?")
	f.Add("¿?", "« » “” 1.2 Die Kündigungsfrist beträgt 3 Monate, und das ist nicht der die das ein.")
	f.Fuzz(func(t *testing.T, heading, s string) {
		for _, q := range Questions("d", []schema.Section{{HeadingPath: []string{heading}, Text: s}}) {
			if !strings.Contains(q.Text, "?") || len(q.Text) < minQuestion || len(q.Text) > maxQuestion || strings.ContainsAny(q.Text, "\n%") && !strings.ContainsAny(heading+s, "%") {
				t.Errorf("%q of %q", q.Text, s)
			}
		}
	})
}
