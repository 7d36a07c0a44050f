package modelpack

import (
	"strings"
	"testing"
)

func TestReplacingAGraphRemovesWhatDependsOnIt(t *testing.T) {
	const manifest = `name: base
encoder: {file: a.onnx, sha256: aa, dimension: 256}
segmenter: {file: b.onnx, sha256: bb, threshold: 0.5}
pair: {file: c.onnx, sha256: cc}
reranker: {file: h.onnx, sha256: hh}
linker: {file: d.onnx, sha256: dd}
fuser: {file: e.onnx, sha256: ee}
detector: {file: f.onnx, sha256: ff}
calibrated: {dedupe: 0.93, answerable: 2.5, prefer_sum: 1, most_reranker: 3}
unheard: {file: g.onnx, sha256: gg}
`
	for _, c := range []struct {
		replace   func(document) error
		has, lost []string
	}{
		{func(d document) error { return d.replaceEncoder(encoderSection{Dimension: 384}) },
			[]string{"dimension: 384", "dimension: 256", "c.onnx", "e.onnx", "f.onnx", "g.onnx", "h.onnx", "answerable", "prefer_sum", "most_reranker"}, []string{"d.onnx", "dedupe"}},
		{func(d document) error { return d.replacePair(pairSection{Labels: 2}) },
			[]string{"labels: 2", "a.onnx", "d.onnx", "e.onnx", "g.onnx", "h.onnx", "dedupe", "most_reranker"}, []string{"c.onnx", "f.onnx", "answerable", "prefer_sum"}},
		{func(d document) error { return d.replaceReranker(pairSection{Labels: 2}) },
			[]string{"labels: 2", "a.onnx", "c.onnx", "d.onnx", "e.onnx", "f.onnx", "g.onnx", "dedupe", "answerable", "prefer_sum"}, []string{"h.onnx", "most_reranker"}},
	} {
		d, err := parseDocument("manifest.yaml", []byte(manifest))
		if err != nil {
			t.Fatal(err)
		}
		if err := c.replace(d); err != nil {
			t.Fatal(err)
		}
		data, err := d.bytes()
		if err != nil {
			t.Fatal(err)
		}
		for _, word := range c.has {
			if !strings.Contains(string(data), word) {
				t.Errorf("%s is gone from\n%s", word, data)
			}
		}
		for _, word := range c.lost {
			if strings.Contains(string(data), word) {
				t.Errorf("%s is still in\n%s", word, data)
			}
		}
	}
	for _, bad := range []string{"", "[]", "{{{", "text"} {
		if _, err := parseDocument("manifest.yaml", []byte(bad)); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}
