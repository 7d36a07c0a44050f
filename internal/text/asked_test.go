package text

import (
	"strings"
	"testing"
)

func TestWhatAQuestionAsksFor(t *testing.T) {
	for kind, questions := range map[Asked][]string{
		AskedExtent: {"How long is the notice period?", "For how long is the warranty valid?", "In the handbook, how long is the break?", "Wie lange ist die Kündigungsfrist?",
			"Wie lang ist die Probezeit?", "Combien de temps dure le préavis ?", "¿Cuánto tiempo dura la garantía?", "Quanto dura la garanzia?", "Quanto tempo dura o aviso prévio?",
			"Hoe lang is de opzegtermijn?"},
		AskedTime: {"When does the shop close?", "By when must I hand it in?", "In what year was the bridge built?", "What year did the war end?", "Wann schließt die Kantine?",
			"Seit wann gilt die Regel?", "Quand ferme le magasin ?", "¿Cuándo cierra la tienda?", "Quando chiude il negozio?", "Wanneer sluit de winkel?"},
		AskedAmount: {"How much does the pump cost?", "How many days may I carry over?", "Within how many days must I report damage?", "What percentage of the staff agreed?",
			"Wie viele Tage sind es?", "Wie hoch ist die Gebühr?", "Combien coûte la pompe ?", "¿Cuántos días son?", "Quanti giorni sono?", "Hoeveel dagen zijn het?"},
		AskedPerson: {"Who wrote the report?", "Whose signature is needed?", "To whom is it sent?", "Wer hat den Bericht geschrieben?", "Qui a écrit le rapport ?", "¿Quién lo escribió?", "Chi è il direttore?"},
		AskedPlace:  {"Where is the canteen?", "Wo ist die Kantine?", "Woher kommt das Öl?", "Où est la cantine ?", "¿Dónde está la cantina?", "Dove si trova la mensa?", "Waar is de kantine?"},
		AskedYesNo:  {"Is smoking allowed?", "Does the pump run dry?", "Was the bridge repaired?", "Darf man hier rauchen?", "Est-ce que la pompe est garantie ?"},
		AskedAnything: {"", "What is the notice period?", "Why was the bridge closed when it rained?", "What did she do when the bell rang?", "Which clause says how it ends?", "How do I bake bread?",
			"Was ist die Kündigungsfrist?", "Is it red or blue?", "Name the pump.", "Was kostet das?", "通知期間はどのくらいですか？", "Сколько стоит насос?", "The pump that runs when it is dry"},
	} {
		for _, q := range questions {
			if got := AskedFor(q); got != kind {
				t.Errorf("%q asks for %d, want %d", q, got, kind)
			}
		}
	}
}

func TestShortAnswersOfTheSortThatIsAskedFor(t *testing.T) {
	for _, c := range []struct {
		asked Asked
		text  string // the answer is between bars
		fits  bool
	}{
		{AskedExtent, "|7.1| Notice. Either party may end the agreement with thirty days' notice.", false},
		{AskedExtent, "7.1 Notice. Either party may end the agreement with |thirty days'| notice.", true},
		{AskedExtent, "Notice is |30| working days.", true},
		{AskedExtent, "Notice is given by |Section 7.1|.", false},
		{AskedExtent, "Duration (days): |30|", true},
		{AskedExtent, "The notice period ends |on 31 March|.", false},
		{AskedExtent, "It lasts |until 1836|.", true},
		{AskedExtent, "the |two-year| war", true},
		{AskedExtent, "The bridge is |412 m| long.", true},
		{AskedExtent, "It took |3 h| and more.", true},
		{AskedExtent, "It is valid |indefinitely|.", true},
		{AskedExtent, "Notice is given |in writing|.", false},
		{AskedExtent, "Die Kündigungsfrist beträgt |drei Monate|.", true},
		{AskedExtent, "Le préavis est de |trois mois|.", true},
		{AskedTime, "It was built in |1990|.", true},
		{AskedTime, "It closes at |16:30|.", true},
		{AskedTime, "It closes |at noon|.", true},
		{AskedTime, "It fell |after the war|.", true},
		{AskedTime, "It fell in |the Renaissance|.", true},
		{AskedTime, "It costs |30 euros|.", false},
		{AskedTime, "See |7.1|", false},
		{AskedTime, "in |the 10th century|", true},
		{AskedTime, "|2.| The shop closes at four.", false},
		{AskedAmount, "up to |five days|", true},
		{AskedAmount, "|Half| of them", true},
		{AskedAmount, "|€ 2,50|", true},
		{AskedAmount, "|in the canteen|", false},
		{AskedAmount, "\n|4.2| Fees\nThe fee is 30 euros.", false},
		{AskedAmount, "The fee is |7.1| million.", true},
		{AskedAmount, "see page |12|", false},
		{AskedAmount, "on the break date of |24 June 2029|", false},
		{AskedAmount, "fällt auf den |24. Juni 2029|", false},
		{AskedAmount, "It takes |9 days in June 2029|.", true},
		{AskedAmount, "It had |1500| in May.", true},
		{AskedPerson, "by |Anna Smith|", true},
		{AskedPerson, "by |the works council|", true},
		{AskedPerson, "in |1990|", false},
		{AskedPerson, "for |thirty days|", false},
		{AskedPerson, "|2 March|", false},
		{AskedPlace, "in |Port Hallam|", true},
		{AskedPlace, "at |412 m|", false},
		{AskedPlace, "|dock door 6|", true},
		{AskedYesNo, "|Yes|, it is.", true},
		{AskedYesNo, "|the pump| is", false},
		{AskedYesNo, "|no veto| over it", false},
		{AskedTime, "about |74,000| years ago", true},
		{AskedAnything, "|7.1| Notice", true},
		{AskedAnything, "||", true},
	} {
		before, rest, _ := strings.Cut(c.text, "|")
		part, after, _ := strings.Cut(rest, "|")
		r := Range{len(before), len(before) + len(part)}
		if got := c.asked.Fits(before+part+after, r); got != c.fits {
			t.Errorf("asked for %d, %q: %v, want %v", c.asked, c.text, got, c.fits)
		}
	}
}

func FuzzFits(f *testing.F) {
	f.Add("7.1 Notice. Thirty days.", "How long is it?", 0, 3)
	f.Add("§", "Wann?", 0, 2)
	f.Fuzz(func(t *testing.T, s, question string, start, end int) {
		if start < 0 || end < start || end > len(s) {
			return
		}
		AskedFor(question)
		for kind := AskedAnything; kind <= AskedYesNo; kind++ {
			kind.Fits(s, Range{start, end})
		}
	})
}
