package inference

// This file is the part of a manifest for graphs in Hugging Face's form. `sluice models add` writes
// it.

import (
	"path/filepath"

	"github.com/sluice-rag/sluice/internal/inference/tokenizer"
	"github.com/sluice-rag/sluice/schema"
)

// formatBERT is the format of graphs with the inputs and outputs of BERT's ONNX exports: input_ids,
// attention_mask and perhaps token_type_ids. The empty format is that of the graphs that training/
// exports.
const formatBERT = "bert"

// ManifestBERT holds the fields of sections whose graph reads text and is in Hugging Face's form.
type ManifestBERT struct {
	Format  string        `yaml:"format" need:"maybe"`  // empty, bert or remote
	Types   bool          `yaml:"types" need:"maybe"`   // the graph takes token_type_ids
	Output  string        `yaml:"output" need:"maybe"`  // which of the graph's outputs is used
	Licence string        `yaml:"licence" need:"maybe"` // of the graph, when not the pack's
	Source  string        `yaml:"source" need:"maybe"`  // where it was downloaded
	Goldens *ManifestFile `yaml:"goldens" need:"maybe"` // what the fp32 original returns for some texts
	// Tokenizer is the graph's own; nil: the pack's.
	Tokenizer *ManifestTokenizer `yaml:"tokenizer" need:"maybe"`
}

// tokenizerSection returns the tokenizer of a section.
func (m *Manifest) tokenizerSection(b ManifestBERT) ManifestTokenizer {
	if b.Tokenizer != nil {
		return *b.Tokenizer
	}
	return m.Tokenizer
}

func (t ManifestTokenizer) specials() tokenizer.Specials {
	return tokenizer.Specials{Before: t.Before, Between: t.Between, After: t.After, OneType: t.OneType}
}

// checkBERT checks encoders, pair models and rerankers of every format.
func (m *Manifest) checkBERT() error {
	if m.Encoder != nil {
		if err := m.checkEncoder("encoder", *m.Encoder); err != nil {
			return err
		}
	}
	if m.Segmenter != nil && m.Segmenter.Encoder != nil {
		if err := m.checkEncoder("segmenter.encoder", *m.Segmenter.Encoder); err != nil {
			return err
		}
	}
	if m.Pair != nil {
		if err := m.checkPair("pair", *m.Pair); err != nil {
			return err
		}
	}
	if m.Reranker != nil {
		return m.checkPair("reranker", *m.Reranker)
	}
	return nil
}

func (m *Manifest) checkPair(section string, p ManifestPair) error {
	special := len(m.tokenizerSection(p.ManifestBERT).Before) + len(m.tokenizerSection(p.ManifestBERT).Between) + len(m.tokenizerSection(p.ManifestBERT).After)
	switch {
	case p.MaxQuestionTokens < 1:
		return schema.Invalid(section+".max_question_tokens", "%d is not positive", p.MaxQuestionTokens)
	case p.MaxTextTokens < 1:
		return schema.Invalid(section+".max_text_tokens", "%d is not positive", p.MaxTextTokens)
	case p.Format == "":
	case p.remote():
		return p.checkRemoteReranker(section)
	case p.Format != formatBERT:
		return schema.Invalid(section+".format", "%q is unknown; leave it out or say %s or %s", p.Format, formatBERT, formatRemote)
	case p.Output == "":
		return schema.Invalid(section+".output", "is missing")
	case p.Labels != 1 && p.Labels != 2:
		return schema.Invalid(section+".labels", "%d is neither 1 nor 2", p.Labels)
	case p.MaxTokens < special+2:
		return schema.Invalid(section+".max_tokens", "%d leaves no room for question and text", p.MaxTokens)
	case p.Truncation != string(tokenizer.LongestFirst) && p.Truncation != string(tokenizer.OnlySecond):
		return schema.Invalid(section+".truncation", "%q is neither %s nor %s", p.Truncation, tokenizer.LongestFirst, tokenizer.OnlySecond)
	}
	return nil
}

func (m *Manifest) checkEncoder(section string, e ManifestEncoder) error {
	tok := m.tokenizerSection(e.ManifestBERT)
	switch {
	case e.Dimension < 1 || e.Dimension > 4096:
		return schema.Invalid(section+".dimension", "%d is not between 1 and 4096", e.Dimension)
	case e.MaxTokens < 1+len(tok.Before)+len(tok.After):
		return schema.Invalid(section+".max_tokens", "%d leaves no room for text", e.MaxTokens)
	case e.Counts && e.Format != "":
		return schema.Invalid(section+".counts", "a graph of format %q reads its tokens in their order: leave it out", e.Format)
	case e.Format == "":
	case e.remote():
		return m.checkRemoteEncoder(section, e)
	case e.Format != formatBERT:
		return schema.Invalid(section+".format", "%q is unknown; leave it out or say %s or %s", e.Format, formatBERT, formatRemote)
	case e.Output == "":
		return schema.Invalid(section+".output", "is missing")
	case e.Pooling != poolMean && e.Pooling != poolFirst && e.Pooling != poolLast && e.Pooling != poolNone:
		return schema.Invalid(section+".pooling", "%q is neither %s, %s, %s nor %s", e.Pooling, poolMean, poolFirst, poolLast, poolNone)
	}
	return nil
}

// graphTokenizer makes token ids for a graph.
type graphTokenizer struct {
	*tokenizer.Tokenizer
	frame tokenizer.Frame
	pad   int32
}

// openTokenizer reads a tokenizer of the pack in dir. field is its name in the manifest.
func openTokenizer(dir, field string, spec ManifestTokenizer) (*graphTokenizer, error) {
	path, err := spec.locate(dir, field)
	if err != nil {
		return nil, err
	}
	w := &graphTokenizer{}
	if w.Tokenizer, err = tokenizer.Load(path); err != nil {
		return nil, err
	}
	if w.frame, err = w.Frame(spec.specials()); err != nil {
		return nil, schema.Invalid(field, "%s: %v", filepath.Base(path), err)
	}
	pad, ok := w.Lookup(spec.Pad)
	if !ok {
		return nil, schema.Invalid(field+".pad", "%s has no token %q", filepath.Base(path), spec.Pad)
	}
	w.pad = pad
	return w, nil
}
