package parse

// Determines which lines of aligned rows form one row of their table, and which cells span several
// columns and rows.

// gridRows are the rows of a grid under construction.
type gridRows struct {
	cells [][]gridCell
	bold  []bool
}

// grid turns lines into rows: several lines are one row if a cell has several lines.
func (a *aligned) grid(rows []pdfRow, rules pdfRuling) gridRows {
	columns := a.columns()
	var out gridRows
	begins := a.begins(rows, columns, rules)
	for i, runs := range a.runs {
		row := rows[a.first+i]
		if begins[i] {
			out.cells, out.bold = append(out.cells, make([]gridCell, len(columns))), append(out.bold, true)
			for j := range columns {
				out.cells[len(out.cells)-1][j] = gridCell{columnSpan: 1, rowSpan: 1}
			}
		}
		last := out.cells[len(out.cells)-1]
		out.bold[len(out.bold)-1] = out.bold[len(out.bold)-1] && row.bold
		for _, r := range runs {
			// A run that reaches into further columns spans them.
			first, end := -1, 0
			for j, c := range columns {
				if c.overlap(r.interval) > 0 {
					if first < 0 {
						first = j
					}
					end = j
				}
			}
			if first < 0 {
				first = columnOf(columns, r.interval)
				end = first
			}
			last[first].pdfCell = join(last[first].pdfCell, r)
			last[first].columnSpan = max(last[first].columnSpan, end-first+1)
		}
	}
	return out
}

// begins reports for each line whether it begins a row.
func (a *aligned) begins(rows []pdfRow, columns []interval, rules pdfRuling) []bool {
	n := len(a.runs)
	wide := a.bounds()
	out, ruled, labelled := make([]bool, n), make([]bool, n), make([]bool, n)
	out[0] = true
	distance := make([]float64, n)
	lines, minDistance, all, fullLines, near := 0, 1e9, 0, 0, 0
	for i := 1; i < n; i++ {
		above, r := rows[a.first+i-1], rows[a.first+i]
		distance[i] = above.middle() - r.middle()
		minDistance = min(minDistance, distance[i])
		if ruled[i] = rules.hasRuleBetween(r.middle(), above.middle(), wide, minRowRuleShare) && rules.underlinedColumns(columns, r.middle(), above.middle()) > 1; ruled[i] {
			lines++
		}
		labelled[i] = columnOf(columns, a.runs[i][0].interval) == 0
	}
	for i := 1; i < n; i++ {
		full := labelled[i] && len(a.runs[i]) > 1
		if full {
			all++
		}
		if distance[i] <= maxLineDistance*minDistance {
			near++
			if full {
				fullLines++
			}
		}
	}
	wrapped := fullLines*2 < near // lines with small distances belong to one row
	for i := 1; i < n; i++ {
		switch {
		case ruled[i] || a.fullWidth[i] || a.fullWidth[i-1]:
			out[i] = true
		case lines > 2 && lines*3 >= all:
		case wrapped:
			out[i] = distance[i] > maxLineDistance*minDistance
		default:
			out[i] = labelled[i] && !(len(a.runs[i]) == 1 && startsLower(a.runs[i][0].text())) || len(a.runs[i])*2 > len(columns) || distance[i] > maxWrapDistance*minDistance
		}
	}
	return out
}

// findSpans finds the cells that span several columns and rows: a heading over empty positions with
// headings below, a heading with nothing below it, and the name of a group of rows. Then it removes
// the positions that these cells cover.
func (t *pdfTable) findSpans() {
	columns := len(t.columns)
	empty := func(i, j int) bool { return len(t.cells[i][j].words) == 0 }
	covered := make(map[[2]int]bool)
	markCovered := func(i, j int) {
		c := t.cells[i][j]
		for a := range c.rowSpan {
			for b := range c.columnSpan {
				if a+b > 0 {
					covered[[2]int{i + a, j + b}] = true
				}
			}
		}
	}
	for i := range t.cells {
		only := true
		for j := range columns {
			only = only && (j == 0) != empty(i, j)
		}
		for j := range columns {
			c := &t.cells[i][j]
			c.columnSpan = min(c.columnSpan, columns-j)
			if empty(i, j) || covered[[2]int{i, j}] {
				continue
			}
			switch {
			case i < t.head-1 && c.columnSpan == 1 && empty(i+1, j):
				c.rowSpan = t.head - i
			case i < t.head-1:
				for j+c.columnSpan < columns && empty(i, j+c.columnSpan) && !empty(i+1, j+c.columnSpan) {
					c.columnSpan++
				}
			case i >= t.head && only && columns > 2:
				c.columnSpan = columns
			}
			markCovered(i, j)
		}
	}
	if t.grouped() {
		for i := t.head; i < len(t.cells); i++ {
			c := &t.cells[i][0]
			for c.columnSpan == 1 && !empty(i, 0) && i+c.rowSpan < len(t.cells) && empty(i+c.rowSpan, 0) {
				c.rowSpan++
			}
			markCovered(i, 0)
		}
	}
	for i, row := range t.cells {
		var kept []gridCell
		for j, c := range row {
			if !covered[[2]int{i, j}] {
				kept = append(kept, c)
			}
		}
		t.cells[i] = kept
	}
}

// grouped reports whether the first column names groups of rows: it has a name in the first row and
// some others, and the second column is filled in all rows.
func (t *pdfTable) grouped() bool {
	named, rows := 0, t.cells[t.head:]
	if len(t.columns) < 3 {
		return false
	}
	for i, row := range rows {
		if len(row[0].words) > 0 {
			named++
		} else if i == 0 {
			return false
		}
		if len(row[1].words) == 0 {
			return false
		}
	}
	return named*10 < len(rows)*7
}
