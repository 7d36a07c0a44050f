package batch

// Links between the passages of a version, as an artifact holds them.

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Link says how strongly a passage is related to another of its version.
type Link struct {
	To     int     // index of the passage among the version's
	Weight float32 // in [0, 1]
}

// Links are the strongest links of each passage of a version, in the order of
// the sections and their passages, strongest first. Nil says that the model
// pack links nothing.
type Links [][]Link

// weightSteps is how finely a weight is kept.
const weightSteps = math.MaxUint16

// AppendWeight appends a weight as two bytes.
func AppendWeight(out []byte, weight float32) []byte {
	return binary.LittleEndian.AppendUint16(out, uint16(math.Round(float64(min(1, max(0, weight)))*weightSteps)))
}

// Weight reads what AppendWeight wrote; data has two bytes.
func Weight(data []byte) float32 { return float32(binary.LittleEndian.Uint16(data)) / weightSteps }

// encode writes links: for each passage how many, and each as its passage and
// weight.
func (l Links) encode() []byte {
	if l == nil {
		return nil
	}
	out := binary.AppendUvarint(nil, uint64(len(l)))
	for _, of := range l {
		out = binary.AppendUvarint(out, uint64(len(of)))
		for _, link := range of {
			out = AppendWeight(binary.AppendUvarint(out, uint64(link.To)), link.Weight)
		}
	}
	return out
}

// decodeLinks reads what encode wrote.
func decodeLinks(data []byte) (Links, error) {
	if len(data) == 0 {
		return nil, nil
	}
	next := func(most int) (int, error) {
		x, n := binary.Uvarint(data)
		if n <= 0 || x > uint64(most) {
			return 0, fmt.Errorf("decode links: a number is broken")
		}
		data = data[n:]
		return int(x), nil
	}
	passages, err := next(len(data)) // each takes a byte at least
	if err != nil {
		return nil, err
	}
	out := make(Links, passages)
	for i := range out {
		n, err := next(len(data) / 3)
		if err != nil {
			return nil, err
		}
		out[i] = make([]Link, n)
		for j := range out[i] {
			if out[i][j].To, err = next(passages - 1); err != nil {
				return nil, err
			}
			if len(data) < 2 {
				return nil, fmt.Errorf("decode links: they are cut off")
			}
			out[i][j].Weight, data = Weight(data), data[2:]
		}
	}
	if len(data) > 0 {
		return nil, fmt.Errorf("decode links: %d bytes are left", len(data))
	}
	return out, nil
}
