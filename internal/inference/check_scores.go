package inference

// This file checks the graphs that read a question or more than one text: the pair model and the
// reranker; the linker and the fuser, which read a run of texts together; and the detector, which
// reads scores of texts.

import (
	"context"
	"fmt"
	"slices"

	"github.com/sluice-rag/sluice/internal/inference/modelpack"
	"github.com/sluice-rag/sluice/schema/wire"
)

// pair checks the pair model or the reranker. The goldens of an added graph are under the key pair,
// whatever its role.
func (c *checker) pair(ctx context.Context, g *modelpack.GraphReport, model pairModel, section *ManifestPair, goldens []scoreGolden) error {
	if section.Goldens != nil || section.Format != "" {
		graphGoldens, err := c.goldens(g.Section, section.Goldens)
		if err != nil {
			return err
		}
		goldens = graphGoldens.Pair
	}
	maxQuestion, maxText := model.limits()
	encode := func(question, text string) textPair {
		q, _ := model.vocabulary().Encode(nil, question, maxQuestion)
		t, _ := model.vocabulary().Encode(nil, text, maxText)
		return textPair{question: q, text: t, result: &pairResult{}}
	}
	for _, golden := range goldens {
		p := encode(golden.Question, golden.Text)
		if len(p.question) == 0 || len(p.text) == 0 {
			continue
		}
		if err := model.score(ctx, []textPair{p}); err != nil {
			return err
		}
		got, want := []float32{p.result.relevance, p.result.hasAnswer, p.result.llmPrefer}, golden.Scores
		if golden.Relevance != nil {
			got, want = got[:1], []float32{*golden.Relevance}
		}
		c.compare(g, 1, fmt.Sprintf("the scores of %.40q for %.40q", golden.Text, golden.Question), got, want)
	}
	p, longPair := encode(probeTexts[0], probeTexts[0]), encode(probeTexts[0], probeTexts[1])
	if len(p.question) == 0 {
		return nil
	}
	if err := model.score(ctx, []textPair{p}); err != nil {
		return err
	}
	alone := p.result.relevance
	if err := model.score(ctx, []textPair{p, longPair}); err != nil {
		return err
	}
	c.padding(g, []float32{alone}, []float32{p.result.relevance})
	return nil
}

func (c *checker) linker(ctx context.Context, g *modelpack.GraphReport, all packGoldens) error {
	m := c.model
	encoded := func(passages []string) (window, error) {
		n, d := len(passages), m.dimension()
		w := window{vectors: make([]float32, n*d), passages: n, attention: make([]float32, n*n)}
		var sequences []sequence
		for i, passage := range passages {
			// A passage without a known token has the zero vector.
			if ids, _, _ := m.encoder.tokens(passage); ids != nil {
				sequences = append(sequences, m.encoder.sequence(ids, w.vectors[i*d:(i+1)*d]))
			}
		}
		return w, m.encoder.encode(ctx, sequences)
	}
	for _, golden := range all.Linker {
		if n := len(golden.Passages); n < 2 || n > m.manifest.Linker.MaxPassages {
			continue
		}
		w, err := encoded(golden.Passages)
		if err != nil {
			return err
		}
		if err := m.linker.computeAttention(ctx, []window{w}); err != nil {
			return err
		}
		c.compare(g, 1, fmt.Sprintf("the attention between %d passages", w.passages), w.attention, slices.Concat(golden.Attention...))
	}
	short, err := encoded(probeTexts)
	if err != nil {
		return err
	}
	long, err := encoded(slices.Concat(probeTexts, probeTexts)[:min(2*len(probeTexts), m.manifest.Linker.MaxPassages)])
	if err != nil {
		return err
	}
	if err := m.linker.computeAttention(ctx, []window{short}); err != nil {
		return err
	}
	alone := slices.Clone(short.attention)
	if err := m.linker.computeAttention(ctx, []window{short, long}); err != nil {
		return err
	}
	c.padding(g, alone, short.attention)
	return nil
}

// fuser does not test padding, because the neighbours of a text change how it is read. Its goldens
// cover several texts and a single one.
func (c *checker) fuser(ctx context.Context, g *modelpack.GraphReport, all packGoldens) error {
	m := c.model
	fused := func(question string, texts []string, tokens int, withQuestion bool) ([]float32, error) {
		f := fusion{tokens: tokens, withQuestion: withQuestion}
		f.question, _ = m.tokenizer.Encode(nil, question, m.manifest.Fuser.MaxQuestionTokens)
		for _, text := range texts {
			ids, _ := m.tokenizer.Encode(nil, text, m.manifest.Fuser.MaxTokens-len(f.question))
			if len(f.question) == 0 || len(ids) == 0 {
				return nil, nil // the vocabulary is of another script
			}
			f.passages = append(f.passages, ids)
		}
		f.scores = make([]float32, len(f.passages))
		return f.scores, m.fuser.fuse(ctx, []fusion{f})
	}
	if len(all.Fuser) == 0 {
		_, err := fused(probeTexts[0], probeTexts, 1, false)
		return err
	}
	for _, golden := range all.Fuser {
		if len(golden.Texts) > m.manifest.Fuser.MaxPassages {
			continue
		}
		for _, s := range golden.Settings {
			got, err := fused(golden.Question, golden.Texts, s.Tokens, s.WithQuestion)
			if err != nil {
				return err
			}
			c.compare(g, 1, fmt.Sprintf("what %d texts give to %.40q", len(golden.Texts), golden.Question), got, s.Scores)
		}
	}
	return nil
}

func (c *checker) detector(ctx context.Context, g *modelpack.GraphReport, all packGoldens) error {
	contexts, want := make([]detectorInput, len(all.Detector)), make([]float32, len(all.Detector))
	got := make([]float32, len(all.Detector))
	for i, golden := range all.Detector {
		contexts[i], want[i] = detectorInput{golden.Pairs[:min(len(golden.Pairs), wire.DetectPairs)], &got[i]}, golden.Enough
	}
	if len(contexts) == 0 {
		return c.model.detector.detect(ctx, []detectorInput{{[][2]float32{{0, 0}}, new(float32)}})
	}
	if err := c.model.detector.detect(ctx, contexts); err != nil {
		return err
	}
	c.compare(g, len(want), "whether texts are enough", got, want)
	return nil
}
