package inference

// This file compares the linker and the detector of the shipped pack, which read no text, with
// their trainer's goldens.

import (
	"fmt"
	"testing"
)

// TestGoldenLinker tests each document alone and all in one batch: padding must not change the
// result.
func TestGoldenLinker(t *testing.T) {
	m, g := open(t), readGoldens(t)
	if (m.linker != nil) != (len(g.Linker) > 0) {
		t.Fatalf("the pack has a graph linker: %v, but %d goldens of it", m.linker != nil, len(g.Linker))
	}
	var together []window
	for _, golden := range g.Linker {
		w, want := golden.window(t, m)
		if err := m.linker.computeAttention(t.Context(), []window{w}); err != nil {
			t.Fatal(err)
		}
		near(t, fmt.Sprintf("attention between %d passages", w.passages), w.attention, want)
		w.attention = make([]float32, len(w.attention))
		together = append(together, w)
	}
	if len(together) == 0 {
		return
	}
	if err := m.linker.computeAttention(t.Context(), together); err != nil {
		t.Fatal(err)
	}
	for i, golden := range g.Linker {
		_, want := golden.window(t, m)
		near(t, fmt.Sprintf("attention between %d passages, padded", together[i].passages), together[i].attention, want)
	}
}

func TestGoldenDetector(t *testing.T) {
	m, g := open(t), readGoldens(t)
	if (m.detector != nil) != (len(g.Detector) > 0) {
		t.Fatalf("the pack has a graph detector: %v, but %d goldens of it", m.detector != nil, len(g.Detector))
	}
	var contexts []detectorInput
	var want []float32
	for _, golden := range g.Detector {
		contexts, want = append(contexts, detectorInput{golden.Pairs, new(float32)}), append(want, golden.Enough)
	}
	if len(contexts) == 0 {
		return
	}
	if err := m.detector.detect(t.Context(), contexts); err != nil {
		t.Fatal(err)
	}
	got := make([]float32, len(contexts))
	for i, c := range contexts {
		got[i] = *c.enough
	}
	near(t, "detector", got, want)
}

// window encodes the golden's passages. want is the attention between them, row by row.
func (g goldenDocument) window(t *testing.T, m *Model) (w window, want []float32) {
	t.Helper()
	var sequences []sequence
	w = window{vectors: make([]float32, len(g.Passages)*m.dimension()), passages: len(g.Passages)}
	for i, passage := range g.Passages {
		ids, _, _ := m.encoder.tokens(passage)
		sequences = append(sequences, m.encoder.sequence(ids, w.vectors[i*m.dimension():(i+1)*m.dimension()]))
	}
	if err := m.encoder.encode(t.Context(), sequences); err != nil {
		t.Fatal(err)
	}
	for _, row := range g.Attention {
		want = append(want, row...)
	}
	w.attention = make([]float32, len(want))
	return w, want
}
