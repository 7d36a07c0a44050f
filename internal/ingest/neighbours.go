package ingest

// Sections are cut by a score for each pair of neighbouring sentences, from the segmentation model
// or from the sentences' vectors.

import (
	"context"
	"fmt"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// scoresOf returns the scores by which g cuts runs of sentences, and g with the threshold filled
// in: for a segmenter that is the model pack's unless g has its own. All runs are scored in one
// request. A run of one sentence has no scores and needs no model, and neither does one that is cut
// by counting.
func scoresOf(ctx context.Context, models Models, runs [][]string, g schema.Segmentation) ([][]float64, schema.Segmentation, error) {
	out := make([][]float64, len(runs))
	var ask [][]string
	var at []int
	for i, r := range runs {
		if len(r) > 1 {
			ask, at = append(ask, r), append(at, i)
		}
	}
	if len(ask) == 0 || !g.Scored() {
		return out, g, nil
	}
	var scores [][]float32
	var err error
	if g.By == schema.BySimilarity {
		if scores, err = similarities(ctx, models, ask); err == nil && g.Calibrated {
			g.Threshold, err = similarityThreshold(ctx, models)
			g.Calibrated = false
		}
	} else {
		var threshold float64
		scores, threshold, err = models.Segment(ctx, wire.LaneBulk, ask)
		if g.Threshold == 0 {
			g.Threshold = threshold
		}
	}
	if err != nil {
		return nil, g, err
	}
	if len(scores) != len(ask) {
		return nil, g, fmt.Errorf("the model server answered %d of %d runs", len(scores), len(ask))
	}
	for i, s := range scores {
		wide := make([]float64, len(s))
		for j, score := range s {
			wide[j] = float64(score)
		}
		out[at[i]] = wide
	}
	return out, g, nil
}

// similarityThreshold returns the model pack's threshold. A collection that needs it takes no text
// if the pack has none.
func similarityThreshold(ctx context.Context, models Models) (float64, error) {
	info, err := models.Info(ctx)
	if err != nil {
		return 0, fmt.Errorf("ask for the pack's threshold of similarity: %w", err)
	}
	threshold, found := info.Calibrated[wire.CalibratedSimilarity]
	if !found {
		return 0, schema.Invalid("segmentation.calibrated", "model pack %s has no threshold of similarity: rebuild the collection with one of its own", info.Pack)
	}
	return threshold, nil
}

// similarities returns the cosine of each sentence's vector and the next one's. Each sentence is
// encoded once, without title and headings, which are the same for all.
func similarities(ctx context.Context, models Models, runs [][]string) ([][]float32, error) {
	var sentences []string
	for _, r := range runs {
		sentences = append(sentences, r...)
	}
	vectors, _, err := models.Encode(ctx, wire.LaneBulk, sentences)
	if err != nil {
		return nil, err
	}
	if vectors.Len() != len(sentences) {
		return nil, fmt.Errorf("the model server sent %d vectors for %d sentences", vectors.Len(), len(sentences))
	}
	out := make([][]float32, len(runs))
	row := 0
	for i, r := range runs {
		out[i] = make([]float32, len(r)-1)
		for j := range out[i] {
			out[i][j] = dot(vectors.Row(row+j), vectors.Row(row+j+1))
		}
		row += len(r)
	}
	return out, nil
}

// dot returns the cosine of two unit vectors.
func dot(a, b []float32) float32 {
	sum := float32(0)
	for i, x := range a {
		sum += x * b[i]
	}
	return sum
}
