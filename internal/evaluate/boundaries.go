package evaluate

// This file compares the boundaries of two segmentations of one text. A segmentation of n sentences
// is n-1 booleans: the i-th is true if there is a boundary after sentence i.

// WindowLength returns the usual k of Pk and WindowDiff: half the mean length of the reference's
// segments in sentences, rounded, at least 1.
func WindowLength(reference []bool) int {
	segments := 1 + count(reference)
	return max((len(reference)+1+segments)/(2*segments), 1)
}

// Pk returns the share of pairs of sentences, k apart, that are in one segment in one segmentation
// but not in the other (Beeferman, Berger and Lafferty 1999). 0 is best. It is 0 for a text of at
// most k sentences. Both segmentations have the same length.
func Pk(reference, hypothesis []bool, k int) float64 {
	return windows(reference, hypothesis, k, func(a, b int) bool { return (a == 0) != (b == 0) })
}

// WindowDiff returns the share of windows of k+1 sentences in which the segmentations have
// different numbers of boundaries (Pevzner and Hearst 2002). 0 is best. It is 0 for a text of at
// most k sentences.
func WindowDiff(reference, hypothesis []bool, k int) float64 {
	return windows(reference, hypothesis, k, func(a, b int) bool { return a != b })
}

// windows returns the share of the windows of k boundary positions in which the numbers of
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
