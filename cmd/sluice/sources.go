package main

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
	"iter"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"github.com/sluice-rag/sluice/schema"
)

// This file finds what to ingest: files in folders, the entries of archives (sourcesarchive.go),
// and the documents of BEIR folders. It reads contents only to hash them.

// source is one document to ingest.
type source struct {
	externalID  string
	fileName    string
	mediaType   string // a hint, such as text/plain; empty: determined by the file's name
	bytes       int64
	open        func() (io.ReadCloser, error)
	attributes  schema.Attributes
	sha256      string // of the bytes, in hex
	fingerprint string
}

// unreadable is the error of a file that could not be read. The other files are still ingested.
type unreadable struct {
	path string
	err  error
}

// Error omits the operation and path, which the system's error repeats.
func (u *unreadable) Error() string {
	var p *fs.PathError
	if errors.As(u.err, &p) {
		return u.path + ": " + p.Err.Error()
	}
	return u.path + ": " + u.err.Error()
}

// maxLine is the maximum length of a line of corpus.jsonl, in bytes.
const maxLine = 64 << 20

// sources walks paths in order. An *unreadable error concerns one document; any other ends the
// walk.
func sources(paths []string, prefix string, common schema.Attributes) iter.Seq2[source, error] {
	return func(yield func(source, error) bool) {
		seen := map[string]string{}
		yieldSource := func(s source, err error) bool {
			if err != nil {
				return yield(source{}, err)
			}
			s.externalID = prefix + s.externalID
			if before, twice := seen[s.externalID]; twice {
				return yield(source{}, fmt.Errorf("%s and %s would both be the document %q; ingest them separately, with different values of --prefix", before, s.fileName, s.externalID))
			}
			seen[s.externalID] = s.fileName
			return yield(s, nil)
		}
		for _, path := range paths {
			expanded, err := expand(path)
			if err != nil {
				yield(source{}, err)
				return
			}
			for _, p := range expanded {
				if !walk(p, common, yieldSource) {
					return
				}
			}
		}
	}
}

// expand expands a glob that the shell did not expand.
func expand(path string) ([]string, error) {
	if _, err := os.Lstat(path); err == nil || !strings.ContainsAny(path, "*?[") {
		return []string{path}, nil
	}
	found, err := filepath.Glob(path)
	if err != nil {
		return nil, schema.Invalid("path", "%q is not a glob: %v", path, err)
	}
	if len(found) == 0 {
		return nil, schema.Invalid("path", "nothing matches %q", path)
	}
	return found, nil
}

func walk(root string, common schema.Attributes, yieldSource func(source, error) bool) bool {
	info, err := os.Stat(root)
	if err != nil {
		yieldSource(source{}, fmt.Errorf("%s: %w", root, errors.Unwrap(err)))
		return false
	}
	if !info.IsDir() {
		if entries, ok := openArchive(root, info); ok {
			return entries.walk(common, yieldSource)
		}
		return yieldFile(root, filepath.Base(root), common, yieldSource)
	}
	if corpus := filepath.Join(root, "corpus.jsonl"); isFile(corpus) {
		return walkCorpus(corpus, common, yieldSource)
	}
	more := true
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			if more = yieldSource(source{}, &unreadable{path, err}); !more {
				return fs.SkipAll
			}
			return nil
		}
		hidden := path != root && strings.HasPrefix(entry.Name(), ".")
		switch {
		case hidden && entry.IsDir():
			return fs.SkipDir
		case hidden || entry.IsDir():
			return nil
		}
		// A link to a file is treated as the file; a link to a folder is not followed.
		if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
			return nil
		}
		relative, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		if more = yieldFile(path, filepath.ToSlash(relative), common, yieldSource); !more {
			return fs.SkipAll
		}
		return nil
	})
	if err != nil {
		yieldSource(source{}, fmt.Errorf("walk %s: %w", root, err))
		return false
	}
	return more
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

func yieldFile(path, id string, common schema.Attributes, yieldSource func(source, error) bool) bool {
	s := source{externalID: id, fileName: path, attributes: common,
		open: func() (io.ReadCloser, error) { return os.Open(path) }}
	err := s.hash()
	if err != nil {
		return yieldSource(source{}, &unreadable{path, err})
	}
	return yieldSource(s, nil)
}

// hash sets the size, the hash and the fingerprint.
func (s *source) hash() error {
	content, err := s.open()
	if err != nil {
		return err
	}
	defer func() { _ = content.Close() }()
	h := sha256.New()
	if s.bytes, err = io.Copy(h, content); err != nil {
		return err
	}
	s.sha256 = hex.EncodeToString(h.Sum(nil))
	s.fingerprint, err = schema.Fingerprint(s.sha256, s.attributes)
	return err
}

// corpusLine is one document of a BEIR corpus.
type corpusLine struct {
	ID       string          `json:"_id"`
	Title    string          `json:"title"`
	Text     string          `json:"text"`
	Metadata schema.Metadata `json:"metadata"`
}

func walkCorpus(path string, common schema.Attributes, yieldSource func(source, error) bool) bool {
	f, err := os.Open(path)
	if err != nil {
		return yieldSource(source{}, &unreadable{path, err})
	}
	defer func() { _ = f.Close() }()
	lines := bufio.NewScanner(f)
	lines.Buffer(make([]byte, 1<<20), maxLine)
	for n := 1; lines.Scan(); n++ {
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		s, err := corpusDocument(lines.Bytes(), common)
		if err != nil {
			err = &unreadable{fmt.Sprintf("%s line %d", path, n), err}
		}
		if !yieldSource(s, err) {
			return false
		}
	}
	if err := lines.Err(); err != nil {
		return yieldSource(source{}, &unreadable{path, err})
	}
	return true
}

func corpusDocument(line []byte, common schema.Attributes) (source, error) {
	var d corpusLine
	decoder := json.NewDecoder(bytes.NewReader(line))
	decoder.UseNumber()
	if err := decoder.Decode(&d); err != nil {
		return source{}, err
	}
	if d.ID == "" {
		return source{}, schema.Invalid("_id", "is missing")
	}
	a := schema.Attributes{Title: d.Title, Labels: common.Labels, Metadata: d.Metadata}
	if len(common.Metadata) > 0 {
		a.Metadata = schema.Metadata{}
		for _, m := range []schema.Metadata{d.Metadata, common.Metadata} {
			for k, v := range m {
				a.Metadata[k] = v
			}
		}
	}
	s := source{externalID: d.ID, fileName: d.ID, mediaType: "text/plain", attributes: a,
		open: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(d.Text)), nil }}
	return s, s.hash()
}

// parseMetadata parses key=value flags. A JSON number or boolean keeps its type, anything else is
// text; a repeated key makes a list.
func parseMetadata(flags []string) (schema.Metadata, error) {
	if len(flags) == 0 {
		return nil, nil
	}
	lists := map[string][]any{}
	for _, flag := range flags {
		key, text, ok := strings.Cut(flag, "=")
		if !ok || key == "" {
			return nil, schema.Invalid("metadata", "%q is not key=value", flag)
		}
		lists[key] = append(lists[key], scalar(text))
	}
	out := schema.Metadata{}
	for key, values := range lists {
		if len(values) == 1 {
			out[key] = values[0]
			continue
		}
		out[key] = values
	}
	return out, nil
}

func scalar(text string) any {
	switch text {
	case "true":
		return true
	case "false":
		return false
	}
	var n json.Number
	if err := json.Unmarshal([]byte(text), &n); err == nil && !strings.HasPrefix(text, `"`) {
		return n
	}
	return text
}

// sorted returns the keys of a set in order.
func sorted[V any](set map[string]V) []string {
	keys := make([]string, 0, len(set))
	for k := range set {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}
