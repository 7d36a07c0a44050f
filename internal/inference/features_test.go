package inference

// This file tests the features of the pair graph: the numbers that its labels are computed from.

import (
	"testing"

	"github.com/sluice-rag/sluice/internal/modelclient"
	"github.com/sluice-rag/sluice/schema/wire"
)

// TestFeaturesComeWithTheScores tests the shipped graph, whose last feature is the relevance. A
// text has the same features alone and in a batch, a text without words has none, and requesting
// features does not change the scores.
func TestFeaturesComeWithTheScores(t *testing.T) {
	m := open(t)
	nc, _ := serving(t, m, ServerOptions{})
	client, g := modelclient.New(nc, modelclient.Options{}), readGoldens(t)
	question := g.Pair[0].Question
	texts := []string{""}
	for _, p := range g.Pair {
		if p.Question == question {
			texts = append(texts, p.Text)
		}
	}
	got, err := client.ScoreWithFeatures(t.Context(), wire.LaneInteractive, question, texts)
	if err != nil {
		t.Fatal(err)
	}
	if width := m.pair.features(); width != 91 || got.Features.Dimension != width || got.Features.Len() != len(texts) || got.Of != m.manifest.Pair.SHA256[:16] || got.Model != m.name() {
		t.Fatalf("%d features of %d texts, of the graph %q of %s", got.Features.Dimension, got.Features.Len(), got.Of, got.Model)
	}
	plain, _, err := client.Score(t.Context(), wire.LaneInteractive, question, texts, false)
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range got.Scores {
		near(t, "scores of "+texts[i], []float32{s.Relevance, s.HasAnswer, s.LLMPrefer}, []float32{plain[i].Relevance, plain[i].HasAnswer, plain[i].LLMPrefer})
		row := got.Features.Row(i)
		if s.HasAnswer == lowestScore {
			near(t, "features of "+texts[i], row, make([]float32, len(row)))
			continue
		}
		near(t, "relevance of "+texts[i], row[len(row)-1:], []float32{s.Relevance})
		alone, err := client.ScoreWithFeatures(t.Context(), wire.LaneBulk, question, texts[i:i+1])
		if err != nil {
			t.Fatal(err)
		}
		near(t, "features alone of "+texts[i], alone.Features.Row(0), row)
	}
	if got.Scores[0].HasAnswer != lowestScore {
		t.Errorf("a text without a word has %+v", got.Scores[0])
	}
}

// TestAGraphWithoutFeaturesGivesNone tests an older pack and a cross-encoder.
func TestAGraphWithoutFeaturesGivesNone(t *testing.T) {
	nc, _ := serving(t, openFull(t), ServerOptions{})
	got, err := modelclient.New(nc, modelclient.Options{}).ScoreWithFeatures(t.Context(), wire.LaneInteractive, "What is measured?", []string{"The water level is measured."})
	if err != nil || len(got.Scores) != 1 || got.Features.Len() != 0 || got.Of != "" {
		t.Errorf("got %+v, %v", got, err)
	}
}
