package main

// This file generates the passages in which a funnel and flat retrieval search: those of a dataset,
// and many more that resemble two of the dataset's documents each, in words and in vector, but have
// no meaning.

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/sluice-rag/sluice/internal/modelclient"
	"github.com/sluice-rag/sluice/internal/text"
	"github.com/sluice-rag/sluice/schema/wire"
)

const (
	// aboutShare is the share of a generated passage's words from each of the two documents that it
	// resembles. The other words are from any document.
	aboutShare = 0.3
	// madeNoise is the length of the noise that is added to a generated passage's unit vector.
	madeNoise = 0.5
	// madeSections is the number of sections of a generated document, madePassages the number of
	// passages of each.
	madeSections, madePassages = 4, 6
)

// funnelCorpus has a dataset's documents, followed by generated ones.
type funnelCorpus struct {
	seed    uint64
	ids     []string   // of the dataset's documents
	docs    []written  // all documents
	words   [][]string // words of each document of the dataset
	all     []string   // words of all documents
	vectors []float32  // of all passages in order; the dataset's documents have one passage each
	starts  []int      // index of each document's first passage
	space   string
}

// readFunnelCorpus reads a dataset's documents, each as one passage, and gets their vectors from
// the model.
func readFunnelCorpus(ctx context.Context, dir string, seed uint64, models *modelclient.Client) (*funnelCorpus, error) {
	c := &funnelCorpus{seed: seed}
	file, err := os.Open(filepath.Join(dir, "corpus.jsonl"))
	if err != nil {
		return nil, fmt.Errorf("read the dataset: %w", err)
	}
	defer func() { _ = file.Close() }()
	decoder := json.NewDecoder(file)
	var inputs []string
	for decoder.More() {
		var entry struct {
			ID    string `json:"_id"`
			Title string
			Text  string
		}
		if err := decoder.Decode(&entry); err != nil {
			return nil, fmt.Errorf("read document %d of %s: %w", len(c.ids)+1, dir, err)
		}
		words := strings.Fields(entry.Text)
		if len(words) == 0 {
			continue
		}
		c.ids = append(c.ids, entry.ID)
		c.docs = append(c.docs, written{title: entry.Title, pieces: []sectionText{{text: entry.Text, starts: []int{0}}}})
		c.words, c.all = append(c.words, words), append(c.all, words...)
		c.starts = append(c.starts, len(c.starts))
		input, _ := text.InContext(entry.Title, nil, entry.Text)
		inputs = append(inputs, input)
	}
	if len(inputs) == 0 {
		return nil, fmt.Errorf("read the dataset: %s has no documents", dir)
	}
	got, space, err := models.Encode(ctx, wire.LaneBulk, inputs)
	if err != nil {
		return nil, fmt.Errorf("encode %d passages: %w", len(inputs), err)
	}
	if got.Dimension != dimension {
		return nil, fmt.Errorf("the model makes vectors of %d dimensions; this part measures with %d", got.Dimension, dimension)
	}
	c.vectors, c.space = got.Data, space
	return c, nil
}

func (c *funnelCorpus) passages() int { return len(c.vectors) / dimension }

func (c *funnelCorpus) vector(passage int) []float32 {
	return c.vectors[passage*dimension : (passage+1)*dimension]
}

// rows returns the vectors of a document's passages.
func (c *funnelCorpus) rows(document int) []float32 {
	end := c.passages()
	if document+1 < len(c.starts) {
		end = c.starts[document+1]
	}
	return c.vectors[c.starts[document]*dimension : end*dimension]
}

// make generates a document with its vectors.
func (c *funnelCorpus) make() written {
	number := len(c.starts)
	random := seeded(c.seed, number)
	c.starts = append(c.starts, c.passages())
	pick := func(words []string) string { return words[random.IntN(len(words))] }
	d := written{title: pick(c.all) + " " + pick(c.all), topic: number % topicCount}
	for range madeSections {
		var p sectionText
		var b strings.Builder
		for range madePassages {
			p.starts = append(p.starts, b.Len())
			one, two := random.IntN(len(c.ids)), random.IntN(len(c.ids))
			length := len(c.words[one])
			for range length {
				switch x := random.Float64(); {
				case x < aboutShare:
					b.WriteString(pick(c.words[one]))
				case x < 2*aboutShare:
					b.WriteString(pick(c.words[two]))
				default:
					b.WriteString(pick(c.all))
				}
				b.WriteByte(' ')
			}
			c.vectors = append(c.vectors, c.between(random, one, two)...)
		}
		p.text = b.String()
		d.pieces = append(d.pieces, p)
	}
	c.docs = append(c.docs, d)
	return d
}

// passage returns the title and text of a passage.
func (c *funnelCorpus) passage(number int) (title, body string) {
	document, found := slices.BinarySearch(c.starts, number)
	if !found {
		document--
	}
	d, at := c.docs[document], number-c.starts[document]
	for _, p := range d.pieces {
		if at < len(p.starts) {
			return d.title, p.passage(at)
		}
		at -= len(p.starts)
	}
	return d.title, ""
}

// nearest compares a vector with those of all passages, on all cores, and returns the k nearest,
// best first.
func (c *funnelCorpus) nearest(question []float32, k int) []int {
	type near struct {
		passage int
		cosine  float32
	}
	best := func(found []near) []near {
		slices.SortFunc(found, func(a, b near) int { return cmp.Or(cmp.Compare(b.cosine, a.cosine), a.passage-b.passage) })
		return found[:min(len(found), k)]
	}
	workers := runtime.GOMAXPROCS(0)
	parts := make([][]near, workers)
	var all sync.WaitGroup
	for w := range workers {
		all.Go(func() {
			var found []near
			lowest := float32(math.Inf(-1))
			for p := c.passages() * w / workers; p < c.passages()*(w+1)/workers; p++ {
				v := c.vector(p)
				var one, two, three, four float32
				for i := 0; i+3 < len(v); i += 4 {
					one += v[i] * question[i]
					two += v[i+1] * question[i+1]
					three += v[i+2] * question[i+2]
					four += v[i+3] * question[i+3]
				}
				if cosine := one + two + three + four; cosine > lowest {
					if found = append(found, near{p, cosine}); len(found) == 8*k {
						found = best(found)
						lowest = found[k-1].cosine
					}
				}
			}
			parts[w] = best(found)
		})
	}
	all.Wait()
	out := make([]int, 0, k)
	for _, n := range best(slices.Concat(parts...)) {
		out = append(out, n.passage)
	}
	return out
}

// between returns a vector near those of two documents of the dataset.
func (c *funnelCorpus) between(random *rand.Rand, one, two int) []float32 {
	out := make([]float32, dimension)
	share := float32(0.3 + 0.4*random.Float64())
	noise := madeNoise / math.Sqrt(dimension)
	sum := 0.0
	for i := range out {
		out[i] = share*c.vector(one)[i] + (1-share)*c.vector(two)[i] + float32(noise*random.NormFloat64())
		sum += float64(out[i]) * float64(out[i])
	}
	for i := range out {
		out[i] /= float32(math.Sqrt(max(sum, 1e-12)))
	}
	return out
}
