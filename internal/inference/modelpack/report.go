package modelpack

// This file is the report of a check of a pack. The model server runs the checks, because it can
// run graphs; other programs show the report.

import "github.com/sluice-rag/sluice/schema/wire"

// Report is the result of a check.
type Report struct {
	Info   wire.ModelInfo `json:"info"`
	Graphs []GraphReport  `json:"graphs"`
	// Problems say what is wrong and what to do; none: the pack works.
	Problems []string `json:"problems,omitempty"`
}

// GraphReport is the result of checking one graph.
type GraphReport struct {
	Section   string  `json:"section"`
	Bytes     int64   `json:"bytes"`
	Tolerance float64 `json:"tolerance"`         // largest difference that is accepted
	Goldens   int     `json:"goldens"`           // how many goldens it was compared with
	Worst     float64 `json:"worst,omitempty"`   // largest difference from a golden
	Padding   float64 `json:"padding,omitempty"` // largest difference that a longer text in the batch makes
}
