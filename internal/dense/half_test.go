package dense

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/uuid"
	"github.com/x448/float16"
	"gonum.org/v1/gonum/blas/gonum"
)

// ways are the implementations of the inner product on this machine.
func ways() map[string]func(row []uint16, numbers []float32) float32 {
	out := map[string]func([]uint16, []float32) float32{"Go": func(row []uint16, numbers []float32) float32 { return dotGo(row, scaled(numbers)) }}
	if hasHalf {
		out["processor"] = dotProcessor
	}
	return out
}

// checkDot compares every implementation with a sum in double precision.
func checkDot(t *testing.T, row []uint16, numbers []float32) {
	t.Helper()
	want, bound := 0.0, 0.0
	for i, h := range row {
		product := float64(float16.Frombits(h).Float32()) * float64(numbers[i])
		want += product
		bound += math.Abs(product)
	}
	// An addition loses at most half a unit in the last place, and so does a rounded product.
	bound = bound*float64(len(row)+8)*0x1p-24 + float64(len(row))*0x1p-126
	for name, dot := range ways() {
		if got := float64(dot(row, numbers)); !(math.Abs(got-want) <= bound) {
			t.Errorf("%s: %d numbers: %v, want %v within %v", name, len(row), got, want, bound)
		}
	}
}

// TestDotOfEveryHalf: each half is converted as package float16 does, including those that are not
// normal.
func TestDotOfEveryHalf(t *testing.T) {
	for bits := range 1 << 16 {
		h := uint16(bits)
		want := float16.Frombits(h).Float32()
		if math.IsInf(float64(want), 0) || math.IsNaN(float64(want)) {
			continue
		}
		for name, dot := range ways() {
			for _, n := range []int{1, 8} { // the processor converts eight at once
				row, numbers := make([]uint16, n), make([]float32, n)
				row[n-1], numbers[n-1] = h, 1
				if got := dot(row, numbers); got != want {
					t.Fatalf("%s: %#04x of %d is %v, want %v", name, h, n, got, want)
				}
			}
		}
	}
}

// TestDotOfEveryLength: a row is processed in steps of four times eight, eight, and one.
func TestDotOfEveryLength(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for n := range 300 {
		// One more number at each end, which must not count.
		row, numbers := make([]uint16, n+2), make([]float32, n+2)
		for i := range row {
			row[i], numbers[i] = float16.Fromfloat32(float32(r.NormFloat64())).Bits(), float32(r.NormFloat64())
		}
		row[0], row[n+1] = 0x7bff, 0x7bff
		numbers[0], numbers[n+1] = math.MaxFloat32, math.MaxFloat32
		checkDot(t, row[1:n+1], numbers[1:n+1])
	}
}

func FuzzDot(f *testing.F) {
	for _, n := range []int{0, 1, 7, 8, 31, 40, 256} {
		data := make([]byte, 6*n)
		rand.NewChaCha8([32]byte{byte(n)}).Read(data) //nolint:errcheck // it never fails
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var row []uint16
		var numbers []float32
		for ; len(data) >= 6; data = data[6:] {
			h := binary.LittleEndian.Uint16(data)
			x := math.Float32frombits(binary.LittleEndian.Uint32(data[2:]))
			if h&0x7c00 == 0x7c00 || !(math.Abs(float64(x)) <= 2) || math.Abs(float64(x)) < 0x1p-60 {
				continue // vectors are finite, and of unit length
			}
			row, numbers = append(row, h), append(numbers, x)
		}
		checkDot(t, row, numbers)
	})
}

// halves returns the bits of a vector in half precision.
func halves(vector []float32) []uint16 {
	out := make([]uint16, len(vector))
	for i, x := range vector {
		out[i] = float16.Fromfloat32(x).Bits()
	}
	return out
}

// TestScanFindsWhatSinglesDo: the nearest vectors in half precision are the nearest in single
// precision.
func TestScanFindsWhatSinglesDo(t *testing.T) {
	const dimension, rows, k = 256, 5000, 10
	r := rand.New(rand.NewPCG(7, 8))
	unit := func() []float32 {
		v := make([]float32, dimension)
		sum := 0.0
		for i := range v {
			v[i] = float32(r.NormFloat64())
			sum += float64(v[i]) * float64(v[i])
		}
		for i := range v {
			v[i] /= float32(math.Sqrt(sum))
		}
		return v
	}
	block := NewSegment(uuid.UUID{}, 1, "", dimension, 1, rows)
	singles := make([][]float32, rows)
	for i := range rows {
		singles[i] = rounded(unit()) // as the store rounds them
		block.Fill(i, uuid.UUID{14: byte(i >> 8), 15: byte(i)}, halves(singles[i]))
	}
	found, asked := 0, 0
	for range 50 {
		question := rounded(unit())
		top := NewTop(question, k)
		top.Scan(0, &block.Block, 0, rows)
		order := make([]int, rows)
		similarities := make([]float32, rows)
		for i := range rows {
			order[i], similarities[i] = i, gonum.Implementation{}.Sdot(dimension, singles[i], 1, question, 1)
		}
		slices.SortFunc(order, func(a, b int) int { return int(math.Copysign(1, float64(similarities[b]-similarities[a]))) })
		for _, n := range top.Neighbours() {
			asked++
			if slices.Contains(order[:k], n.Row) {
				found++
			}
		}
	}
	if recall := float64(found) / float64(asked); recall < 0.999 {
		t.Errorf("recall@%d is %v", k, recall)
	}
}

// BenchmarkDot compares a question with 65,536 vectors: in half precision by the processor
// and in Go, and in single precision.
func BenchmarkDot(b *testing.B) {
	for _, dimension := range []int{256, 768} {
		r := rand.New(rand.NewPCG(1, 2))
		const rows = 1 << 16
		singles, halves, numbers := make([]float32, rows*dimension), make([]uint16, rows*dimension), make([]float32, dimension)
		for i := range singles {
			h := float16.Fromfloat32(float32(r.NormFloat64()) / 16)
			singles[i], halves[i] = h.Float32(), h.Bits()
		}
		for i := range numbers {
			numbers[i] = float32(r.NormFloat64()) / 16
		}
		inGo := scaled(numbers)
		var sum float32
		each := func(name string, dot func(row int) float32) {
			b.Run(fmt.Sprintf("%s/%d", name, dimension), func(b *testing.B) {
				for b.Loop() {
					for row := range rows {
						sum += dot(row)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/rows, "ns/row")
			})
		}
		half := func(row int) []uint16 { return halves[row*dimension : (row+1)*dimension] }
		each("single", func(row int) float32 {
			return gonum.Implementation{}.Sdot(dimension, singles[row*dimension:(row+1)*dimension], 1, numbers, 1)
		})
		if hasHalf {
			each("half", func(row int) float32 { return dotProcessor(half(row), numbers) })
		}
		each("half in Go", func(row int) float32 { return dotGo(half(row), inGo) })
	}
}
