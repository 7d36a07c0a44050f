package text

import (
	"strings"
	"testing"
)

func TestExpectedAnswerType(t *testing.T) {
	for kind, questions := range map[AnswerType][]string{
		AnswerExtent: {"How long is the notice period?", "For how long is the warranty valid?", "In the handbook, how long is the break?", "Wie lange ist die Kündigungsfrist?",
			"Wie lang ist die Probezeit?", "Combien de temps dure le préavis ?", "¿Cuánto tiempo dura la garantía?", "Quanto dura la garanzia?", "Quanto tempo dura o aviso prévio?",
			"Hoe lang is de opzegtermijn?"},
		AnswerTime: {"When does the shop close?", "By when must I hand it in?", "In what year was the bridge built?", "What year did the war end?", "Wann schließt die Kantine?",
			"Seit wann gilt die Regel?", "Quand ferme le magasin ?", "¿Cuándo cierra la tienda?", "Quando chiude il negozio?", "Wanneer sluit de winkel?"},
		AnswerAmount: {"How much does the pump cost?", "How many days may I carry over?", "Within how many days must I report damage?", "What percentage of the staff agreed?",
			"Wie viele Tage sind es?", "Wie hoch ist die Gebühr?", "Combien coûte la pompe ?", "¿Cuántos días son?", "Quanti giorni sono?", "Hoeveel dagen zijn het?"},
		AnswerPerson: {"Who wrote the report?", "Whose signature is needed?", "To whom is it sent?", "Wer hat den Bericht geschrieben?", "Qui a écrit le rapport ?", "¿Quién lo escribió?", "Chi è il direttore?"},
		AnswerPlace:  {"Where is the canteen?", "Wo ist die Kantine?", "Woher kommt das Öl?", "Où est la cantine ?", "¿Dónde está la cantina?", "Dove si trova la mensa?", "Waar is de kantine?"},
		AnswerYesNo:  {"Is smoking allowed?", "Does the pump run dry?", "Was the bridge repaired?", "Darf man hier rauchen?", "Est-ce que la pompe est garantie ?"},
		AnswerAnything: {"", "What is the notice period?", "Why was the bridge closed when it rained?", "What did she do when the bell rang?", "Which clause says how it ends?", "How do I bake bread?",
			"Was ist die Kündigungsfrist?", "Is it red or blue?", "Name the pump.", "Was kostet das?", "通知期間はどのくらいですか？", "Сколько стоит насос?", "The pump that runs when it is dry"},
	} {
		for _, q := range questions {
			if got := ExpectedAnswerType(q); got != kind {
				t.Errorf("%q asks for %d, want %d", q, got, kind)
			}
		}
	}
}

func TestShortAnswersFitTheExpectedType(t *testing.T) {
	for _, c := range []struct {
		asked AnswerType
		text  string // the answer is between bars
		fits  bool
	}{
		{AnswerExtent, "|7.1| Notice. Either party may end the agreement with thirty days' notice.", false},
		{AnswerExtent, "7.1 Notice. Either party may end the agreement with |thirty days'| notice.", true},
		{AnswerExtent, "Notice is |30| working days.", true},
		{AnswerExtent, "Notice is given by |Section 7.1|.", false},
		{AnswerExtent, "Duration (days): |30|", true},
		{AnswerExtent, "The notice period ends |on 31 March|.", false},
		{AnswerExtent, "It lasts |until 1836|.", true},
		{AnswerExtent, "the |two-year| war", true},
		{AnswerExtent, "The bridge is |412 m| long.", true},
		{AnswerExtent, "It took |3 h| and more.", true},
		{AnswerExtent, "It is valid |indefinitely|.", true},
		{AnswerExtent, "Notice is given |in writing|.", false},
		{AnswerExtent, "Die Kündigungsfrist beträgt |drei Monate|.", true},
		{AnswerExtent, "Le préavis est de |trois mois|.", true},
		{AnswerTime, "It was built in |1990|.", true},
		{AnswerTime, "It closes at |16:30|.", true},
		{AnswerTime, "It closes |at noon|.", true},
		{AnswerTime, "It fell |after the war|.", true},
		{AnswerTime, "It fell in |the Renaissance|.", true},
		{AnswerTime, "It costs |30 euros|.", false},
		{AnswerTime, "See |7.1|", false},
		{AnswerTime, "in |the 10th century|", true},
		{AnswerTime, "|2.| The shop closes at four.", false},
		{AnswerAmount, "up to |five days|", true},
		{AnswerAmount, "|Half| of them", true},
		{AnswerAmount, "|€ 2,50|", true},
		{AnswerAmount, "|in the canteen|", false},
		{AnswerAmount, "\n|4.2| Fees\nThe fee is 30 euros.", false},
		{AnswerAmount, "The fee is |7.1| million.", true},
		{AnswerAmount, "see page |12|", false},
		{AnswerAmount, "on the break date of |24 June 2029|", false},
		{AnswerAmount, "fällt auf den |24. Juni 2029|", false},
		{AnswerAmount, "It takes |9 days in June 2029|.", true},
		{AnswerAmount, "It had |1500| in May.", true},
		{AnswerPerson, "by |Anna Smith|", true},
		{AnswerPerson, "by |the works council|", true},
		{AnswerPerson, "in |1990|", false},
		{AnswerPerson, "for |thirty days|", false},
		{AnswerPerson, "|2 March|", false},
		{AnswerPlace, "in |Port Hallam|", true},
		{AnswerPlace, "at |412 m|", false},
		{AnswerPlace, "|dock door 6|", true},
		{AnswerYesNo, "|Yes|, it is.", true},
		{AnswerYesNo, "|the pump| is", false},
		{AnswerYesNo, "|no veto| over it", false},
		{AnswerTime, "about |74,000| years ago", true},
		{AnswerAnything, "|7.1| Notice", true},
		{AnswerAnything, "||", true},
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
		ExpectedAnswerType(question)
		for kind := AnswerAnything; kind <= AnswerYesNo; kind++ {
			kind.Fits(s, Range{start, end})
		}
	})
}
