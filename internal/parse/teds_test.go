package parse

// TEDS, the similarity of tables by the edit distance of their trees: X. Zhong, E.
// ShafieiBavani, A. Jimeno Yepes, "Image-based table recognition: data, model, and
// evaluation", 2020. The distance is that of K. Zhang and D. Shasha, "Simple fast
// algorithms for the editing distance between trees and related problems", 1989.

import (
	"math"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// tableTree is a node of a table's tree: table, thead or tbody, tr, td.
type tableTree struct {
	tag                 string
	columnSpan, rowSpan int // of a td
	text                []rune
	children            []*tableTree
}

func (n *tableTree) size() int {
	size := 1
	for _, c := range n.children {
		size += c.size()
	}
	return size
}

// teds returns 1 - EditDist(a, b) / max(|a|, |b|). With structure, the texts of the cells are
// ignored (TEDS-Struct).
func teds(a, b *tableTree, structure bool) float64 {
	return 1 - editDistance(a, b, func(x, y *tableTree) float64 { return renaming(x, y, structure) })/float64(max(a.size(), b.size()))
}

// renaming returns the cost of changing one node into the other: 1 if the tags or spans differ, and
// for cells the Levenshtein distance of their texts over the longer's length.
func renaming(a, b *tableTree, structure bool) float64 {
	switch {
	case a.tag != b.tag || a.columnSpan != b.columnSpan || a.rowSpan != b.rowSpan:
		return 1
	case structure || len(a.text) == 0 && len(b.text) == 0:
		return 0
	}
	return float64(levenshtein(a.text, b.text)) / float64(max(len(a.text), len(b.text)))
}

func levenshtein(a, b []rune) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i, x := range a {
		corner := row[0]
		row[0] = i + 1
		for j, y := range b {
			changed := corner
			if x != y {
				changed++
			}
			corner = row[j+1]
			row[j+1] = min(changed, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// postorder holds a tree's nodes in postorder, the index of each node's leftmost leaf, and the key
// roots: the nodes that have a left sibling, and the root.
type postorder struct {
	nodes    []*tableTree
	leftmost []int
	keyRoots []int
}

func postorderOf(root *tableTree) postorder {
	var p postorder
	var walk func(n *tableTree) int
	walk = func(n *tableTree) int {
		left := -1
		for _, c := range n.children {
			if l := walk(c); left < 0 {
				left = l
			}
		}
		if left < 0 {
			left = len(p.nodes)
		}
		p.nodes, p.leftmost = append(p.nodes, n), append(p.leftmost, left)
		return left
	}
	walk(root)
	seen := make(map[int]bool)
	for i := len(p.nodes) - 1; i >= 0; i-- {
		if !seen[p.leftmost[i]] {
			p.keyRoots = append(p.keyRoots, i)
			seen[p.leftmost[i]] = true
		}
	}
	slices.Reverse(p.keyRoots)
	return p
}

// editDistance returns the least cost of changing one tree into the other by renaming nodes, and by
// deleting and inserting nodes, which cost 1 each.
func editDistance(a, b *tableTree, rename func(x, y *tableTree) float64) float64 {
	p, q := postorderOf(a), postorderOf(b)
	trees := make([][]float64, len(p.nodes))
	for i := range trees {
		trees[i] = make([]float64, len(q.nodes))
	}
	forest := make([][]float64, len(p.nodes)+1)
	for i := range forest {
		forest[i] = make([]float64, len(q.nodes)+1)
	}
	for _, k := range p.keyRoots {
		for _, m := range q.keyRoots {
			firstA, firstB := p.leftmost[k], q.leftmost[m]
			forest[0][0] = 0
			for i := firstA; i <= k; i++ {
				forest[i-firstA+1][0] = forest[i-firstA][0] + 1
			}
			for j := firstB; j <= m; j++ {
				forest[0][j-firstB+1] = forest[0][j-firstB] + 1
			}
			for i := firstA; i <= k; i++ {
				for j := firstB; j <= m; j++ {
					x, y := i-firstA+1, j-firstB+1
					least := min(forest[x-1][y], forest[x][y-1]) + 1
					if p.leftmost[i] == firstA && q.leftmost[j] == firstB {
						least = min(least, forest[x-1][y-1]+rename(p.nodes[i], q.nodes[j]))
						trees[i][j] = least
					} else {
						least = min(least, forest[p.leftmost[i]-firstA][q.leftmost[j]-firstB]+trees[i][j])
					}
					forest[x][y] = least
				}
			}
		}
	}
	return trees[len(p.nodes)-1][len(q.nodes)-1]
}

// treesOf parses the tables of HTML into trees. A row whose cells are all th belongs to the head.
func treesOf(t *testing.T, s string) []*tableTree {
	t.Helper()
	root, err := html.Parse(strings.NewReader(s))
	if err != nil {
		t.Fatal(err)
	}
	var out []*tableTree
	for n := range root.Descendants() {
		if n.Type == html.ElementNode && tag(n) == atom.Table {
			out = append(out, treeOf(n))
		}
	}
	return out
}

func treeOf(table *html.Node) *tableTree {
	var head, body tableTree
	head.tag, body.tag = "thead", "tbody"
	for tr := range table.Descendants() {
		if tr.Type != html.ElementNode || tag(tr) != atom.Tr {
			continue
		}
		row := &tableTree{tag: "tr"}
		for c := range tr.ChildNodes() {
			if c.Type == html.ElementNode && (tag(c) == atom.Td || tag(c) == atom.Th) {
				row.children = append(row.children, &tableTree{tag: "td", columnSpan: max(1, spanOf(c, "colspan")), rowSpan: max(1, spanOf(c, "rowspan")), text: []rune(squeeze(innerText(c)))})
			}
		}
		if ancestor(tr, atom.Thead) != nil {
			head.children = append(head.children, row)
		} else {
			body.children = append(body.children, row)
		}
	}
	return tableOfParts(&head, &body)
}

func tableOfParts(head, body *tableTree) *tableTree {
	out := &tableTree{tag: "table"}
	for _, part := range []*tableTree{head, body} {
		if len(part.children) > 0 {
			out.children = append(out.children, part)
		}
	}
	return out
}

// letters parses a tree written as a letter followed by its children in brackets.
func letters(s string) *tableTree {
	var parse func() *tableTree
	at := 0
	parse = func() *tableTree {
		n := &tableTree{tag: s[at : at+1]}
		at++
		if at < len(s) && s[at] == '(' {
			at++
			for s[at] != ')' {
				n.children = append(n.children, parse())
			}
			at++
		}
		return n
	}
	return parse()
}

func TestEditDistanceOfTrees(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want float64
	}{
		{"a", "a", 0},
		{"a", "b", 1},
		{"a(bc)", "a", 2},
		{"a(bc)", "a(cb)", 2},
		{"f(da(c(b))e)", "f(da(c(b))e)", 0},
		{"f(d(ac(b))e)", "f(c(d(ab))e)", 2}, // the example of Zhang and Shasha
		{"a(b(cd))", "a(cd)", 1},            // b is deleted, its
		{"a(bcd)", "a(b(cd))", 2},           // c and d can't move below b
		{"a(b(c)d(e))", "a(b(ce)d)", 2},
	} {
		unlike := func(x, y *tableTree) float64 {
			if x.tag != y.tag {
				return 1
			}
			return 0
		}
		a, b := letters(c.a), letters(c.b)
		for _, got := range []float64{editDistance(a, b, unlike), editDistance(b, a, unlike)} {
			if got != c.want {
				t.Errorf("%s and %s: %g, want %g", c.a, c.b, got, c.want)
			}
		}
	}
}

func TestTEDS(t *testing.T) {
	const table = `<table><thead><tr><th>Year</th><th>Sales</th></tr></thead><tbody><tr><td>2022</td><td>1,234</td></tr></tbody></table>`
	// table, thead, tbody, 2 tr and 4 td are 9 nodes.
	for _, c := range []struct {
		name, other     string
		want, structure float64
	}{
		{"the same", table, 1, 1},
		{"a cell half wrong", strings.Replace(table, "2022", "2019", 1), 1 - 2.0/4/9, 1},
		{"a cell empty", strings.Replace(table, "2022", "", 1), 1 - 1.0/9, 1},
		{"a row less", strings.Replace(table, "<tr><td>2022</td><td>1,234</td></tr>", "", 1), 1 - 4.0/9, 1 - 4.0/9},
		{"a cell over both columns", strings.Replace(table, "<th>Year</th><th>Sales</th>", `<th colspan="2">Year</th>`, 1), 1 - 2.0/9, 1 - 2.0/9},
		{"no header", strings.NewReplacer("thead", "tbody", "</tbody><tbody>", "").Replace(table), 1 - 3.0/9, 1 - 3.0/9},
	} {
		a, b := treesOf(t, table)[0], treesOf(t, c.other)[0]
		if got, structure := teds(a, b, false), teds(a, b, true); math.Abs(got-c.want) > 1e-9 || math.Abs(structure-c.structure) > 1e-9 {
			t.Errorf("%s: %.4f and %.4f, want %.4f and %.4f", c.name, got, structure, c.want, c.structure)
		}
	}
}
