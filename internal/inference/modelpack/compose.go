package modelpack

// This file assembles a pack: the manifest of an added graph, and the files of the pack that it is
// added onto.

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/sluice-rag/sluice/internal/inference/tokenizer"
	"github.com/sluice-rag/sluice/schema"
)

// field is a field of a manifest.
type field struct {
	name  string
	value any
}

// writeManifest writes the manifest of an added graph, and copies the files that it keeps of the
// pack that it is added onto.
func writeManifest(ctx context.Context, dir, name string, a Addition, from source, m *model, s graphSection, tok tokenizerSection) error {
	d := newDocument()
	s.Licence, s.Source = m.licence, from.label()
	fields := []field{{"format", 1}, {"name", name}, {"version", ""}}
	if a.Onto == "" {
		fields = append(fields, field{"licence", m.licence})
	} else {
		var err error
		if d, err = readDocument(a.Onto); err != nil {
			return err
		}
		d.root.HeadComment = ""
		s.Tokenizer = &tok
	}
	if m.role == RoleEncoder {
		fields = append(fields, field{"space", space(from.base(), m, s, tok)})
	}
	if a.Onto == "" {
		fields = append(fields, field{"tokenizer", tok})
	}
	for _, f := range fields {
		if err := set(d.root, f.name, f.value); err != nil {
			return err
		}
	}
	special := len(tok.Before) + len(tok.Between) + len(tok.After)
	pair := pairSection{graphSection: s, Labels: m.labels, MaxTokens: m.maxTokens, Truncation: string(tokenizer.LongestFirst),
		MaxQuestionTokens: m.maxTokens - special, MaxTextTokens: m.maxTokens - special}
	var err error
	switch m.role {
	case RoleEncoder:
		err = d.replaceEncoder(encoderSection{graphSection: s, Pooling: m.pooling, Prompts: m.prompts, Dimension: m.dimension, MaxTokens: m.maxTokens})
	case RoleReranker:
		err = d.replaceReranker(pair)
	default:
		err = d.replacePair(pair)
	}
	if err != nil {
		return err
	}
	if a.Onto != "" {
		if err := copyFiles(ctx, d, a.Onto, dir); err != nil {
			return err
		}
	}
	if err := set(d.root, "version", d.version()); err != nil {
		return err
	}
	data, err := d.bytes()
	if err != nil {
		return err
	}
	_, err = write(dir, ManifestName, append([]byte("# Written by `sluice models add`.\n"), data...))
	return err
}

// version returns a version made of the hashes of all files of a pack.
func (d document) version() string {
	hash := sha256.New()
	_ = d.files(func(_, file string) error {
		_, err := hash.Write([]byte(file))
		return err
	})
	return hex.EncodeToString(hash.Sum(nil)[:6])
}

// space names the vectors of an encoder. Encoders with the same graph, tokenizer, pooling and
// prompts have the same space: their vectors can be compared.
func space(base string, m *model, s graphSection, tok tokenizerSection) string {
	facts := []any{s.SHA256, tok.SHA256, tok.Before, tok.After, s.Output, m.pooling, m.maxTokens}
	if m.prompts != nil {
		facts = append(facts, m.prompts.Query, m.prompts.Passage)
	}
	data, err := json.Marshal(facts)
	if err != nil {
		panic(err) // strings and numbers
	}
	hash := sha256.Sum256(data)
	return packNameOf(base) + "-" + hex.EncodeToString(hash[:6])
}

// copyPack copies a whole pack, renaming it if necessary.
func copyPack(ctx context.Context, dir, name, from string) error {
	d, err := readDocument(from)
	if err != nil {
		return err
	}
	if err := copyFiles(ctx, d, from, dir); err != nil {
		return err
	}
	if n := get(d.root, "name"); n == nil || n.Value != name {
		if err := set(d.root, "name", name); err != nil {
			return err
		}
	}
	for _, extra := range []string{goldensName, "MODEL_CARD.md"} {
		file, err := os.Open(filepath.Join(from, extra))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		_, err = store(ctx, filepath.Join(dir, extra), file, maxGoldens)
		_ = file.Close()
		if err != nil {
			return fmt.Errorf("copy %s: %w", extra, err)
		}
	}
	data, err := d.bytes()
	if err != nil {
		return err
	}
	_, err = write(dir, ManifestName, data)
	return err
}

// copyFiles copies the files of a manifest that are missing in dir, and checks their hashes.
func copyFiles(ctx context.Context, d document, from, dir string) error {
	return d.files(func(name, hash string) error {
		local := filepath.FromSlash(name)
		if !filepath.IsLocal(local) {
			return schema.Invalid(ManifestName, "%q leaves the pack's folder", name)
		}
		target := filepath.Join(dir, local)
		if _, err := os.Stat(target); err == nil {
			return nil
		}
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return err
		}
		file, err := os.Open(filepath.Join(from, local))
		if err != nil {
			return fmt.Errorf("the pack %s is incomplete: %w", from, err)
		}
		defer func() { _ = file.Close() }()
		got, err := store(ctx, target, file, defaultMaxGraph)
		if err != nil {
			return fmt.Errorf("copy %s of the pack %s: %w", name, from, err)
		}
		if got != hash {
			return schema.Invalid(ManifestName, "%s of the pack %s has hash %s, its manifest says %s: the pack is damaged", name, from, got, hash)
		}
		return nil
	})
}
