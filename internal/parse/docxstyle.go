package parse

// What Word stores separately from the text: styles, which define headings, and numbering, which
// produces the "4.2" before a clause.

import (
	"strconv"
	"strings"
)

// style is the used part of a paragraph style.
type style struct {
	outline  int // level of a heading, from 1; 0 for text
	title    bool
	numID    string
	numLevel int
}

func readStyles(d *document, c *container) (map[string]style, error) {
	root, err := readXML(d, c, "word/styles.xml")
	if err != nil {
		return nil, err
	}
	out := make(map[string]style)
	list := root.child("styles")
	if list == nil {
		return out, nil
	}
	byID := make(map[string]*element)
	for _, s := range list.children {
		if s.name == "style" && s.attr("type") == "paragraph" {
			byID[s.attr("styleId")] = s
		}
	}
	for id, s := range byID {
		var st style
		// A style inherits what it does not define from the style it is based on.
		for hops := 0; s != nil && hops < 20; hops++ {
			name := strings.ToLower(s.val("name"))
			if st.outline == 0 {
				st.outline = outlineOf(s, name)
			}
			if name == "title" {
				st.title = true
			}
			if num := s.child("pPr", "numPr"); num != nil && st.numID == "" {
				st.numID = num.val("numId")
				st.numLevel, _ = strconv.Atoi(num.val("ilvl"))
			}
			s = byID[s.val("basedOn")]
		}
		out[id] = st
	}
	return out, nil
}

// outlineOf returns the heading level that a style itself defines, or 0.
func outlineOf(s *element, name string) int {
	if v := s.val("pPr", "outlineLvl"); v != "" {
		if n, err := strconv.Atoi(v); err == nil && n >= 0 && n < 9 {
			return n + 1
		}
	}
	if name == "title" {
		return 1
	}
	if rest, ok := strings.CutPrefix(name, "heading "); ok {
		if n, err := strconv.Atoi(rest); err == nil && n >= 1 && n <= 9 {
			return n
		}
	}
	return 0
}

// numbering counts the items of every list.
type numbering struct {
	lists  map[string]*counter // by numId
	shared map[string]*counter // by abstractNumId
}

// counter is one list's definition and its current numbers. Lists with the same definition continue
// the same numbers unless they restart.
type counter struct {
	levels [9]numberLevel
	at     [9]int
}

type numberLevel struct {
	format string
	text   string // "%1.%2"
	start  int
}

func readNumbering(d *document, c *container) (*numbering, error) {
	n := &numbering{lists: map[string]*counter{}, shared: map[string]*counter{}}
	root, err := readXML(d, c, "word/numbering.xml")
	if err != nil {
		return nil, err
	}
	list := root.child("numbering")
	if list == nil {
		return n, nil
	}
	for _, e := range list.children {
		switch e.name {
		case "abstractNum":
			k := &counter{}
			k.define(e)
			n.shared[e.attr("abstractNumId")] = k
		case "num":
			k := n.shared[e.val("abstractNumId")]
			if k == nil {
				continue
			}
			if e.child("lvlOverride") != nil {
				override := &counter{levels: k.levels}
				for _, o := range e.children {
					if o.name != "lvlOverride" {
						continue
					}
					override.define(o)
					i, err := strconv.Atoi(o.attr("ilvl"))
					if start, err2 := strconv.Atoi(o.val("startOverride")); err == nil && err2 == nil && i >= 0 && i < 9 {
						override.levels[i].start = start
					}
				}
				k = override
			}
			n.lists[e.attr("numId")] = k
		}
	}
	return n, nil
}

// define reads the levels from the lvl children of e.
func (k *counter) define(e *element) {
	for _, l := range e.children {
		if l.name != "lvl" {
			continue
		}
		i, err := strconv.Atoi(l.attr("ilvl"))
		if err != nil || i < 0 || i > 8 {
			continue
		}
		start, err := strconv.Atoi(l.val("start"))
		if err != nil {
			start = 1
		}
		k.levels[i] = numberLevel{format: l.val("numFmt"), text: l.val("lvlText"), start: start}
	}
}

// next returns the marker of the next item at level of list numID: "-" for a
// bullet, "" for no list.
func (n *numbering) next(numID string, level int) string {
	if numID == "" || numID == "0" {
		return ""
	}
	k := n.lists[numID]
	if k == nil || level < 0 || level > 8 {
		return "-"
	}
	k.at[level]++
	for i := level + 1; i < len(k.at); i++ {
		k.at[i] = 0
	}
	l := k.levels[level]
	if l.format == "bullet" || l.format == "" {
		return "-"
	}
	if l.format == "none" {
		return "-"
	}
	marker := l.text
	for i := range level + 1 {
		value := k.levels[i].start + max(k.at[i], 1) - 1
		format := k.levels[i].format
		marker = strings.ReplaceAll(marker, "%"+strconv.Itoa(i+1), numeral(format, value))
	}
	if marker = strings.TrimSpace(marker); marker == "" || len(marker) > 40 {
		return "-"
	}
	return marker
}

// numeral formats n in a number format of Word.
func numeral(format string, n int) string {
	switch format {
	case "lowerLetter", "upperLetter":
		if n < 1 || n > 26*20 {
			break
		}
		s := strings.Repeat(string(rune('a'+(n-1)%26)), (n-1)/26+1)
		if format == "upperLetter" {
			s = strings.ToUpper(s)
		}
		return s
	case "lowerRoman", "upperRoman":
		if n < 1 || n > 3999 {
			break
		}
		var b strings.Builder
		for _, r := range []struct {
			value int
			sign  string
		}{
			{1000, "m"}, {900, "cm"}, {500, "d"}, {400, "cd"}, {100, "c"}, {90, "xc"}, {50, "l"}, {40, "xl"}, {10, "x"}, {9, "ix"}, {5, "v"}, {4, "iv"}, {1, "i"},
		} {
			for n >= r.value {
				b.WriteString(r.sign)
				n -= r.value
			}
		}
		if format == "upperRoman" {
			return strings.ToUpper(b.String())
		}
		return b.String()
	case "decimalZero":
		if n >= 0 && n < 10 {
			return "0" + strconv.Itoa(n)
		}
	}
	return strconv.Itoa(n)
}
