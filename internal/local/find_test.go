package local_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/sluice-rag/sluice/internal/local"
)

func TestToolsAreLookedForInOrder(t *testing.T) {
	home := t.TempDir()
	t.Setenv("SLUICE_HOME", home)
	t.Setenv("SLUICE_ONNXRUNTIME_LIB", "")
	path := t.TempDir()
	t.Setenv("PATH", path)

	dir, err := local.ToolsDir()
	must(t, err)
	if want := filepath.Join(home, "tools"); dir != want {
		t.Errorf("ToolsDir: got %s, want %s", dir, want)
	}

	if _, err := local.FindTemporal(); !errors.Is(err, local.ErrMissing) || !contains(err, "make setup") || !contains(err, "brew install temporal") {
		t.Errorf("FindTemporal with none: got %v, want ErrMissing with a remedy", err)
	}
	official := touch(t, filepath.Join(path, "temporal"))
	if got, err := local.FindTemporal(); err != nil || got != (local.TemporalProgram{Path: official, Official: true}) {
		t.Errorf("FindTemporal: got %v, %v, want the one on PATH", got, err)
	}
	ours := touch(t, filepath.Join(dir, "temporal-server"))
	if got, err := local.FindTemporal(); err != nil || got != (local.TemporalProgram{Path: ours}) {
		t.Errorf("FindTemporal: got %v, %v, want the built one, which can ask for a certificate", got, err)
	}

	library := touch(t, filepath.Join(dir, "onnxruntime-1.30.0", libraryName()))
	touch(t, filepath.Join(dir, "onnxruntime-1.9.2", libraryName()))
	if got, err := local.FindONNXRuntime(); err != nil || got != library {
		t.Errorf("FindONNXRuntime: got %s, %v, want the newest, %s", got, err, library)
	}
	t.Setenv("SLUICE_ONNXRUNTIME_LIB", official)
	if got, err := local.FindONNXRuntime(); err != nil || got != official {
		t.Errorf("FindONNXRuntime: got %s, %v, want the one that is set, %s", got, err, official)
	}
	t.Setenv("SLUICE_ONNXRUNTIME_LIB", filepath.Join(home, "none"))
	if got, err := local.FindONNXRuntime(); !errors.Is(err, local.ErrMissing) {
		t.Errorf("FindONNXRuntime with a wrong setting: got %s, %v, want ErrMissing", got, err)
	}
}

func TestPostgresOfAnotherMajorVersionIsAskedFor(t *testing.T) {
	if _, err := local.FindPostgres(t.Context(), 99); !errors.Is(err, local.ErrMissing) || !contains(err, "PostgreSQL 99") || !contains(err, "dnf install") {
		t.Errorf("got %v, want ErrMissing that names version 99 and packages", err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := local.FindPostgres(ended, 99); !errors.Is(err, context.Canceled) || errors.Is(err, local.ErrMissing) {
		t.Errorf("a search that was cancelled: %v", err)
	}
	p, err := local.FindPostgres(t.Context(), 0)
	must(t, err)
	if p.Major < 15 || p.Vector == "" {
		t.Errorf("got %+v, want a version >= 15 with pgvector", p)
	}
}

func touch(t *testing.T, path string) string {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must(t, os.WriteFile(path, nil, 0o755))
	return path
}
