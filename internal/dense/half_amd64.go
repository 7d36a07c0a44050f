package dense

import "golang.org/x/sys/cpu"

// hasHalf reports whether the processor converts eight halves at once, and the system saves its
// wide registers.
var hasHalf = cpu.X86.HasAVX2 && cpu.X86.HasFMA && hasF16C()

// hasF16C reports whether the processor has instructions for halves. Package cpu does not report
// that.
func hasF16C() bool

// dotF16C returns the inner product of n numbers, n a multiple of 8. hasHalf must be true.
//
//go:noescape
func dotF16C(row *uint16, numbers *float32, n int) float32

// dotProcessor returns the inner product of a row with numbers of the same length.
func dotProcessor(row []uint16, numbers []float32) float32 {
	numbers = numbers[:len(row)]
	wide := len(row) &^ 7
	sum := float32(0)
	if wide > 0 {
		sum = dotF16C(&row[0], &numbers[0], wide)
	}
	for i := wide; i < len(row); i++ {
		sum += single(row[i]) * halfScale * numbers[i]
	}
	return sum
}
