package cluster

// Nearest neighbours in memory, for sections that have no other relation.

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/gonum/blas/gonum"
)

const (
	// Up to this many vectors are all compared with each other.
	exactVectors = 2048
	// More vectors are divided into lists by the nearest centre; the number of centres is the
	// square root of that of the vectors. A vector is compared with those in the lists of its
	// nearest centres, as many as probes.
	probes = 2
)

// Neighbours returns for each vector the indexes of up to k others with the highest cosine
// similarity, best first, ties by index. All vectors have the same length. A zero vector has no
// neighbours and is not a neighbour of any. Above 2,048 vectors the result is approximate, and
// takes about n^1.5 comparisons.
func Neighbours(vectors [][]float32, k int) [][]int {
	unit := make([][]float32, len(vectors))
	var all []int
	for i, v := range vectors {
		if unit[i] = normalised(v); unit[i] != nil {
			all = append(all, i)
		}
	}
	out := make([][]int, len(vectors))
	if len(all) <= exactVectors {
		for _, i := range all {
			out[i] = closest(unit, i, all, k)
		}
		return out
	}
	centres := int(math.Sqrt(float64(len(all))))
	lists := make([][]int, centres)
	near := make([][]int, len(vectors))
	heads := make([]int, centres)
	for c := range heads {
		heads[c] = all[c*len(all)/centres]
	}
	for _, i := range all {
		// If the vector itself is a centre, that comes first.
		near[i] = topK(probes, len(heads), func(c int) float32 { return dot(unit[i], unit[heads[c]]) })
		lists[near[i][0]] = append(lists[near[i][0]], i)
	}
	for _, i := range all {
		var among []int
		for _, c := range near[i] {
			among = append(among, lists[c]...)
		}
		out[i] = closest(unit, i, among, k)
	}
	return out
}

// closest returns the k of the vectors among that are nearest to vector i.
func closest(unit [][]float32, i int, among []int, k int) []int {
	found := topK(k+1, len(among), func(j int) float32 { return dot(unit[i], unit[among[j]]) })
	var out []int
	for _, j := range found {
		if among[j] != i && len(out) < k {
			out = append(out, among[j])
		}
	}
	return out
}

// topK returns the k of the numbers below n with the highest scores, best first, ties by number.
func topK(k, n int, score func(int) float32) []int {
	type scored struct {
		i     int
		score float32
	}
	top := make([]scored, 0, k+1)
	for i := range n {
		s := score(i)
		if len(top) == k && s <= top[k-1].score {
			continue
		}
		at, _ := slices.BinarySearchFunc(top, s, func(e scored, s float32) int { return cmp.Or(cmp.Compare(s, e.score), -1) })
		top = slices.Insert(top, at, scored{i, s})
		top = top[:min(len(top), k)]
	}
	out := make([]int, len(top))
	for i, s := range top {
		out[i] = s.i
	}
	return out
}

func normalised(v []float32) []float32 {
	sum := float64(dot(v, v))
	if sum == 0 || math.IsNaN(sum) || math.IsInf(sum, 0) {
		return nil
	}
	out := make([]float32, len(v))
	for i, x := range v {
		out[i] = float32(float64(x) / math.Sqrt(sum))
	}
	return out
}

// dot returns the inner product, which gonum computes several numbers at a time.
func dot(a, b []float32) float32 { return gonum.Implementation{}.Sdot(len(a), a, 1, b, 1) }
