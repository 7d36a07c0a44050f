package batch

// Artifacts are stored as JSON compressed with S2. Vectors are no artifact: they stay in memory.

import (
	"encoding/json"
	"fmt"

	"github.com/klauspost/compress/s2"
	"github.com/x448/float16"
)

// Vectors are rows of one space, in half precision, as they are stored.
type Vectors struct {
	Space     string
	Dimension int
	Half      []uint16
}

// Len returns the number of rows.
func (v Vectors) Len() int {
	if v.Dimension == 0 {
		return 0
	}
	return len(v.Half) / v.Dimension
}

// Bits returns row i as half-precision bits; it shares v's memory.
func (v Vectors) Bits(i int) []uint16 { return v.Half[i*v.Dimension : (i+1)*v.Dimension] }

// Row returns row i as float32.
func (v Vectors) Row(i int) []float32 {
	out := make([]float32, v.Dimension)
	for j, h := range v.Bits(i) {
		out[j] = float16.Frombits(h).Float32()
	}
	return out
}

// NewVectors rounds rows of float32 to half precision.
func NewVectors(space string, dimension int, rows []float32) Vectors {
	half := make([]uint16, len(rows))
	for i, x := range rows {
		half[i] = float16.Fromfloat32(x).Bits()
	}
	return Vectors{Space: space, Dimension: dimension, Half: half}
}

// maxArtifact is the maximum size of an unpacked artifact, in bytes.
const maxArtifact = 1 << 30

// Pack encodes a value as JSON compressed with S2, which is fast: an artifact lives for seconds.
func Pack(value any) ([]byte, error) {
	raw, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("pack %T: %w", value, err)
	}
	if len(raw) > maxArtifact {
		return nil, fmt.Errorf("pack %T: %d bytes are over the limit of %d", value, len(raw), maxArtifact)
	}
	return s2.Encode(nil, raw), nil
}

// Unpack reads what Pack wrote.
func Unpack[T any](data []byte) (T, error) {
	var value T
	size, err := s2.DecodedLen(data)
	if err == nil && size > maxArtifact {
		err = fmt.Errorf("it expands to %d bytes; the limit is %d", size, maxArtifact)
	}
	if err != nil {
		return value, fmt.Errorf("unpack %T: %w", value, err)
	}
	raw, err := s2.Decode(nil, data)
	if err != nil {
		return value, fmt.Errorf("unpack %T: %w", value, err)
	}
	if err := json.Unmarshal(raw, &value); err != nil {
		return value, fmt.Errorf("unpack %T: %w", value, err)
	}
	return value, nil
}
