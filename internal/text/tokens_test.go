package text

import (
	"strings"
	"testing"
)

// FuzzCountTokens compares the shortcut for ASCII with the annex's own tables.
func FuzzCountTokens(f *testing.F) {
	for _, s := range []string{
		"", " ", "a", "The quick (brown) fox can't jump 32.3 feet, right?", "e.g. U.S.A. 3.14 1,000;5 a:b a;b 1:2 a.1 1.a",
		"x_1 __ _a'b_ 'quoted' \"x\" a''b a..b 1..2 1.,2", strings.Repeat("a", 16), strings.Repeat("a", 17), strings.Repeat("ab_1", 20) + ".5",
		"naïve café — “quotes” 北京 ไทย אב\"ג", "a \u0301b", "a  \u0301", "\u0301a", "x \u200d\U0001F600 y", "a\u00a0b \u2003 c", "\x00\x1c\x7f a\x01b", "a\r\n\tb\v\f",
		"1\u066b2 a\u00b7b", "\U0001F1E9\U0001F1EA \U0001F1EB", "\xff\xfe a\xffb", strings.Repeat(" ", 40) + "\u0301",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if got, want := CountTokens(s), countSegments(s); got != want {
			t.Errorf("%q has %d tokens, want %d", s, got, want)
		}
	})
}
