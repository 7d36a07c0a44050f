package wire

// This file declares the operations of the model server, each once: subjects, permissions, the
// server's dispatch and what `sluice models check` prints come of it, and a test holds the table of
// docs/models.md to it. Their messages follow.

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
	OpRerank  ModelOp = "rerank" // score by the graph reranker: it has a name in ModelInfo and in metrics, and no subject
	OpLink    ModelOp = "link"
	OpFuse    ModelOp = "fuse"
	OpDetect  ModelOp = "detect"
	OpInfo    ModelOp = "info"
	// OpSegmentEncode is segment, encode and link in one: texts become passages at the server.
	OpSegmentEncode ModelOp = "segment_encode"
)

// ModelOperation is what is known of an operation but for the code that computes it.
type ModelOperation struct {
	Name  ModelOp
	Graph string  // section of a pack's manifest that it needs; empty: none
	Of    ModelOp // operation whose requests name this one, which has no subject then; empty: it has its own
	Limit string  // what its number in ModelInfo.Limits counts; empty: it has none
	// Second says that the servers of the second encoder answer it too, on a subject of their own.
	Second bool
	// Refuse is a reply that says what was wrong.
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

// ModelOperations are all operations, in the order in which they are listed.
func ModelOperations() []ModelOperation { return slices.Clone(modelOperations) }

// ModelSubject is where the model server answers op.
func ModelSubject(op ModelOp) string {
	for _, o := range modelOperations {
		if o.Name == op && o.Of == "" {
			return "sluice.model." + string(op)
		}
	}
	panic(fmt.Sprintf("wire: no model operation %q", op))
}

// SecondModelSubject is where the servers of the second encoder answer op, which they do where its
// Second says so.
func SecondModelSubject(op ModelOp) string {
	for _, o := range modelOperations {
		if o.Name == op && o.Second {
			return "sluice.model.second." + string(op)
		}
	}
	panic(fmt.Sprintf("wire: the second encoder has no operation %q", op))
}

// EncodeRequest asks for a vector per text. Some encoders read questions otherwise than passages,
// with a prompt of their own.
type EncodeRequest struct {
	Envelope
	Lane     Lane      `json:"lane"`
	Deadline time.Time `json:"deadline,omitzero"`
	Texts    []string  `json:"texts"`
	// Queries is how many of the texts are questions, the first ones; the others are passages.
	// Requests of before have none.
	Queries int `json:"queries,omitempty"`
}

// Terms are the request's lane and deadline.
func (r EncodeRequest) Terms() (Lane, time.Time) { return r.Lane, r.Deadline }

func (r *EncodeRequest) lift(p *parts) { p.texts(&r.Texts) }

// EncodeReply answers EncodeRequest: one unit vector per text, in order; a
// text without known tokens gives a zero vector.
type EncodeReply struct {
	Envelope
	Error   *schema.RemoteError `json:"error,omitempty"`
	Space   string              `json:"space,omitempty"`
	Vectors Vectors             `json:"vectors"`
	// Tokens is how many tokens each text had, Truncated how many texts were
	// longer than the model reads.
	Tokens    []int `json:"tokens,omitempty"`
	Truncated int   `json:"truncated,omitempty"`
}

func (r *EncodeReply) lift(p *parts) { p.vectors(&r.Vectors) }

// SegmentRequest asks, for each run of sentences, whether neighbours belong
// together (SAGE's segmentation model).
type SegmentRequest struct {
	Envelope
	Lane     Lane       `json:"lane"`
	Deadline time.Time  `json:"deadline,omitzero"`
	Runs     [][]string `json:"runs"`
}

// Terms are the request's lane and deadline.
func (r SegmentRequest) Terms() (Lane, time.Time) { return r.Lane, r.Deadline }

func (r *SegmentRequest) lift(p *parts) { p.lists(&r.Runs) }

// SegmentContext is how many sentences on each side of a place a segmentation model looks at, at
// most.
const SegmentContext = 8

// SegmentReply answers SegmentRequest: for a run of n sentences, n-1 scores in
// [0, 1]; a score under Threshold means a cut.
type SegmentReply struct {
	Envelope
	Error     *schema.RemoteError `json:"error,omitempty"`
	Model     string              `json:"model,omitempty"`
	Threshold float64             `json:"threshold"`
	Scores    [][]float32         `json:"scores"`
}

func (r *SegmentReply) lift(p *parts) { p.floatLists(&r.Scores) }

// Graphs of a pack that score answers by.
const (
	GraphPair     = "pair"
	GraphReranker = "reranker"
)

// ScoreOp is the operation of a score by a graph: the pair model where none is
// named. Another name gives a schema.FieldError of the field graph.
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
	// Answers asks for the span of each text that answers best.
	Answers bool `json:"answers,omitempty"`
	// Graph is who reads: GraphPair, which empty means too, or GraphReranker.
	Graph string `json:"graph,omitempty"`
	// Features asks for what the pair model's labels are computed from.
	Features bool `json:"features,omitempty"`
}

// Terms are the request's lane and deadline.
func (r ScoreRequest) Terms() (Lane, time.Time) { return r.Lane, r.Deadline }

func (r *ScoreRequest) lift(p *parts) { p.texts(&r.Texts) }

// ScoreReply answers ScoreRequest: a score per text, in order.
type ScoreReply struct {
	Envelope
	Error     *schema.RemoteError `json:"error,omitempty"`
	Model     string              `json:"model,omitempty"`
	Scores    []PairScore         `json:"scores"`
	Truncated int                 `json:"truncated,omitempty"` // texts longer than the model reads
	// Graph is who read: empty is the pair model. A server that knows of no other
	// leaves it empty whatever was asked.
	Graph string `json:"graph,omitempty"`
	// Features are those asked for, a row for each text, zeros for one without a word;
	// nil: the graph gives none. FeaturesOf names the graph, by its hash.
	Features   *Vectors `json:"features,omitempty"`
	FeaturesOf string   `json:"features_of,omitempty"`
}

func (r *ScoreReply) lift(p *parts) {
	if r.Features != nil {
		f := *r.Features
		p.vectors(&f)
		r.Features = &f
	}
}

// Op is the operation that was run, which the request named.
func (r ScoreReply) Op() ModelOp {
	if r.Graph == GraphReranker {
		return OpRerank
	}
	return OpScore
}

// Featured are the pair model's scores of texts, in their order, with what its labels are computed
// from.
type Featured struct {
	Model    string
	Scores   []PairScore
	Features Vectors // a row for each text; none where the graph gives none
	Of       string  // the graph that the features are of
}

// PairScore is what a graph says of a question and a text; all logits.
type PairScore struct {
	Relevance float32     `json:"relevance"`
	HasAnswer float32     `json:"has_answer"`
	LLMPrefer float32     `json:"llm_prefer"` // FIT-RAG's second label
	Answer    *AnswerSpan `json:"answer,omitempty"`
	// Others are the next best answers in the text, best first: a few, which share no token with
	// Answer nor with each other. Their score is on Answer's scale.
	Others []AnswerSpan `json:"others,omitempty"`
}

// AnswerSpan is the part of a text that answers best, in UTF-8 bytes of the text
// as it was sent.
type AnswerSpan struct {
	Start int     `json:"start"`
	End   int     `json:"end"`
	Score float32 `json:"score"` // of start and end, as a logit
}

// LinkRequest asks which passages of a document belong to which (SAKI's
// SentenceAttnLinker). A window is a run of passages' vectors in order; a long
// document comes in windows that overlap.
type LinkRequest struct {
	Envelope
	Lane     Lane      `json:"lane"`
	Deadline time.Time `json:"deadline,omitzero"`
	Space    string    `json:"space"` // of the vectors
	Windows  []Vectors `json:"windows"`
	Keep     int       `json:"keep"` // links per passage at most
}

// Terms are the request's lane and deadline.
func (r LinkRequest) Terms() (Lane, time.Time) { return r.Lane, r.Deadline }

func (r *LinkRequest) lift(p *parts) { p.windows(&r.Windows) }

// LinkReply answers LinkRequest: for each window and each of its passages the
// strongest others, strongest first.
type LinkReply struct {
	Envelope
	Error *schema.RemoteError `json:"error,omitempty"`
	Model string              `json:"model,omitempty"`
	Links [][][]PassageLink   `json:"links"`
}

func (r *LinkReply) lift(p *parts) { p.links(&r.Links) }

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
	// Tokens is how many of a passage's tokens represent it, the paper's lr; 0:
	// its 4. WithQuestion lets tokens of the question be among them.
	Tokens       int  `json:"tokens,omitempty"`
	WithQuestion bool `json:"with_question,omitempty"`
}

// Terms are the request's lane and deadline.
func (r FuseRequest) Terms() (Lane, time.Time) { return r.Lane, r.Deadline }

func (r *FuseRequest) lift(p *parts) { p.texts(&r.Texts) }

// FuseReply answers FuseRequest: a score per text, in order.
type FuseReply struct {
	Envelope
	Error     *schema.RemoteError `json:"error,omitempty"`
	Model     string              `json:"model,omitempty"`
	Scores    []float32           `json:"scores"`
	Truncated int                 `json:"truncated,omitempty"`
}

// DetectPairs is how many texts' scores the detector sees at most.
const DetectPairs = 10

// DetectRequest asks whether the texts so far are enough to answer with
// (FIT-RAG's eligible-augmentation detector).
type DetectRequest struct {
	Envelope
	Lane     Lane      `json:"lane"`
	Deadline time.Time `json:"deadline,omitzero"`
	// Contexts are lists of up to DetectPairs (has_answer, llm_prefer), best
	// text first.
	Contexts [][][2]float32 `json:"contexts"`
}

// Terms are the request's lane and deadline.
func (r DetectRequest) Terms() (Lane, time.Time) { return r.Lane, r.Deadline }

// DetectReply answers DetectRequest: for each context the probability that it
// is enough; from Threshold on it is.
type DetectReply struct {
	Envelope
	Error     *schema.RemoteError `json:"error,omitempty"`
	Model     string              `json:"model,omitempty"`
	Threshold float64             `json:"threshold"`
	Enough    []float32           `json:"enough"`
}
