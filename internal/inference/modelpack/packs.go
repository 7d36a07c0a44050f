package modelpack

// This file lists the packs and records which is in use.

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sluice-rag/sluice/schema"
)

// Pack describes a pack for people.
type Pack struct {
	Name      string   `json:"name"`
	Path      string   `json:"path"`
	Version   string   `json:"version,omitempty"`
	Sources   []string `json:"sources,omitempty"` // of the added graphs
	Licence   string   `json:"licence,omitempty"`
	Space     string   `json:"space,omitempty"`
	Dimension int      `json:"dimension,omitempty"`
	MaxTokens int      `json:"max_tokens,omitempty"`
	Graphs    []string `json:"graphs,omitempty"`
	Bytes     int64    `json:"bytes"`
	InUse     bool     `json:"in_use"`
	Problem   string   `json:"problem,omitempty"` // why the manifest cannot be read
}

// shippedName is the name of the pack that is used if no other is chosen. The other shipped packs
// are next to it.
const shippedName = "default"

// inUse is the file, in the folder of the packs, that names the pack in use.
const inUse = "in-use"

// sections are the graphs that a manifest may have, in the order in which they are listed.
var sections = []string{"encoder", "segmenter", "pair", "reranker", "linker", "fuser", "detector"}

// read describes the pack in dir. An error in reading the manifest is the pack's Problem.
func read(dir string) Pack {
	p := Pack{Name: filepath.Base(dir), Path: dir}
	d, err := readDocument(dir)
	if err != nil {
		p.Problem = err.Error()
		return p
	}
	var fields struct {
		Version, Licence, Space string
		Encoder                 struct {
			Dimension int
			MaxTokens int `yaml:"max_tokens"`
			Source    string
		}
		Pair, Reranker struct{ Source string }
	}
	if err := d.root.Decode(&fields); err != nil {
		p.Problem = fmt.Sprintf("%s: %v", ManifestName, err)
	}
	p.Version, p.Licence, p.Space = fields.Version, fields.Licence, fields.Space
	for _, s := range []string{fields.Encoder.Source, fields.Pair.Source, fields.Reranker.Source} {
		if s != "" {
			p.Sources = append(p.Sources, s)
		}
	}
	p.Dimension, p.MaxTokens = fields.Encoder.Dimension, fields.Encoder.MaxTokens
	for _, s := range sections {
		if get(d.root, s) != nil {
			p.Graphs = append(p.Graphs, s)
		}
	}
	err = filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err == nil {
			p.Bytes += info.Size()
		}
		return err
	})
	if err != nil && p.Problem == "" {
		p.Problem = err.Error()
	}
	return p
}

// List returns the shipped packs, if there are any, and those added in dir, by name. named is the
// value of SLUICE_MODEL_PACK.
func List(dir, named string) ([]Pack, error) {
	var all []Pack
	current, err := Find(dir, named)
	if err != nil && !errors.Is(err, schema.ErrNotFound) && !errors.Is(err, schema.ErrInvalid) {
		return nil, err
	}
	for _, name := range shippedNames() {
		if path := shippedPath(name); path != "" && !isAdded(dir, name) {
			all = append(all, read(path))
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list the model packs: %w", err)
	}
	for _, e := range entries {
		if !e.IsDir() || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		all = append(all, read(filepath.Join(dir, e.Name())))
	}
	if current != "" && !slices.ContainsFunc(all, func(p Pack) bool { return p.Path == current }) {
		p := read(current)
		p.Name = current
		all = append(all, p)
	}
	for i := range all {
		all[i].InUse = all[i].Path == current
	}
	return all, nil
}

// Find returns the folder of a pack: the one with the name or folder named, or else the one in use
// in dir, or else the shipped default.
func Find(dir, named string) (string, error) {
	if named == "" {
		data, err := os.ReadFile(filepath.Join(dir, inUse))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return Shipped()
		case err != nil:
			return "", fmt.Errorf("read which model pack is in use: %w", err)
		}
		name := strings.TrimSpace(string(data))
		path := locate(dir, name)
		if path == "" {
			return "", schema.Invalid(filepath.Join(dir, inUse), "names a pack %q that is not there: choose another with `sluice models use`", name)
		}
		return path, nil
	}
	if named == shippedName {
		return Shipped()
	}
	if path := locate(dir, named); path != "" {
		return path, nil
	}
	path, err := filepath.Abs(named)
	if err != nil {
		return "", err
	}
	if !isPack(path) {
		return "", fmt.Errorf("there is no model pack %s: neither in %s nor a folder with a %s; "+
			"`sluice models list` shows those that there are: %w", named, dir, ManifestName, schema.ErrNotFound)
	}
	return path, nil
}

func isPack(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, ManifestName))
	return err == nil
}

// locate returns the folder of the pack of a name; empty: there is none. An added pack precedes a
// shipped one of the same name, which came with a later release.
func locate(dir, name string) string {
	if isAdded(dir, name) {
		return filepath.Join(dir, name)
	}
	return shippedPath(name)
}

// isAdded reports whether a pack of the name was added in dir.
func isAdded(dir, name string) bool {
	return packName.MatchString(name) && isPack(filepath.Join(dir, name))
}

// shippedNames returns the names of the packs that Sluice comes with, the default first.
func shippedNames() []string {
	shipped, err := Shipped()
	if err != nil {
		return nil
	}
	names := []string{shippedName}
	manifests, _ := filepath.Glob(filepath.Join(filepath.Dir(shipped), "*", ManifestName)) // the pattern is well formed
	for _, m := range manifests {
		if name := filepath.Base(filepath.Dir(m)); name != shippedName {
			names = append(names, name)
		}
	}
	return names
}

// shippedPath returns the folder of a shipped pack; empty: there is none of the name.
func shippedPath(name string) string {
	shipped, err := Shipped()
	if err != nil || !packName.MatchString(name) {
		return ""
	}
	path := filepath.Join(filepath.Dir(shipped), name)
	if !isPack(path) {
		return ""
	}
	return path
}

// Use makes an added or shipped pack the one in use: `sluice up` starts with it.
func Use(dir, name string) error {
	file := filepath.Join(dir, inUse)
	if name == shippedName {
		if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("use the shipped model pack: %w", err)
		}
		return nil
	}
	if locate(dir, name) == "" {
		return fmt.Errorf("there is no model pack %s in %s; `sluice models list` shows those that there are: %w", name, dir, schema.ErrNotFound)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make the folder of the model packs: %w", err)
	}
	newFile := file + ".new"
	if err := os.WriteFile(newFile, []byte(name+"\n"), 0o644); err != nil {
		return fmt.Errorf("use the model pack %s: %w", name, err)
	}
	if err := os.Rename(newFile, file); err != nil {
		return fmt.Errorf("use the model pack %s: %w", name, err)
	}
	return nil
}

// Shipped finds the default pack that Sluice comes with: under the working directory, next to the
// program's folder, or where packages install it.
func Shipped() (string, error) {
	const shipped = "models/" + shippedName
	dirs := []string{shipped}
	if program, err := os.Executable(); err == nil {
		if real, err := filepath.EvalSymlinks(program); err == nil {
			program = real
		}
		dirs = append(dirs, filepath.Join(filepath.Dir(program), "..", shipped))
	}
	dirs = append(dirs, filepath.Join("/usr/share/sluice", shipped))
	for _, dir := range dirs {
		if isPack(dir) {
			return filepath.Abs(dir)
		}
	}
	return "", schema.Invalid("SLUICE_MODEL_PACK", "is not set and there is no pack in %s: set it to a folder with a %s", strings.Join(dirs, ", "), ManifestName)
}

// Remove deletes an added pack.
func Remove(dir, name string) error {
	path := filepath.Join(dir, name)
	if !isAdded(dir, name) && shippedPath(name) != "" {
		return fmt.Errorf("the model pack %s comes with Sluice and stays: %w", name, schema.ErrConflict)
	}
	if !packName.MatchString(name) || name == inUse {
		return fmt.Errorf("there is no model pack %q in %s: %w", name, dir, schema.ErrNotFound)
	}
	current, err := os.ReadFile(filepath.Join(dir, inUse))
	if err == nil && strings.TrimSpace(string(current)) == name {
		return fmt.Errorf("the model pack %s is in use: choose another first (`sluice models use %s` for the one shipped): %w", name, shippedName, schema.ErrConflict)
	}
	// Rename it first: if the process dies here, nothing that looks like a pack is left.
	stagedPath := filepath.Join(dir, fmt.Sprintf("%s%d-%s", staging, os.Getpid(), name))
	if err := os.Rename(path, stagedPath); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("there is no model pack %s in %s; `sluice models list` shows those that there are: %w", name, dir, schema.ErrNotFound)
	} else if err != nil {
		return fmt.Errorf("remove the model pack %s: %w", name, err)
	}
	if err := os.RemoveAll(stagedPath); err != nil {
		return fmt.Errorf("remove the model pack %s: %w", name, err)
	}
	return nil
}
