package evaluate

// This file compares where two segmentations of one text have their boundaries.
// A segmentation of n sentences is n-1 booleans: is there a boundary behind
// sentence i?

// WindowLength is the k that Pk and WindowDiff are usually asked with: half the
// mean length of the reference's segments in sentences, rounded, at least 1.
func WindowLength(reference []bool) int {
	segments := 1 + count(reference)
	return max((len(reference)+1+segments)/(2*segments), 1)
}

// Pk is the share of pairs of sentences, k apart, of which one segmentation says
// that they are in one segment and the other says that they are not (Beeferman,
// Berger and Lafferty 1999). 0 is best. It is 0 for a text of at most k sentences.
// Both have the same length.
func Pk(reference, hypothesis []bool, k int) float64 {
	return windows(reference, hypothesis, k, func(a, b int) bool { return (a == 0) != (b == 0) })
}

// WindowDiff is the share of windows of k+1 sentences in which the segmentations
// have different numbers of boundaries (Pevzner and Hearst 2002). 0 is best. It
// is 0 for a text of at most k sentences.
func WindowDiff(reference, hypothesis []bool, k int) float64 {
	return windows(reference, hypothesis, k, func(a, b int) bool { return a != b })
}

// windows is the share of the windows of k places in which the numbers of
// boundaries differ.
func windows(reference, hypothesis []bool, k int, differ func(a, b int) bool) float64 {
	n := len(reference) - k + 1
	if n <= 0 {
		return 0
	}
	wrong := 0
	for i := range n {
		if differ(count(reference[i:i+k]), count(hypothesis[i:i+k])) {
			wrong++
		}
	}
	return float64(wrong) / float64(n)
}

func count(boundaries []bool) int {
	n := 0
	for _, b := range boundaries {
		if b {
			n++
		}
	}
	return n
}
