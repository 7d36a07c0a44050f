// Package modelpack manages model packs: it makes one from a Hugging Face folder or a model on a
// hub, lists the existing packs, and records which is in use. A pack is a folder with a
// manifest.yaml; package inference runs it. This package links no ONNX Runtime.
package modelpack

// This file adds a model. The pack is made in a temporary folder, which is renamed when it is
// complete.

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/sluice-rag/sluice/schema"
)

// Options are the options of Add.
type Options struct {
	Dir      string       // where packs are stored; created if it is missing
	Hub      string       // address of a hub; needed for hf: only
	Client   *http.Client // nil: one that waits at most half a minute for a response
	MaxGraph int64        // largest graph, in bytes; 0: 2 GB
	// Dimensions are the vector dimensions that can be stored; nil: any.
	Dimensions []int
	// Check checks the finished folder before it is renamed; nil: no check.
	Check func(ctx context.Context, dir string) error
}

// Addition is a model to add.
type Addition struct {
	From    string // a folder in Hugging Face's layout, a pack's folder, hf:org/name[@revision], or remote:PROVIDER/MODEL
	Name    string // of the new pack; empty: the model's
	Graph   string // file of the graph; empty: onnx/model.onnx, or else model.onnx
	Onto    string // folder of a pack whose other graphs are copied to the new one; empty: none
	Pooling string // mean, cls, last or none; empty: as the model says
	// QueryPrompt and PassagePrompt are the texts that an encoder needs in front of questions and
	// passages; empty: as the model says.
	QueryPrompt, PassagePrompt string
	Reranker                   bool    // a cross-encoder becomes the pack's reranker instead of its pair model
	Tolerance                  float64 // of the graph against its fp32 original; 0: by its precision
	Remote                     Remote  // of a model behind an API
}

// Added is a pack that was added.
type Added struct {
	Pack      Pack     `json:"pack"`
	Role      string   `json:"role"` // of the graph: encoder, pair or reranker; empty for a pack that was copied
	Precision string   `json:"precision,omitempty"`
	Notes     []string `json:"notes,omitempty"`
}

const (
	defaultMaxGraph = 2 << 30
	// staging begins the names of unfinished folders. One older than abandoned is from a process
	// that died.
	staging   = ".adding-"
	abandoned = 24 * time.Hour
)

// tolerances are the default tolerances of graphs by precision: the largest difference from their
// fp32 original, in the components of a unit vector or in a logit.
var tolerances = map[string]float64{"fp16": 0.01, "int8": 0.1}

var packName = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,62}$`)

// Add adds a model. After an error nothing of it is left. Errors name the file or field that is
// wrong.
func Add(ctx context.Context, o Options, a Addition) (added Added, err error) {
	if o.MaxGraph <= 0 {
		o.MaxGraph = defaultMaxGraph
	}
	from, err := open(o, a.From)
	if err != nil {
		return Added{}, err
	}
	name := a.Name
	if name == "" {
		name = packNameOf(from.base())
	}
	if !packName.MatchString(name) || name == shippedName || shippedPath(name) != "" || name == inUse {
		return Added{}, schema.Invalid("name", "%q is not a pack's name: lower-case letters, digits, dot, dash, underscore, "+
			"and neither %s nor one that Sluice comes with; choose one with --name", name, inUse)
	}
	final := filepath.Join(o.Dir, name)
	if _, err := os.Lstat(final); err == nil {
		return Added{}, fmt.Errorf("there is a pack %s in %s: choose another with --name, or remove that one first: %w", name, o.Dir, schema.ErrConflict)
	}
	if err := os.MkdirAll(o.Dir, 0o755); err != nil {
		return Added{}, fmt.Errorf("make the folder of the model packs: %w", err)
	}
	removeStaged(o.Dir)
	dir, err := os.MkdirTemp(o.Dir, staging)
	if err != nil {
		return Added{}, fmt.Errorf("make a folder for the model pack: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(dir))
		}
	}()
	if added, err = fill(ctx, dir, name, o, a, from); err != nil {
		return Added{}, fmt.Errorf("add %s: %w", a.From, err)
	}
	if o.Check != nil {
		if err := o.Check(ctx, dir); err != nil {
			return Added{}, fmt.Errorf("add %s: the pack was made but does not work: %w", a.From, err)
		}
	}
	if err := ctx.Err(); err != nil {
		return Added{}, err
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return Added{}, fmt.Errorf("add %s: %w", a.From, err)
	}
	// Fails if another process has added a pack of this name meanwhile: a folder with files is not
	// replaced.
	if err := os.Rename(dir, final); err != nil {
		return Added{}, fmt.Errorf("add %s as %s: %w", a.From, name, err)
	}
	dir = final
	added.Pack = read(final)
	return added, nil
}

// removeStaged removes the folders of processes that died.
func removeStaged(dir string) {
	staged, err := filepath.Glob(filepath.Join(dir, staging+"*"))
	if err != nil {
		return
	}
	for _, path := range staged {
		if info, err := os.Stat(path); err == nil && time.Since(info.ModTime()) > abandoned {
			_ = os.RemoveAll(path)
		}
	}
}

func open(o Options, from string) (source, error) {
	if name, ok := strings.CutPrefix(from, HubPrefix); ok {
		return newHub(o.Hub, name, o.Client)
	}
	if name, ok := strings.CutPrefix(from, RemotePrefix); ok {
		return newRemote(name)
	}
	dir, err := filepath.Abs(from)
	if err != nil {
		return nil, fmt.Errorf("add %s: %w", from, err)
	}
	info, err := os.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no folder %s (a model on a hub is %sorg/name): %w", from, HubPrefix, schema.ErrNotFound)
	}
	if err == nil && !info.IsDir() {
		err = schema.Invalid("model", "%s is no folder", from)
	}
	return folder(dir), err
}

var notPlain = regexp.MustCompile(`[^a-z0-9._-]+`)

func packNameOf(name string) string {
	name = strings.Trim(notPlain.ReplaceAllString(strings.ToLower(name), "-"), "-._")
	return name[:min(len(name), 63)]
}

// fill makes the pack in dir.
func fill(ctx context.Context, dir, name string, o Options, a Addition, from source) (Added, error) {
	if r, ok := from.(remoteModel); ok {
		return r.fill(ctx, dir, name, o, a)
	}
	if a.Remote != (Remote{}) {
		return Added{}, schema.Invalid("model", "dimension, max-tokens, batch and shorten are for models behind an API (%sPROVIDER/MODEL)", RemotePrefix)
	}
	if f, ok := from.(folder); ok {
		if _, err := os.Stat(filepath.Join(string(f), ManifestName)); err == nil {
			return Added{}, copyPack(ctx, dir, name, string(f))
		}
	}
	smallFiles, err := readSmallFiles(ctx, from)
	if err != nil {
		return Added{}, err
	}
	m, err := describe(smallFiles)
	if err != nil {
		return Added{}, err
	}
	fetched := filepath.Join(dir, "model.onnx")
	graphHash, err := fetchGraph(ctx, from, a.Graph, fetched, o.MaxGraph)
	if err != nil {
		return Added{}, err
	}
	graph, err := ReadGraph(fetched)
	if err != nil {
		return Added{}, schema.Invalid("graph", "%v: fetch it again (a Git LFS pointer is not the graph)", err)
	}
	if err := m.withGraph(smallFiles, graph, a.Pooling); err != nil {
		return Added{}, err
	}
	if err := m.readPrompts(smallFiles, a.QueryPrompt, a.PassagePrompt); err != nil {
		return Added{}, err
	}
	switch {
	case a.Reranker && m.role != RolePair:
		return Added{}, schema.Invalid("reranker", "%s is an encoder, which reads no question with a text: only a cross-encoder can be a reranker", from.label())
	case a.Reranker:
		m.role = RoleReranker
	}
	if m.role == RoleEncoder && len(o.Dimensions) > 0 && !slices.Contains(o.Dimensions, m.dimension) {
		return Added{}, schema.Invalid("config.json", "hidden_size: vectors of dimension %d can't be stored, only those of %v: choose such a model", m.dimension, o.Dimensions)
	}
	// Use a folder of its own: the pack that it is added onto may have an added graph of the same
	// role.
	sub := m.role + "-" + graphHash[:12]
	if err := os.Mkdir(filepath.Join(dir, sub), 0o755); err != nil {
		return Added{}, err
	}
	if err := os.Rename(fetched, filepath.Join(dir, sub, "model.onnx")); err != nil {
		return Added{}, err
	}
	s := graphSection{Format: FormatBERT, File: path.Join(sub, "model.onnx"), SHA256: graphHash, Types: m.types, Output: m.output, Tolerance: a.Tolerance}
	if s.Tolerance == 0 {
		s.Tolerance = tolerances[m.precision]
	}
	tok := tokenizerSection{File: path.Join(sub, "tokenizer.json"), Pad: m.pad, Before: m.specials.Before, Between: m.specials.Between, After: m.specials.After,
		OneType: m.specials.OneType}
	if tok.SHA256, err = write(dir, tok.File, m.tokenizer); err != nil {
		return Added{}, err
	}
	goldens, err := readFile(ctx, from, goldensName, maxGoldens)
	switch {
	case err == nil:
		s.Goldens = &fileSection{File: path.Join(sub, goldensName)}
		if s.Goldens.SHA256, err = write(dir, s.Goldens.File, goldens); err != nil {
			return Added{}, err
		}
	case !errors.Is(err, fs.ErrNotExist):
		return Added{}, err
	}
	if err := writeManifest(ctx, dir, name, a, from, m, s, tok); err != nil {
		return Added{}, err
	}
	return Added{Role: m.role, Precision: m.precision, Notes: m.notes}, nil
}

// fetchGraph stores the graph at path and returns its hash.
func fetchGraph(ctx context.Context, from source, named, path string, limit int64) (hash string, err error) {
	candidates := []string{named}
	if named == "" {
		candidates = []string{"onnx/model.onnx", "model.onnx"}
	}
	for _, name := range candidates {
		r, size, err := from.open(ctx, name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return "", err
		}
		defer func() { _ = r.Close() }()
		if size > limit {
			return "", tooLarge(name, limit)
		}
		hash, err := store(ctx, path, r, limit)
		if errors.Is(err, schema.ErrTooLarge) {
			return "", tooLarge(name, limit)
		}
		if err != nil {
			return "", fmt.Errorf("fetch %s of %s: %w", name, from.label(), err)
		}
		return hash, nil
	}
	return "", schema.Invalid("graph", "%s has no %s: name its file with --graph, or export the model to ONNX (optimum-cli export onnx)", from.label(), strings.Join(candidates, " and no "))
}

// store writes r to a new file and returns its SHA-256.
func store(ctx context.Context, path string, r io.Reader, limit int64) (_ string, err error) {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	hash := sha256.New()
	n, err := io.Copy(io.MultiWriter(file, hash), io.LimitReader(reader{ctx, r}, limit+1))
	if err != nil {
		return "", err
	}
	if n > limit {
		return "", schema.ErrTooLarge
	}
	return hex.EncodeToString(hash.Sum(nil)), file.Sync()
}

// reader stops when its context ends, so that the copy of a local file can be interrupted too.
type reader struct {
	ctx context.Context
	r   io.Reader
}

func (r reader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.r.Read(p)
}

func write(dir, name string, data []byte) (hash string, err error) {
	return store(context.Background(), filepath.Join(dir, filepath.FromSlash(name)), strings.NewReader(string(data)), int64(len(data)))
}
