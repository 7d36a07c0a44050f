//go:build !amd64

package dense

const hasHalf = false

func dotProcessor([]uint16, []float32) float32 { panic("the processor does not convert halves") }
