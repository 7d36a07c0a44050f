package wire

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
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

// Vectors are n vectors of one dimension, row by row. In JSON they are base64
// of little-endian float32.
type Vectors struct {
	Dimension int
	Data      []float32
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

type vectorsJSON struct {
	Dimension int    `json:"dimension"`
	Data      string `json:"data"`
}

// MarshalJSON implements json.Marshaler.
func (v Vectors) MarshalJSON() ([]byte, error) {
	raw := make([]byte, 4*len(v.Data))
	for i, x := range v.Data {
		binary.LittleEndian.PutUint32(raw[4*i:], math.Float32bits(x))
	}
	return json.Marshal(vectorsJSON{v.Dimension, base64.StdEncoding.EncodeToString(raw)})
}

// UnmarshalJSON implements json.Unmarshaler.
func (v *Vectors) UnmarshalJSON(data []byte) error {
	var w vectorsJSON
	if err := json.Unmarshal(data, &w); err != nil {
		return err
	}
	raw, err := base64.StdEncoding.DecodeString(w.Data)
	if err != nil {
		return fmt.Errorf("vectors: %w", err)
	}
	if w.Dimension < 0 || len(raw)%4 != 0 || w.Dimension == 0 && len(raw) > 0 ||
		w.Dimension > 0 && len(raw)/4%w.Dimension != 0 {
		return fmt.Errorf("vectors: %d bytes do not make vectors of dimension %d", len(raw), w.Dimension)
	}
	v.Dimension, v.Data = w.Dimension, make([]float32, len(raw)/4)
	for i := range v.Data {
		v.Data[i] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
	}
	return nil
}

// EncodeRequest asks for a vector per text.
type EncodeRequest struct {
	Envelope
	Lane     Lane      `json:"lane"`
	Deadline time.Time `json:"deadline,omitzero"`
	Texts    []string  `json:"texts"`
}

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
}
