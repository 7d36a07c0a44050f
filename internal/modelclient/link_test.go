package modelclient

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-rag/sluice/schema/wire"
)

// TestWindowsCoverADocument checks that each passage is in a window in which it has at least a
// quarter of the window on either side, where the document has so many, and that no window is
// longer than allowed or needed.
func TestWindowsCoverADocument(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, size := rapid.IntRange(0, 400).Draw(t, "passages"), rapid.IntRange(2, 60).Draw(t, "size")
		windows := windowsOf(n, size)
		m := newMergedLinks(n, 1)
		best := make([]int, n)
		for i, w := range windows {
			if length := w.end - w.start; length > size || length != min(n, size) {
				t.Errorf("window %v of %d passages", w, length)
			}
			if i > 0 && w.start <= windows[i-1].start {
				t.Errorf("window %v after %v", w, windows[i-1])
			}
			for passage := w.start; passage < w.end; passage++ {
				best[passage] = max(best[passage], m.marginOf(w, passage)+1)
			}
		}
		for passage, b := range best {
			if b < 1 || b-1 < min(n, (size-1)/4) {
				t.Errorf("passage %d of %d has %d neighbours in windows of %d", passage, n, b-1, size)
			}
		}
	})
}

// TestPartsFitTheirMessages checks documents of all lengths; each window must be in one part.
func TestPartsFitTheirMessages(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dimension := rapid.SampledFrom([]int{3, 256, 4096}).Draw(t, "dimension")
		limit, keep := rapid.SampledFrom([]int{2, 64, 512}).Draw(t, "limit"), rapid.SampledFrom([]int{1, 10, 1000}).Draw(t, "keep")
		var documents []wire.Vectors
		for _, n := range rapid.SliceOfN(rapid.SampledFrom([]int{0, 1, 2, 63, 65, 400}), 1, 4).Draw(t, "passages") {
			documents = append(documents, wire.Vectors{Dimension: dimension, Data: make([]float32, n*dimension)})
		}
		size := windowSize(limit, dimension, keep)
		seen := map[linkWindow]bool{}
		for _, part := range splitWindows(documents, size, keep) {
			request := wire.LinkRequest{Envelope: wire.Header(), Lane: wire.LaneInteractive, Space: "sluice", Keep: keep}
			links := 0
			for _, w := range part {
				if seen[w] {
					t.Errorf("window %v twice", w)
				}
				seen[w] = true
				d := documents[w.document]
				request.Windows = append(request.Windows, wire.Vectors{Dimension: dimension, Data: d.Data[w.start*dimension : w.end*dimension]})
				links += (w.end - w.start) * min(keep, w.end-w.start-1)
			}
			checkRequest(t, request)
			if links*linkBytes > linkReplyBytes {
				t.Errorf("%d links in a reply", links)
			}
		}
		want := 0
		for _, d := range documents {
			if d.Len() > 1 {
				want += len(windowsOf(d.Len(), size))
			}
		}
		if len(seen) != want {
			t.Errorf("%d windows, want %d", len(seen), want)
		}
	})
}

func TestLinksOfWindowsAreMerged(t *testing.T) {
	m := newMergedLinks(6, 2)
	none := []wire.PassageLink{}
	// Passage 2 has the same margin in both windows; passages 1 and 3 do not.
	m.add(linkWindow{start: 0, end: 4}, [][]wire.PassageLink{{{To: 1, Weight: 0.5}}, {{To: 3, Weight: 0.4}}, {{To: 0, Weight: 0.3}, {To: 1, Weight: 0.1}}, {{To: 0, Weight: 0.9}}})
	m.add(linkWindow{start: 1, end: 6}, [][]wire.PassageLink{{{To: 1, Weight: 0.9}}, {{To: 0, Weight: 0.2}, {To: 3, Weight: 0.25}}, {{To: 3, Weight: 0.1}}, none, none})
	want := [][]wire.PassageLink{
		{{To: 1, Weight: 0.5}}, {{To: 3, Weight: 0.4}}, {{To: 0, Weight: 0.3}, {To: 4, Weight: 0.25}}, {{To: 4, Weight: 0.1}}, none, none,
	}
	for i, got := range m.links {
		if len(got) != len(want[i]) {
			t.Fatalf("passage %d has links %v, want %v", i, got, want[i])
		}
		for j := range got {
			if got[j] != want[i][j] {
				t.Errorf("passage %d has links %v, want %v", i, got, want[i])
			}
		}
	}
}
