package modelpack

// This file is what a check of a pack says. The model server checks, for it can run graphs; people
// read it elsewhere.

import "github.com/sluice-rag/sluice/schema/wire"

// Report is what a check found.
type Report struct {
	Info   wire.ModelInfo `json:"info"`
	Graphs []GraphReport  `json:"graphs"`
	// Problems say what is wrong and what to do; none: the pack works.
	Problems []string `json:"problems,omitempty"`
}

// GraphReport is what a check found about one graph.
type GraphReport struct {
	Section   string  `json:"section"`
	Bytes     int64   `json:"bytes"`
	Tolerance float64 `json:"tolerance"`         // that it is held to
	Goldens   int     `json:"goldens"`           // how many it was compared with
	Worst     float64 `json:"worst,omitempty"`   // largest difference from them
	Padding   float64 `json:"padding,omitempty"` // largest difference that a longer neighbour makes
}
