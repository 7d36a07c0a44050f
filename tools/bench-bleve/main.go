// Command bench-bleve runs Bleve for the comparison in `make bench`: an index of passages with
// BM25, English stemming and stop words, which stores only ids. It reads requests from standard
// input and writes replies to standard output, one JSON value each, and ends with its input. Times
// are those of Bleve's work only.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/blevesearch/bleve/v2"
	_ "github.com/blevesearch/bleve/v2/analysis/analyzer/custom"
	"github.com/blevesearch/bleve/v2/analysis/lang/en"
	"github.com/blevesearch/bleve/v2/analysis/token/lowercase"
	"github.com/blevesearch/bleve/v2/analysis/tokenizer/unicode"
	"github.com/blevesearch/bleve/v2/index/scorch"
	"github.com/blevesearch/bleve/v2/index/scorch/mergeplan"
	"github.com/blevesearch/bleve/v2/mapping"
	"github.com/blevesearch/bleve/v2/search/query"
	index "github.com/blevesearch/bleve_index_api"
)

// request is one operation.
type request struct {
	// Op is "index", "merge", "search" or "size".
	Op string `json:"op"`
	// Texts are the texts to index; their ids count from First.
	Texts []string `json:"texts,omitempty"`
	First int      `json:"first,omitempty"`
	// Batch is the number of texts in a batch, Writers the number of batches written in parallel.
	Batch   int `json:"batch,omitempty"`
	Writers int `json:"writers,omitempty"`
	// Queries are asked one after another; any of their words may match.
	Queries []string `json:"queries,omitempty"`
	K       int      `json:"k,omitempty"`
	// Hits says whether to return the ids that were found.
	Hits bool `json:"hits,omitempty"`
}

// reply is the result of an operation.
type reply struct {
	Error   string  `json:"error,omitempty"`
	Seconds float64 `json:"seconds"`
	// Found is the number of hits of all queries together.
	Found     int         `json:"found,omitempty"`
	Hits      [][]int     `json:"hits,omitempty"`
	Scores    [][]float64 `json:"scores,omitempty"`
	Bytes     int64       `json:"bytes,omitempty"`
	Documents uint64      `json:"documents,omitempty"`
	// Terms is the number of different terms.
	Terms int `json:"terms,omitempty"`
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: bench-bleve FOLDER    (a folder that is not there yet)")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "bench-bleve: "+err.Error())
		os.Exit(1)
	}
}

func run(folder string, in io.Reader, out io.Writer) (err error) {
	m, err := passages()
	if err != nil {
		return err
	}
	ix, err := bleve.New(folder, m)
	if err != nil {
		return fmt.Errorf("make the index: %w", err)
	}
	defer func() { err = errors.Join(err, ix.Close()) }()
	decoder := json.NewDecoder(bufio.NewReaderSize(in, 1<<20))
	w := bufio.NewWriter(out)
	encoder := json.NewEncoder(w)
	for {
		var r request
		if err := decoder.Decode(&r); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("read a request: %w", err)
		}
		answer, err := do(ix, folder, r)
		if err != nil {
			answer.Error = err.Error()
		}
		if err := encoder.Encode(answer); err != nil {
			return fmt.Errorf("answer: %w", err)
		}
		if err := w.Flush(); err != nil {
			return fmt.Errorf("answer: %w", err)
		}
	}
}

// passages returns a mapping for one text field without positions, stored values or doc values for
// sorting.
func passages() (mapping.IndexMapping, error) {
	m := bleve.NewIndexMapping()
	m.ScoringModel = index.BM25Scoring
	const name = "english"
	if err := m.AddCustomAnalyzer(name, map[string]any{
		"type": "custom", "tokenizer": unicode.Name,
		"token_filters": []string{en.PossessiveName, lowercase.Name, en.StopName, en.SnowballStemmerName},
	}); err != nil {
		return nil, fmt.Errorf("make the analyzer: %w", err)
	}
	field := bleve.NewTextFieldMapping()
	field.Analyzer = name
	field.Store, field.IncludeTermVectors, field.IncludeInAll, field.DocValues = false, false, false, false
	doc := bleve.NewDocumentStaticMapping()
	doc.AddFieldMappingsAt("text", field)
	m.DefaultMapping, m.DefaultAnalyzer, m.StoreDynamic, m.IndexDynamic, m.DocValuesDynamic = doc, name, false, false, false
	return m, nil
}

func do(ix bleve.Index, folder string, r request) (reply, error) {
	begin := time.Now()
	var out reply
	var err error
	switch r.Op {
	case "index":
		err = add(ix, r)
	case "merge":
		err = merge(ix)
	case "search":
		err = search(ix, r, &out)
	case "size":
		if out.Documents, err = ix.DocCount(); err == nil {
			out.Bytes, err = size(folder)
		}
		if err == nil {
			out.Terms, err = terms(ix)
		}
	default:
		err = fmt.Errorf("no such operation: %q", r.Op)
	}
	out.Seconds = time.Since(begin).Seconds()
	return out, err
}

// add writes batches. Each is on disk when its write returns, which is Bleve's default.
func add(ix bleve.Index, r request) error {
	if r.Batch < 1 || r.Writers < 1 {
		return fmt.Errorf("batches of %d by %d writers: both must be at least 1", r.Batch, r.Writers)
	}
	starts := make(chan int)
	var wg sync.WaitGroup
	errs := make([]error, r.Writers)
	for w := range r.Writers {
		wg.Go(func() {
			for from := range starts {
				if errs[w] == nil {
					errs[w] = addBatch(ix, r, from)
				}
			}
		})
	}
	for from := 0; from < len(r.Texts); from += r.Batch {
		starts <- from
	}
	close(starts)
	wg.Wait()
	return errors.Join(errs...)
}

func addBatch(ix bleve.Index, r request, from int) error {
	batch := ix.NewBatch()
	for i := from; i < min(from+r.Batch, len(r.Texts)); i++ {
		if err := batch.Index(strconv.Itoa(r.First+i), struct {
			Text string `json:"text"`
		}{r.Texts[i]}); err != nil {
			return fmt.Errorf("index text %d: %w", r.First+i, err)
		}
	}
	if err := ix.Batch(batch); err != nil {
		return fmt.Errorf("write a batch: %w", err)
	}
	return nil
}

// merge merges everything into one segment, in which Bleve searches fastest.
func merge(ix bleve.Index) error {
	advanced, err := ix.Advanced()
	if err != nil {
		return fmt.Errorf("merge: %w", err)
	}
	s, ok := advanced.(*scorch.Scorch)
	if !ok {
		return fmt.Errorf("merge: the index is a %T", advanced)
	}
	if err := s.ForceMerge(context.Background(), &mergeplan.SingleSegmentMergePlanOptions); err != nil {
		return fmt.Errorf("merge: %w", err)
	}
	return nil
}

func search(ix bleve.Index, r request, out *reply) error {
	for _, text := range r.Queries {
		q := query.NewMatchQuery(text)
		q.SetField("text")
		found, err := ix.Search(bleve.NewSearchRequestOptions(q, r.K, 0, false))
		if err != nil {
			return fmt.Errorf("search %q: %w", text, err)
		}
		out.Found += len(found.Hits)
		if !r.Hits {
			continue
		}
		ids, scores := make([]int, len(found.Hits)), make([]float64, len(found.Hits))
		for i, h := range found.Hits {
			if ids[i], err = strconv.Atoi(h.ID); err != nil {
				return fmt.Errorf("search %q: a hit has the id %q", text, h.ID)
			}
			scores[i] = h.Score
		}
		out.Hits, out.Scores = append(out.Hits, ids), append(out.Scores, scores)
	}
	return nil
}

// terms counts the different terms.
func terms(ix bleve.Index) (int, error) {
	dict, err := ix.FieldDict("text")
	if err != nil {
		return 0, fmt.Errorf("count terms: %w", err)
	}
	return dict.Cardinality(), dict.Close()
}

func size(folder string) (int64, error) {
	var sum int64
	err := filepath.WalkDir(folder, func(_ string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) || err == nil && entry.IsDir() {
			return nil // merging deletes files meanwhile
		}
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil {
			sum += info.Size()
		}
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("measure %s: %w", folder, err)
	}
	return sum, nil
}
