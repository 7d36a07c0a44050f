package text

// Words by which the kind of a short answer is recognised, in the languages that ExpectedAnswerType
// supports.

var (
	yesNo = set(`yes no ja nein oui non sí si não nao sim nee`)
	// spelled are spelled-out numbers that numberOf does not know.
	spelled = set(`ein eine einen einem einer eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn sechzehn zwanzig
		dreißig vierzig fünfzig sechzig siebzig achtzig neunzig hundert tausend million millionen milliarde milliarden dutzend
		un une deux trois quatre cinq sept huit neuf dix onze douze treize quatorze quinze seize vingt trente quarante cinquante soixante cent cents mille millions milliard milliards
		uno una dos tres cuatro cinco seis siete ocho nueve diez once doce quince veinte treinta cuarenta cincuenta sesenta cien ciento cientos mil millón millones
		due tre quattro cinque sei sette otto nove dieci undici dodici quindici trenta quaranta cento mila milione milioni
		um uma dois duas quatro oito dez doze vinte trinta quarenta cinquenta cem milhão milhões
		een twee drie vijf zes zeven negen tien twaalf dertig veertig vijftig honderd duizend miljoen miljard
		hundreds thousands millions billions dozens tens lakh crore`)
	quantifiers = set(`none nothing nobody all both every most half third quarter quarters double triple several few many couple some any less more fewer no free
		zero little enough unlimited single pair majority minority percent per cent percentage
		kein keine keinen keiner nichts alle beide halb hälfte doppelt mehrere viele einige wenige kostenlos unbegrenzt
		aucun aucune rien tous toutes moitié plusieurs quelques gratuit illimité ninguno ninguna nada todos todas mitad varios varias gratis
		nessuno nessuna niente tutti metà diversi alcuni gratuito nenhum nenhuma metade vários algumas geen niets allemaal beide helft enkele`)
	moneys = set(`dollar dollars cent cents euro euros eur usd gbp chf pound pounds sterling franc francs franken yen yuan rupee rupees peso pesos crown crowns real reais
		shilling shillings ruble rubles percent prozent pourcent porcentaje procent`)
	// extents are units of time and of length.
	extents = set(`second seconds sec secs minute minutes min mins hour hours hr hrs h day days week weeks fortnight fortnights weekend weekends month months quarter quarters
		semester semesters term terms season seasons year years yr yrs decade decades century centuries millennium millennia night nights morning evening generation generations
		workday workdays lifetime moment moments
		sekunde sekunden minuten std stunde stunden tag tage tagen woche wochen monat monate monaten quartal quartale quartalen jahr jahre jahren jahrzehnt jahrzehnte jahrhundert jahrhunderte
		werktag werktage werktagen arbeitstag arbeitstage arbeitstagen kalendertage monatsende quartalsende jahresende nacht nächte
		seconde secondes heure heures jour jours semaine semaines mois trimestre trimestres an ans année années siècle siècles nuit nuits
		segundo segundos minuto minutos hora horas día días dia dias semana semanas mes meses mês año años ano anos siglo siglos noche noches
		secondo secondi minuti ora ore giorno giorni settimana settimane mese mesi anno anni secolo secoli notte
		seconden minuut minuten uur uren dag dagen week weken maand maanden jaar jaren eeuw eeuwen nachten werkdagen
		mm cm m km metre metres meter meters centimetre centimetres centimeter centimeters millimetre millimetres millimeter millimeters kilometre kilometres kilometer kilometers
		mètre mètres metro metros metri mile miles foot feet ft inch inches yard yards page pages seiten seite word words wörter characters zeichen zeilen lines light league leagues nm`)
	// periods express a duration without a number.
	periods = set(`until till through throughout since forever indefinitely indefinite permanently permanent lifelong overnight annual annually daily weekly monthly yearly ongoing
		always never briefly long temporary temporarily life bis seit dauerhaft unbefristet lebenslang ewig immer jusqu jusque jusqu'à depuis toujours indéfiniment indéterminée
		hasta desde siempre indefinidamente indefinido fino sempre finché até desde sempre tot sinds altijd onbepaalde`)
	calendar = set(`january february march april may june july august september october november december jan feb mar apr jun jul aug sep sept oct nov dec
		monday tuesday wednesday thursday friday saturday sunday mon tue wed thu fri sat sun spring summer autumn fall winter noon midnight midday today yesterday
		tomorrow dawn dusk afternoon ad bc ce bce
		januar februar märz mai juni juli oktober dezember montag dienstag mittwoch donnerstag freitag samstag sonntag frühling sommer herbst mittag mitternacht uhr heute gestern morgen
		janvier février mars avril juin juillet août septembre octobre novembre décembre lundi mardi mercredi jeudi vendredi samedi dimanche printemps été automne hiver midi minuit
		enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre lunes martes miércoles jueves viernes sábado domingo primavera verano otoño invierno
		gennaio febbraio aprile maggio giugno luglio settembre ottobre dicembre lunedì martedì mercoledì giovedì venerdì sabato domenica estate autunno inverno
		janeiro fevereiro março maio junho julho setembro outubro novembro dezembro segunda terça quarta quinta sexta
		januari februari maart april mei augustus maandag dinsdag woensdag donderdag vrijdag zaterdag zondag lente zomer herfst`)
	// measures follow numbers, and name neither a person nor a place.
	measures = set(`kg g mg t lb lbs oz l ml litre litres liter liters kw mw w v a hz mhz ghz kb mb gb tb bar psi nm rpm mph kmh c f k °c °f degrees degree grad percent pct
		million billion thousand hundred bn o'clock pm am`)
	particles = set(`of the and or to from between about around approximately nearly almost over under up at least most than der die das den dem des und oder von bis zu etwa rund mindestens
		höchstens le la les l de du des et ou à environ au el los las del y o a unos il lo gli i e di da circa os as dos das het of en van ongeveer`)
	// numbered are words before a reference number, which answers nothing.
	numbered = set(`section sections sec clause clauses article articles art paragraph para chapter ch page pages p pp figure fig table tab no nr number item step part appendix annex
		schedule version abschnitt absatz artikel paragraf kapitel seite abbildung abb tabelle ziffer nummer anhang punkt klausel alinéa chapitre tableau annexe numéro point
		sección cláusula artículo capítulo página figura tabla apartado número sezione clausola articolo capitolo pagina figura tabella punto secção cláusula artigo capítulo
		bijlage hoofdstuk lid`)
)
