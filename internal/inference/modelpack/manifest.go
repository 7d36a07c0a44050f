package modelpack

// This file writes manifests: that of an added graph, together with the graphs of the pack that it
// is added onto. It works on YAML nodes, so that sections it does not know stay as they are. The
// model server reads and checks manifests.

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// ManifestName is the manifest's file name in a pack.
const ManifestName = "manifest.yaml"

// goldensName is the file with what graphs return for some texts.
const goldensName = "goldens.json"

// FormatBERT is the value of a section's format for graphs with Hugging Face's inputs and outputs.
const FormatBERT = "bert"

// tokenizerSection, encoderSection and pairSection are sections of manifests. Package inference
// reads them.
type tokenizerSection struct {
	File    string   `yaml:"file"`
	SHA256  string   `yaml:"sha256"`
	Pad     string   `yaml:"pad"`
	Before  []string `yaml:"before,flow"`
	Between []string `yaml:"between,flow"`
	After   []string `yaml:"after,flow"`
	OneType bool     `yaml:"one_type,omitempty"`
}

type fileSection struct {
	File   string `yaml:"file"`
	SHA256 string `yaml:"sha256"`
}

type graphSection struct {
	Format    string            `yaml:"format"`
	File      string            `yaml:"file"`
	SHA256    string            `yaml:"sha256"`
	Tolerance float64           `yaml:"tolerance,omitempty"`
	Types     bool              `yaml:"types,omitempty"` // takes token_type_ids
	Output    string            `yaml:"output"`
	Licence   string            `yaml:"licence"`
	Source    string            `yaml:"source"`
	Goldens   *fileSection      `yaml:"goldens,omitempty"`
	Tokenizer *tokenizerSection `yaml:"tokenizer,omitempty"`
}

type encoderSection struct {
	graphSection `yaml:",inline"`
	Pooling      string          `yaml:"pooling"`
	Prompts      *promptsSection `yaml:"prompts,omitempty"`
	Dimension    int             `yaml:"dimension"`
	MaxTokens    int             `yaml:"max_tokens"`
}

type promptsSection struct {
	Query   string `yaml:"query,omitempty"`
	Passage string `yaml:"passage,omitempty"`
}

type pairSection struct {
	graphSection      `yaml:",inline"`
	Labels            int    `yaml:"labels"`
	MaxTokens         int    `yaml:"max_tokens"` // of question and text together, special tokens included
	Truncation        string `yaml:"truncation"`
	MaxQuestionTokens int    `yaml:"max_question_tokens"`
	MaxTextTokens     int    `yaml:"max_text_tokens"`
	// A logit of relevance of 0 is a probability of one half.
	HasAnswerThreshold float64 `yaml:"has_answer_threshold"`
}

// document is a manifest as a tree.
type document struct{ root *yaml.Node }

func newDocument() document {
	return document{&yaml.Node{Kind: yaml.MappingNode}}
}

func readDocument(dir string) (document, error) {
	path := filepath.Join(dir, ManifestName)
	data, err := os.ReadFile(path)
	if err != nil {
		return document{}, fmt.Errorf("model pack: %w", err)
	}
	return parseDocument(path, data)
}

func parseDocument(path string, data []byte) (document, error) {
	var n yaml.Node
	if err := yaml.Unmarshal(data, &n); err != nil {
		return document{}, schema.Invalid(path, "%v", err)
	}
	if n.Kind != yaml.DocumentNode || len(n.Content) != 1 || n.Content[0].Kind != yaml.MappingNode {
		return document{}, schema.Invalid(path, "has no fields")
	}
	return document{n.Content[0]}, nil
}

// at returns the index of a field's value in its mapping; -1: there is no such field.
func at(mapping *yaml.Node, field string) int {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == field {
			return i + 1
		}
	}
	return -1
}

func get(mapping *yaml.Node, field string) *yaml.Node {
	if i := at(mapping, field); i >= 0 {
		return mapping.Content[i]
	}
	return nil
}

// set replaces a field's value, or appends the field.
func set(mapping *yaml.Node, field string, value any) error {
	node, ok := value.(*yaml.Node)
	if !ok {
		node = &yaml.Node{}
		if err := node.Encode(value); err != nil {
			return fmt.Errorf("write %s: %w", field, err)
		}
	}
	if i := at(mapping, field); i >= 0 {
		mapping.Content[i-1].HeadComment = ""
		mapping.Content[i] = node
		return nil
	}
	mapping.Content = append(mapping.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: field}, node)
	return nil
}

func remove(mapping *yaml.Node, field string) {
	if i := at(mapping, field); i >= 0 {
		mapping.Content = append(mapping.Content[:i-1:i-1], mapping.Content[i+1:]...)
	}
}

// files calls yield with each file that the manifest names, and its hash.
func (d document) files(yield func(name, hash string) error) error {
	var walk func(n *yaml.Node) error
	walk = func(n *yaml.Node) error {
		if n.Kind == yaml.MappingNode {
			if name, hash := get(n, "file"), get(n, "sha256"); name != nil && hash != nil {
				if err := yield(name.Value, hash.Value); err != nil {
					return err
				}
			}
		}
		for _, inner := range n.Content {
			if err := walk(inner); err != nil {
				return err
			}
		}
		return nil
	}
	return walk(d.root)
}

func (d document) bytes() ([]byte, error) {
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := e.Encode(d.root); err != nil {
		return nil, fmt.Errorf("write the manifest: %w", err)
	}
	return b.Bytes(), e.Close()
}

// replaceEncoder sets another encoder. The segmenter keeps the old one for its vectors. The linker
// is removed, because it reads the stored vectors, which the new encoder makes.
func (d document) replaceEncoder(section any) error {
	old, segmenter := get(d.root, "encoder"), get(d.root, "segmenter")
	if old != nil && segmenter != nil && segmenter.Kind == yaml.MappingNode && get(segmenter, "encoder") == nil {
		if err := set(segmenter, "encoder", old); err != nil {
			return err
		}
	}
	remove(d.root, "linker")
	d.forget(func(name string) bool { return name == inVectors })
	return set(d.root, "encoder", section)
}

// inVectors is the calibrated threshold in the scale of an encoder's vectors. Thresholds whose
// names end with wire.RerankerSuffix are in the scale of the reranker's scores, all others in that
// of the pair model's.
const inVectors = "dedupe"

func isRerankerThreshold(name string) bool { return strings.HasSuffix(name, wire.RerankerSuffix) }

// forget removes calibrated thresholds in the scale of a graph that is replaced. A stage that needs
// one reports that it is missing.
func (d document) forget(stale func(name string) bool) {
	thresholds := get(d.root, "calibrated")
	if thresholds == nil || thresholds.Kind != yaml.MappingNode {
		return
	}
	var kept []*yaml.Node
	for i := 0; i+1 < len(thresholds.Content); i += 2 {
		if !stale(thresholds.Content[i].Value) {
			kept = append(kept, thresholds.Content[i], thresholds.Content[i+1])
		}
	}
	if thresholds.Content = kept; len(kept) == 0 {
		remove(d.root, "calibrated")
	}
}

// replacePair sets another pair model. The detector is removed, because it was trained on the old
// model's scores.
func (d document) replacePair(section pairSection) error {
	remove(d.root, "detector")
	d.forget(func(name string) bool { return name != inVectors && !isRerankerThreshold(name) })
	return set(d.root, "pair", section)
}

// replaceReranker sets another reranker.
func (d document) replaceReranker(section any) error {
	d.forget(isRerankerThreshold)
	return set(d.root, "reranker", section)
}
