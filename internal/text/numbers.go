package text

// Numbers in texts, in digits and in English words, by their value.

import (
	"strconv"
	"strings"
	"unicode"
)

// numberWords are the values of English words. A number before a word from hundred on multiplies
// it.
var numberWords = map[string]float64{
	"zero": 0, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10,
	"eleven": 11, "twelve": 12, "thirteen": 13, "fourteen": 14, "fifteen": 15, "sixteen": 16, "seventeen": 17, "eighteen": 18, "nineteen": 19,
	"twenty": 20, "thirty": 30, "forty": 40, "fifty": 50, "sixty": 60, "seventy": 70, "eighty": 80, "ninety": 90,
	"hundred": 100, "thousand": 1e3, "million": 1e6, "billion": 1e9, "trillion": 1e12, "dozen": 12,
	"first": 1, "second": 2, "third": 3, "fourth": 4, "fifth": 5, "sixth": 6, "seventh": 7, "eighth": 8, "ninth": 9, "tenth": 10,
	"eleventh": 11, "twelfth": 12, "thirteenth": 13, "fourteenth": 14, "fifteenth": 15, "sixteenth": 16, "seventeenth": 17, "eighteenth": 18,
	"nineteenth": 19, "twentieth": 20, "once": 1, "twice": 2, "half": 0.5,
}

// looseNumbers are words that just as often are no numbers.
var looseNumbers = set("one first second once half third zero")

// numberSuffixes are suffixes of digits without a space between, with the unit or multiple that
// they stand for; "" for none.
var numberSuffixes = map[string]string{
	"st": "", "nd": "", "rd": "", "th": "", "s": "", "am": "am", "pm": "pm", "km": "km", "kg": "kg", "cm": "cm", "mm": "mm", "m": "m", "g": "g",
	"k": "thousand", "bn": "billion", "mb": "mb", "gb": "gb", "hz": "hz", "mhz": "mhz", "ghz": "ghz", "nm": "nm", "kw": "kw", "v": "v", "h": "h", "ft": "ft", "mph": "mph",
}

// numberOf returns the value of a word in lower case, in the shortest digits, and a unit that is
// part of the word. value is "" if the word is no number. loose says that the word just as often is
// no number.
func numberOf(w string) (value, unit string, ambiguous bool) {
	if v, ok := numberWords[w]; ok {
		return format(v), "", looseNumbers[w]
	}
	digits := strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Nd, r) && r > 127 { // other scripts' digits
			for zero := r; ; zero-- {
				if !unicode.Is(unicode.Nd, zero-1) || r-zero == 9 {
					return '0' + r - zero
				}
			}
		}
		return r
	}, w)
	end := strings.IndexFunc(digits, func(r rune) bool { return !(r >= '0' && r <= '9') && r != '.' && r != ',' })
	if end < 0 {
		end = len(digits)
	}
	if end == 0 || digits[0] < '0' || digits[0] > '9' {
		return "", "", false
	}
	suffix, known := numberSuffixes[digits[end:]]
	if !known && end < len(digits) {
		return "", "", false // a name with digits
	}
	v, err := strconv.ParseFloat(decimal(strings.TrimRight(digits[:end], ".,")), 64)
	if err != nil {
		return "", "", false
	}
	switch suffix {
	case "thousand":
		return format(v * 1e3), "", false
	case "billion":
		return format(v * 1e9), "", false
	}
	return format(v), suffix, false
}

// decimal writes a number with a full stop as the decimal point and without separators of
// thousands. A comma before exactly three digits separates thousands.
func decimal(s string) string {
	comma := strings.LastIndexByte(s, ',')
	switch {
	case comma < 0:
		if strings.Count(s, ".") > 1 { // 1.000.000
			return strings.ReplaceAll(s, ".", "")
		}
		return s
	case strings.Count(s, ",") == 1 && len(s)-comma-1 != 3 && !strings.Contains(s, "."):
		return strings.Replace(s, ",", ".", 1)
	case strings.LastIndexByte(s, '.') > comma || !strings.Contains(s, "."):
		return strings.ReplaceAll(s, ",", "")
	}
	return strings.Replace(strings.ReplaceAll(s, ".", ""), ",", ".", 1)
}

func format(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// joinNumbers combines two adjacent numbers into one: "5 million", "two hundred", "twenty-five".
func joinNumbers(a, b string) (string, bool) {
	x, errX := strconv.ParseFloat(a, 64)
	y, errY := strconv.ParseFloat(b, 64)
	switch {
	case errX != nil || errY != nil:
		return "", false
	case y >= 100 && (y == 100 || y == 1e3 || y == 1e6 || y == 1e9 || y == 1e12) && x < y && x > 0:
		return format(x * y), true
	case x >= 20 && x < 100 && y > 0 && y < 10 && int(x)%10 == 0 && x == float64(int(x)) && y == float64(int(y)):
		return format(x + y), true
	}
	return "", false
}
