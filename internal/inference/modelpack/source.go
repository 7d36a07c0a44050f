package modelpack

// This file is the source of a model's files in a folder on this machine. hub.go has the other
// source, a hub.

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"github.com/sluice-rag/sluice/schema"
)

// source returns files by their name in Hugging Face's layout, with slashes. A missing file is an
// error that wraps fs.ErrNotExist.
type source interface {
	// open returns a file with its size; -1: unknown.
	open(ctx context.Context, name string) (io.ReadCloser, int64, error)
	// label is the model's origin for the manifest. It is known once a file was opened.
	label() string
	// base is a name for the model.
	base() string
}

type folder string

func (f folder) open(_ context.Context, name string) (io.ReadCloser, int64, error) {
	if !filepath.IsLocal(filepath.FromSlash(name)) {
		return nil, 0, schema.Invalid(name, "leaves the folder %s", string(f))
	}
	file, err := os.Open(filepath.Join(string(f), filepath.FromSlash(name)))
	if err != nil {
		return nil, 0, err
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = schema.Invalid(name, "is no file")
	}
	if err != nil {
		_ = file.Close()
		return nil, 0, err
	}
	return file, info.Size(), nil
}

func (f folder) label() string { return filepath.Base(string(f)) }
func (f folder) base() string  { return filepath.Base(string(f)) }

// Limits of the small files, in bytes.
const (
	maxConfig    = 1 << 20
	maxReadme    = 8 << 20 // some begin with a model's results on every benchmark
	maxTokenizer = 32 << 20
	maxGoldens   = 64 << 20
)

// readme states the licence. A pack can be made without it.
const readme = "README.md"

// sentencePieces are the tokenizer files of other families. They are read to name them in an error.
var sentencePieces = []string{"sentencepiece.bpe.model", "spiece.model", "spm.model"}

// readSmallFiles reads the small files of a model that exist.
func readSmallFiles(ctx context.Context, s source) (files, error) {
	found := files{}
	read := func(name string, limit int64) error {
		data, err := readFile(ctx, s, name, limit)
		if errors.Is(err, fs.ErrNotExist) || name == readme && errors.Is(err, schema.ErrTooLarge) {
			return nil
		}
		if err == nil {
			found[name] = data
		}
		return err
	}
	for _, f := range []struct {
		name  string
		limit int64
	}{
		{"config.json", maxConfig}, {"tokenizer_config.json", maxConfig}, {"tokenizer.json", maxTokenizer},
		{"modules.json", maxConfig}, {"sentence_bert_config.json", maxConfig}, {promptsFile, maxConfig}, {readme, maxReadme},
	} {
		if err := read(f.name, f.limit); err != nil {
			return nil, err
		}
	}
	if _, ok := found["tokenizer.json"]; !ok {
		if err := read("vocab.txt", maxTokenizer); err != nil {
			return nil, err
		}
		if _, ok := found["vocab.txt"]; !ok {
			for _, name := range sentencePieces {
				if err := read(name, maxTokenizer); err != nil {
					return nil, err
				}
			}
		}
	}
	var modules []struct{ Path string }
	if _, err := found.decode("modules.json", &modules); err != nil {
		return nil, err
	}
	if len(modules) > 16 {
		return nil, schema.Invalid("modules.json", "has %d modules", len(modules))
	}
	for _, m := range modules {
		if m.Path == "" {
			continue
		}
		if !filepath.IsLocal(filepath.FromSlash(m.Path)) {
			return nil, schema.Invalid("modules.json", "path %q leaves the folder", m.Path)
		}
		if err := read(path.Join(m.Path, "config.json"), maxConfig); err != nil {
			return nil, err
		}
	}
	return found, nil
}

func readFile(ctx context.Context, s source, name string, limit int64) ([]byte, error) {
	r, size, err := s.open(ctx, name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Close() }()
	if size > limit {
		return nil, tooLarge(name, limit)
	}
	data, err := io.ReadAll(io.LimitReader(r, limit+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read %s of %s: %w", name, s.label(), err)
	case int64(len(data)) > limit:
		return nil, tooLarge(name, limit)
	}
	return data, nil
}

func tooLarge(name string, limit int64) error {
	return fmt.Errorf("%s has more than %s: %w", name, schema.FormatBytes(limit), schema.ErrTooLarge)
}
