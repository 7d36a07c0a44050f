package main

// This file is `bench ask`, a process that only searches, so that its memory is that of searching.
// It reads its job from standard input and writes the results to standard output.

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/dense"
	"github.com/sluice-rag/sluice/internal/lexical"
	lexicalsearch "github.com/sluice-rag/sluice/internal/lexical/search"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/internal/store/search"
	"github.com/sluice-rag/sluice/internal/store/stores"
	"github.com/sluice-rag/sluice/schema"
)

type askCommand struct{}

// vectorCache is the most bytes of vectors that the process keeps.
const vectorCache = 256 << 20

// askJob describes the searches.
type askJob struct {
	URL    string
	K      int
	Cache  int64      // bytes of the index
	Spaces []askSpace // in descending order of size
}

type askSpace struct {
	Tenant, Collection uuid.UUID
	Questions          []string
	Vectors            [][]float32
}

// askResult has the measurements of the process. Times are in milliseconds, memory in bytes.
type askResult struct {
	Units               []askUnit
	Before, After, Peak int64
	Index, Vectors      int64
	Evictions           int64
}

type askUnit struct {
	Unit                string
	Cold, Warm, Largest []float64
}

// runAsker runs this program as that process.
func runAsker(ctx context.Context, job askJob) (askResult, error) {
	var out askResult
	self, err := os.Executable()
	if err != nil {
		return out, fmt.Errorf("find this program: %w", err)
	}
	in, err := json.Marshal(job)
	if err != nil {
		return out, fmt.Errorf("write a job: %w", err)
	}
	cmd := exec.CommandContext(ctx, self, "ask")
	var words bytes.Buffer
	cmd.Stdin, cmd.Stderr = bytes.NewReader(in), &words
	answer, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(answer, &out)
	}
	if err != nil {
		return out, fmt.Errorf("the asking process: %w %s", err, words.String())
	}
	return out, nil
}

func (askCommand) Run(ctx context.Context) error {
	var job askJob
	if err := json.NewDecoder(os.Stdin).Decode(&job); err != nil {
		return fmt.Errorf("read the job: %w", err)
	}
	out := askResult{}
	var err error
	if out.Before, _, err = resident(); err != nil {
		return err
	}
	db, err := store.Open(ctx, job.URL, store.Options{Name: "bench asker"})
	if err != nil {
		return err
	}
	defer db.Close()
	for _, unit := range searched {
		// Each size of text starts with an empty index in memory.
		one := askUnit{Unit: string(unit)}
		index := lexicalsearch.NewIndex(search.New(db), job.Cache)
		vectors := dense.NewMemoryVectors(search.New(db), index, vectorCache)
		ask := func(s askSpace, i int) (float64, error) {
			took, err := timed(func() error {
				if unit == "vector" {
					_, err := nearestOf(ctx, vectors, space{Principal: schema.Principal{Tenant: s.Tenant}, collection: s.Collection}, s.Vectors[i], job.K)
					return err
				}
				_, err := index.SearchText(ctx, s.Tenant, s.Collection, s.Questions[i], lexical.TermQuery{Unit: unit, K: job.K, Settings: lexical.Defaults})
				return err
			})
			return took.Seconds() * 1000, err
		}
		for pass := range 3 {
			for n, s := range job.Spaces {
				for i := range s.Questions {
					if pass == 0 && i > 0 {
						break // only the first question of each tenant is cold
					}
					ms, err := ask(s, i)
					switch {
					case err != nil:
						return err
					case pass == 0:
						one.Cold = append(one.Cold, ms)
					case pass == 2:
						one.Warm = append(one.Warm, ms)
						if n == 0 {
							one.Largest = append(one.Largest, ms)
						}
					}
				}
			}
		}
		stats := index.Stats()
		out.Index, out.Evictions = max(out.Index, stats.Bytes), out.Evictions+stats.Evictions
		out.Vectors = max(out.Vectors, vectors.Stats().Bytes)
		rss, _, err := resident()
		if err != nil {
			return err
		}
		out.After = max(out.After, rss)
		out.Units = append(out.Units, one)
	}
	if _, out.Peak, err = resident(); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(out)
}

// resident returns this process's resident bytes, current and peak.
func resident() (now, peak int64, err error) {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, 0, fmt.Errorf("read memory: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(line, ":")
		if name != "VmRSS" && name != "VmHWM" {
			continue
		}
		kb, err := strconv.ParseInt(strings.Fields(value)[0], 10, 64)
		if err != nil {
			return 0, 0, fmt.Errorf("read memory: %w", err)
		}
		if name == "VmRSS" {
			now = kb << 10
		} else {
			peak = kb << 10
		}
	}
	return now, peak, nil
}

// restart restarts PostgreSQL, so that its memory is empty.
func (b *workbench) restart(ctx context.Context) error {
	b.others.Reset()
	stopping, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	if err := b.postgres.Stop(stopping); err != nil {
		return fmt.Errorf("restart PostgreSQL: %w", err)
	}
	if err := b.postgres.Start(stopping); err != nil {
		return fmt.Errorf("restart PostgreSQL: %w", err)
	}
	b.store.Close()
	db, err := store.Open(ctx, b.postgres.URL(), store.Options{Name: "bench", Lane: store.Batch})
	if err != nil {
		return err
	}
	b.store = stores.Of(db)
	b.others.Reset()
	return nil
}
