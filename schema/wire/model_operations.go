package wire

// This file declares each operation of the model server once. Subjects, permissions, the server's
// dispatch and the output of `sluice models check` are derived from it, and a test compares it with
// the table in docs/models.md. The messages of the operations follow.

import (
	"fmt"
	"slices"
	"time"

	"github.com/sluice-rag/sluice/schema"
)

// ModelOp names an operation of the model server.
type ModelOp string

// Operations that exist.
const (
	OpEncode  ModelOp = "encode"
	OpSegment ModelOp = "segment"
	OpScore   ModelOp = "score"
	OpRerank  ModelOp = "rerank" // score by the graph reranker: named in ModelInfo and in metrics, without a subject of its own
	OpLink    ModelOp = "link"
	OpFuse    ModelOp = "fuse"
	OpDetect  ModelOp = "detect"
	OpInfo    ModelOp = "info"
	// OpSegmentEncode is segment, encode and link in one: the server cuts texts into passages.
	OpSegmentEncode ModelOp = "segment_encode"
)

// ModelOperation describes an operation, except for the code that computes it.
type ModelOperation struct {
	Name  ModelOp
	Graph string  // section of a pack's manifest that the operation needs; empty: none
	Of    ModelOp // operation whose requests can name this one, which then has no subject of its own; empty: none
	Limit string  // what its number in ModelInfo.Limits counts; empty: it has none
	// Second says that the servers of the second encoder answer the operation too, on a separate
	// subject.
	Second bool
	// Refuse returns a reply with an error.
	Refuse func(*schema.RemoteError) any
}

var modelOperations = []ModelOperation{
	{Name: OpEncode, Graph: "encoder", Limit: "tokens of a text", Second: true,
		Refuse: func(e *schema.RemoteError) any { return EncodeReply{Envelope: Header(), Error: e} }},
	{Name: OpSegment, Graph: "segmenter",
		Refuse: func(e *schema.RemoteError) any { return SegmentReply{Envelope: Header(), Error: e} }},
	{Name: OpSegmentEncode, Graph: "segmenter",
		Refuse: func(e *schema.RemoteError) any { return SegmentEncodeReply{Envelope: Header(), Error: e} }},
	{Name: OpScore, Graph: GraphPair, Limit: "tokens of a text",
		Refuse: func(e *schema.RemoteError) any { return ScoreReply{Envelope: Header(), Error: e} }},
	{Name: OpRerank, Graph: GraphReranker, Of: OpScore, Limit: "tokens of a text"},
	{Name: OpLink, Graph: "linker", Limit: "passages of a window", Second: true,
		Refuse: func(e *schema.RemoteError) any { return LinkReply{Envelope: Header(), Error: e} }},
	{Name: OpFuse, Graph: "fuser", Limit: "passages of a question",
		Refuse: func(e *schema.RemoteError) any { return FuseReply{Envelope: Header(), Error: e} }},
	{Name: OpDetect, Graph: "detector", Limit: "texts",
		Refuse: func(e *schema.RemoteError) any { return DetectReply{Envelope: Header(), Error: e} }},
	{Name: OpInfo, Second: true,
		Refuse: func(e *schema.RemoteError) any { return ModelInfo{Envelope: Header(), Error: e} }},
}

// ModelOperations returns all operations, in the order in which they are listed.
func ModelOperations() []ModelOperation { return slices.Clone(modelOperations) }

// ModelSubject returns the subject at which the model server answers op.
func ModelSubject(op ModelOp) string {
	for _, o := range modelOperations {
		if o.Name == op && o.Of == "" {
			return "sluice.model." + string(op)
		}
	}
	panic(fmt.Sprintf("wire: no model operation %q", op))
}

// SecondModelSubject returns the subject at which the servers of the second encoder answer op, if
// its Second is set.
func SecondModelSubject(op ModelOp) string {
	for _, o := range modelOperations {
		if o.Name == op && o.Second {
			return "sluice.model.second." + string(op)
		}
	}
	panic(fmt.Sprintf("wire: the second encoder has no operation %q", op))
}

// EncodeRequest asks for a vector per text. Some encoders put different prompts in front of
// questions and of passages.
type EncodeRequest struct {
	Envelope
	Lane     Lane      `json:"lane"`
	Deadline time.Time `json:"deadline,omitzero"`
	Texts    []string  `json:"texts"`
	// Queries is how many of the texts are questions: the first ones. The others are passages.
	// Requests of older builds have no questions.
	Queries int `json:"queries,omitempty"`
}

// Terms returns the request's lane and deadline.
func (r EncodeRequest) Terms() (Lane, time.Time) { return r.Lane, r.Deadline }

func (r *EncodeRequest) codeParts(p *partCodec) { p.texts(&r.Texts) }

// EncodeReply answers EncodeRequest: one unit vector per text, in order. A text without known
// tokens has a zero vector.
type EncodeReply struct {
	Envelope
	Error   *schema.RemoteError `json:"error,omitempty"`
	Space   string              `json:"space,omitempty"`
	Vectors Vectors             `json:"vectors"`
	// Tokens is the number of tokens of each text, Truncated the number of texts that are longer
	// than the model reads.
	Tokens    []int `json:"tokens,omitempty"`
	Truncated int   `json:"truncated,omitempty"`
}

func (r *EncodeReply) codeParts(p *partCodec) { p.vectors(&r.Vectors) }

// SegmentRequest asks, for each run of sentences, whether neighbours belong
// together (SAGE's segmentation model).
type SegmentRequest struct {
	Envelope
	Lane     Lane       `json:"lane"`
	Deadline time.Time  `json:"deadline,omitzero"`
	Runs     [][]string `json:"runs"`
}

// Terms returns the request's lane and deadline.
func (r SegmentRequest) Terms() (Lane, time.Time) { return r.Lane, r.Deadline }

func (r *SegmentRequest) codeParts(p *partCodec) { p.lists(&r.Runs) }

// SegmentContext is the most sentences that a segmentation model reads on each side of a boundary.
const SegmentContext = 8

// SegmentReply answers SegmentRequest: for a run of n sentences, n-1 scores in [0, 1]. A score
// below Threshold means a cut.
type SegmentReply struct {
	Envelope
	Error     *schema.RemoteError `json:"error,omitempty"`
	Model     string              `json:"model,omitempty"`
	Threshold float64             `json:"threshold"`
	Scores    [][]float32         `json:"scores"`
}

func (r *SegmentReply) codeParts(p *partCodec) { p.floatLists(&r.Scores) }

// Graphs of a pack that score answers.
const (
	GraphPair     = "pair"
	GraphReranker = "reranker"
)

// ScoreOp returns the operation that scores with a graph, the pair model if graph is empty. Another
// name is a schema.FieldError on the field graph.
func ScoreOp(graph string) (ModelOp, error) {
	switch graph {
	case "", GraphPair:
		return OpScore, nil
	case GraphReranker:
		return OpRerank, nil
	}
	return "", schema.Invalid("graph", "%.40q is neither %s nor %s", graph, GraphPair, GraphReranker)
}

// ScoreRequest asks how well texts answer a question.
type ScoreRequest struct {
	Envelope
	Lane     Lane      `json:"lane"`
	Deadline time.Time `json:"deadline,omitzero"`
	Question string    `json:"question"`
	Texts    []string  `json:"texts"`
	// Answers asks for the span of each text that answers best. Without it a reranker may estimate
	// the scores.
	Answers bool `json:"answers,omitempty"`
	// Graph is the graph that scores: GraphPair, which is the default, or GraphReranker.
	Graph string `json:"graph,omitempty"`
	// Features asks for the features that the pair model's labels are computed from.
	Features bool `json:"features,omitempty"`
}

// Terms returns the request's lane and deadline.
func (r ScoreRequest) Terms() (Lane, time.Time) { return r.Lane, r.Deadline }

func (r *ScoreRequest) codeParts(p *partCodec) { p.texts(&r.Texts) }

// ScoreReply answers ScoreRequest: a score per text, in order.
type ScoreReply struct {
	Envelope
	Error     *schema.RemoteError `json:"error,omitempty"`
	Model     string              `json:"model,omitempty"`
	Scores    []PairScore         `json:"scores"`
	Truncated int                 `json:"truncated,omitempty"` // texts longer than the model reads
	// Graph is the graph that scored; empty is the pair model. A server that knows no other leaves
	// it empty whatever the request names.
	Graph string `json:"graph,omitempty"`
	// Features are the requested features, one row per text, zeros for a text without tokens; nil:
	// the graph has none. FeaturesOf names the graph by its hash.
	Features   *Vectors `json:"features,omitempty"`
	FeaturesOf string   `json:"features_of,omitempty"`
}

func (r *ScoreReply) codeParts(p *partCodec) {
	if r.Features != nil {
		f := *r.Features
		p.vectors(&f)
		r.Features = &f
	}
}

// Op returns the operation that was run, which the request named.
func (r ScoreReply) Op() ModelOp {
	if r.Graph == GraphReranker {
		return OpRerank
	}
	return OpScore
}

// ScoresWithFeatures are the pair model's scores of texts, in their order, with the features that
// its labels are computed from.
type ScoresWithFeatures struct {
	Model    string
	Scores   []PairScore
	Features Vectors // a row for each text; none if the graph has none
	Of       string  // the graph that the features are of
}

// PairScore is the output of a graph for a question and a text. All values are logits.
type PairScore struct {
	Relevance float32     `json:"relevance"`
	HasAnswer float32     `json:"has_answer"`
	LLMPrefer float32     `json:"llm_prefer"` // FIT-RAG's second label
	Answer    *AnswerSpan `json:"answer,omitempty"`
	// Others are a few further answers in the text, best first. They overlap neither Answer nor
	// each other. Their scores are on the scale of Answer's.
	Others []AnswerSpan `json:"others,omitempty"`
}

// AnswerSpan is a part of a text that answers, in UTF-8 bytes of the text as it was sent.
type AnswerSpan struct {
	Start int     `json:"start"`
	End   int     `json:"end"`
	Score float32 `json:"score"` // of start and end, as a logit
}

// LinkRequest asks which passages of a document are related (SAKI's SentenceAttnLinker). A window
// is the vectors of consecutive passages. A long document is sent in windows that overlap.
type LinkRequest struct {
	Envelope
	Lane     Lane      `json:"lane"`
	Deadline time.Time `json:"deadline,omitzero"`
	Space    string    `json:"space"` // of the vectors
	Windows  []Vectors `json:"windows"`
	Keep     int       `json:"keep"` // most links per passage
}

// Terms returns the request's lane and deadline.
func (r LinkRequest) Terms() (Lane, time.Time) { return r.Lane, r.Deadline }

func (r *LinkRequest) codeParts(p *partCodec) { p.windows(&r.Windows) }

// LinkReply answers LinkRequest: for each window and each of its passages, the passages that it is
// linked to most strongly, strongest first.
type LinkReply struct {
	Envelope
	Error *schema.RemoteError `json:"error,omitempty"`
	Model string              `json:"model,omitempty"`
	Links [][][]PassageLink   `json:"links"`
}

func (r *LinkReply) codeParts(p *partCodec) { p.links(&r.Links) }

// PassageLink says how strongly a passage attends to another of its window.
type PassageLink struct {
	To     int     `json:"to"`     // index in the window
	Weight float32 `json:"weight"` // attention averaged over layers and heads, in [0, 1]
}

// FuseRequest asks how much an answer to a question would draw on each of some
// passages when all are read together (FunnelRAG's FiD, eq. 3).
type FuseRequest struct {
	Envelope
	Lane     Lane      `json:"lane"`
	Deadline time.Time `json:"deadline,omitzero"`
	Question string    `json:"question"`
	Texts    []string  `json:"texts"`
	// Tokens is how many of a passage's tokens represent it, the paper's lr; 0: 4, the paper's
	// value. WithQuestion also allows tokens of the question.
	Tokens       int  `json:"tokens,omitempty"`
	WithQuestion bool `json:"with_question,omitempty"`
}

// Terms returns the request's lane and deadline.
func (r FuseRequest) Terms() (Lane, time.Time) { return r.Lane, r.Deadline }

func (r *FuseRequest) codeParts(p *partCodec) { p.texts(&r.Texts) }

// FuseReply answers FuseRequest: a score per text, in order.
type FuseReply struct {
	Envelope
	Error     *schema.RemoteError `json:"error,omitempty"`
	Model     string              `json:"model,omitempty"`
	Scores    []float32           `json:"scores"`
	Truncated int                 `json:"truncated,omitempty"`
}

// DetectPairs is the most texts whose scores the detector reads.
const DetectPairs = 10

// DetectRequest asks whether the texts so far are enough to answer with
// (FIT-RAG's eligible-augmentation detector).
type DetectRequest struct {
	Envelope
	Lane     Lane      `json:"lane"`
	Deadline time.Time `json:"deadline,omitzero"`
	// Contexts are lists of at most DetectPairs pairs (has_answer, llm_prefer), best text first.
	Contexts [][][2]float32 `json:"contexts"`
}

// Terms returns the request's lane and deadline.
func (r DetectRequest) Terms() (Lane, time.Time) { return r.Lane, r.Deadline }

// DetectReply answers DetectRequest: for each context the probability that it is enough. From
// Threshold on, it is enough.
type DetectReply struct {
	Envelope
	Error     *schema.RemoteError `json:"error,omitempty"`
	Model     string              `json:"model,omitempty"`
	Threshold float64             `json:"threshold"`
	Enough    []float32           `json:"enough"`
}
