package parse

import (
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/schema"
)

func TestRTF(t *testing.T) {
	p := parsed(t, "a.bin", `{\rtf1\ansi\ansicpg1252\deff0{\fonttbl{\f0\fswiss Arial;}{\f1\fcharset204 Arial Cyr;}}{\colortbl;\red0\green0\blue0;}
{\stylesheet{\s0 Normal;}{\s1\outlinelevel0 heading 1;}{\s2 heading 2;}{\*\cs10 Default;}}
{\info{\title Manual of the pump}{\author Nobody}}{\*\generator Word;}{\header Page header\par}
\pard\s1 Safety\par
\pard\s0 Wear gl\'e4sses \emdash{} and {\b gloves}.{\v hidden}{\footnote\pard Of rubber.\par} {\deleted gone}Na\u239?ve \{braces\}.\par
\pard {\f1 \'cf\'f0\'e8\'e2\'e5\'f2} \u55357?\u56832? \par
\pard\s2 Steps\par
\pard\ls1{\listtext 1.\tab}Open the \line valve\par
\pard\ls1\ilvl1{\listtext \'b7\tab}slowly\par
\pard See {\field{\*\fldinst HYPERLINK "https://example.org/x"}{\fldrslt the site}}.\par
\trowd\cellx100\cellx200\pard\intbl Part\cell Number\cell\row
\trowd\pard\intbl Seal\par of rubber\cell 12\cell\row
\pard{\pict\pngblip 89504e47}{\pict\bin4 }}}}}{\*\unknown{\deep text}}The end.}trailing`)
	expect(t, p,
		"heading1: Safety",
		"paragraph: Wear glässes — and gloves.[1] Naïve {braces}.",
		"paragraph: Привет 😀",
		"heading2: Steps",
		"list: 1. Open the valve\n  - slowly",
		"paragraph: See the site.",
		"table: Part | Number\nSeal of rubber | 12",
		"paragraph: The end.",
		"paragraph: [1] Of rubber.",
	)
	if p.Title != "Manual of the pump" || p.MediaType != "application/rtf" || len(p.Warnings) != 0 {
		t.Errorf("title %q, media type %q, warnings %q", p.Title, p.MediaType, p.Warnings)
	}
	if links := p.Blocks[5].Links; len(links) != 1 || links[0] != "https://example.org/x" {
		t.Errorf("links %q", links)
	}
	cut := parsed(t, "cut.rtf", `{\rtf1 The beginning {\b of a`)
	expect(t, cut, "paragraph: The beginning of a")
	if len(cut.Warnings) != 1 {
		t.Errorf("warnings %q", cut.Warnings)
	}
}

func TestRefusedRTF(t *testing.T) {
	for _, tt := range []struct {
		name, data string
		limits     Limits
		want       string
	}{
		{"empty.rtf", `{\rtf1\ansi }`, Limits{}, schema.ReasonEmpty},
		{"deep.rtf", `{\rtf1` + strings.Repeat("{", 100_000), Limits{}, schema.ReasonTooLarge},
		{"text.rtf", `{\rtf1 ` + strings.Repeat("word ", 10_000), Limits{TextBytes: 4000}, schema.ReasonTooLarge},
		{"cells.rtf", `{\rtf1\trowd\intbl ` + strings.Repeat(`a\cell `, 100) + `\row}`, Limits{Cells: 50}, schema.ReasonTooLarge},
		{"rows.rtf", `{\rtf1\trowd\intbl ` + strings.Repeat(`a\cell b\cell\row `, 100) + `}`, Limits{Rows: 50}, schema.ReasonTooLarge},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if r := refused(t, tt.name, []byte(tt.data), tt.limits); r.Code != tt.want {
				t.Errorf("reason %+v, want %s", r, tt.want)
			}
		})
	}
}

func FuzzRTF(f *testing.F) {
	fuzz(f, "a.rtf", func(body []byte) []byte { return append([]byte(`{\rtf1\ansi`), body...) },
		`\ansicpg1251{\fonttbl{\f0\fcharset238 A;}}{\stylesheet{\s1 heading 1;}}\s1 H\'e4\u228?\par\ls1{\listtext 1.\tab}x\par{\footnote n}\trowd\intbl a\cell b\cell\row{\*\x y}\bin3 {}}`,
		`{\info{\title t}}{\field{\*\fldinst HYPERLINK "u"}{\fldrslt r}}\u-10179?\u-8192?\~\_\-`)
}
