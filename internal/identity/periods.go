package identity

// This file finds dates, periods and versions, and makes the terms "y 2018", "q 2", "q 2018-2", "m
// 2018-05", "d 2018-05-20" and "v 2.3" of them. A date also has the terms of its month and its
// year, so that a question for the year finds it.

import (
	"fmt"
	"strconv"
	"strings"
)

// periods adds the terms of the first most periods in parts.
func (c *collector) periods(parts []part, most int) {
	for _, p := range periodsOf(parts) {
		if most--; most < 0 {
			return
		}
		c.add(p.terms()...)
	}
}

// Period is a day, a month, a quarter, a year or a version that is named in a text. Fields that are
// not named are 0 or empty.
type Period struct {
	Year, Quarter, Month, Day int
	Version                   string
}

func (p Period) terms() []string {
	if p.Version != "" {
		out := []string{"v " + p.Version}
		if major, _, more := strings.Cut(p.Version, "."); more {
			out = append(out, "v "+major)
		}
		return out
	}
	var out []string
	if p.Year > 0 {
		out = append(out, fmt.Sprintf("y %d", p.Year))
	}
	if p.Quarter > 0 {
		out = append(out, fmt.Sprintf("q %d", p.Quarter))
		if p.Year > 0 {
			out = append(out, fmt.Sprintf("q %d-%d", p.Year, p.Quarter))
		}
	}
	if p.Month > 0 && p.Year > 0 {
		out = append(out, fmt.Sprintf("m %d-%02d", p.Year, p.Month))
		if p.Day > 0 {
			out = append(out, fmt.Sprintf("d %d-%02d-%02d", p.Year, p.Month, p.Day))
		}
	}
	return out
}

// Periods returns the periods that a text names, in their order.
func Periods(text string) []Period { return periodsOf(split(text)) }

// Years returns the years that a text names.
func Years(text string) map[int]bool {
	out := map[int]bool{}
	for _, p := range Periods(text) {
		if p.Year > 0 {
			out[p.Year] = true
		}
	}
	return out
}

// Overlap reports whether two sets of years have one in common.
func Overlap(a, b map[int]bool) bool {
	for y := range a {
		if b[y] {
			return true
		}
	}
	return false
}

func periodsOf(parts []part) []Period {
	var out []Period
	for i := 0; i < len(parts); {
		p, used := periodAt(parts[i:])
		if used == 0 {
			i++
			continue
		}
		out = append(out, p)
		i += used
	}
	return out
}

// periodAt returns the period that begins with the first part, and the number of its parts; 0:
// there is none. The first matching form decides.
func periodAt(parts []part) (Period, int) {
	for _, form := range []func([]part) (Period, int){isoDate, wordDate, quarter, fiscal, versionOf, plainYear} {
		if p, used := form(parts); used > 0 {
			return p, used
		}
	}
	return Period{}, 0
}

// isoDate matches 2023-05-05, 2023_05_05, 2023/05 or 20230505.
func isoDate(parts []part) (Period, int) {
	first := parts[0]
	if first.kind != digits {
		return Period{}, 0
	}
	if len(first.text) == 8 {
		p := Period{Year: number(first.text[:4]), Month: number(first.text[4:6]), Day: number(first.text[6:])}
		if p.valid() {
			return p, 1
		}
	}
	y, ok := year(first.text)
	if !ok || len(parts) < 2 || !joinsDate(parts[1]) || len(parts[1].text) != 2 {
		return Period{}, 0
	}
	p := Period{Year: y, Month: number(parts[1].text)}
	if len(parts) > 2 && joinsDate(parts[2]) && len(parts[2].text) == 2 && parts[2].gap == parts[1].gap {
		if day := (Period{Year: y, Month: p.Month, Day: number(parts[2].text)}); day.valid() {
			return day, 3
		}
	}
	if p.valid() {
		return p, 2
	}
	return Period{}, 0
}

func joinsDate(p part) bool {
	return p.kind == digits && (p.gap == "-" || p.gap == "_" || p.gap == "/" || p.gap == ".")
}

// wordDate matches May 5, 2023; 5 May 2023; May 2023; or 5. Mai 2023.
func wordDate(parts []part) (Period, int) {
	day, at := 0, 0
	if parts[0].kind == digits && len(parts[0].text) <= 2 {
		if day, at = number(parts[0].text), 1; len(parts) > 1 && ordinals[strings.ToLower(parts[1].text)] && parts[1].gap == "" {
			at = 2
		}
		if at < len(parts) && strings.EqualFold(parts[at].text, "of") {
			at++
		}
	}
	if at >= len(parts) || parts[at].kind != letters {
		return Period{}, 0
	}
	month := months[strings.ToLower(parts[at].text)]
	if month == 0 {
		return Period{}, 0
	}
	at++
	if day == 0 && at+1 < len(parts) && parts[at].kind == digits && len(parts[at].text) <= 2 {
		day = number(parts[at].text)
		if at++; ordinals[strings.ToLower(parts[at].text)] && parts[at].gap == "" {
			at++
		}
	}
	if at >= len(parts) {
		return Period{}, 0
	}
	if y, ok := year(parts[at].text); ok {
		if p := (Period{Year: y, Month: month, Day: day}); p.valid() {
			return p, at + 1
		}
	}
	return Period{}, 0
}

// quarter matches Q2 2023, 2023Q2, 2Q23, Q2 FY2023, Q2 of 2023, or second quarter of fiscal 2023;
// without a year, Q2.
func quarter(parts []part) (Period, int) {
	text := func(i int) string {
		if i >= len(parts) {
			return ""
		}
		return strings.ToLower(parts[i].text)
	}
	q, at := 0, 0
	switch {
	case text(0) == "q" && len(text(1)) == 5 && parts[1].gap == "": // Q22023
		y, ok := year(text(1)[1:])
		if p := (Period{Year: y, Quarter: number(text(1)[:1])}); ok && p.Quarter >= 1 && p.Quarter <= 4 {
			return p, 2
		}
		return Period{}, 0
	case text(0) == "q" && len(text(1)) == 1 && parts[1].gap == "":
		q, at = number(text(1)), 2
	case len(text(0)) == 1 && text(1) == "q" && parts[1].gap == "":
		q, at = number(text(0)), 2
	case quarters[text(0)] > 0 && (text(1) == "quarter" || text(1) == "quartal" || text(1) == "trimestre"):
		q, at = quarters[text(0)], 2
	default:
		y, ok := year(text(0))
		if ok && text(1) == "q" && len(text(2)) == 1 && parts[2].gap == "" {
			if p := (Period{Year: y, Quarter: number(text(2))}); p.Quarter >= 1 && p.Quarter <= 4 {
				return p, 3
			}
		}
		return Period{}, 0
	}
	if q < 1 || q > 4 {
		return Period{}, 0
	}
	p := Period{Quarter: q}
	rest := at
	for rest < len(parts) && rest < at+2 && (text(rest) == "of" || text(rest) == "the" || text(rest) == "in") {
		rest++
	}
	if rest < len(parts) {
		if f, used := fiscal(parts[rest:]); used > 0 {
			p.Year, at = f.Year, rest+used
		} else if y, ok := year(text(rest)); ok {
			p.Year, at = y, rest+1
		} else if y, ok := shortYear(parts[rest]); ok && parts[rest].gap != " " {
			p.Year, at = y, rest+1
		}
	}
	return p, at
}

// fiscal matches FY2018, FY18, FY 2018, fiscal 2018 or fiscal year 2018.
func fiscal(parts []part) (Period, int) {
	if parts[0].kind != letters {
		return Period{}, 0
	}
	at := 0
	switch strings.ToLower(parts[0].text) {
	case "fy":
		at = 1
	case "fiscal", "financial":
		if at = 1; len(parts) > 1 && strings.EqualFold(parts[1].text, "year") {
			at = 2
		}
	default:
		return Period{}, 0
	}
	if at >= len(parts) {
		return Period{}, 0
	}
	if y, ok := year(parts[at].text); ok {
		return Period{Year: y}, at + 1
	}
	if y, ok := shortYear(parts[at]); ok {
		return Period{Year: y}, at + 1
	}
	return Period{}, 0
}

// versionOf matches v2, v2.3, v2.3.1, version 2.3, rev 4 or release 2.1.
func versionOf(parts []part) (Period, int) {
	if len(parts) < 2 || parts[1].kind != digits || len(parts[1].text) > 3 {
		return Period{}, 0
	}
	switch strings.ToLower(parts[0].text) {
	case "v":
		if parts[1].gap != "" && parts[1].gap != "." {
			return Period{}, 0
		}
	case "version", "ver", "rev", "revision", "release":
	default:
		return Period{}, 0
	}
	v, at := parts[1].text, 2
	for at < len(parts) && at < 4 && parts[at].kind == digits && len(parts[at].text) <= 3 && parts[at].gap == "." {
		v += "." + parts[at].text
		at++
	}
	return Period{Version: v}, at
}

func plainYear(parts []part) (Period, int) {
	if y, ok := year(parts[0].text); ok && (len(parts) < 2 || parts[1].gap != "" || parts[1].kind != digits) {
		return Period{Year: y}, 1
	}
	return Period{}, 0
}

// Bounds of years; other numbers of four digits are taken as plain numbers.
const firstYear, lastYear = 1900, 2099

func year(s string) (int, bool) {
	if len(s) != 4 {
		return 0, false
	}
	n := number(s)
	return n, n >= firstYear && n <= lastYear
}

// shortYear returns a year of this century by its last two digits.
func shortYear(p part) (int, bool) {
	if p.kind != digits || len(p.text) != 2 {
		return 0, false
	}
	return 2000 + number(p.text), true
}

func (p Period) valid() bool {
	return p.Year >= firstYear && p.Year <= lastYear && p.Month >= 1 && p.Month <= 12 && p.Day >= 0 && p.Day <= 31
}

// number returns the value of a run of digits; 0 if it is not one, or too long for a date.
func number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil || len(s) > 8 {
		return 0
	}
	return n
}

var (
	ordinals = map[string]bool{"st": true, "nd": true, "rd": true, "th": true}
	quarters = map[string]int{"first": 1, "second": 2, "third": 3, "fourth": 4, "erstes": 1, "zweites": 2, "drittes": 3, "viertes": 4,
		"ersten": 1, "zweiten": 2, "dritten": 3, "vierten": 4, "premier": 1, "deuxième": 2, "troisième": 3, "quatrième": 4,
		"primer": 1, "segundo": 2, "tercer": 3, "cuarto": 4}
	months = monthNames()
)

// monthNames returns the names of months in English, German, French, Spanish, Italian, Portuguese
// and Dutch, and English abbreviations.
func monthNames() map[string]int {
	out := map[string]int{}
	for i, names := range []string{
		"january jan januar janvier enero gennaio janeiro januari",
		"february feb februar février febrero febbraio fevereiro februari",
		"march mar märz mars marzo março maart",
		"april apr avril abril aprile",
		"may mai mayo maggio maio mei",
		"june jun juni juin junio giugno junho",
		"july jul juli juillet julio luglio julho",
		"august aug août agosto augustus",
		"september sep sept septembre septiembre settembre setembro",
		"october oct oktober octobre octubre ottobre outubro",
		"november nov novembre noviembre novembro",
		"december dec dezember décembre diciembre dicembre dezembro",
	} {
		for _, name := range strings.Fields(names) {
			out[name] = i + 1
		}
	}
	return out
}
