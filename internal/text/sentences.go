package text

// Sentence boundaries. Unicode Standard Annex 29 proposes them. The rules here drop those after an
// abbreviation, an initial or a list number, inside a reference mark, and at a hard line wrap.

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/clipperhouse/uax29/v2/sentences"
)

// maxSentenceBytes is the length in bytes from which every boundary that the annex proposes is
// accepted. It keeps the time for hostile text ("Dr. A Dr. A Dr. A") linear.
const maxSentenceBytes = 4096

// Sentences returns the sentences of s. They tile s: white space after a sentence belongs to it,
// white space at the beginning to the first one. A line break ends a sentence unless the line was
// wrapped in the middle of a sentence. A heading, a list item and a table row are sentences. An
// empty s has no sentences; an s of white space only is one.
func Sentences(s string) []Range {
	if s == "" {
		return nil
	}
	out := make([]Range, 0, len(s)/80+1)
	start, end := 0, 0
	content := false // the current sentence has more than white space
	for it := sentences.FromString(s); it.Next(); {
		seg := it.Value()
		if !isSpace(seg) {
			if content && boundary(s, start, end) {
				out = append(out, refine(s, start, end)...)
				start = end
			}
			content = true
		}
		end += len(seg)
	}
	return append(out, refine(s, start, len(s))...)
}

// refine adds the boundaries that the annex misses inside one of its sentences: after reference
// marks ("... in 1990.[5] The next") that hide the full stop.
func refine(s string, start, end int) []Range {
	var out []Range
	part := s[start:end]
	for i := 0; ; {
		j := strings.Index(part[i:], "] ")
		if j < 0 {
			break
		}
		i += j + 2
		before := strings.TrimRight(part[:i], " ")
		if stripped := stripReferences(before); stripped != before && endsSentence(stripped) && startsUpper(part[i:]) {
			out = append(out, Range{start, start + i})
			start += i
			part, i = part[i:], 0
		}
	}
	return append(out, Range{start, end})
}

// boundary reports whether a sentence that began at byte start of s ends at byte end, where the
// annex has a boundary.
func boundary(s string, start, end int) bool {
	before := s[start:end]
	after := s[end:]
	body := strings.TrimRightFunc(before, unicode.IsSpace)
	gap := before[len(body):]
	if len(body) > maxSentenceBytes {
		return true
	}
	if strings.Contains(gap, "\n") {
		return lineBreakEnds(body, gap, after)
	}
	if gap == "" {
		// Without a space between them, only scripts that use no spaces have sentences; in others
		// it is a name, an address, "[5]".
		r, _ := utf8.DecodeLastRuneInString(body)
		return r > 0x2E7F
	}
	line := body[strings.LastIndexByte(body, '\n')+1:]
	if isEnumerator(strings.TrimSpace(line)) {
		return false
	}
	return !abbreviated(line, after)
}

// lineBreakEnds reports whether a sentence ends at the line break in gap.
func lineBreakEnds(body, gap, after string) bool {
	if strings.Count(gap, "\n") > 1 {
		return true
	}
	line := body[strings.LastIndexByte(body, '\n')+1:]
	if isEnumerator(strings.TrimSpace(line)) {
		return false
	}
	r, _ := utf8.DecodeRuneInString(after)
	if !unicode.IsLower(r) || utf8.RuneCountInString(line) < 40 || strings.Contains(line, " | ") {
		return true
	}
	last, _ := utf8.DecodeLastRuneInString(body)
	return !unicode.IsLetter(last) && !unicode.IsDigit(last) && last != ',' && last != '-' && last != '\''
}

// abbreviated reports whether the full stop at the end of line belongs to an abbreviation and the
// sentence continues in after.
func abbreviated(line, after string) bool {
	if !strings.HasSuffix(line, ".") || strings.HasSuffix(line, "..") {
		return false
	}
	word := line[strings.LastIndexFunc(line, func(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune("(\"'[“‘—", r) })+1:]
	if i := strings.IndexFunc(word, func(r rune) bool { return !strings.ContainsRune("(\"'[“‘—", r) }); i > 0 {
		word = word[i:]
	}
	stem := strings.TrimSuffix(word, ".")
	next, _ := utf8.DecodeRuneInString(after)
	lower := strings.ToLower(stem)
	switch {
	case titles[lower]:
		return true
	case beforeNumber[lower]:
		if unicode.IsDigit(next) {
			return true
		}
		word := firstWord(after)
		return (isRoman(word) || utf8.RuneCountInString(word) == 1) && !starters[strings.ToLower(word)]
	case months[lower] && stem != "May" && unicode.IsDigit(next):
		return true
	case isInitials(stem):
		// "J. Smith", "the U.S. Senate"; but "vitamin C. The".
		return !starters[strings.ToLower(firstWord(after))] && (unicode.IsUpper(next) || unicode.IsDigit(next))
	case abbreviations[lower]:
		return !starters[strings.ToLower(firstWord(after))]
	}
	return false
}

// isInitials reports whether stem is one capital or letters with full stops
// between them ("J", "U.S", "J.R.R", "a.m").
func isInitials(stem string) bool {
	letters := 0
	for i, r := range stem {
		if r == '.' {
			continue
		}
		if !unicode.IsLetter(r) || i > 0 && stem[i-1] != '.' {
			return false
		}
		letters++
	}
	if letters == 1 {
		r, _ := utf8.DecodeRuneInString(stem)
		return unicode.IsUpper(r)
	}
	return letters > 1
}

// isEnumerator reports whether s is only the number or bullet of a list item:
// "1.", "2.3.", "(a)", "iv.", "•", "-".
func isEnumerator(s string) bool {
	if s == "" || len(s) > 8 {
		return false
	}
	switch s {
	case "-", "*", "•", "–", "—", "·", "▪", "◦", "‣", "+":
		return true
	}
	core := strings.Trim(s, "().")
	if core == "" || core == s {
		return false
	}
	if isRoman(core) || utf8.RuneCountInString(core) == 1 {
		return true
	}
	for _, r := range core {
		if !unicode.IsDigit(r) && r != '.' {
			return false
		}
	}
	return true
}

func isRoman(s string) bool {
	if s == "" || len(s) > 6 {
		return false
	}
	return strings.Trim(s, "ivxlc") == "" || strings.Trim(s, "IVXLC") == ""
}

// stripReferences removes up to eight marks like "[5]" or "[12][13]" from the end of s.
func stripReferences(s string) string {
	for range 8 {
		tail := s[max(len(s)-8, 0):]
		i := strings.LastIndexByte(tail, '[')
		if i < 0 || !strings.HasSuffix(tail, "]") || strings.Trim(tail[i+1:len(tail)-1], "0123456789abcdefghijklmnot ") != "" {
			break
		}
		s = s[:len(s)-len(tail)+i]
	}
	return s
}

func endsSentence(s string) bool {
	s = strings.TrimRight(s, "\"')]”’»")
	if s == "" {
		return false
	}
	r, _ := utf8.DecodeLastRuneInString(s)
	return strings.ContainsRune(".!?…", r)
}

func startsUpper(s string) bool {
	s = strings.TrimLeft(s, "\"'(“‘« ")
	r, _ := utf8.DecodeRuneInString(s)
	return unicode.IsUpper(r) || unicode.IsDigit(r)
}

// firstWord returns the letters and digits at the beginning of s, after an opening quote or
// bracket.
func firstWord(s string) string {
	s = strings.TrimLeft(s, "\"'(“‘[« ")
	end := strings.IndexFunc(s, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	if end < 0 {
		return s
	}
	return s[:end]
}

func set(words string) map[string]bool {
	m := make(map[string]bool)
	for _, w := range strings.Fields(words) {
		m[w] = true
	}
	return m
}

var (
	// titles never end a sentence.
	titles = set(`mr mrs ms mx dr prof rev hon sr fr st ste mt ft gen col maj capt cpt lt cmdr sgt cpl pvt adm gov sen rep pres
		supt messrs mme mlle insp det herr hr frau dipl e.g i.e viz cf vs v al ca approx resp incl excl esp
		z.b d.h u.a bzw p.ex`)
	// beforeNumber do not end a sentence when a number follows.
	beforeNumber = set(`no nos nr art sec sect secs fig figs eq eqs eqn ch chap pp p vol vols ed eds tab para paras pt cl app ex exh
		art arts reg regs par ln ver op bd abs`)
	months = set(`jan feb mar apr jun jul aug sep sept oct nov dec may`)
	// abbreviations end a sentence only when a usual first word follows.
	abbreviations = set(`inc ltd co corp llc plc gmbh bros dept univ assn etc est jr esq ph.d m.d b.a m.a d.c u.s.a
		ave blvd rd sq hwy jan feb mar apr jun jul aug sep sept oct nov dec mon tue tues wed thu thur thurs fri sat
		hrs lb lbs oz yd gal kg km cm mm a.m p.m b.c a.d b.c.e c.e intl govt mfg natl`)
	// starters are usual first words of sentences.
	starters = set(`the a an this that these those it its he she they we i you his her their our my your there here in on at by
		for from with as after before during since while when where what who why how if although though because but and or so
		however moreover furthermore therefore thus also another some many most all both each one two three no not
		under over between according despite unlike until upon among`)
)
