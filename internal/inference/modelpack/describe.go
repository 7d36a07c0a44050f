package modelpack

// This file finds out from the configuration and the graph in a Hugging Face folder whether the
// model is an encoder or a cross-encoder, which special tokens its text needs, and how its output
// becomes a vector or a score. An error names the file and field that is not supported.

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/sluice-rag/sluice/internal/inference/tokenizer"
	"github.com/sluice-rag/sluice/schema"
)

// Roles that an added graph can take.
const (
	RoleEncoder  = "encoder"
	RolePair     = "pair"
	RoleReranker = "reranker"
)

// families are the values of model_type whose models read token ids as BERT does, with the first
// position id: 2 for RoBERTa and MPNet.
var families = map[string]int{
	"bert": 0, "distilbert": 0, "electra": 0, "mobilebert": 0, "mpnet": 2, "nomic_bert": 0, "convbert": 0,
	"roberta": 2, "xlm-roberta": 2, "camembert": 2, "modernbert": 0,
}

// padPositions are the families whose graphs compute positions from the ids that are not padding.
var padPositions = []string{"roberta", "xlm-roberta", "camembert"}

// model is a model in a Hugging Face folder.
type model struct {
	config    modelConfig
	role      string
	tokenizer []byte // tokenizer.json
	pad       string
	specials  tokenizer.Specials
	maxTokens int
	types     bool // the graph takes token_type_ids
	output    string
	// Of an encoder.
	dimension int
	pooling   string          // mean, cls, last or none: the output is one vector per text
	prompts   *promptsSection // nil: none
	// Of a cross-encoder.
	labels int

	promptless bool // the mean excludes the prompt
	precision  string
	licence    string
	notes      []string
}

func (m *model) note(format string, args ...any) {
	m.notes = append(m.notes, fmt.Sprintf(format, args...))
}

// files holds the small files of a folder that exist, by name.
type files map[string][]byte

func (f files) decode(name string, into any) (found bool, err error) {
	data, ok := f[name]
	if !ok {
		return false, nil
	}
	if err := json.Unmarshal(data, into); err != nil {
		return false, schema.Invalid(name, "is no JSON of the expected form: %v", err)
	}
	return true, nil
}

type modelConfig struct {
	ModelType  string         `json:"model_type"`
	HiddenSize int            `json:"hidden_size"`
	Dim        int            `json:"dim"` // DistilBERT's name for it
	Positions  int            `json:"max_position_embeddings"`
	Vocabulary int            `json:"vocab_size"`
	Labels     map[string]any `json:"id2label"`
	Pad        *int32         `json:"pad_token_id"`
}

// describe checks the small files. It finds out whether the model is supported before a large file
// is fetched.
func describe(f files) (*model, error) {
	m := &model{licence: licence(f[readme])}
	if found, err := f.decode("config.json", &m.config); err != nil {
		return nil, err
	} else if !found {
		return nil, schema.Invalid("config.json", "is missing: name a model in Hugging Face's layout (config.json, tokenizer.json or vocab.txt, onnx/model.onnx)")
	}
	firstPosition, ok := families[m.config.ModelType]
	if !ok {
		return nil, schema.Invalid("config.json", "model_type: %q is not of a family that can be added (%s): choose such a model", m.config.ModelType, strings.Join(slices.Sorted(maps.Keys(families)), ", "))
	}
	if err := m.readTokenizer(f); err != nil {
		return nil, err
	}
	return m, m.length(f, firstPosition)
}

// withGraph checks the graph against the files, and finds the graph's role. pooling overrides the
// files; empty: it does not.
func (m *model) withGraph(f files, g Graph, pooling string) error {
	if g.External {
		return schema.Invalid("graph", "keeps its weights in other files (external data): export it as one file of less than 2 GB")
	}
	m.precision = g.Precision()
	if err := m.inputs(g); err != nil {
		return err
	}
	if _, ok := g.Output("logits"); ok {
		return m.crossEncoder(g)
	}
	return m.encoder(f, g, pooling)
}

// inputs checks that the model server can supply all inputs of the graph.
func (m *model) inputs(g Graph) error {
	for _, needed := range []string{"input_ids", "attention_mask"} {
		if _, ok := g.Input(needed); !ok {
			return schema.Invalid("graph", "has no input %s, only %s: export the model with Hugging Face's optimum, "+
				"or choose another file with --graph", needed, names(g.Inputs))
		}
	}
	for _, p := range g.Inputs {
		switch {
		case !slices.Contains([]string{"input_ids", "attention_mask", "token_type_ids"}, p.Name):
			return schema.Invalid("graph", "wants an input %s; supported are input_ids, attention_mask and token_type_ids", p.Name)
		case p.Type != "int64":
			return schema.Invalid("graph", "input %s is %s, not int64: export the model with int64 inputs", p.Name, p.Type)
		case len(p.Dimensions) != 2 || p.Dimensions[0] > 0 || p.Dimensions[1] > 0:
			return schema.Invalid("graph", "input %s has the shape %v; batch and sequence must be dynamic axes", p.Name, p.Dimensions)
		}
	}
	_, m.types = g.Input("token_type_ids")
	return nil
}

// readTokenizer reads the tokenizer.
func (m *model) readTokenizer(f files) (err error) {
	configuration := f["tokenizer_config.json"]
	file, ok := f["tokenizer.json"]
	vocabulary, hasVocabulary := f["vocab.txt"]
	switch {
	case ok && len(configuration) > 0:
		if err := tokenizer.Agrees(file, configuration); err != nil {
			return fmt.Errorf("%w: %w", schema.ErrInvalid, err)
		}
	case ok:
	case hasVocabulary:
		if file, err = tokenizer.FromVocabulary(vocabulary, configuration); err != nil {
			return fmt.Errorf("%w: %w", schema.ErrInvalid, err)
		}
	default:
		for _, name := range sentencePieces {
			if _, ok := f[name]; ok {
				return schema.Invalid(name, "is a SentencePiece model without its tokenizer.json: export the model with a fast tokenizer, which writes one")
			}
		}
		return schema.Invalid("tokenizer.json", "is missing, and so is vocab.txt: one of them must be there")
	}
	t, err := tokenizer.Parse(file)
	if err != nil {
		return schema.Invalid("tokenizer.json", "%v", err)
	}
	if m.config.Vocabulary > 0 && t.Size() > m.config.Vocabulary {
		return schema.Invalid("tokenizer.json", "has ids up to %d, config.json's vocab_size is %d: they are not of one model", t.Size()-1, m.config.Vocabulary)
	}
	if m.specials, err = tokenizer.ReadSpecials(file); err != nil {
		return schema.Invalid("tokenizer.json", "%v", err)
	}
	if _, err := t.Frame(m.specials); err != nil {
		return schema.Invalid("tokenizer.json", "post_processor: %v", err)
	}
	if m.pad, err = tokenizer.PadToken(file, configuration); err != nil {
		return fmt.Errorf("%w: %w", schema.ErrInvalid, err)
	}
	pad, ok := t.Lookup(m.pad)
	switch {
	case !ok:
		return schema.Invalid("tokenizer_config.json", "pad_token: %q is not in the vocabulary", m.pad)
	case m.config.Pad != nil && *m.config.Pad != pad && slices.Contains(padPositions, m.config.ModelType):
		return schema.Invalid("config.json", "pad_token_id: %d, which positions are counted by, is not the id %d of pad_token %q", *m.config.Pad, pad, m.pad)
	}
	var sentences struct {
		Lower bool `json:"do_lower_case"`
	}
	if _, err := f.decode("sentence_bert_config.json", &sentences); err != nil {
		return err
	}
	if sentences.Lower && !t.Lowercases() {
		return schema.Invalid("sentence_bert_config.json", "do_lower_case is true but the tokenizer keeps case: make tokenizer.json lower case too")
	}
	if extra := t.Extra(); extra > 0 {
		m.note("%d added tokens of tokenizer.json are read as plain text", extra)
	}
	m.tokenizer = file
	return nil
}

// length sets how many tokens the model reads: the lowest limit in any file.
func (m *model) length(f files, firstPosition int) error {
	var s struct {
		Max int `json:"max_seq_length"`
	}
	var t struct {
		Max float64 `json:"model_max_length"` // 1e30 if it was never set
	}
	if _, err := f.decode("sentence_bert_config.json", &s); err != nil {
		return err
	}
	if _, err := f.decode("tokenizer_config.json", &t); err != nil {
		return err
	}
	longest := math.MaxInt32
	for _, n := range []float64{float64(m.config.Positions - firstPosition), float64(s.Max), t.Max} {
		if n >= 1 && n < float64(longest) {
			longest = int(n)
		}
	}
	special := len(m.specials.Before) + len(m.specials.Between) + len(m.specials.After)
	switch {
	case longest == math.MaxInt32:
		return schema.Invalid("config.json", "max_position_embeddings is missing, and no other file says how long a text may be")
	case longest <= special+2:
		return schema.Invalid("config.json", "a text of %d tokens at most leaves no room beside %d special ones", longest, special)
	}
	m.maxTokens = min(longest, maxTokens)
	if longest > maxTokens {
		m.note("texts are cut at %d tokens; the model would read %d", maxTokens, longest)
	}
	return nil
}

// maxTokens limits the length of a text, because attention takes time quadratic in it.
const maxTokens = 2048

func (m *model) crossEncoder(g Graph) error {
	m.role, m.output = RolePair, "logits"
	out, _ := g.Output(m.output)
	if out.Type != "float32" || len(out.Dimensions) != 2 {
		return schema.Invalid("graph", "output %s is not a float32 matrix of [pairs, labels]; export it with float32 outputs (keep_io_types for fp16)", out)
	}
	m.labels = int(out.Dimensions[1])
	if m.labels == 0 {
		m.labels = len(m.config.Labels)
	}
	switch {
	case m.labels == 0:
		return schema.Invalid("config.json", "id2label is missing and the graph doesn't fix how many logits it gives: add id2label")
	case m.labels != 1 && m.labels != 2:
		return schema.Invalid("config.json", "the model has %d labels; a relevance model has 1 or 2", m.labels)
	case len(m.specials.Between) == 0 && !m.types:
		return schema.Invalid("tokenizer.json", "post_processor: nothing stands between question and text")
	}
	m.note("has_answer and llm_prefer are the relevance, its threshold a probability of one half until `sluice models calibrate` " +
		"finds another; there are no answer spans")
	return nil
}

func (m *model) encoder(f files, g Graph, pooling string) error {
	m.role = RoleEncoder
	if err := m.pool(f, pooling); err != nil {
		return err
	}
	candidates := []string{"last_hidden_state", "token_embeddings"}
	if m.pooling == "none" {
		candidates = []string{"sentence_embedding", "pooler_output"}
	} else if _, ok := g.Output("sentence_embedding"); ok && pooling == "" {
		candidates, m.pooling = []string{"sentence_embedding"}, "none"
	}
	at := slices.IndexFunc(candidates, func(name string) bool { _, ok := g.Output(name); return ok })
	if at < 0 {
		return schema.Invalid("graph", "has no output %s (of an encoder) or logits (of a cross-encoder), only %s: "+
			"export it for feature-extraction or text-classification",
			strings.Join(candidates, ", "), names(g.Outputs))
	}
	m.output = candidates[at]
	out, _ := g.Output(m.output)
	rank := 3
	if m.pooling == "none" {
		rank = 2
	}
	if out.Type != "float32" || len(out.Dimensions) != rank {
		return schema.Invalid("graph", "output %s is not float32 of rank %d; export it with float32 outputs (keep_io_types for fp16)", out, rank)
	}
	m.dimension = int(out.Dimensions[rank-1])
	if m.dimension == 0 {
		m.dimension = max(m.config.HiddenSize, m.config.Dim)
	}
	if m.dimension < 1 {
		return schema.Invalid("config.json", "hidden_size is missing, and the graph doesn't fix the dimension of its vectors")
	}
	return nil
}

// pool reads how sentence-transformers turns the vectors of the tokens into one.
func (m *model) pool(f files, chosen string) error {
	switch chosen {
	case "":
	case "mean", "cls", "last", "none":
		m.pooling = chosen
		return nil
	default:
		return schema.Invalid("pooling", "%q is neither mean, cls, last nor none", chosen)
	}
	var modules []struct{ Type, Path string }
	found, err := f.decode("modules.json", &modules)
	if err != nil {
		return err
	}
	if !found {
		m.pooling = "mean"
		m.note("no modules.json says how token vectors are pooled: the mean is taken (--pooling)")
		return nil
	}
	normalised := false
	for i, module := range modules {
		switch kind := module.Type[strings.LastIndexByte(module.Type, '.')+1:]; kind {
		case "Transformer":
		case "Normalize":
			normalised = true
		case "Pooling":
			if err := m.poolingModule(f, module.Path+"/config.json"); err != nil {
				return err
			}
		default:
			return schema.Invalid("modules.json", "[%d].type: a module %s is not supported: choose a model of Transformer, Pooling and Normalize", i, kind)
		}
	}
	if m.pooling == "" {
		return schema.Invalid("modules.json", "has no Pooling: name it with --pooling")
	}
	if !normalised {
		m.note("the model leaves its vectors as long as they are; Sluice scales all to length 1")
	}
	return nil
}

func (m *model) poolingModule(f files, name string) error {
	var fields map[string]any
	found, err := f.decode(name, &fields)
	if err != nil {
		return err
	}
	if !found {
		return schema.Invalid(name, "is missing, modules.json names its folder")
	}
	if include, ok := fields["include_prompt"].(bool); ok && !include {
		m.promptless = true
	}
	for field, value := range fields {
		kind, isMode := strings.CutPrefix(field, "pooling_mode_")
		if on, ok := value.(bool); !isMode || !ok || !on {
			continue
		}
		kind = map[string]string{"cls_token": "cls", "mean_tokens": "mean", "lasttoken": "last"}[kind]
		switch {
		case kind == "":
			return schema.Invalid(name, "%s is not supported, only pooling_mode_mean_tokens, pooling_mode_cls_token and pooling_mode_lasttoken", field)
		case m.pooling != "":
			return schema.Invalid(name, "more than one pooling mode is on; vectors of several are not supported")
		}
		m.pooling = kind
	}
	if m.pooling == "" {
		return schema.Invalid(name, "no pooling mode is on")
	}
	return nil
}

var licenceLine = regexp.MustCompile(`(?m)^license:\s*['"]?([A-Za-z0-9.+-]{1,64})['"]?\s*$`)

// licence returns the licence in the front matter of a README.md.
func licence(text []byte) string {
	lines := strings.ReplaceAll(string(text), "\r\n", "\n")
	if front, ok := strings.CutPrefix(lines, "---\n"); ok {
		front, _, _ = strings.Cut(front, "\n---")
		if found := licenceLine.FindStringSubmatch(front); found != nil {
			return found[1]
		}
	}
	return "unknown"
}
