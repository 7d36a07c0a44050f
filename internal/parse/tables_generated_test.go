//go:build tables

package parse

// Pages with tables of known HTML, in ten styles, and pages without tables that look like they had
// one. A seed determines everything.

import (
	"fmt"
	"hash/fnv"
	"html"
	"math/rand/v2"
	"strings"
)

// tableStyles are the styles of tables; names of pages add a kind of content and a number.
var tableStyles = []string{"grid", "rules", "plain", "zebra", "spans", "groups", "wrapped", "units", "two", "continued"}

// tableKinds are the kinds of content of cells.
var tableKinds = []string{"figures", "words", "mixed"}

// pagesWithoutTables are pages that must not be recognised as tables.
var pagesWithoutTables = []string{"columns", "bullets", "contents", "addresses", "form"}

// maker makes pages.
type maker struct{ *rand.Rand }

func makerOf(name string, seed uint64) maker {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name))
	return maker{rand.New(rand.NewPCG(h.Sum64(), seed))}
}

func (m maker) of(words []string) string { return words[m.IntN(len(words))] }

func (m maker) chance(percent int) bool { return m.IntN(100) < percent }

// generatedCell is a cell of a made table.
type generatedCell struct {
	text                string
	columnSpan, rowSpan int
	right               bool
}

// subject is the content of tables of words: the headings of the columns, and possible rows.
type subject struct {
	over []string
	rows [][]string
}

var subjects = []subject{
	{[]string{"Country", "Capital", "Currency", "Official language"}, [][]string{
		{"Norway", "Oslo", "krone", "Norwegian"}, {"Portugal", "Lisbon", "euro", "Portuguese"}, {"Japan", "Tokyo", "yen", "Japanese"}, {"Kenya", "Nairobi", "shilling", "Swahili, English"},
		{"Chile", "Santiago", "peso", "Spanish"}, {"Poland", "Warsaw", "złoty", "Polish"}, {"Viet Nam", "Hanoi", "đồng", "Vietnamese"}, {"Switzerland", "Bern", "franc", "German, French, Italian, Romansh"},
		{"Egypt", "Cairo", "pound", "Arabic"}, {"Canada", "Ottawa", "dollar", "English, French"}, {"Iceland", "Reykjavík", "króna", "Icelandic"}, {"Peru", "Lima", "sol", "Spanish, Quechua"}}},
	{[]string{"Medicine", "Form", "Taken", "Storage", "Warning"}, [][]string{
		{"Amoxicillin", "suspension", "three times a day", "in the refrigerator", "allergy to penicillin"}, {"Ibuprofen", "tablet", "with food", "below 25 degrees", "ulcers"},
		{"Insulin glargine", "injection", "once a day at the same hour", "in the refrigerator", "low blood sugar"}, {"Salbutamol", "inhaler", "when needed", "away from heat", "fast heartbeat"},
		{"Metformin", "tablet", "with the evening meal", "below 25 degrees", "kidney disease"}, {"Loratadine", "syrup", "once a day", "at room temperature", "none known"},
		{"Warfarin", "tablet", "in the evening", "dry", "bleeding"}, {"Omeprazole", "capsule", "before breakfast", "dry, in its box", "long use"}}},
	{[]string{"Duty", "Responsible", "Evidence", "Review"}, [][]string{
		{"Access is withdrawn when staff leave", "Line manager", "Ticket in the service desk", "quarterly"}, {"Backups are restored as a test", "Operations", "Report of the restore", "half-yearly"},
		{"Suppliers are assessed", "Procurement", "Questionnaire and contract", "yearly"}, {"Incidents are reported", "Security officer", "Register of incidents", "after each incident"},
		{"Data is deleted when no longer needed", "Owner of the data", "Log of deletions", "yearly"}, {"Staff are trained", "Human resources", "List of attendance", "yearly"},
		{"Keys are rotated", "Platform team", "Change record", "quarterly"}, {"Visitors are accompanied", "Reception", "Visitors' book", "monthly"}}},
	{[]string{"Material", "Resists", "Does not resist", "Typical use"}, [][]string{
		{"PVDF", "acids, chlorine", "amines", "pump heads"}, {"EPDM", "steam, alkalis", "mineral oil", "seals"}, {"Stainless steel", "solvents", "hydrochloric acid", "valves and pipes"},
		{"PTFE", "nearly everything", "molten sodium", "diaphragms"}, {"Nitrile rubber", "oil, fuel", "ozone", "hoses"}, {"Polypropylene", "dilute acids", "strong oxidisers", "tanks"},
		{"Brass", "water", "ammonia", "fittings"}, {"Titanium", "sea water", "dry chlorine", "heat exchangers"}}},
	{[]string{"Component", "Licence", "Owner", "Purpose"}, [][]string{
		{"Scheduler", "Apache 2.0", "Platform", "starts jobs"}, {"Gateway", "MIT", "Edge team", "terminates TLS"}, {"Ledger", "proprietary", "Payments", "keeps balances"}, {"Mailer", "BSD", "Growth", "sends receipts"},
		{"Indexer", "Apache 2.0", "Search", "builds postings"}, {"Archive", "proprietary", "Records", "stores scans"}, {"Notifier", "MIT", "Growth", "pushes messages"}, {"Vault", "MPL", "Security", "holds secrets"}}},
	{[]string{"Course", "Lecturer", "Room", "Day", "Examination"}, [][]string{
		{"Thermodynamics", "Prof. Okafor", "Main hall", "Monday", "written"}, {"Linear algebra", "Dr. Lindqvist", "Annex B", "Tuesday", "written"}, {"Ethics of engineering", "Dr. Marsh", "Library", "Friday", "essay"},
		{"Fluid mechanics", "Prof. Tanaka", "Main hall", "Wednesday", "oral"}, {"Technical writing", "Ms. Duarte", "Annex A", "Thursday", "portfolio"}, {"Materials science", "Dr. Novak", "Laboratory", "Monday", "oral"},
		{"Control theory", "Prof. Haddad", "Annex B", "Friday", "written"}, {"Statistics", "Dr. Brandt", "Main hall", "Thursday", "written"}}},
}

var (
	accounts = strings.Split("Net sales|Cost of sales|Gross profit|Selling and administration|Research and development|Operating income|Interest expense|Other income, net|Income before tax|Provision for income taxes|Net income|Depreciation and amortization|Capital expenditure|Cash and cash equivalents|Trade receivables|Inventories|Property, plant and equipment|Goodwill|Trade payables|Long-term debt|Deferred revenue|Shareholders' equity|Dividends paid|Purchases of treasury stock", "|")
	regions  = strings.Split("Europe|North America|Latin America|Asia Pacific|Middle East|Africa|Nordics|Oceania", "|")
	parts    = strings.Split("Bearing, deep groove|Shaft seal|Impeller|Coupling|Gasket set|Pressure gauge|Check valve|Hose clamp|Control unit|Motor, three-phase|Terminal box|Fan cover|Base plate|Dosing head|Ball valve|Suction lance", "|")
	makers   = strings.Split("Harl Bridge|Stannick|Overton|Lindqvist|Marsh & Sons|Novak|Tanaka Works", "|")
	states   = strings.Split("in stock|on order|discontinued|two weeks|on request", "|")
	prose    = strings.Split("The plant was built on the river because barges brought coal and took away steel.|Nobody had measured the flow before the dam was planned, and the first estimates were wrong.|A committee of seven members examined the accounts and found nothing that had to be corrected.|Where the contract is silent the law of the place of delivery applies.|Members who cannot attend may vote by letter, which must arrive before the meeting begins.|The pump has to be vented before it runs, otherwise the seal is damaged within minutes.|Prices rose in spring, fell in summer, and ended the year nearly where they had begun.|The survey was repeated in autumn with the same households, of which nine in ten answered.|Staff are told of changes at least a month before they come into force.|Rain had washed out the track, so the train waited for hours at a station without a name.|Each department keeps a list of what it holds and says who may see it.|The museum shows tools of bakers, printers and watchmakers from three centuries.|Water is taken from two wells and a lake, filtered through sand, and treated with ozone.|The court held that notice had been given in time, although the letter was lost.|Trees along the avenue were planted by pupils of the school, who also water them.|Results of the trial were published with the data, so that others can check them.", "|")
)

func (m maker) text(sentences int) string {
	out := make([]string, sentences)
	for i := range out {
		out[i] = m.of(prose)
	}
	return strings.Join(out, " ")
}

// amount returns a figure as in reports.
func (m maker) amount(form int) string {
	n := m.IntN(90) + 10
	switch form {
	case 1:
		return fmt.Sprintf("%d.%d%%", m.IntN(99), m.IntN(10))
	case 2:
		return fmt.Sprintf("%d.%02d", n, m.IntN(100))
	}
	s := fmt.Sprint(n)
	for range m.IntN(3) {
		s += fmt.Sprintf(",%03d", m.IntN(1000))
	}
	if m.chance(12) {
		return "(" + s + ")"
	}
	if m.chance(4) {
		return "—"
	}
	return s
}

func (m maker) pick(words []string, n int) []string {
	out := make([]string, 0, n)
	for _, i := range m.Perm(len(words)) {
		if len(out) < n {
			out = append(out, words[i])
		}
	}
	return out
}

// content returns a header and rows of one kind.
func (m maker) content(kind string, rows int) (over []string, out [][]string, right []bool) {
	switch kind {
	case "figures":
		n := 2 + m.IntN(4)
		over = []string{m.of([]string{"", "Item", "In thousands"})}
		if m.chance(60) {
			last := 2016 + m.IntN(9)
			for i := range n {
				over = append(over, fmt.Sprint(last-i))
			}
		} else {
			over = append(over, m.pick(regions, n)...)
		}
		form := m.IntN(3)
		for i := range rows {
			row := []string{accounts[(i*7+m.IntN(7))%len(accounts)]}
			for range n {
				row = append(row, m.amount(form))
			}
			out = append(out, row)
		}
		right = make([]bool, n+1)
		for i := range n {
			right[i+1] = true
		}
	case "words":
		s := subjects[m.IntN(len(subjects))]
		n := min(len(s.over), 2+m.IntN(4))
		over = s.over[:n]
		order := m.Perm(len(s.rows))
		for i := range rows {
			out = append(out, s.rows[order[i%len(order)]][:n])
		}
		right = make([]bool, n)
	default:
		over = []string{"Part", "Maker", "Pieces", "Price", "Delivery"}
		right = []bool{false, false, true, true, false}
		for range rows {
			out = append(out, []string{m.of(parts), m.of(makers), fmt.Sprint(1 + m.IntN(400)), fmt.Sprintf("%d.%02d", 1+m.IntN(900), m.IntN(100)), m.of(states)})
		}
	}
	return over, out, right
}

// generatedTable is a made table: rows of its head and of its body.
type generatedTable struct{ head, body [][]generatedCell }

func cellsOfGenerated(texts []string, right []bool) []generatedCell {
	out := make([]generatedCell, len(texts))
	for i, s := range texts {
		out[i] = generatedCell{s, 1, 1, right[i]}
	}
	return out
}

func (m maker) table(style, kind string) generatedTable {
	rows := 4 + m.IntN(7)
	if style == "continued" {
		rows = 30 + m.IntN(20)
	}
	over, content, right := m.content(kind, rows)
	var t generatedTable
	if style == "wrapped" {
		for _, row := range content {
			for i := range row {
				if !right[i] && i > 0 && m.chance(50) || i == len(row)-1 && kind != "figures" || i == 0 && kind == "figures" && m.chance(50) {
					row = append([]string(nil), row...)
					words := strings.Fields(m.of(prose))
					row[i] += ", " + strings.ToLower(words[0]) + " " + strings.TrimRight(strings.Join(words[1:min(len(words), 5+m.IntN(8))], " "), ".,")
					t.body = append(t.body, cellsOfGenerated(row, right))
					break
				}
				if i == len(row)-1 {
					t.body = append(t.body, cellsOfGenerated(row, right))
				}
			}
		}
	} else {
		for _, row := range content {
			t.body = append(t.body, cellsOfGenerated(row, right))
		}
	}
	head := cellsOfGenerated(over, right)
	switch style {
	case "spans":
		// The first column's heading spans two rows, the others are in pairs below a common one.
		first := []generatedCell{{over[0], 1, 2, false}}
		var second []generatedCell
		for i := 1; i < len(over); {
			n := min(len(over)-i, 2+m.IntN(2))
			if n == 1 {
				first = append(first, generatedCell{over[i], 1, 2, right[i]})
			} else {
				first = append(first, generatedCell{m.of([]string{"Year ended 31 March", "Continuing operations", "Details", "Present state", "As reported"}), n, 1, false})
				second = append(second, head[i:i+n]...)
			}
			i += n
		}
		t.head = [][]generatedCell{first}
		if len(second) > 0 {
			t.head = append(t.head, second)
		} else {
			for i := range first {
				first[i].rowSpan = 1
			}
		}
	case "groups":
		t.head = [][]generatedCell{head}
		full := m.chance(50)
		if !full {
			t.head[0] = append([]generatedCell{{"Group", 1, 1, false}}, t.head[0]...)
		}
		names := m.pick([]string{"Group one", "Domestic", "Abroad", "Ongoing", "Planned", "Former"}, 6)
		var body [][]generatedCell
		for i := 0; i < len(t.body); {
			n := min(len(t.body)-i, 2+m.IntN(3))
			if full {
				body = append(body, []generatedCell{{names[len(body)%6], len(over), 1, false}})
				body = append(body, t.body[i:i+n]...)
			} else {
				body = append(body, append([]generatedCell{{names[i%6], 1, n, false}}, t.body[i]...))
				body = append(body, t.body[i+1:i+n]...)
			}
			i += n
		}
		t.body = body
	case "units":
		t.head = [][]generatedCell{head}
		unit := m.of([]string{" kg", " m", " EUR", " %", " h"})
		for _, row := range t.body {
			for i := range row {
				if row[i].right && row[i].text != "—" {
					row[i].text += unit
				}
				row[i].right = row[i].right || kind == "words" && i == len(row)-1
			}
		}
		for i := range head {
			head[i].right = head[i].right || kind == "words" && i == len(head)-1
		}
	default:
		t.head = [][]generatedCell{head}
	}
	return t
}

func (t generatedTable) html(b *strings.Builder) {
	part := func(name, cell string, rows [][]generatedCell) {
		fmt.Fprintf(b, "<%s>\n", name)
		for _, row := range rows {
			b.WriteString("<tr>")
			for _, c := range row {
				b.WriteString("<" + cell)
				if c.columnSpan > 1 {
					fmt.Fprintf(b, ` colspan="%d"`, c.columnSpan)
				}
				if c.rowSpan > 1 {
					fmt.Fprintf(b, ` rowspan="%d"`, c.rowSpan)
				}
				if c.right {
					b.WriteString(` class="r"`)
				}
				fmt.Fprintf(b, ">%s</%s>", html.EscapeString(c.text), cell)
			}
			b.WriteString("</tr>\n")
		}
		fmt.Fprintf(b, "</%s>\n", name)
	}
	b.WriteString("<table>\n")
	part("thead", "th", t.head)
	part("tbody", "td", t.body)
	b.WriteString("</table>\n")
}

// page returns a page's HTML with this body.
func (m maker) page(css, body string) string {
	font := m.of([]string{"DejaVu Sans", "DejaVu Serif", "Liberation Sans", "Liberation Serif", "serif", "sans-serif"})
	return fmt.Sprintf("<!DOCTYPE html>\n<html><head><meta charset=\"utf-8\"><style>\n@page { size: A4; margin: 20mm }\nbody { font: %dpt/%s %s; }\n%s</style></head><body>\n%s</body></html>\n",
		8+m.IntN(4), m.of([]string{"1.2", "1.35", "1.5"}), "'"+font+"'", css, body)
}

// tablePage returns a page with one or two tables of the style.
func (m maker) tablePage(style, kind string) string {
	look := style
	switch style {
	case "spans", "groups", "wrapped", "units", "two", "continued":
		look = m.of([]string{"grid", "rules", "plain", "zebra"})
		if style == "wrapped" || style == "groups" {
			look = m.of([]string{"grid", "rules", "zebra"})
		}
	}
	css := fmt.Sprintf("table { border-collapse: collapse; margin: 12pt 0; %s }\ntd, th { padding: %dpt %dpt; text-align: left; vertical-align: %s; font-weight: normal }\n.r { text-align: right }\nth { font-weight: %s }\n",
		m.of([]string{"width: 100%", "", "width: 80%", "margin-left: 20pt"}), 1+m.IntN(4), 4+m.IntN(6), m.of([]string{"top", "top", "middle"}), m.of([]string{"bold", "bold", "bold", "normal"}))
	switch look {
	case "grid":
		css += fmt.Sprintf("td, th { border: %s solid %s }\n", m.of([]string{"0.5pt", "1pt", "1px"}), m.of([]string{"black", "#888"}))
	case "rules":
		css += "table { border-top: 1pt solid black; border-bottom: 1pt solid black }\nthead tr:last-child th { border-bottom: 0.75pt solid black }\n"
		if m.chance(50) {
			css += "tbody tr { border-bottom: 0.5pt solid #999 }\n"
		}
		css += "thead tr:first-child:not(:last-child) th[colspan] { border-bottom: 0.5pt solid black }\n"
	case "zebra":
		css += "tbody tr:nth-child(even) { background: #e6eef5 }\nthead { background: #c8d4e0 }\n"
	}
	if style == "wrapped" {
		css += "table { table-layout: auto; width: 90% }\n"
	}
	if style == "continued" && m.chance(50) {
		css += "thead { display: table-row-group }\n"
	}
	css += "@media print { * { print-color-adjust: exact } }\n"
	var b strings.Builder
	fmt.Fprintf(&b, "<h2>%s</h2>\n<p>%s</p>\n", m.of([]string{"Overview", "Annex to the report", "Summary of the year", "Reference"}), m.text(1+m.IntN(4)))
	if style == "continued" {
		fmt.Fprintf(&b, "<p>%s</p>\n<p>%s</p>\n<p>%s</p>\n", m.text(6), m.text(8), m.text(7))
	}
	if m.chance(40) {
		fmt.Fprintf(&b, "<p><b>Table %d. %s</b></p>\n", 1+m.IntN(9), m.of([]string{"What was found", "State at the end of the year", "Comparison", "Particulars"}))
	}
	m.table(style, kind).html(&b)
	fmt.Fprintf(&b, "<p>%s</p>\n", m.text(2+m.IntN(4)))
	if style == "two" {
		m.table(style, m.of(tableKinds)).html(&b)
		fmt.Fprintf(&b, "<p>%s</p>\n", m.text(2))
	}
	return m.page(css, b.String())
}

// plainPage returns a page without a table.
func (m maker) plainPage(kind string) string {
	var b strings.Builder
	css := ""
	fmt.Fprintf(&b, "<h2>%s</h2>\n", m.of([]string{"Overview", "Annex to the report", "Reference"}))
	switch kind {
	case "columns":
		css = fmt.Sprintf("div { column-count: %d; column-gap: %dpt; text-align: %s }\n", m.of([]string{"2", "2", "3"})[0]-'0', 14+m.IntN(20), m.of([]string{"left", "justify"}))
		b.WriteString("<div>\n")
		for range 6 + m.IntN(8) {
			fmt.Fprintf(&b, "<p>%s</p>\n", m.text(2+m.IntN(5)))
		}
		b.WriteString("</div>\n")
	case "bullets":
		for range 3 {
			list := m.of([]string{"ul", "ol"})
			fmt.Fprintf(&b, "<p>%s</p>\n<%s>\n", m.text(1), list)
			for range 3 + m.IntN(6) {
				item := m.text(1)
				switch m.IntN(3) {
				case 0:
					item = m.of(parts)
				case 1:
					item = "<b>" + m.of(makers) + ":</b> " + strings.ToLower(m.of(states))
				}
				fmt.Fprintf(&b, "<li>%s", item)
				if m.chance(25) {
					fmt.Fprintf(&b, "<ul><li>%s</li><li>%s</li></ul>", m.of(parts), m.text(1))
				}
				b.WriteString("</li>\n")
			}
			fmt.Fprintf(&b, "</%s>\n", list)
		}
	case "contents":
		dots := m.chance(60)
		css = "p { display: flex; margin: 3pt 0 }\n.d { flex: 1; overflow: hidden; white-space: nowrap; text-align: right; margin: 0 4pt }\n"
		at := 1
		for i := range 14 + m.IntN(12) {
			leader := ""
			if dots {
				leader = strings.Repeat(". ", 200)
			}
			name := m.of(accounts)
			if m.chance(40) {
				name = strings.TrimRight(m.of(prose), ".")
				name = strings.Join(strings.Fields(name)[:5], " ")
			}
			fmt.Fprintf(&b, "<p><span>%d. %s</span><span class=\"d\">%s</span><span>%d</span></p>\n", i+1, name, leader, at)
			at += m.IntN(9)
		}
	case "addresses":
		css = "div { display: flex; gap: 40pt } section { flex: 1 } p { margin: 8pt 0 }\n"
		for range 1 + m.IntN(3) {
			b.WriteString("<div>")
			for range 2 {
				fmt.Fprintf(&b, "<section>%s Ltd.<br>%s<br>%d %s Street<br>%s %d<br>Telephone %d %d</section>", m.of(makers), m.of([]string{"Sales department", "For the attention of the board", "Head office"}),
					1+m.IntN(200), m.of([]string{"Mill", "Station", "Church", "Harbour"}), m.of([]string{"Overton", "Stannick", "Harl Bridge"}), 10000+m.IntN(80000), 200+m.IntN(700), 100000+m.IntN(800000))
			}
			fmt.Fprintf(&b, "</div>\n<p>%s</p>\n", m.text(2))
		}
	case "form":
		css = "p { margin: 6pt 0 } .l { display: inline-block; width: 130pt } .v { display: inline-block; width: 180pt; border-bottom: 0.5pt solid black }\n"
		for _, field := range m.pick([]string{"Surname", "Given name", "Date of birth", "Street and number", "Place", "Telephone", "Nationality", "Employer", "Occupation", "Account", "Signature", "Date"}, 6+m.IntN(6)) {
			value := "&nbsp;"
			if m.chance(50) {
				value = m.of([]string{"Ada Marsh", "Stannick", "Mill Street", "self-employed", "none", "see annex"})
			}
			fmt.Fprintf(&b, "<p><span class=\"l\">%s%s</span><span class=\"v\">%s</span></p>\n", field, m.of([]string{"", ":", ":"}), value)
		}
		fmt.Fprintf(&b, "<p>%s</p>\n", m.text(2))
	}
	return m.page(css, b.String())
}
