package suggest

import (
	"regexp"
	"strings"
)

var englishGrammar = &grammar{
	determiners:  set(`the a an our your its their`),
	prepositions: set(`of for in at to on with from by under over between against during within`),
	never: set(`it this that these those he she they we you i there here which who whom whose what when where why how if as because since
		although though while but or so not no is are was were be been being has have had do does did will would can could may might
		must shall should however moreover furthermore therefore thus also then now today usually often sometimes always never all
		some most many few each every both either neither none nothing one such same next last first second finally instead
		its their his her my me us them him only even just still yet else more less than another further`),
	vague: set(`other others rest result following former latter answer thing things way case point`),
}

const (
	englishBe     = `(?P<be>is|are|was|were)`
	englishAbout  = `(?:(?:about|around|at least|at most|up to|no more than|not more than|exactly|approximately|only|just|over|under|more than|less than|a minimum of|a maximum of) )?`
	englishNumber = `(?:\d[\d.,]*|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|fifteen|twenty|thirty|forty|fifty|sixty|ninety|half an?|one|an?)` +
		`(?:[- ](?:hundred|thousand|million|billion|half|and a half|one|two|three|four|five|six|seven|eight|nine))?`
	englishTime = `(?:(?:working|calendar|business|consecutive|full|more) )?(?:seconds?|minutes?|hours?|days?|nights?|weeks?|months?|years?)\b`
	englishUnit = `(?:%|‰|°C|°F|percent\b|per cent\b|degrees\b|million\b|billion\b|euros?\b|pounds?\b|dollars?\b|pence\b|cents?\b|EUR\b|USD\b|GBP\b|CHF\b|` +
		`[kcm]?m\b|[km]?g\b|tonnes?\b|tons?\b|lit(?:re|er)s?\b|(?:kilo|centi|milli)?met(?:re|er)s?\b|miles?\b|feet\b|inches\b|bar\b|Nm\b|kWh?\b|V\b|A\b|Hz\b|[KMGT]B\b|[km]?l\b|` +
		`employees\b|people\b|pages\b|points?\b)`
	englishAmount = englishAbout + `(?:[£$€] ?\d[\d.,]*|(?:EUR|USD|GBP|CHF) \d[\d.,]*|` + englishNumber + ` ?` + englishUnit + `)`
	englishMonth  = `(?:January|February|March|April|May|June|July|August|September|October|November|December)`
	englishDay    = `(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)days?`
	englishMoment = `(?:(?:the )?(?:\d{1,2}(?:st|nd|rd|th)?(?: of)? )?` + englishMonth + `\b|` + englishDay + `\b|\d{1,2}[:.]\d\d\b|\d{1,2} ?[ap]\.?m\b|(?:1[0-9]|20)\d\d\b|noon\b|midnight\b|(?:early|late|mid) ` + englishMonth + `)`
	englishWhen   = `(?P<when>in|on|at|by|since|until|from|every|before|after|between) ` + englishMoment
	englishPart   = `(?P<part>[a-z]+ed|built|made|held|written|sold|bought|begun|set up|set|sent|paid|due|open|closed|born|taken|given|drawn up|published)`
	englishRole   = `(?i:manager|director|officer|chair|chairman|chairwoman|secretary|president|minister|owner|author|founder|editor|representative|supervisor|coordinator|leader|head)`
)

func english() []rule {
	return []rule{
		{kind: Reason, grammar: englishGrammar, question: "Why %be %subject %rest?",
			pattern: sentence(anySubject + ` ` + englishBe + ` (?P<rest>(?:not |never )?(?:[a-z]+ed|built|made|sold|chosen|closed)(?: [^,;:()]{0,40}?)?),? because .{10,}`)},
		{kind: When, grammar: englishGrammar, make: whenEnglish,
			pattern: sentence(anySubject + ` ` + englishBe + ` ` + englishPart + `(?: [^,;:()]{0,90}?)? ` + englishWhen + `.*`)},
		{kind: Extent, grammar: englishGrammar, question: "Within what time %modal %subject %rest?",
			pattern: sentence(anySubject + ` (?P<modal>must|shall|should|will) (?P<rest>[a-z][^,;:()]{3,60}?) within ` + englishAbout + englishNumber + ` ` + englishTime + `.*`)},
		{kind: Extent, grammar: englishGrammar, make: lengthEnglish,
			pattern: sentence(anySubject + ` ` + englishBe + ` ` + englishAbout + englishNumber + ` ` + englishTime + `(?P<rest>.*)`)},
		{kind: Extent, grammar: englishGrammar, make: verbEnglish("How long"),
			pattern: sentence(anySubject + ` (?P<verb>lasts?|takes?) ` + englishAbout + englishNumber + ` ` + englishTime + `.*`)},
		{kind: Amount, grammar: englishGrammar, make: verbEnglish("How much"),
			pattern: sentence(anySubject + ` (?P<verb>costs?|weighs?) ` + englishAmount + `.*`)},
		{kind: Amount, grammar: englishGrammar, make: amountEnglish,
			pattern: sentence(anySubject + ` ` + englishBe + ` ` + englishAmount + `(?P<rest>.*)`)},
		{kind: Place, grammar: englishGrammar, make: locationEnglish,
			pattern: sentence(anySubject + ` ` + englishBe + ` (?P<part>located|situated|kept|stored|buried|based) (?P<where>(?:in|at|on|under|near|behind|beside) .*)`)},
		{kind: Person, grammar: englishGrammar, question: "Who %be %subject?",
			pattern: sentence(`(?P<subject>(?:The|Our) (?:[A-Za-z-]+ ){0,3}` + englishRole + `(?: of (?:the )?[A-Za-z ]{3,30}?)?) (?P<be>is|was) (?:(?:Dr|Mr|Mrs|Ms|Prof)\.? )?\p{Lu}\p{Ll}+ \p{Lu}[\p{Ll}']+(?:,? .*)?`)},
		{kind: Definition, grammar: englishGrammar, question: "What does “%subject” mean?",
			pattern: sentence(`["“](?P<subject>[A-Z][A-Za-z -]{2,40})["”] (?:means|refers to) .{15,}`)},
		{kind: Definition, grammar: englishGrammar, make: definitionEnglish,
			pattern: sentence(anySubject + ` ` + `(?P<be>is|was)` + ` (?P<what>an? .{15,})`)},
		{kind: Definition, grammar: englishGrammar, question: "What are %subject?",
			pattern: sentence(`(?P<subject>[A-Z][a-z-]+(?: [a-z-]+)?s) are (?:[a-z-]+ )?[a-z]+s (?:that|which|used) .{10,}`)},
	}
}

func whenEnglish(m map[string]string) string {
	asks := map[string]string{"since": "Since when", "until": "Until when", "by": "By when"}[m["when"]]
	if asks == "" {
		asks = "When"
	}
	return asks + " " + m["be"] + " " + m["subject"] + " " + m["part"] + "?"
}

// noLength matches the text after a number of years or minutes that is an age or a point in time,
// not a length.
var noLength = regexp.MustCompile(`^ (?:old|ago|away|late|early|ahead|before|after|apart|younger|older)\b`)

func lengthEnglish(m map[string]string) string {
	if noLength.MatchString(m["rest"]) {
		return ""
	}
	if strings.HasSuffix(m["subject"], " age") {
		return "What " + m["be"] + " " + m["subject"] + "?"
	}
	return "How long " + m["be"] + " " + m["subject"] + "?"
}

// verbEnglish returns a function that asks with the verb, which must agree with do or does.
func verbEnglish(asks string) func(map[string]string) string {
	return func(m map[string]string) string {
		verb, singular := strings.CutSuffix(m["verb"], "s")
		do := "do"
		if singular {
			do = "does"
		}
		return asks + " " + do + " " + m["subject"] + " " + verb + "?"
	}
}

// noAmount matches the text after a number that is a measure of the subject, such as its height,
// and not an amount of it.
var noAmount = regexp.MustCompile(`^ (?:long|wide|high|tall|deep|thick|old|away|from|north|south|east|west|above|below)\b|^ \([^)]*\) (?:long|wide|high|tall|deep|north|south|east|west)`)

// basedAt matches where something is based. Something may also be based on or in what is not a
// place.
var basedAt = regexp.MustCompile(`^(?:in|at|near) (?:the )?\p{Lu}`)

func locationEnglish(m map[string]string) string {
	if m["part"] == "based" && !basedAt.MatchString(m["where"]) {
		return ""
	}
	return "Where " + m["be"] + " " + m["subject"] + " " + m["part"] + "?"
}

// amountEnglish asks for a quantity by its name: "the minimum cover". A subject without an article
// may be a person.
func amountEnglish(m map[string]string) string {
	first, _, several := strings.Cut(m["subject"], " ")
	if !several || noAmount.MatchString(m["rest"]) || first != "the" && first != "our" && first != "your" {
		return ""
	}
	return "What " + m["be"] + " " + m["subject"] + "?"
}

var (
	name      = regexp.MustCompile(`^(?:Dr |Prof |Sir )?\p{Lu}[\p{Ll}.'-]+(?: (?:de |van |von )?\p{Lu}[\p{L}.'-]+){0,3}$`)
	aPerson   = regexp.MustCompile(`^an? (?:[\p{L}-]+ ){0,4}?(?:[a-z]+(?:ist|ian|grapher|wright)|citizen|writer|author|poet|painter|composer|engineer|teacher|doctor|lawyer|actor|actress|singer|politician|king|queen|soldier|merchant|explorer|historian|manager|director)\b`)
	something = regexp.MustCompile(`^an? (?:(?:very|good|great|bad|little|nice|new|big|simple|clear|common|different|certain|real|similar|separate) )?(?:lot|few|bit|matter|good|bad|problem|pity|shame|mistake|fact|result|reason|question|way|sign|part|piece|member|must|requirement|risk|success|failure|challenge|must-have|surprise|man|woman|boy|girl)\b`)
)

func definitionEnglish(m map[string]string) string {
	switch {
	case something.MatchString(m["what"]):
		return ""
	case name.MatchString(m["subject"]) && aPerson.MatchString(m["what"]):
		return "Who " + m["be"] + " " + m["subject"] + "?"
	case m["be"] == "was" && strings.HasPrefix(m["subject"], "the "):
		return "" // "the evening was a quiet one": a story
	}
	return "What " + m["be"] + " " + m["subject"] + "?"
}
