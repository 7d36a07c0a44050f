package batch

// Links between the passages of a version.

import (
	"encoding/binary"
	"math"
)

// Link says how strongly a passage is related to another of its version.
type Link struct {
	To     int     // index of the passage among the version's
	Weight float32 // in [0, 1]
}

// Links are the strongest links of each passage of a version, in the order of the sections and
// their passages, strongest first. Nil means that the model pack has no linker.
type Links [][]Link

// weightSteps is the number of steps that a stored weight distinguishes.
const weightSteps = math.MaxUint16

// AppendWeight appends a weight as two bytes.
func AppendWeight(out []byte, weight float32) []byte {
	return binary.LittleEndian.AppendUint16(out, uint16(math.Round(float64(min(1, max(0, weight)))*weightSteps)))
}

// Weight reads what AppendWeight wrote. data must have two bytes.
func Weight(data []byte) float32 { return float32(binary.LittleEndian.Uint16(data)) / weightSteps }
