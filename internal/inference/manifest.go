package inference

// This file reads a pack's manifest.yaml. Every field must be known and every needed one present: a typing error names
// the field instead of being ignored.

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sluice-rag/sluice/schema"
)

// Manifest describes a model pack: which files it has and how to use them. Paths are relative to the pack's folder and
// stay inside it; hashes are SHA-256 in hexadecimal.
type Manifest struct {
	Format    int               `yaml:"format"` // 1
	Name      string            `yaml:"name"`
	Version   string            `yaml:"version"`
	Licence   string            `yaml:"licence"`
	Space     string            `yaml:"space"` // vectors of equal spaces may be compared
	Tokenizer ManifestTokenizer `yaml:"tokenizer"`
	Encoder   ManifestEncoder   `yaml:"encoder"`
	Segmenter ManifestSegmenter `yaml:"segmenter"`
}

// ManifestFile is a file of the pack.
type ManifestFile struct {
	File   string `yaml:"file"`
	SHA256 string `yaml:"sha256"`
}

// ManifestTokenizer is how text becomes token ids.
type ManifestTokenizer struct {
	ManifestFile `yaml:",inline"`
	Pad          string   `yaml:"pad"`                 // token that fills short rows
	Before       []string `yaml:"before" need:"maybe"` // special tokens in front of every text, such as [CLS]
	After        []string `yaml:"after" need:"maybe"`  // and behind it, such as [SEP]
}

// ManifestEncoder is the graph from token ids to a vector.
type ManifestEncoder struct {
	ManifestFile `yaml:",inline"`
	Dimension    int `yaml:"dimension"`
	MaxTokens    int `yaml:"max_tokens"` // special tokens included; what is longer is cut
}

// ManifestSegmenter is the graph from two sentences' vectors to a score.
type ManifestSegmenter struct {
	ManifestFile `yaml:",inline"`
	Threshold    float64 `yaml:"threshold"` // a score below it means a cut
}

// manifestName is the manifest's file name in a pack.
const manifestName = "manifest.yaml"

// ReadManifest reads and checks the manifest of the pack in dir. It doesn't look at the files that it names.
func ReadManifest(dir string) (Manifest, error) {
	path := filepath.Join(dir, manifestName)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Manifest{}, fmt.Errorf("model pack (SLUICE_MODEL_PACK): %s has no %s: %w", dir, manifestName, err)
	}
	if err != nil {
		return Manifest{}, fmt.Errorf("model pack (SLUICE_MODEL_PACK): %w", err)
	}
	m, err := parseManifest(data)
	if err != nil {
		return Manifest{}, fmt.Errorf("model pack: %s: %w", path, err)
	}
	return m, nil
}

func parseManifest(data []byte) (Manifest, error) {
	var m Manifest
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	decoder.KnownFields(true)
	if err := decoder.Decode(&m); err != nil && !errors.Is(err, io.EOF) {
		return m, fmt.Errorf("%w: %w", schema.ErrInvalid, err)
	}
	if m.Format != 1 {
		return m, schema.Invalid("format", "is %d, this build reads 1", m.Format)
	}
	if field := missing(reflect.ValueOf(m), ""); field != "" {
		return m, schema.Invalid(field, "is missing")
	}
	switch {
	case m.Encoder.Dimension < 1 || m.Encoder.Dimension > 4096:
		return m, schema.Invalid("encoder.dimension", "%d is not between 1 and 4096", m.Encoder.Dimension)
	case m.Encoder.MaxTokens < 1+len(m.Tokenizer.Before)+len(m.Tokenizer.After):
		return m, schema.Invalid("encoder.max_tokens", "%d leaves no room for text", m.Encoder.MaxTokens)
	case m.Segmenter.Threshold <= 0 || m.Segmenter.Threshold >= 1:
		return m, schema.Invalid("segmenter.threshold", "%v is not between 0 and 1", m.Segmenter.Threshold)
	}
	return m, nil
}

// missing names the first field without a value, as the manifest spells it.
func missing(v reflect.Value, prefix string) string {
	for i := range v.NumField() {
		field := v.Type().Field(i)
		name, option, _ := strings.Cut(field.Tag.Get("yaml"), ",")
		switch {
		case field.Tag.Get("need") == "maybe":
		case option == "inline":
			if found := missing(v.Field(i), prefix); found != "" {
				return found
			}
		case v.Field(i).IsZero() && v.Field(i).Kind() != reflect.Struct:
			return prefix + name
		case v.Field(i).Kind() == reflect.Struct:
			if found := missing(v.Field(i), prefix+name+"."); found != "" {
				return found
			}
		}
	}
	return ""
}

// locate returns the path of a file of the pack in dir, after checking its content.
func (f ManifestFile) locate(dir, field string) (string, error) {
	if !filepath.IsLocal(f.File) {
		return "", schema.Invalid(field+".file", "%q leaves the pack's folder", f.File)
	}
	path := filepath.Join(dir, f.File)
	file, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("%s.file: %w; the pack is incomplete: fetch it again, or name another with SLUICE_MODEL_PACK", field, err)
	}
	defer func() { _ = file.Close() }()
	hash := sha256.New()
	if _, err := io.Copy(hash, file); err != nil {
		return "", fmt.Errorf("%s.file: read %s: %w", field, path, err)
	}
	if got := hex.EncodeToString(hash.Sum(nil)); got != f.SHA256 {
		return "", schema.Invalid(field+".sha256", "%s has hash %s, the manifest says %s: fetch the pack again, or write the new hash if you changed the graph", path, got, f.SHA256)
	}
	return path, nil
}
