package inference

// This file reads a pack's manifest.yaml. An unknown field is an error, and so is a needed one
// without a value: a misspelt name is reported instead of ignored.

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// Manifest describes a model pack: which files it has and how to use them. Paths are relative to
// the pack's folder and stay inside it; hashes are SHA-256 in hexadecimal.
type Manifest struct {
	Format    int               `yaml:"format"` // 1
	Name      string            `yaml:"name"`
	Version   string            `yaml:"version"`
	Licence   string            `yaml:"licence"`
	Space     string            `yaml:"space" need:"maybe"` // vectors of equal spaces may be compared; needed with an encoder
	Tokenizer ManifestTokenizer `yaml:"tokenizer"`

	// The graphs. A pack has at least one; the server refuses operations whose graph is missing.
	Encoder   *ManifestEncoder   `yaml:"encoder" need:"maybe"`
	Segmenter *ManifestSegmenter `yaml:"segmenter" need:"maybe"`
	Pair      *ManifestPair      `yaml:"pair" need:"maybe"`
	// Reranker is a better pair model that takes about ten times as long: it scores the few best of
	// what the pair model leaves of a search. Its graph has the same inputs and outputs, and its
	// logits a scale of their own.
	Reranker *ManifestPair     `yaml:"reranker" need:"maybe"`
	Linker   *ManifestLinker   `yaml:"linker" need:"maybe"`
	Fuser    *ManifestFuser    `yaml:"fuser" need:"maybe"`
	Detector *ManifestDetector `yaml:"detector" need:"maybe"`

	// Calibrated are this pack's equivalents of published thresholds that belong to no graph's
	// section, by name. Thresholds of scores are in the pair model's scale; those in the reranker's
	// scale have names with the suffix _reranker: answerable applies to what the pair model judges,
	// answerable_reranker to answers that the reranker reads. A pack with both graphs needs both.
	Calibrated map[string]float64 `yaml:"calibrated" need:"maybe"`
}

// ManifestFile is a file of the pack.
type ManifestFile struct {
	File   string `yaml:"file"`
	SHA256 string `yaml:"sha256"`
}

// ManifestTokenizer says how text becomes token ids.
type ManifestTokenizer struct {
	ManifestFile `yaml:",inline"`
	Pad          string   `yaml:"pad"`                   // token that fills short rows
	Before       []string `yaml:"before" need:"maybe"`   // special tokens in front of every text, such as [CLS]
	After        []string `yaml:"after" need:"maybe"`    // special tokens after every text, such as [SEP]
	Between      []string `yaml:"between" need:"maybe"`  // special tokens between two texts
	OneType      bool     `yaml:"one_type" need:"maybe"` // the second of two texts is of token type 0 too
}

// ManifestGraph is a graph of the pack.
type ManifestGraph struct {
	ManifestFile `yaml:",inline"`
	// Tolerance is the largest difference between the graph's outputs and those of its fp32
	// original, for fp16 and int8 graphs; 0: 1e-4.
	Tolerance float64 `yaml:"tolerance" need:"maybe"`
	// Scripts are the scripts that the graph was trained on, by Unicode's names, such as Latin: of
	// an encoder, a pair model or a reranker. None: unknown.
	Scripts []string `yaml:"scripts" need:"maybe"`
}

// ManifestEncoder is the graph from token ids to a vector.
type ManifestEncoder struct {
	ManifestGraph `yaml:",inline"`
	ManifestBERT  `yaml:",inline"`
	// ManifestRemote is the model in place of the graph, with the format remote. Shorten makes
	// llm-gateway request vectors of Dimension from the API.
	ManifestRemote `yaml:",inline"`
	Shorten        bool   `yaml:"shorten" need:"maybe"`
	Pooling        string `yaml:"pooling" need:"maybe"` // of BERT's format: mean, cls, last, or none when the graph pools
	Dimension      int    `yaml:"dimension"`
	MaxTokens      int    `yaml:"max_tokens"` // special tokens included; a longer text is cut
	// Counts says that the order of tokens makes no difference to the graph, and that a token's
	// value in attention_mask may be how often it occurs in the text, in place of as many ones.
	Counts  bool             `yaml:"counts" need:"maybe"`
	Prompts *ManifestPrompts `yaml:"prompts" need:"maybe"`
	// SimilarityThreshold is the cosine below which neighbouring sentences are separated: this
	// pack's equivalent of ChunkRAG's theta = 0.8.
	SimilarityThreshold *float64 `yaml:"similarity_threshold" need:"maybe"`
}

// ManifestPrompts are the texts put in front of questions and passages before they are encoded.
type ManifestPrompts struct {
	Query   string `yaml:"query" need:"maybe"`
	Passage string `yaml:"passage" need:"maybe"`
}

// ManifestSegmenter is the graph from the vectors of the text before and after a boundary between
// sentences to a score.
type ManifestSegmenter struct {
	ManifestGraph `yaml:",inline"`
	Threshold     float64 `yaml:"threshold"` // a score below it means a cut
	// Window is how many sentences on each side of a boundary make its two vectors: each is their
	// mean, scaled to unit length. Left out, it is one.
	Window int `yaml:"window" need:"maybe"`
	// Decay is the weight of a sentence in that mean, relative to the next one nearer to the
	// boundary. Left out, all weigh the same.
	Decay float64 `yaml:"decay" need:"maybe"`
	// Encoder makes the sentences' vectors, if that is not the pack's encoder.
	Encoder *ManifestEncoder `yaml:"encoder" need:"maybe"`
}

// ManifestPair is a graph from a question and a text to scores and an answer span: the pair model
// or the reranker.
type ManifestPair struct {
	ManifestGraph `yaml:",inline"`
	ManifestBERT  `yaml:",inline"`
	// ManifestRemote is the model in place of the graph, with the format remote.
	ManifestRemote    `yaml:",inline"`
	Labels            int    `yaml:"labels" need:"maybe"`     // of BERT's format: number of logits of a pair, 1 or 2
	MaxTokens         int    `yaml:"max_tokens" need:"maybe"` // of BERT's format: of question and text together, special tokens included
	Truncation        string `yaml:"truncation" need:"maybe"` // of BERT's format: longest_first or only_second
	MaxQuestionTokens int    `yaml:"max_question_tokens"`     // a longer question is cut
	MaxTextTokens     int    `yaml:"max_text_tokens"`
	// HasAnswerThreshold is the logit of has_answer from which a text counts as containing the
	// answer: this pack's equivalent of FIT-RAG's delta = 4.5.
	HasAnswerThreshold *float64 `yaml:"has_answer_threshold" need:"maybe"`
}

// ManifestLinker is the graph from the vectors of a document's passages to the attention between
// them.
type ManifestLinker struct {
	ManifestGraph `yaml:",inline"`
	MaxPassages   int `yaml:"max_passages"` // of one window
	// Threshold is the weight from which a link is worth following.
	Threshold *float64 `yaml:"threshold" need:"maybe"`
}

// ManifestFuser is the graph from a question and all its passages to the attention of an answer to
// them (FiD). A row is the question's tokens, then the passage's, without special tokens between
// them.
type ManifestFuser struct {
	ManifestGraph     `yaml:",inline"`
	MaxTokens         int `yaml:"max_tokens"`                       // of a row; a longer one is cut
	MaxQuestionTokens int `yaml:"max_question_tokens" need:"maybe"` // most tokens of the question in a row; default 64
	MaxPassages       int `yaml:"max_passages"`                     // of one question
}

// ManifestDetector is the graph from the scores of texts to the probability that they are enough to
// answer with.
type ManifestDetector struct {
	ManifestGraph `yaml:",inline"`
	Threshold     float64 `yaml:"threshold"` // the least probability that means enough
}

// manifestName is the manifest's file name in a pack.
const manifestName = "manifest.yaml"

// ReadManifest reads and checks the manifest of the pack in dir. It does not read the files that
// the manifest names.
func ReadManifest(dir string) (Manifest, error) {
	m, _, err := readManifest(dir)
	return m, err
}

// readManifest is ReadManifest that also returns the SHA-256 of the manifest's bytes.
func readManifest(dir string) (Manifest, [sha256.Size]byte, error) {
	path := filepath.Join(dir, manifestName)
	data, err := os.ReadFile(path)
	sum := sha256.Sum256(data)
	if errors.Is(err, fs.ErrNotExist) {
		return Manifest{}, sum, fmt.Errorf("model pack (SLUICE_MODEL_PACK): %s has no %s: %w", dir, manifestName, err)
	}
	if err != nil {
		return Manifest{}, sum, fmt.Errorf("model pack (SLUICE_MODEL_PACK): %w", err)
	}
	m, err := parseManifest(data)
	if err != nil {
		return Manifest{}, sum, fmt.Errorf("model pack: %s: %w", path, err)
	}
	return m, sum, nil
}

func parseManifest(data []byte) (Manifest, error) {
	var m Manifest
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	decoder.KnownFields(true)
	if err := decoder.Decode(&m); err != nil && !errors.Is(err, io.EOF) {
		return m, fmt.Errorf("%w: %w", schema.ErrInvalid, err)
	}
	if m.Format != 1 {
		return m, schema.Invalid("format", "is %d, this build reads 1", m.Format)
	}
	if field := missing(reflect.ValueOf(m), ""); field != "" {
		return m, schema.Invalid(field, "is missing")
	}
	return m, m.check()
}

// rankingGraph is a graph whose manifest states the scripts that it was trained on.
type rankingGraph struct {
	section string
	op      wire.ModelOp
	graph   ManifestGraph
}

// rankingGraphs returns the graphs that rank texts and whose Scripts Info reports.
func (m *Manifest) rankingGraphs() []rankingGraph {
	var out []rankingGraph
	if m.Encoder != nil {
		out = append(out, rankingGraph{"encoder", wire.OpEncode, m.Encoder.ManifestGraph})
	}
	if m.Pair != nil {
		out = append(out, rankingGraph{wire.GraphPair, wire.OpScore, m.Pair.ManifestGraph})
	}
	if m.Reranker != nil {
		out = append(out, rankingGraph{wire.GraphReranker, wire.OpRerank, m.Reranker.ManifestGraph})
	}
	return out
}

// check returns an error for the first value that is out of range.
func (m *Manifest) check() error {
	if err := m.checkBERT(); err != nil {
		return err
	}
	for _, g := range m.rankingGraphs() {
		for i, name := range g.graph.Scripts {
			if unicode.Scripts[name] == nil {
				return schema.Invalid(fmt.Sprintf("%s.scripts[%d]", g.section, i), "%.40q is no script that Unicode names, such as Latin or Han", name)
			}
		}
	}
	if m.Encoder != nil && m.Space == "" {
		return schema.Invalid("space", "is missing, the encoder's vectors need one")
	}
	if f := m.Fuser; f != nil && f.MaxQuestionTokens == 0 {
		f.MaxQuestionTokens = 64
	}
	if s := m.Segmenter; s != nil {
		if s.Window == 0 {
			s.Window = 1
		}
		if s.Decay == 0 {
			s.Decay = 1
		}
	}
	switch {
	case m.Encoder == nil && m.Pair == nil && m.Reranker == nil && m.Fuser == nil && m.Detector == nil:
		return schema.Invalid("encoder", "is missing, and so is every other graph: a pack needs one")
	case m.Encoder == nil && m.Segmenter != nil && m.Segmenter.Encoder == nil:
		return schema.Invalid("encoder", "is missing, the segmenter works on its vectors")
	case m.Encoder != nil && m.Encoder.remote() && m.Segmenter != nil && m.Segmenter.Encoder == nil:
		return schema.Invalid("segmenter.encoder", "is missing: a segmenter does not know the vectors of a model behind an API")
	case m.Encoder == nil && m.Linker != nil:
		return schema.Invalid("encoder", "is missing, the linker works on its vectors")
	case m.Encoder != nil && m.Encoder.SimilarityThreshold != nil && (*m.Encoder.SimilarityThreshold <= 0 || *m.Encoder.SimilarityThreshold >= 1):
		return schema.Invalid("encoder.similarity_threshold", "%v is not between 0 and 1", *m.Encoder.SimilarityThreshold)
	case m.Segmenter != nil && (m.Segmenter.Threshold <= 0 || m.Segmenter.Threshold >= 1):
		return schema.Invalid("segmenter.threshold", "%v is not between 0 and 1", m.Segmenter.Threshold)
	case m.Segmenter != nil && (m.Segmenter.Window < 1 || m.Segmenter.Window > wire.SegmentContext):
		return schema.Invalid("segmenter.window", "%d is not from 1 to %d", m.Segmenter.Window, wire.SegmentContext)
	case m.Segmenter != nil && (m.Segmenter.Decay < 0 || m.Segmenter.Decay > 1):
		return schema.Invalid("segmenter.decay", "%v is not between 0 and 1", m.Segmenter.Decay)
	case m.Linker != nil && m.Linker.MaxPassages < 2:
		return schema.Invalid("linker.max_passages", "%d is less than the two that a link takes", m.Linker.MaxPassages)
	case m.Fuser != nil && m.Fuser.MaxPassages < 1:
		return schema.Invalid("fuser.max_passages", "%d is not positive", m.Fuser.MaxPassages)
	case m.Fuser != nil && m.Fuser.MaxQuestionTokens < 1:
		return schema.Invalid("fuser.max_question_tokens", "%d is not positive", m.Fuser.MaxQuestionTokens)
	case m.Fuser != nil && m.Fuser.MaxTokens <= m.Fuser.MaxQuestionTokens:
		return schema.Invalid("fuser.max_tokens", "%d leaves no room for a passage after %d tokens of the question", m.Fuser.MaxTokens, m.Fuser.MaxQuestionTokens)
	case m.Detector != nil && (m.Detector.Threshold <= 0 || m.Detector.Threshold >= 1):
		return schema.Invalid("detector.threshold", "%v is not between 0 and 1", m.Detector.Threshold)
	}
	return nil
}

var graphType = reflect.TypeFor[ManifestGraph]()

// missing returns the first needed field without a value, as the manifest spells it.
func missing(v reflect.Value, prefix string) string {
	for i := range v.NumField() {
		field := v.Type().Field(i)
		name, option, _ := strings.Cut(field.Tag.Get("yaml"), ",")
		switch {
		case v.Field(i).Kind() == reflect.Pointer && !v.Field(i).IsNil() && v.Field(i).Elem().Kind() == reflect.Struct:
			if found := missing(v.Field(i).Elem(), prefix+name+"."); found != "" {
				return found
			}
		case field.Tag.Get("need") == "maybe":
		case option == "inline" && v.Field(i).Type() == graphType && remoteSection(v):
		case option == "inline":
			if found := missing(v.Field(i), prefix); found != "" {
				return found
			}
		case v.Field(i).IsZero() && v.Field(i).Kind() != reflect.Struct:
			return prefix + name
		case v.Field(i).Kind() == reflect.Struct:
			if found := missing(v.Field(i), prefix+name+"."); found != "" {
				return found
			}
		}
	}
	return ""
}

// locate returns the path of a file of the pack in dir, after checking its content.
func (f ManifestFile) locate(dir, field string) (string, error) {
	if !filepath.IsLocal(f.File) {
		return "", schema.Invalid(field+".file", "%q leaves the pack's folder", f.File)
	}
	path := filepath.Join(dir, f.File)
	file, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("%s.file: %w; the pack is incomplete: fetch it again, or name another with SLUICE_MODEL_PACK", field, err)
	}
	defer func() { _ = file.Close() }()
	hash := sha256.New()
	if _, err := io.Copy(hash, file); err != nil {
		return "", fmt.Errorf("%s.file: read %s: %w", field, path, err)
	}
	if got := hex.EncodeToString(hash.Sum(nil)); got != f.SHA256 {
		return "", schema.Invalid(field+".sha256", "%s has hash %s, the manifest says %s: fetch the pack again, "+
			"or write the new hash if you changed the graph", path, got, f.SHA256)
	}
	return path, nil
}
