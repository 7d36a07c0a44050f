package matrix

// This file keeps the figures of questions in a folder. Each cell, a dataset under a row with a
// model pack, has a folder named by the hash of everything that determines its figures, with
//
//	cell.json       the hashed values
//	questions.jsonl one line per question, written as soon as it is measured
//
// The choice of questions is not hashed: with another limit or seed, figures of questions that were
// asked before are used. Each line has the hash of its question, so that a changed question is
// asked again.

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"go.yaml.in/yaml/v3"

	"github.com/sluice-rag/sluice/internal/evaluate"
	"github.com/sluice-rag/sluice/schema"
)

// Cell is everything that determines the figures of a question.
type Cell struct {
	Measures     int                `json:"measures"` // evaluate.MeasuresVersion
	Dataset      string             `json:"dataset"`  // name; not hashed
	Corpus       string             `json:"corpus"`   // SHA-256
	Language     string             `json:"language"`
	Segmentation string             `json:"segmentation"`
	Row          string             `json:"row"`    // name; not hashed
	Plan         any                `json:"plan"`   // as the plan is written
	Stages       []schema.PlanStage `json:"stages"` // with all parameters, including defaults
	Server       string             `json:"server"` // the hash of its model pack and its language model, or its address
	Answers      bool               `json:"answers"`
	Judge        bool               `json:"judge,omitempty"`
	Risk         *float64           `json:"risk"`
	Prices       evaluate.Prices    `json:"prices"`
	Cutoffs      []int              `json:"cutoffs"`
	Failed       int                `json:"failed"` // number of documents that could not be ingested; not hashed
}

// Cell returns the cell of a dataset and a row at a server.
func (f *File) Cell(d Dataset, corpus string, r Row, segmentation schema.Segmentation, server string) (Cell, error) {
	c := Cell{Measures: evaluate.MeasuresVersion, Dataset: d.Name, Corpus: corpus, Language: d.Language, Segmentation: segmentation.String(), Row: r.Name,
		Stages: r.Described.Stages, Server: server, Answers: f.Answers, Judge: f.Judge, Risk: f.Risk, Prices: f.Prices, Cutoffs: f.Cutoffs}
	var written map[string]any
	if err := yaml.Unmarshal([]byte(r.Text), &written); err != nil {
		return c, fmt.Errorf("read plan %s: %w", r.Name, err)
	}
	delete(written, "name")
	delete(written, "description")
	c.Plan = written
	return c, nil
}

// key returns the hash of a cell, without the fields that are not hashed.
func (c Cell) key() (string, error) {
	c.Dataset, c.Row, c.Failed = "", "", 0
	text, err := json.Marshal(c)
	if err != nil {
		return "", fmt.Errorf("hash a cell: %w", err)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:10]), nil
}

// CellResults is the folder of a cell. It is safe for concurrent use.
type CellResults struct {
	dir  string
	cell Cell

	mu    sync.Mutex
	known map[string]evaluate.QuestionFigures // by the hash of the question
	file  *os.File                            // nil: nothing has been written yet
}

// line is a line of questions.jsonl.
type line struct {
	Hash string `json:"hash"`
	evaluate.QuestionFigures
}

const questionsFile = "questions.jsonl"

// Folder is the folder in which the cells of a matrix are kept.
type Folder struct {
	dir  string
	open map[string]*CellResults
}

// NewFolder returns the folder dir, which need not exist yet.
func NewFolder(dir string) *Folder { return &Folder{dir: dir, open: map[string]*CellResults{}} }

// Results reads the kept results of a cell. Equal cells share one CellResults.
func (f *Folder) Results(c Cell) (*CellResults, error) {
	key, err := c.key()
	if err != nil {
		return nil, err
	}
	if k := f.open[key]; k != nil {
		return k, nil
	}
	f.open[key], err = open(filepath.Join(f.dir, "cells", key), c)
	return f.open[key], err
}

// Close closes all files.
func (f *Folder) Close() error {
	var all []error
	for _, k := range f.open {
		all = append(all, k.close())
	}
	return errors.Join(all...)
}

func open(dir string, c Cell) (*CellResults, error) {
	k := &CellResults{dir: dir, cell: c, known: map[string]evaluate.QuestionFigures{}}
	if text, err := os.ReadFile(k.about()); err == nil {
		var was Cell
		if err := json.Unmarshal(text, &was); err != nil {
			return nil, fmt.Errorf("read %s (delete its folder to ask its questions again): %w", k.about(), err)
		}
		k.cell.Failed = was.Failed
	}
	path := filepath.Join(k.dir, questionsFile)
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return k, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read what is kept: %w", err)
	}
	whole, err := k.read(f)
	if err == nil {
		err = f.Truncate(whole) // drop a line that a killed process left incomplete
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("read what is kept, %s (delete it to ask its questions again): %w", path, err)
	}
	return k, nil
}

// read reads the lines, and returns the length of all complete lines in bytes.
func (k *CellResults) read(f io.Reader) (whole int64, err error) {
	in := bufio.NewReaderSize(f, 1<<16)
	for n := 1; ; n++ {
		text, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return whole, nil
		}
		if err != nil {
			return whole, err
		}
		whole += int64(len(text))
		var l line
		if err := json.Unmarshal(bytes.TrimSpace(text), &l); err != nil || l.Hash == "" {
			return whole, fmt.Errorf("line %d was not written by this program", n)
		}
		k.known[l.Hash] = l.QuestionFigures
	}
}

func (k *CellResults) about() string { return filepath.Join(k.dir, "cell.json") }

// Failed returns the number of documents that could not be ingested.
func (k *CellResults) Failed() int { return k.cell.Failed }

// Ingested sets the number of documents that could not be ingested. Call it before figures are
// kept.
func (k *CellResults) Ingested(failed int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.cell.Failed = failed
}

// Has reports whether the figures of a question are kept.
func (k *CellResults) Has(q evaluate.Topic) bool {
	_, there := k.find(q)
	return there
}

func (k *CellResults) find(q evaluate.Topic) (evaluate.QuestionFigures, bool) {
	hash := q.Hash()
	k.mu.Lock()
	defer k.mu.Unlock()
	f, there := k.known[hash]
	return f, there
}

// keep adds the figures of a question. An answer that failed or that was not judged is kept only in
// memory, so that the next run asks again.
func (k *CellResults) keep(q evaluate.Topic, f evaluate.QuestionFigures) error {
	hash := q.Hash()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.known[hash] = f
	if a := f.Answer; a != nil && (a.Failed || a.Judgement != nil && a.Judgement.Failed) {
		return nil
	}
	text, err := json.Marshal(line{hash, f})
	if err == nil && k.file == nil {
		err = k.create()
	}
	if err == nil {
		_, err = k.file.Write(append(text, '\n'))
	}
	if err != nil {
		return fmt.Errorf("keep what question %s gave: %w", q.ID, err)
	}
	return nil
}

func (k *CellResults) create() error {
	if err := os.MkdirAll(k.dir, 0o755); err != nil {
		return err
	}
	about, err := json.MarshalIndent(k.cell, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(k.about(), append(about, '\n'), 0o644); err != nil {
		return err
	}
	k.file, err = os.OpenFile(filepath.Join(k.dir, questionsFile), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	return err
}

func (k *CellResults) close() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.file == nil {
		return nil
	}
	err := k.file.Close()
	k.file = nil
	if err != nil {
		return fmt.Errorf("keep what questions gave: %w", err)
	}
	return nil
}

// Rows are the kept results of some rows by name. They implement evaluate.Results.
type Rows struct {
	Of map[string]*CellResults
	// Told is called after each question under a row. Calls may be concurrent.
	Told func()
}

// Find implements evaluate.Results.
func (r Rows) Find(row string, q evaluate.Topic) (evaluate.QuestionFigures, bool) {
	return r.Of[row].find(q)
}

// Keep implements evaluate.Results.
func (r Rows) Keep(row string, q evaluate.Topic, f evaluate.QuestionFigures) error {
	err := r.Of[row].keep(q, f)
	if r.Told != nil && err == nil {
		r.Told()
	}
	return err
}
