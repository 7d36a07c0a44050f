package httpapi

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/danielgtaylor/huma/v2"
)

// TestStringsAreSkippedExactly: a body in pieces of any size is checked as it is byte by byte.
func TestStringsAreSkippedExactly(t *testing.T) {
	short := 3
	document := &huma.Schema{Type: huma.TypeObject, AdditionalProperties: false, Properties: map[string]*huma.Schema{
		"text": {Type: huma.TypeString}, "title": {Type: huma.TypeString, MaxLength: &short},
		"metadata": {Type: huma.TypeObject, AdditionalProperties: true},
	}}
	root := &huma.Schema{Type: huma.TypeObject, AdditionalProperties: false, Properties: map[string]*huma.Schema{
		"documents": {Type: huma.TypeArray, Items: document}, "name": {Type: huma.TypeString},
	}}
	checker := func(batch, text bool) *bodyChecker {
		c := &bodyChecker{limits: limits{bytes: 64 << 20, values: 1000, objects: 100, text: text}, root: root}
		if batch {
			c.spans, c.rest = &[]byteRange{}, &skeleton{}
		}
		return c
	}
	of := func(n int) string { return strings.Repeat("x", n) }
	for _, body := range []string{
		`{"documents":[{"text":"a \"quoted\" word\\","title":"tea"},{"text":"é\u00e9\n","metadata":{"a":["b","c"]}}],"name":"n"}`,
		`{"documents":[{"title":"` + of(36) + `"}]}`,
		`{"documents":[{"title":"` + of(37) + `"}]}`,
		`{"documents":[{"text":"` + of(maxFree) + `"}]}`,
		`{"documents":[{"text":"` + of(maxFree+1) + `"}]}`,
		`{"documents":[{"metadata":{"a":"` + of(maxFree-10) + `","b":"` + of(100) + `"}}]}`,
		`{"documents":[{"text":"` + of(maxInBatch-20) + `","title":"` + of(30) + `"}]}`,
		`{"name":"` + of(maxAround+10) + `","documents":[]}`,
		`{"documents":[{"text":"never ends`,
	} {
		for i := range 4 {
			whole, pieces := checker(i%2 == 0, i < 2), checker(i%2 == 0, i < 2)
			for j := 0; j < len(body) && whole.failed == nil; j++ {
				whole.take(body[j])
			}
			var err error
			for rest := []byte(body); len(rest) > 0 && err == nil; {
				n := min(len(rest), 1+rand.IntN(1<<rand.IntN(16)))
				_, err = pieces.Write(rest[:n])
				rest = rest[n:]
			}
			name := fmt.Sprintf("%.60s, %d bytes, batch %t, text %t", body, len(body), i%2 == 0, i < 2)
			if fmt.Sprintf("%+v", err) != fmt.Sprintf("%+v", whole.failed) {
				t.Errorf("%s: %v, byte by byte %v", name, err, whole.failed)
			}
			if pieces.read != whole.read || pieces.text != whole.text || pieces.values != whole.values {
				t.Errorf("%s: read %d, text %v, values %d; byte by byte %d, %v, %d",
					name, pieces.read, pieces.text, pieces.values, whole.read, whole.text, whole.values)
			}
			if i%2 == 0 && (!slices.Equal(*pieces.spans, *whole.spans) || pieces.rest.String() != whole.rest.String()) {
				t.Errorf("%s: documents %v and %q; byte by byte %v and %q",
					name, *pieces.spans, pieces.rest.String(), *whole.spans, whole.rest.String())
			}
		}
	}
}

func BenchmarkBodyChecker(b *testing.B) {
	text := &huma.Schema{Type: huma.TypeObject, Properties: map[string]*huma.Schema{"text": {Type: huma.TypeString}}}
	body := []byte(`{"text":"` + strings.Repeat(`A line of a document, and the next.\n`, 30_000) + `"}`)
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		c := &bodyChecker{limits: limits{bytes: 64 << 20, values: 10, objects: 10, text: true}, root: text}
		if _, err := c.Write(body); err != nil {
			b.Fatal(err)
		}
	}
}
