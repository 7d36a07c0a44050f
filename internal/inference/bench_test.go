package inference

// This file measures batching: the same texts in one call at a time, and from many concurrent
// callers.

import (
	"fmt"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-rag/sluice/internal/modelclient"
	"github.com/sluice-rag/sluice/schema/wire"
)

// BenchmarkEncode encodes passages of about 100 words over NATS. The batched case has 64 concurrent
// callers.
func BenchmarkEncode(b *testing.B) {
	nc, _ := serving(b, open(b), ServerOptions{})
	client := modelclient.New(nc, modelclient.Options{})
	texts := longTexts(1000)
	for i, text := range texts {
		texts[i] = text[:600]
	}
	one := func(b *testing.B, i int) {
		if _, _, err := client.Encode(b.Context(), wire.LaneInteractive, texts[i%len(texts):i%len(texts)+1]); err != nil {
			b.Fatal(err)
		}
	}
	b.Run("one caller", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			one(b, i)
		}
		perSecond(b, 1)
	})
	b.Run("64 callers", func(b *testing.B) {
		b.SetParallelism(32)
		var next atomic.Int64
		b.RunParallel(func(p *testing.PB) {
			for p.Next() {
				one(b, int(next.Add(1)))
			}
		})
		perSecond(b, 1)
	})
	for _, n := range []int{100, 1000} {
		b.Run(fmt.Sprintf("%d texts a call", n), func(b *testing.B) {
			for b.Loop() {
				if _, _, err := client.Encode(b.Context(), wire.LaneBulk, texts[:n]); err != nil {
					b.Fatal(err)
				}
			}
			perSecond(b, n)
		})
	}
}

// BenchmarkSegment scores runs of 40 sentences, about a section. tokens counts those of the
// sentences.
func BenchmarkSegment(b *testing.B) {
	model := open(b)
	nc, _ := serving(b, model, ServerOptions{})
	client := modelclient.New(nc, modelclient.Options{})
	runs, tokens := make([][]string, 100), 0
	for i := range runs {
		for j := range 40 {
			runs[i] = append(runs[i], fmt.Sprintf("%s It is clause %d of part %d.", topics[(i+j*j)%len(topics)], j, i))
			_, n, _ := model.encoder.tokens(runs[i][j])
			tokens += n
		}
	}
	for b.Loop() {
		if _, _, err := client.Segment(b.Context(), wire.LaneBulk, runs); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N*tokens)/b.Elapsed().Seconds(), "tokens/s")
}

// BenchmarkEncoderRun runs the encoder graph alone, on 64 rows of one length and on varying numbers
// of rows of 128 tokens. It shows what batching saves.
func BenchmarkEncoderRun(b *testing.B) {
	model := open(b)
	run := func(name string, rows, length int) {
		b.Run(name, func(b *testing.B) {
			batch := make([]sequence, rows)
			for i := range batch {
				batch[i] = sequence{ids: make([]int32, length), vector: make([]float32, model.dimension())}
				for j := range batch[i].ids {
					batch[i].ids[j] = int32(5 + (i*31+j*17)%20000)
				}
			}
			before := processor(b)
			for b.Loop() {
				if err := model.encoder.encode(b.Context(), batch); err != nil {
					b.Fatal(err)
				}
			}
			tokens := float64(b.N * rows * length)
			b.ReportMetric(tokens/b.Elapsed().Seconds(), "tokens/s")
			b.ReportMetric(tokens/(processor(b)-before).Seconds(), "tokens/cpu-s")
		})
	}
	for _, length := range []int{8, 32, 128, 512} {
		run(fmt.Sprintf("%d tokens", length), 64, length)
	}
	for _, rows := range []int{1, 2, 4, 8, 16, 32} {
		run(fmt.Sprintf("%d rows", rows), rows, 128)
	}
}

func perSecond(b *testing.B, texts int) {
	b.ReportMetric(float64(b.N*texts)/b.Elapsed().Seconds(), "texts/s")
}

// BenchmarkPairRun runs the pair graph alone on varying numbers of texts of 128 tokens, to find the
// best batch size. It needs a pack that has the graph.
func BenchmarkPairRun(b *testing.B) { pairRun(b, wire.OpScore, 256) }

// BenchmarkRerankRun does the same with the reranker.
func BenchmarkRerankRun(b *testing.B) { pairRun(b, wire.OpRerank, 32) }

func pairRun(b *testing.B, op wire.ModelOp, most int) {
	model := open(b)
	if err := model.serves(op); err != nil {
		b.Fatal(err)
	}
	graph := model.pair
	if op == wire.OpRerank {
		graph = model.reranker
	}
	const length, asked = 128, 12
	row := func(n, salt int) []int32 {
		ids := make([]int32, n)
		for i := range ids {
			ids[i] = int32(5 + (salt*31+i*17)%20000)
		}
		return ids
	}
	for rows := 1; rows <= most; rows *= 2 {
		b.Run(fmt.Sprintf("%d rows", rows), func(b *testing.B) {
			pairs := make([]textPair, rows)
			for i := range pairs {
				pairs[i] = textPair{question: row(asked, 1), text: row(length, i), result: &pairResult{}}
			}
			before := processor(b)
			for b.Loop() {
				if err := graph.score(b.Context(), pairs); err != nil {
					b.Fatal(err)
				}
			}
			tokens := float64(b.N * rows * (length + asked))
			b.ReportMetric(tokens/b.Elapsed().Seconds(), "tokens/s")
			b.ReportMetric(tokens/(processor(b)-before).Seconds(), "tokens/cpu-s")
		})
	}
}

// processor returns the processor time of this process, which varies less than elapsed time on a
// busy machine.
func processor(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
