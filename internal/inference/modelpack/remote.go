package modelpack

// This file adds a model behind an API: the pack names the model in place of a graph, and
// llm-gateway calls it.

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"path"
	"slices"
	"strings"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// RemotePrefix begins the name of a model behind an API: remote:PROVIDER/MODEL.
const RemotePrefix = "remote:"

// FormatRemote is the value of a section's format for models behind an API.
const FormatRemote = "remote"

// Remote is what the user must state of a model behind an API, because no file states it.
type Remote struct {
	Dimension int  // of an encoder's vectors
	Shorten   bool // request vectors of that dimension from the API
	MaxTokens int  // of a text
	Batch     int  // most texts of a call; 0: llm-gateway's default
}

// remoteSection is a section of a manifest. Package inference reads it.
type remoteSection struct {
	Format    string          `yaml:"format"`
	Provider  string          `yaml:"provider"`
	Model     string          `yaml:"model"`
	Source    string          `yaml:"source"`
	Shorten   bool            `yaml:"shorten,omitempty"`
	Batch     int             `yaml:"batch,omitempty"`
	Prompts   *promptsSection `yaml:"prompts,omitempty"`
	Dimension int             `yaml:"dimension,omitempty"`
	MaxTokens int             `yaml:"max_tokens,omitempty"`
	// Of a reranker.
	MaxQuestionTokens int `yaml:"max_question_tokens,omitempty"`
	MaxTextTokens     int `yaml:"max_text_tokens,omitempty"`
}

// remoteModel is a model behind an API as a source. It has no files.
type remoteModel struct {
	folder
	provider, model string
}

func (r remoteModel) label() string { return RemotePrefix + r.provider + "/" + r.model }
func (r remoteModel) base() string  { return path.Base(r.model) }

// newRemote parses the text after RemotePrefix.
func newRemote(spec string) (source, error) {
	provider, model, found := strings.Cut(spec, "/")
	if !found || provider == "" || model == "" {
		return nil, schema.Invalid("model", "%q is not a model behind an API, such as %s%s/text-embedding-3-small", RemotePrefix+spec, RemotePrefix, wire.RemoteOpenAI)
	}
	return remoteModel{provider: provider, model: model}, nil
}

// fill makes the pack in dir.
func (r remoteModel) fill(ctx context.Context, dir, name string, o Options, a Addition) (Added, error) {
	s := remoteSection{Format: FormatRemote, Provider: r.provider, Model: r.model, Source: r.label(), Batch: a.Remote.Batch}
	switch {
	case a.Onto == "":
		return Added{}, schema.Invalid("alone", "a pack cannot have a model behind an API alone: it has a tokenizer, and graphs to segment with")
	case r.provider != wire.RemoteOpenAI && !r.reranks():
		return Added{}, schema.Invalid("model", "there is no provider %q of models behind an API; there are %s for encoders, and %s for rerankers",
			r.provider, wire.RemoteOpenAI, strings.Join(wire.RemoteRerankers(), ", "))
	case a.Graph != "" || a.Pooling != "" || a.Tolerance != 0:
		return Added{}, schema.Invalid("model", "a model behind an API has no graph, pooling or tolerance")
	case a.Remote.MaxTokens < 1:
		return Added{}, schema.Invalid("max-tokens", "say how many tokens of a text the model reads, as its provider states them")
	case a.Remote.Batch < 0:
		return Added{}, schema.Invalid("batch", "%d is negative", a.Remote.Batch)
	}
	d, err := readDocument(a.Onto)
	if err != nil {
		return Added{}, err
	}
	d.root.HeadComment = ""
	addModel := r.encoder
	if r.reranks() {
		addModel = r.reranker
	}
	role, err := addModel(d, o, a, s)
	if err != nil {
		return Added{}, err
	}
	if err := copyFiles(ctx, d, a.Onto, dir); err != nil {
		return Added{}, err
	}
	for _, f := range []field{{"name", name}, {"version", d.version()}} {
		if err := set(d.root, f.name, f.value); err != nil {
			return Added{}, err
		}
	}
	data, err := d.bytes()
	if err != nil {
		return Added{}, err
	}
	_, err = write(dir, ManifestName, append([]byte("# Written by `sluice models add`.\n"), data...))
	return Added{Role: role, Precision: "behind an API"}, err
}

// reranks reports whether the provider has rerankers.
func (r remoteModel) reranks() bool { return slices.Contains(wire.RemoteRerankers(), r.provider) }

// reranker adds the model as the reranker.
func (r remoteModel) reranker(d document, _ Options, a Addition, s remoteSection) (role string, err error) {
	switch {
	case !a.Reranker:
		return "", schema.Invalid("reranker", "%s reranks: say --reranker, for it takes the place of the pack's reranker", r.label())
	case a.Remote.Dimension != 0 || a.Remote.Shorten:
		return "", schema.Invalid("dimension", "%s reranks, and makes no vectors", r.label())
	case a.QueryPrompt != "" || a.PassagePrompt != "":
		return "", schema.Invalid("query-prompt", "a reranker has no prompts")
	}
	s.MaxQuestionTokens, s.MaxTextTokens = a.Remote.MaxTokens, a.Remote.MaxTokens
	return RoleReranker, d.replaceReranker(s)
}

// encoder adds the model as the encoder.
func (r remoteModel) encoder(d document, o Options, a Addition, s remoteSection) (role string, err error) {
	if a.Reranker {
		return "", schema.Invalid("reranker", "%s makes vectors, it is no reranker", r.label())
	}
	if len(o.Dimensions) > 0 && !slices.Contains(o.Dimensions, a.Remote.Dimension) {
		return "", schema.Invalid("dimension", "vectors of dimension %d can't be stored, only those of %v: "+
			"choose one that the model gives, or --shorten where it gives any", a.Remote.Dimension, o.Dimensions)
	}
	s.Dimension, s.MaxTokens, s.Shorten = a.Remote.Dimension, a.Remote.MaxTokens, a.Remote.Shorten
	space := wire.RemoteSpace(r.provider, r.model, s.Dimension)
	if a.QueryPrompt != "" || a.PassagePrompt != "" {
		s.Prompts = &promptsSection{Query: a.QueryPrompt, Passage: a.PassagePrompt}
		hash := sha256.Sum256([]byte(a.QueryPrompt + "\x00" + a.PassagePrompt))
		space += "/" + hex.EncodeToString(hash[:4])
	}
	if err := set(d.root, "space", space); err != nil {
		return "", err
	}
	return RoleEncoder, d.replaceEncoder(s)
}
