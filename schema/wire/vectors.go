package wire

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
)

// Vectors are n vectors of one dimension, row by row.
type Vectors struct {
	Dimension int    `json:"dimension"`
	Data      Floats `json:"data"`
}

// Floats are a string in JSON: base64 of little-endian float32. They implement TextMarshaler,
// because encoding/json parses the output of a json.Marshaler again.
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
	decoded, err := readVectors(data)
	if err != nil {
		return fmt.Errorf("vectors: %w", err)
	}
	if err := decoded.check(); err != nil {
		return err
	}
	*v = decoded
	return nil
}

// check returns an error if the numbers do not make vectors of their dimension.
func (v Vectors) check() error {
	if n, d := len(v.Data), v.Dimension; d < 0 || d == 0 && n > 0 || d > 0 && n%d != 0 {
		return fmt.Errorf("vectors: %d numbers do not make vectors of dimension %d", n, d)
	}
	return nil
}

// readVectors reads a Vectors object. It reads the form that this package writes without a general
// JSON decoder, because most of what a worker reads is vectors.
func readVectors(data []byte) (v Vectors, err error) {
	if rest, found := bytes.CutPrefix(data, []byte(`{"dimension":`)); found {
		number, rest, found := bytes.Cut(rest, []byte(`,"data":"`))
		text, end, closed := bytes.Cut(rest, []byte(`"`))
		if d, err := strconv.Atoi(string(number)); err == nil && found && closed && string(end) == "}" && !bytes.Contains(text, []byte(`\`)) {
			v.Dimension = d
			return v, v.Data.UnmarshalText(text)
		}
	}
	type withoutMethods Vectors // without UnmarshalJSON
	err = json.Unmarshal(data, (*withoutMethods)(&v))
	return v, err
}
