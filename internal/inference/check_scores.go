package inference

// This file checks the graphs that look at more than one text: the linker and the fuser read a run of them together, the
// detector their scores.

import (
	"context"
	"fmt"
	"slices"

	"github.com/sluice-rag/sluice/internal/inference/modelpack"
	"github.com/sluice-rag/sluice/schema/wire"
)

func (c *checker) linker(ctx context.Context, g *modelpack.GraphReport, all packGoldens) error {
	m := c.model
	encoded := func(passages []string) (window, error) {
		n, d := len(passages), m.dimension()
		w := window{vectors: make([]float32, n*d), passages: n, attention: make([]float32, n*n)}
		var sequences []sequence
		for i, passage := range passages {
			// A passage without a known token has the zero vector.
			if ids, _, _ := m.encoder.tokens(passage); ids != nil {
				sequences = append(sequences, sequence{ids, w.vectors[i*d : (i+1)*d]})
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
		if err := m.linker.attend(ctx, []window{w}); err != nil {
			return err
		}
		c.compare(g, 1, fmt.Sprintf("the attention between %d passages", w.passages), w.attention, slices.Concat(golden.Attention...))
	}
	short, err := encoded(trial)
	if err != nil {
		return err
	}
	long, err := encoded(slices.Concat(trial, trial)[:min(2*len(trial), m.manifest.Linker.MaxPassages)])
	if err != nil {
		return err
	}
	if err := m.linker.attend(ctx, []window{short}); err != nil {
		return err
	}
	alone := slices.Clone(short.attention)
	if err := m.linker.attend(ctx, []window{short, long}); err != nil {
		return err
	}
	c.padding(g, alone, short.attention)
	return nil
}

// fuser has no trial of padding: what is beside a text changes how it is read. Its goldens are of several texts and of one.
func (c *checker) fuser(ctx context.Context, g *modelpack.GraphReport, all packGoldens) error {
	m := c.model
	fused := func(question string, texts []string, tokens int, withQuestion bool) ([]float32, error) {
		f := fusion{tokens: tokens, withQuestion: withQuestion}
		f.question, _ = m.tokenizer.Encode(nil, question, m.manifest.Fuser.MaxQuestionTokens)
		for _, text := range texts {
			ids, _ := m.tokenizer.Encode(nil, text, m.manifest.Fuser.MaxTokens-len(f.question))
			if len(f.question) == 0 || len(ids) == 0 {
				return nil, nil // of another script
			}
			f.passages = append(f.passages, ids)
		}
		f.scores = make([]float32, len(f.passages))
		return f.scores, m.fuser.fuse(ctx, []fusion{f})
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
	contexts, want := make([]soFar, len(all.Detector)), make([]float32, len(all.Detector))
	got := make([]float32, len(all.Detector))
	for i, golden := range all.Detector {
		contexts[i], want[i] = soFar{golden.Pairs[:min(len(golden.Pairs), wire.DetectPairs)], &got[i]}, golden.Enough
	}
	if len(contexts) == 0 {
		return nil
	}
	if err := c.model.detector.detect(ctx, contexts); err != nil {
		return err
	}
	c.compare(g, len(want), "whether texts are enough", got, want)
	return nil
}
