package wire

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/sluice-rag/sluice/schema"
)

// Lane is the priority of a model request.
type Lane string

// Lanes: interactive goes before bulk.
const (
	LaneInteractive Lane = "interactive"
	LaneBulk        Lane = "bulk"
)

// Vectors are n vectors of one dimension, row by row.
type Vectors struct {
	Dimension int    `json:"dimension"`
	Data      Floats `json:"data"`
}

// Floats are in JSON a string: base64 of little-endian float32. As text, for
// encoding/json reads what a json.Marshaler wrote once more.
type Floats []float32

// MarshalText implements encoding.TextMarshaler.
func (f Floats) MarshalText() ([]byte, error) {
	raw := make([]byte, 4*len(f))
	for i, x := range f {
		binary.LittleEndian.PutUint32(raw[4*i:], math.Float32bits(x))
	}
	return base64.StdEncoding.AppendEncode(nil, raw), nil
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (f *Floats) UnmarshalText(text []byte) error {
	raw, err := base64.StdEncoding.AppendDecode(nil, text)
	if err != nil {
		return err
	}
	if len(raw)%4 != 0 {
		return fmt.Errorf("%d bytes are not float32", len(raw))
	}
	*f = make(Floats, len(raw)/4)
	for i := range *f {
		(*f)[i] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
	}
	return nil
}

// Len returns the number of vectors.
func (v Vectors) Len() int {
	if v.Dimension == 0 {
		return 0
	}
	return len(v.Data) / v.Dimension
}

// Row returns vector i; it shares v's memory.
func (v Vectors) Row(i int) []float32 { return v.Data[i*v.Dimension : (i+1)*v.Dimension] }

// UnmarshalJSON implements json.Unmarshaler. It checks the shape.
func (v *Vectors) UnmarshalJSON(data []byte) error {
	read, err := readVectors(data)
	if err != nil {
		return fmt.Errorf("vectors: %w", err)
	}
	if n, d := len(read.Data), read.Dimension; d < 0 || d == 0 && n > 0 || d > 0 && n%d != 0 {
		return fmt.Errorf("vectors: %d numbers do not make vectors of dimension %d", n, d)
	}
	*v = read
	return nil
}

// readVectors reads an object of Vectors. One that has the form in which it is
// written here is read at once: it is most of what a worker reads.
func readVectors(data []byte) (v Vectors, err error) {
	if rest, found := bytes.CutPrefix(data, []byte(`{"dimension":`)); found {
		number, rest, found := bytes.Cut(rest, []byte(`,"data":"`))
		text, end, closed := bytes.Cut(rest, []byte(`"`))
		if d, err := strconv.Atoi(string(number)); err == nil && found && closed && string(end) == "}" && !bytes.Contains(text, []byte(`\`)) {
			v.Dimension = d
			return v, v.Data.UnmarshalText(text)
		}
	}
	type plain Vectors // without this method
	err = json.Unmarshal(data, (*plain)(&v))
	return v, err
}

// EncodeRequest asks for a vector per text.
type EncodeRequest struct {
	Envelope
	Lane     Lane      `json:"lane"`
	Deadline time.Time `json:"deadline,omitzero"`
	Texts    []string  `json:"texts"`
}

// Terms are the request's lane and deadline.
func (r EncodeRequest) Terms() (Lane, time.Time) { return r.Lane, r.Deadline }

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

// SegmentContext is how many sentences on each side of a place a segmentation model looks at, at most.
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
	// NoSpans says that score finds no answers in texts: the pair model of the
	// pack is a cross-encoder, which knows relevance alone.
	NoSpans bool `json:"no_spans,omitempty"`
	// NoRerankSpans says the same of the reranker.
	NoRerankSpans bool `json:"no_rerank_spans,omitempty"`
	// Notes are what people should know of the pack, such as which scores a
	// cross-encoder does not make.
	Notes []string `json:"notes,omitempty"`
}
