package run_test

// Collections whose vectors are the second encoder's.

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// scriptedSecond is the second encoder; unavailable means that its servers do not run.
type scriptedSecond struct {
	unavailable bool
	asked       int
	calibrated  map[string]float64
}

func (s *scriptedSecond) Info(context.Context) (wire.ModelInfo, error) {
	if s.unavailable {
		return wire.ModelInfo{}, fmt.Errorf("nobody answers: %w", schema.ErrUnavailable)
	}
	return wire.ModelInfo{Space: "second", Calibrated: s.calibrated, Scripts: map[wire.ModelOp][]string{wire.OpEncode: {"Latin"}}}, nil
}

func (s *scriptedSecond) EncodeQuery(context.Context, wire.Lane, string, []string) (wire.Vectors, string, error) {
	s.asked++
	if s.unavailable {
		return wire.Vectors{}, "", fmt.Errorf("nobody answers: %w", schema.ErrUnavailable)
	}
	return wire.Vectors{Dimension: 1, Data: []float32{1}}, "second", nil
}

// TestTheSecondEncodersVectorsAreSearchedWithIt: with the weight for the second encoder.
func TestTheSecondEncodersVectorsAreSearchedWithIt(t *testing.T) {
	first := townCorpus()
	wanted := first.run(t, "- hybrid: {of: [{lexical: {}}, {dense: {weight: 9}}]}")
	c := townCorpus()
	c.second = &scriptedSecond{}
	got := c.run(t, "- hybrid: {of: [{lexical: {}}, {dense: {weight: 0.1, second: 9, known: true}}]}")
	want(t, "what it finds", places(got), places(wanted))
	want(t, "the space of the search", c.nearest[0].Space, "second")
	if c.second.asked != 1 {
		t.Errorf("it was asked %d times", c.second.asked)
	}
	c = townCorpus()
	c.second = &scriptedSecond{}
	want(t, "what vectors alone find", places(c.run(t, "- dense")), places(townCorpus().run(t, "- dense")))
}

// TestWordsAreComparedWhileTheSecondEncoderIsAway: the trace says how to fix it.
func TestWordsAreComparedWhileTheSecondEncoderIsAway(t *testing.T) {
	for _, stages := range []string{"- dense", "- hybrid: {of: [{lexical: {}}, {dense: {known: true}}]}"} {
		c := townCorpus()
		c.second = &scriptedSecond{unavailable: true}
		got := c.run(t, stages)
		want(t, "what it finds", places(got), places(townCorpus().run(t, "- lexical")))
		want(t, "searches by vectors", len(c.nearest), 0)
		if why := got.Trace[0].Why; !strings.Contains(why, "SLUICE_SECOND_PACK") || !strings.Contains(why, "space second") {
			t.Errorf("the trace says %q", why)
		}
		if c.second.asked > 1 {
			t.Errorf("it was asked %d times", c.second.asked)
		}
	}
}
