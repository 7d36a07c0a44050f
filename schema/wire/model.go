package wire

import "github.com/sluice-rag/sluice/schema"

// Lane is the priority of a model request.
type Lane string

// Lanes: interactive goes before bulk.
const (
	LaneInteractive Lane = "interactive"
	LaneBulk        Lane = "bulk"
)

// Background reports whether nobody waits for the requests of a lane.
func (l Lane) Background() bool { return l != LaneInteractive }

// ModelInfoRequest asks what a model server serves.
type ModelInfoRequest struct {
	Envelope
}

// CalibratedSimilarity names the cosine below which neighbouring sentences belong
// apart, in the scale of the pack's encoder.
const CalibratedSimilarity = "similarity"

// RerankerSuffix makes of the name of a threshold of the pair model's scores that
// of the reranker's: the two have scales of their own.
const RerankerSuffix = "_reranker"

// ModelInfo describes the model pack that a server has loaded.
type ModelInfo struct {
	Envelope
	Error     *schema.RemoteError `json:"error,omitempty"`
	Pack      string              `json:"pack"`
	Version   string              `json:"version"`
	SHA256    string              `json:"sha256,omitempty"` // hex, of its manifest, which has those of its files
	Space     string              `json:"space"`
	Dimension int                 `json:"dimension"`
	MaxTokens int                 `json:"max_tokens"`
	Provider  string              `json:"provider"` // cpu or cuda
	// Operations are those that the pack has graphs for.
	Operations []ModelOp `json:"operations,omitempty"`
	// Calibrated are the pack's equivalents of published thresholds, which are
	// in the scale of the papers' own models: "has_answer" for FIT-RAG's delta,
	// "detect" for its detector, CalibratedSimilarity for ChunkRAG's theta. Those
	// whose names end with RerankerSuffix are in the scale of the reranker.
	Calibrated map[string]float64 `json:"calibrated,omitempty"`
	// Limits are how much each operation takes at once: encode, score and rerank
	// tokens of a text (of a longer one the beginning is read), link passages of a window,
	// fuse passages of a question, detect texts of a context.
	Limits map[ModelOp]int `json:"limits,omitempty"`
	// Scripts are those whose words an operation's graph learnt, by Unicode's
	// names; an operation that has none here may know any.
	Scripts map[ModelOp][]string `json:"scripts,omitempty"`
	// NoSpans says that score finds no answers in texts: the pair model of the
	// pack is a cross-encoder, which knows relevance alone.
	NoSpans bool `json:"no_spans,omitempty"`
	// NoRerankSpans says the same of the reranker.
	NoRerankSpans bool `json:"no_rerank_spans,omitempty"`
	// Remote are the operations that a model behind an API computes: callers wait longer
	// for them.
	Remote []ModelOp `json:"remote,omitempty"`
	// Notes are what people should know of the pack, such as which scores a
	// cross-encoder does not make.
	Notes []string `json:"notes,omitempty"`
}
