package inference

// This file is the part of a manifest for models behind an API. `sluice models add
// remote:PROVIDER/MODEL` writes it.

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// formatRemote is the format of a section with a model behind an API in place of a graph. The
// server calls it through llm-gateway.
const formatRemote = "remote"

// ManifestRemote holds the fields of sections with a model behind an API.
type ManifestRemote struct {
	Provider string `yaml:"provider" need:"maybe"` // which API
	Model    string `yaml:"model" need:"maybe"`
	Batch    int    `yaml:"batch" need:"maybe"` // most texts of a call; 0: llm-gateway's default
}

// remote reports whether the section has a model behind an API instead of a graph.
func (b ManifestBERT) remote() bool { return b.Format == formatRemote }

// remoteSection is remote for a section of a manifest that is being read.
func remoteSection(section reflect.Value) bool {
	bert := section.FieldByName("ManifestBERT")
	return bert.IsValid() && bert.Interface().(ManifestBERT).remote()
}

// by returns the model as a request to llm-gateway names it.
func (r ManifestRemote) by(maxTokens int) wire.RemoteModel {
	return wire.RemoteModel{Provider: r.Provider, Model: r.Model, MaxTokens: maxTokens, Batch: r.Batch}
}

func (r ManifestRemote) note(op wire.ModelOp) string {
	return fmt.Sprintf("%s: by the model %s of %s, which llm-gateway asks; a check does not run it", op, r.Model, r.Provider)
}

func (r ManifestRemote) check(section string, providers ...string) error {
	switch {
	case !slices.Contains(providers, r.Provider):
		return schema.Invalid(section+".provider", "%q is unknown; there is %s", r.Provider, strings.Join(providers, ", "))
	case r.Model == "":
		return schema.Invalid(section+".model", "is missing")
	case r.Batch < 0:
		return schema.Invalid(section+".batch", "%d is negative", r.Batch)
	}
	return nil
}

func (m *Manifest) checkRemoteEncoder(section string, e ManifestEncoder) error {
	if section != "encoder" {
		return schema.Invalid(section+".format", "%q is only for the sections encoder and reranker", formatRemote)
	}
	if err := e.check(section, wire.RemoteOpenAI); err != nil {
		return err
	}
	// Collections compare vectors of the same space.
	if space := wire.RemoteSpace(e.Provider, e.Model, e.Dimension); m.Space != space && !strings.HasPrefix(m.Space, space+"/") {
		return schema.Invalid("space", "%q is not that of the model: it is %s, with a slash and more behind it where prompts differ", m.Space, space)
	}
	return nil
}

func (p ManifestPair) checkRemoteReranker(section string) error {
	if section != "reranker" {
		return schema.Invalid(section+".format", "%q is only for the sections encoder and reranker", formatRemote)
	}
	return p.check(section, wire.RemoteRerankers()...)
}
