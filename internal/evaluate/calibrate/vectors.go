package calibrate

// This file finds the thresholds of the cosines of an encoder's vectors.

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/sluice-rag/sluice/internal/text"
	"github.com/sluice-rag/sluice/schema/wire"
)

const (
	// joinProbability is the probability that neighbouring sentences belong together at the
	// similarity threshold: SAGE's ss, also used for the shipped packs.
	joinProbability = 0.55
	// joinedTexts is the number of texts that are joined from excerpts of documents, pieces the
	// number of excerpts in each, of minPiece to maxPiece sentences (Choi 2000).
	joinedTexts = 200
	pieces      = 6
	minPiece    = 3
	maxPiece    = 11
	// maxCompared bounds the passages that are searched for repetitions.
	maxCompared = 1_000
	// encodedAtOnce bounds the texts of one request.
	encodedAtOnce = 64
	// droppedShare is the share of near copies that dedupe drops.
	droppedShare = 0.9
)

// VectorNumbers are the thresholds of an encoder's cosines.
type VectorNumbers struct {
	// Similarity is the cosine below which neighbouring sentences belong apart: the equivalent of
	// ChunkRAG's theta = 0.8.
	Similarity float64 `json:"similarity"`
	// SimilarityArea is the area under the ROC curve over sentence pairs inside and between
	// excerpts.
	SimilarityArea float64 `json:"similarity_area"`
	// Dedupe is the cosine above which a passage repeats another: nine of ten passages reach it
	// with a copy of themselves that lacks one sentence.
	Dedupe float64 `json:"dedupe"`
	// Mistaken is the share of passages whose nearest other passage is above Dedupe.
	Mistaken float64 `json:"mistaken"`
}

// vectors calibrates the encoder.
func (r *run) vectors(ctx context.Context) error {
	if !r.has(wire.OpEncode, "the encoder") {
		return nil
	}
	var out VectorNumbers
	r.Progress("encoder", 0, 2)
	err := r.similarity(ctx, &out)
	if errors.Is(err, errNotFitted) || err == nil && (out.SimilarityArea < minArea || out.Similarity <= 0 || out.Similarity >= 1) {
		r.found.note("the encoder: cosines of neighbouring sentences hardly tell whether they are of one text (area under the ROC curve %.2f); it keeps its thresholds",
			out.SimilarityArea)
		return nil
	}
	if err != nil {
		return fmt.Errorf("calibrate the encoder's similarity: %w", err)
	}
	r.Progress("encoder", 1, 2)
	if err := r.dedupe(ctx, &out); err != nil {
		return fmt.Errorf("calibrate the encoder's repetitions: %w", err)
	}
	r.Progress("encoder", 2, 2)
	r.found.Encoder = &out
	return nil
}

// similarity compares neighbouring sentences of texts that are joined from excerpts.
func (r *run) similarity(ctx context.Context, out *VectorNumbers) error {
	var inside, between []float64 // cosines
	for range joinedTexts {
		var sentences []string
		var first []bool // of an excerpt
		for range pieces {
			for i, s := range r.excerpt() {
				sentences, first = append(sentences, s), append(first, i == 0)
			}
		}
		vectors, err := r.encode(ctx, sentences)
		if err != nil {
			return err
		}
		for i := 1; i < len(sentences); i++ {
			switch cosine, ok := cosineOf(vectors, i-1, i); {
			case !ok:
			case first[i]:
				between = append(between, cosine)
			default:
				inside = append(inside, cosine)
			}
		}
	}
	// Take equally many of both: how often texts change their subject is unknown.
	r.sample.random.Shuffle(len(inside), func(i, j int) { inside[i], inside[j] = inside[j], inside[i] })
	n := min(len(inside), len(between))
	if n == 0 {
		return errNotFitted
	}
	cosines := slices.Concat(inside[:n], between[:n])
	same := slices.Concat(slices.Repeat([]bool{true}, n), make([]bool, n))
	line, err := platt(cosines, same)
	if err != nil {
		return err
	}
	out.Similarity, out.SimilarityArea = line.at(joinProbability), area(cosines, same)
	return nil
}

// excerpt returns a random run of sentences of a random passage.
func (r *run) excerpt() []string {
	body := r.sample.passages[r.sample.random.IntN(len(r.sample.passages))].body
	sentences := text.Sentences(body)
	n := min(minPiece+r.sample.random.IntN(maxPiece-minPiece+1), len(sentences))
	start := r.sample.random.IntN(len(sentences) - n + 1)
	var out []string
	for _, s := range sentences[start : start+n] {
		out = append(out, s.Of(body))
	}
	return out
}

// dedupe compares passages with copies of themselves that lack a sentence, and with each other.
func (r *run) dedupe(ctx context.Context, out *VectorNumbers) error {
	var whole, copies []string
	for _, i := range r.sample.random.Perm(len(r.sample.passages)) {
		p := r.sample.passages[i]
		sentences := text.Sentences(p.body)
		if len(sentences) < minPiece {
			continue
		}
		gone := sentences[r.sample.random.IntN(len(sentences))]
		shorter := p
		shorter.body = p.body[:gone.Start] + p.body[gone.End:]
		whole, copies = append(whole, p.input()), append(copies, shorter.input())
		if len(whole) == maxCompared {
			break
		}
	}
	if len(whole) < minQuestions {
		r.found.note("the encoder: %d passages have %d sentences, too few to calibrate dedupe on", len(whole), minPiece)
		return nil
	}
	vectors, err := r.encode(ctx, append(whole, copies...))
	if err != nil {
		return err
	}
	n := len(whole)
	var near, nearest []float64
	for i := range n {
		if cosine, ok := cosineOf(vectors, i, n+i); ok {
			near = append(near, cosine)
		}
		best := -1.0
		for j := range n {
			if cosine, ok := cosineOf(vectors, i, j); ok && i != j && whole[i] != whole[j] {
				best = max(best, cosine)
			}
		}
		nearest = append(nearest, best)
	}
	if len(near) == 0 {
		return errNotFitted
	}
	out.Dedupe = quantile(near, 1-droppedShare)
	for _, x := range nearest {
		if x > out.Dedupe {
			out.Mistaken += 1 / float64(len(nearest))
		}
	}
	return nil
}

// encode encodes texts in small requests: with a large encoder on a busy machine, one request for
// all would time out.
func (r *run) encode(ctx context.Context, texts []string) (all wire.Vectors, err error) {
	for some := range slices.Chunk(texts, encodedAtOnce) {
		vectors, _, err := r.models.Encode(ctx, wire.LaneBulk, some)
		if err != nil {
			return all, err
		}
		if vectors.Len() != len(some) {
			return all, fmt.Errorf("the model server gave %d vectors for %d texts", vectors.Len(), len(some))
		}
		all.Dimension, all.Data = vectors.Dimension, append(all.Data, vectors.Data...)
	}
	return all, nil
}

// cosineOf returns the cosine of two unit vectors; ok is false if one has no length.
func cosineOf(vectors wire.Vectors, i, j int) (cosine float64, ok bool) {
	a, b := vectors.Row(i), vectors.Row(j)
	length := 0.0
	other := 0.0
	for k := range a {
		cosine += float64(a[k]) * float64(b[k])
		length += float64(a[k]) * float64(a[k])
		other += float64(b[k]) * float64(b[k])
	}
	return cosine, length > 0 && other > 0
}
