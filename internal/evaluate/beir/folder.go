// Package beir writes question sets in BEIR's layout, which sluice eval reads: corpus.jsonl,
// queries.jsonl and qrels/SPLIT.tsv. It writes to a temporary folder next to the target and renames
// it, so that the target is never incomplete.
package beir

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/sluice-rag/sluice/schema"
)

const (
	corpusFile  = "corpus.jsonl"
	queriesFile = "queries.jsonl"
	qrelsFolder = "qrels"
)

// CorpusLine is a document, as a line of corpus.jsonl.
type CorpusLine struct {
	ID       string         `json:"_id"`
	Title    string         `json:"title"`
	Text     string         `json:"text"`
	Metadata map[string]any `json:"metadata,omitempty"`
}

// QueryLine is a question, as a line of queries.jsonl. docs/evaluation.md describes the metadata
// that sluice eval reads.
type QueryLine struct {
	ID       string         `json:"_id"`
	Text     string         `json:"text"`
	Metadata map[string]any `json:"metadata,omitempty"`
}

// Evidence is a verbatim part of a document, as an element of a query's metadata.evidence.
type Evidence struct {
	Document string `json:"doc"`
	Text     string `json:"text"`
}

// Folder writes a question set. It is not safe for concurrent use.
type Folder struct {
	path, work string
	replace    bool
	files      map[string]*output
}

// output is an open file of the folder.
type output struct {
	file *os.File
	*bufio.Writer
}

// Create begins a folder. Its target must not exist or be an empty folder; with replace it may be a
// folder that has only files of a question set. The caller ends with Commit or Discard.
func Create(folder string, replace bool) (*Folder, error) {
	folder = filepath.Clean(folder)
	if err := checkFree(folder, replace); err != nil {
		return nil, err
	}
	parent := filepath.Dir(folder)
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return nil, fmt.Errorf("make %s: %w", parent, err)
	}
	work, err := os.MkdirTemp(parent, "."+filepath.Base(folder)+".partial-*")
	if err != nil {
		return nil, fmt.Errorf("write beside %s: %w", folder, err)
	}
	return &Folder{path: folder, work: work, replace: replace, files: map[string]*output{}}, nil
}

// checkFree returns an error if a folder may not be written to.
func checkFree(folder string, replace bool) error {
	entries, err := os.ReadDir(folder)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("%s cannot be a folder: %w", folder, err)
	case len(entries) > 0 && !replace:
		return fmt.Errorf("%s is there already, and is not empty: name another folder, or replace it", folder)
	}
	for _, e := range entries {
		if n := e.Name(); n != corpusFile && n != queriesFile && n != qrelsFolder {
			return fmt.Errorf("%s is not replaced: it holds %s, which is no part of a dataset", folder, n)
		}
	}
	return nil
}

func (f *Folder) output(name string) (*output, error) {
	if o := f.files[name]; o != nil {
		return o, nil
	}
	path := filepath.Join(f.work, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	file, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	o := &output{file, bufio.NewWriterSize(file, 1<<20)}
	f.files[name] = o
	return o, nil
}

func (f *Folder) line(name string, v any) error {
	o, err := f.output(name)
	if err != nil {
		return err
	}
	return encode(o, v)
}

func encode(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// CheckID returns an error if an id cannot be written to a qrels file, or is too long for a
// document.
func CheckID(id string) error {
	switch {
	case id == "":
		return errors.New("is missing")
	case strings.ContainsAny(id, "\t\r\n"):
		return fmt.Errorf("%.80q has a tab or an end of line in it: a qrels file has no room for these", id)
	case len(id) > schema.MaxExternalID:
		return fmt.Errorf("%.80q... has %d bytes; %d are the most", id, len(id), schema.MaxExternalID)
	}
	return nil
}

// Document adds a document. The caller ensures that ids are unique.
func (f *Folder) Document(d CorpusLine) error {
	if err := CheckID(d.ID); err != nil {
		return fmt.Errorf("document: _id: %w", err)
	}
	return f.line(corpusFile, d)
}

// Query adds a question.
func (f *Folder) Query(q QueryLine) error {
	if err := CheckID(q.ID); err != nil {
		return fmt.Errorf("question: _id: %w", err)
	}
	return f.line(queriesFile, q)
}

var splitName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

// CheckSplit returns an error if name is not a valid name of a split.
func CheckSplit(name string) error {
	if !splitName.MatchString(name) {
		return schema.Invalid("split", "%q is no name of a split: letters, digits, dots, hyphens and underscores, such as test", name)
	}
	return nil
}

// Judge adds a judgement. A document with a grade above 0 is relevant.
func (f *Folder) Judge(split, query, document string, grade int) error {
	if err := CheckSplit(split); err != nil {
		return err
	}
	name := filepath.Join(qrelsFolder, split+".tsv")
	begun := f.files[name] != nil
	o, err := f.output(name)
	if err != nil {
		return err
	}
	if !begun {
		if _, err := o.WriteString("query-id\tcorpus-id\tscore\n"); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintf(o, "%s\t%s\t%d\n", query, document, grade)
	return err
}

// Rewrite calls each with every added document, in order. each may change the document's metadata,
// and decides whether it is kept.
func (f *Folder) Rewrite(each func(n int, d *CorpusLine) (keep bool, err error)) (err error) {
	old := f.files[corpusFile]
	if old == nil {
		return nil
	}
	if err := old.Flush(); err != nil {
		return err
	}
	if _, err := old.file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	delete(f.files, corpusFile)
	defer func() { err = errors.Join(err, old.file.Close()) }()
	if err := os.Remove(old.file.Name()); err != nil { // on Unix it stays readable while open
		return err
	}
	in := bufio.NewReaderSize(old.file, 1<<20)
	for n := 0; ; n++ {
		line, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		var d CorpusLine
		decoder := json.NewDecoder(bytes.NewReader(line))
		decoder.UseNumber()
		if err := decoder.Decode(&d); err != nil {
			return err
		}
		keep, err := each(n, &d)
		if err != nil {
			return err
		}
		if keep {
			if err := f.Document(d); err != nil {
				return err
			}
		}
	}
}

// Commit moves the folder to its target.
func (f *Folder) Commit() error {
	err := f.close()
	if err == nil {
		err = os.Chmod(f.work, 0o755)
	}
	if err == nil {
		err = checkFree(f.path, f.replace) // the target may have changed since Create
	}
	if err == nil {
		err = f.move()
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", f.path, err), os.RemoveAll(f.work))
	}
	return nil
}

// move replaces the target by the written folder.
func (f *Folder) move() error {
	old := f.work + ".old"
	err := os.Rename(f.path, old)
	if errors.Is(err, fs.ErrNotExist) {
		return os.Rename(f.work, f.path)
	}
	if err != nil {
		return err
	}
	if err := os.Rename(f.work, f.path); err != nil {
		return errors.Join(err, os.Rename(old, f.path))
	}
	return os.RemoveAll(old)
}

// Discard removes the written files.
func (f *Folder) Discard() error {
	return errors.Join(f.close(), os.RemoveAll(f.work))
}

func (f *Folder) close() error {
	var errs []error
	for _, o := range f.files {
		errs = append(errs, o.Flush(), o.file.Close())
	}
	clear(f.files)
	return errors.Join(errs...)
}
