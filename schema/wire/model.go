package wire

import "github.com/sluice-rag/sluice/schema"

// Lane is the priority of a model request.
type Lane string

// Lanes: interactive requests precede bulk ones.
const (
	LaneInteractive Lane = "interactive"
	LaneBulk        Lane = "bulk"
)

// Background reports whether nobody waits for the requests of a lane.
func (l Lane) Background() bool { return l != LaneInteractive }

// ModelInfoRequest asks what a model server offers.
type ModelInfoRequest struct {
	Envelope
}

// CalibratedSimilarity names the cosine below which neighbouring sentences are separated, in the
// scale of the pack's encoder.
const CalibratedSimilarity = "similarity"

// RerankerSuffix is added to the name of a threshold to name the same threshold for the reranker,
// whose scores have another scale than the pair model's.
const RerankerSuffix = "_reranker"

// ModelInfo describes the model pack that a server has loaded.
type ModelInfo struct {
	Envelope
	Error     *schema.RemoteError `json:"error,omitempty"`
	Pack      string              `json:"pack"`
	Version   string              `json:"version"`
	SHA256    string              `json:"sha256,omitempty"` // hex, of its manifest, which has the hashes of its files
	Space     string              `json:"space"`
	Dimension int                 `json:"dimension"`
	MaxTokens int                 `json:"max_tokens"`
	Provider  string              `json:"provider"` // cpu or cuda
	// Operations are the operations that the pack has graphs for.
	Operations []ModelOp `json:"operations,omitempty"`
	// Calibrated are the pack's equivalents of published thresholds, which are
	// in the scale of the papers' own models: "has_answer" for FIT-RAG's delta,
	// "detect" for its detector, CalibratedSimilarity for ChunkRAG's theta. Those
	// whose names end with RerankerSuffix are in the scale of the reranker.
	Calibrated map[string]float64 `json:"calibrated,omitempty"`
	// Limits are how much each operation reads at once: encode, score and rerank tokens of a text
	// (a longer one is cut), link passages of a window, fuse passages of a question, detect texts
	// of a context.
	Limits map[ModelOp]int `json:"limits,omitempty"`
	// Scripts are the scripts that an operation's graph was trained on, by Unicode's names. For an
	// operation that is missing they are unknown.
	Scripts map[ModelOp][]string `json:"scripts,omitempty"`
	// NoSpans says that score finds no answer spans: the pack's pair model is a cross-encoder,
	// which computes relevance only.
	NoSpans bool `json:"no_spans,omitempty"`
	// NoRerankSpans says the same of the reranker.
	NoRerankSpans bool `json:"no_rerank_spans,omitempty"`
	// Remote are the operations that a model behind an API computes. Callers wait longer for them.
	Remote []ModelOp `json:"remote,omitempty"`
	// Notes are remarks about the pack for people, such as which scores a cross-encoder does not
	// compute.
	Notes []string `json:"notes,omitempty"`
}
