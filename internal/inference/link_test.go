package inference

// This file tests link: against the goldens of the tiny linker graph, with documents longer than
// its window, and with requests that can't be answered.

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/inference/inferencetest"
	"github.com/sluice-rag/sluice/internal/modelclient"
	"github.com/sluice-rag/sluice/internal/waittest"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// goldenVectors returns a golden's vectors in their full dimension.
func goldenVectors(rows [][]float32, dimension int) wire.Vectors {
	v := wire.Vectors{Dimension: dimension, Data: make([]float32, len(rows)*dimension)}
	for i, row := range rows {
		copy(v.Row(i), row)
	}
	return v
}

// linksOf returns the links that follow from golden attention.
func linksOf(attention [][]float32, keep int) (links [][]wire.PassageLink) {
	for i, row := range attention {
		var of []wire.PassageLink
		for j, weight := range row {
			if j != i {
				of = append(of, wire.PassageLink{To: j, Weight: weight})
			}
		}
		slices.SortFunc(of, func(a, b wire.PassageLink) int {
			if a.Weight > b.Weight {
				return -1
			}
			return 1
		})
		links = append(links, of[:min(keep, len(of))])
	}
	return links
}

func nearLinks(t *testing.T, what string, got, want [][]wire.PassageLink) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: links of %d passages, want %d", what, len(got), len(want))
	}
	for i := range want {
		if len(got[i]) != len(want[i]) {
			t.Fatalf("%s: passage %d has links %v, want %v", what, i, got[i], want[i])
		}
		for j, w := range want[i] {
			if g := got[i][j]; g.To != w.To || !(max(g.Weight-w.Weight, w.Weight-g.Weight) <= 1e-4) {
				t.Errorf("%s: passage %d has links %v, want %v", what, i, got[i], want[i])
				break
			}
		}
	}
}

func TestGoldenLinks(t *testing.T) {
	model := openFull(t)
	nc, _ := serving(t, model, ServerOptions{})
	client := modelclient.New(nc, modelclient.Options{})
	var documents []wire.Vectors
	goldens := inferencetest.ReadGoldens(t).Linker
	for _, g := range goldens {
		documents = append(documents, goldenVectors(g.Vectors, model.dimension()))
	}
	// Also a document without passages and one with a single passage.
	documents = append(documents, wire.Vectors{}, goldenVectors(goldens[0].Vectors[:1], model.dimension()))
	for _, keep := range []int{1, 3, 100} {
		links, name, err := client.Link(t.Context(), wire.LaneBulk, model.manifest.Space, documents, keep)
		if err != nil {
			t.Fatal(err)
		}
		if name != model.name() || len(links) != len(documents) {
			t.Fatalf("links of %d documents by %q", len(links), name)
		}
		for i, g := range goldens {
			nearLinks(t, fmt.Sprintf("keep %d, document %d", keep, i), links[i], linksOf(g.Attention, keep))
		}
		if n := len(goldens); len(links[n]) != 0 || len(links[n+1]) != 1 || len(links[n+1][0]) != 0 {
			t.Errorf("empty documents have links %v", links[n:])
		}
	}
}

// TestLinksSurviveTheBordersOfWindows: in a document of many windows, every passage has a twin
// three passages away. Twins attend to each other most, wherever windows end. Documents in one
// request do not mix.
func TestLinksSurviveTheBordersOfWindows(t *testing.T) {
	model := openFull(t)
	nc, _ := serving(t, model, ServerOptions{})
	client := modelclient.New(nc, modelclient.Options{Parallel: 2})
	random := rand.New(rand.NewPCG(3, 4))
	document := wire.Vectors{Dimension: model.dimension(), Data: make([]float32, 999*model.dimension())}
	for i := range document.Data {
		document.Data[i] = float32(random.NormFloat64() / 4)
	}
	all, _, err := client.Link(t.Context(), wire.LaneBulk, model.manifest.Space, []wire.Vectors{document, document}, 2)
	if err != nil {
		t.Fatal(err)
	}
	nearLinks(t, "the second of two equal documents", all[1], all[0])
	window := model.manifest.Linker.MaxPassages
	across := 0
	for i, links := range all[0] {
		if len(links) != 2 {
			t.Fatalf("passage %d has links %v", i, links)
		}
		for _, l := range links {
			if l.To == i || l.To < 0 || l.To >= 999 || l.To-i >= window || i-l.To >= window || l.Weight < 0 || l.Weight > 1 {
				t.Errorf("passage %d has link %+v", i, l)
			}
			if l.To/window != i/window {
				across++
			}
		}
	}
	if across < 100 {
		t.Errorf("only %d links cross a multiple of the window's length", across)
	}
	// The links in the middle of a window are those of the whole document.
	start := 400
	part := wire.Vectors{Dimension: document.Dimension, Data: document.Data[start*document.Dimension : (start+window)*document.Dimension]}
	alone, _, err := client.Link(t.Context(), wire.LaneBulk, model.manifest.Space, []wire.Vectors{part}, 2)
	if err != nil {
		t.Fatal(err)
	}
	for _, of := range alone[0] {
		for j := range of {
			of[j].To += start
		}
	}
	inner := window/2 - 1 // the left one of the two in the middle: no other window has more context around it
	nearLinks(t, "middle of a window", all[0][start+inner:start+inner+1], alone[0][inner:inner+1])
}

func TestBadLinkRequestsAreNamed(t *testing.T) {
	model := openFull(t)
	nc, _ := serving(t, model, ServerOptions{})
	vectors := func(n, dimension int) string {
		data, err := wire.Encode(wire.Vectors{Dimension: dimension, Data: make([]float32, n*dimension)})
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	space, good := model.manifest.Space, vectors(2, model.dimension())
	nan, err := wire.Encode(wire.Vectors{Dimension: 1, Data: []float32{nanValue()}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, data, field string }{
		{"no JSON", `{"v":1,`, ""},
		{"unknown lane", `{"v":1,"lane":"x","space":"` + space + `","windows":[` + good + `],"keep":1}`, "lane"},
		{"nothing to keep", `{"v":1,"lane":"bulk","space":"` + space + `","windows":[` + good + `]}`, "keep"},
		{"negative keep", `{"v":1,"lane":"bulk","space":"` + space + `","windows":[` + good + `],"keep":-1}`, "keep"},
		{"no space", `{"v":1,"lane":"bulk","windows":[` + good + `],"keep":1}`, "space"},
		{"another space", `{"v":1,"lane":"bulk","space":"bert","windows":[` + good + `],"keep":1}`, "space"},
		{"another dimension", `{"v":1,"lane":"bulk","space":"` + space + `","windows":[` + vectors(2, 128) + `],"keep":1}`, "windows"},
		{"too long a window", `{"v":1,"lane":"bulk","space":"` + space + `","windows":[` + vectors(9, model.dimension()) + `],"keep":1}`, "windows"},
		{"no numbers", `{"v":1,"lane":"bulk","space":"` + space + `","windows":[` + strings.Replace(string(nan), `"dimension":1`, fmt.Sprintf(`"dimension":%d`, 1), 1) + `],"keep":1}`, "windows"},
	} {
		msg, err := nc.Request(wire.ModelSubject(wire.OpLink), []byte(c.data), waittest.Left(t))
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		reply, err := decode[wire.LinkReply](msg.Data)
		if err != nil || reply.Error == nil || reply.Error.Code != schema.CodeInvalid || reply.Error.Field != c.field {
			t.Errorf("%s: got %+v, %v; want field %q", c.name, reply.Error, err, c.field)
		}
	}

	client := modelclient.New(nc, modelclient.Options{})
	document := []wire.Vectors{{Dimension: model.dimension(), Data: make([]float32, 3*model.dimension())}}
	for field, call := range map[string]func() error{
		"keep": func() error {
			_, _, err := client.Link(t.Context(), wire.LaneBulk, space, document, 0)
			return err
		},
		"space": func() error {
			_, _, err := client.Link(t.Context(), wire.LaneBulk, "bert", document, 1)
			return err
		},
		"documents": func() error {
			_, _, err := client.Link(t.Context(), wire.LaneBulk, space, []wire.Vectors{{Dimension: 3, Data: make([]float32, 9)}}, 1)
			return err
		},
	} {
		var named *schema.FieldError
		if err := call(); !errors.As(err, &named) || named.Field != field {
			t.Errorf("%s: got %v", field, err)
		}
	}
}

// TestStrongestLinks compares the result with that of sorting all links.
func TestStrongestLinks(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		n := 2 + random.IntN(12)
		attention := make([]float32, n)
		for i := range attention {
			attention[i] = float32(random.IntN(4)) // many are equal
		}
		self, keep := random.IntN(n), 1+random.IntN(n+2)
		var want []wire.PassageLink
		for to, weight := range attention {
			if to != self {
				want = append(want, wire.PassageLink{To: to, Weight: weight})
			}
		}
		distance := func(l wire.PassageLink) int { return max(l.To-self, self-l.To) }
		slices.SortStableFunc(want, func(a, b wire.PassageLink) int {
			return cmp.Or(cmp.Compare(b.Weight, a.Weight), distance(a)-distance(b))
		})
		if got := topLinks(attention, self, keep); !slices.Equal(got, want[:min(keep, len(want))]) {
			t.Fatalf("of %v for %d, %d links: got %v, want %v", attention, self, keep, got, want)
		}
	}
}
