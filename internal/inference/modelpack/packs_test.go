package modelpack

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/sluice-rag/sluice/schema"
)

func TestPacksAreListedChosenAndFound(t *testing.T) {
	t.Chdir("../../..") // where the shipped pack is
	dir := filepath.Join(t.TempDir(), "models")
	shippedPath, err := Shipped() // the default one
	if err != nil {
		t.Fatal(err)
	}
	list := func(named string) (names []string, inUse string) {
		t.Helper()
		packs, err := List(dir, named)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range packs {
			names = append(names, p.Name)
			if p.InUse {
				inUse += p.Name
			}
		}
		return names, inUse
	}
	if names, current := list(""); !slices.Equal(names, []string{"default", "large"}) || current != "default" {
		t.Errorf("before any: %v, in use %q", names, current)
	}
	added, err := Add(t.Context(), Options{Dir: dir}, Addition{From: "internal/inference/modelpack/testdata/bert-mean"})
	if err != nil {
		t.Fatal(err)
	}
	if added.Pack.Dimension != 32 || added.Pack.MaxTokens != 48 || len(added.Pack.Graphs) != 1 || added.Pack.Problem != "" {
		t.Errorf("added %+v", added.Pack)
	}
	for _, leftover := range []string{".adding-1", "broken"} {
		if err := os.Mkdir(filepath.Join(dir, leftover), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if names, current := list(""); !slices.Equal(names, []string{"default", "large", "bert-mean", "broken"}) || current != "default" {
		t.Errorf("with one added: %v, in use %q", names, current)
	}
	packs, err := List(dir, "")
	if err != nil || packs[3].Problem == "" {
		t.Errorf("a folder without a manifest: %+v, %v", packs, err)
	}

	if err := Use(dir, "bert-mean"); err != nil {
		t.Fatal(err)
	}
	if _, current := list(""); current != "bert-mean" {
		t.Errorf("in use %q", current)
	}
	if _, current := list("default"); current != "default" {
		t.Errorf("SLUICE_MODEL_PACK=default: in use %q", current)
	}
	for named, want := range map[string]string{"": added.Pack.Path, "bert-mean": added.Pack.Path, "default": shippedPath, added.Pack.Path: added.Pack.Path} {
		if got, err := Find(dir, named); err != nil || got != want {
			t.Errorf("Find(%q) = %s, %v; want %s", named, got, err, want)
		}
	}
	if _, err := Find(dir, "nothing"); !errors.Is(err, schema.ErrNotFound) {
		t.Errorf("Find of nothing: %v", err)
	}
	for _, bad := range []string{"nothing", "../models/bert-mean", ".adding-1", "broken"} {
		if err := Use(dir, bad); !errors.Is(err, schema.ErrNotFound) {
			t.Errorf("Use(%q): %v", bad, err)
		}
	}
	large := filepath.Join(filepath.Dir(shippedPath), "large")
	if err := Use(dir, "large"); err != nil {
		t.Fatal(err)
	}
	for _, named := range []string{"", "large"} {
		if got, err := Find(dir, named); err != nil || got != large {
			t.Errorf("Find(%q) of the other shipped one = %s, %v", named, got, err)
		}
	}
	if _, current := list(""); current != "large" {
		t.Errorf("in use %q", current)
	}
	if err := Remove(dir, "large"); !errors.Is(err, schema.ErrConflict) {
		t.Errorf("removing a shipped one: %v", err)
	}
	if _, err := Add(t.Context(), Options{Dir: dir}, Addition{From: added.Pack.Path, Name: "large"}); !errors.Is(err, schema.ErrInvalid) {
		t.Errorf("adding one of a shipped one's name: %v", err)
	}
	if err := Use(dir, "bert-mean"); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(added.Pack.Path); err != nil {
		t.Fatal(err)
	}
	if _, err := Find(dir, ""); !errors.Is(err, schema.ErrInvalid) {
		t.Errorf("the pack in use is gone: %v", err)
	}
	if err := Use(dir, "default"); err != nil {
		t.Fatal(err)
	}
	if err := Use(dir, "default"); err != nil {
		t.Errorf("twice: %v", err)
	}
	if got, err := Find(dir, ""); err != nil || got != shippedPath {
		t.Errorf("Find = %s, %v", got, err)
	}
}

func TestStagedFoldersOfDeadProcessesAreRemoved(t *testing.T) {
	dir := t.TempDir()
	old, fresh := filepath.Join(dir, staging+"old"), filepath.Join(dir, staging+"fresh")
	for _, path := range []string{old, fresh} {
		if err := os.Mkdir(path, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	past := time.Now().Add(-2 * abandoned)
	if err := os.Chtimes(old, past, past); err != nil {
		t.Fatal(err)
	}
	if _, err := Add(t.Context(), Options{Dir: dir}, Addition{From: models + "/bert-mean"}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(old); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the abandoned folder is still there: %v", err)
	}
	if _, err := os.Stat(fresh); err != nil {
		t.Errorf("another process's folder is gone: %v", err)
	}
}
