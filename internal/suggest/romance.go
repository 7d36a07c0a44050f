package suggest

var frenchGrammar = &grammar{
	determiners:  set(`le la les un une notre nos votre vos`),
	prepositions: set(`de du des à au aux en pour sur dans avec par`),
	never: set(`il elle ils elles on nous vous je tu ce cela ceci cette cet ces ça qui que quoi dont où si comme car mais ou donc ne pas n'est
		est sont était étaient a ont peut doit tout tous toute toutes chaque certains aucun rien ici là aujourd'hui puis ensuite aussi
		c'est c'était j'ai`),
	vague:  set(`résultat but chose problème question homme femme premier dernier`),
	elides: true,
}

const (
	frenchNumber = `(?:(?:environ|au moins|au plus|jusqu'à|près de|seulement) )?(?:\d[\d.,\x{00a0}\x{202f} ]*|une?|deux|trois|quatre|cinq|six|sept|huit|neuf|dix|onze|douze|quinze|vingt|trente|quarante|soixante)`
	frenchTime   = `(?:secondes?|minutes?|heures?|jours?|nuits?|semaines?|mois|ans?|années?)\b`
)

func french() []rule {
	return []rule{
		{kind: Extent, grammar: frenchGrammar, question: "Combien de temps %verb %subject ?",
			pattern: sentence(anySubject + ` (?P<verb>dure|durent) ` + frenchNumber + ` ?` + frenchTime + `.*`)},
		{kind: Amount, grammar: frenchGrammar, question: "Combien %verb %subject ?",
			pattern: sentence(anySubject + ` (?P<verb>coûte|coûtent|pèse|pèsent) ` + frenchNumber + `.*`)},
		{kind: Definition, grammar: frenchGrammar, question: "Qu’est-ce que %subject ?",
			pattern: sentence(`(?P<subject>(?:Le|La|Les) [\p{L}'’-]+(?: (?:de |du |à )?[\p{L}'’-]+)?) est une? [\p{Ll}'’-]{4,}.{15,}`)},
		{kind: Definition, grammar: frenchGrammar, question: "Qu’est-ce qu’%subject ?",
			pattern: sentence(`(?P<subject>(?:Un|Une) [\p{L}'’-]+(?: (?:de |du |à )?[\p{L}'’-]+)?) est une? [\p{Ll}'’-]{4,}.{15,}`)},
	}
}

var spanishGrammar = &grammar{
	determiners:  set(`el la los las un una nuestro nuestra su`),
	prepositions: set(`de del a al en para por con sobre`),
	never: set(`él ella ellos ellas nosotros yo tú usted ustedes esto eso este esta estos estas ese esa aquel aquella que qué quien cuando donde
		si como pero o porque no es son era eran fue fueron ha han hay puede debe todo todos toda todas cada algunos ninguno nada
		aquí allí hoy ahora después luego también lo se`),
	vague: set(`resultado objetivo cosa problema pregunta hombre mujer primero último`),
}

const (
	spanishNumber = `(?:(?:unos|unas|al menos|como máximo|hasta|cerca de|aproximadamente|solo) )?(?:\d[\d.,]*|una?|dos|tres|cuatro|cinco|seis|siete|ocho|nueve|diez|once|doce|quince|veinte|treinta|cuarenta|sesenta)`
	spanishTime   = `(?:segundos?|minutos?|horas?|días?|noches?|semanas?|mes(?:es)?|años?)\b`
	spanishMoment = `(?:\d{1,2} de [a-z]+|(?:1[0-9]|20)\d\d\b)`
)

func spanish() []rule {
	return []rule{
		{kind: When, grammar: spanishGrammar, question: "¿Cuándo %be %part %subject?",
			pattern: sentence(anySubject + ` (?P<be>fue|fueron) (?P<part>\p{Ll}+[aio]d[oa]s?)(?: [^,;:()]{0,60}?)? en ` + spanishMoment + `.*`)},
		{kind: Extent, grammar: spanishGrammar, question: "¿Cuánto tiempo %verb %subject?",
			pattern: sentence(anySubject + ` (?P<verb>dura|duran) ` + spanishNumber + ` ` + spanishTime + `.*`)},
		{kind: Amount, grammar: spanishGrammar, question: "¿Cuánto %verb %subject?",
			pattern: sentence(anySubject + ` (?P<verb>cuesta|cuestan|pesa|pesan) ` + spanishNumber + `.*`)},
		{kind: Definition, grammar: spanishGrammar, question: "¿Qué es %subject?",
			pattern: sentence(`(?P<subject>(?:(?:El|La|Un|Una) )\p{L}+(?: (?:de |del )?\p{L}+)?) es una? \p{Ll}{4,}.{15,}`)},
	}
}
