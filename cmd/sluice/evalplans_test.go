package main

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/config"
)

// TestPlansFromFilesAreCompared: each plan is stored under its own name, whatever its file is
// called, and removed afterwards.
func TestPlansFromFilesAreCompared(t *testing.T) {
	dir := t.TempDir()
	for file, text := range map[string]string{"one.yaml": "name: first\nstages: [dense]", "many/two.yaml": "name: second\nstages: [dense]", "many/notes.txt": "none",
		"wrong/three.yaml": "name: third\nstages: [dance]"} {
		path := filepath.Join(dir, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c := &evalCommand{PlanFile: []string{filepath.Join(dir, "one.yaml"), filepath.Join(dir, "many")}}
	got, err := c.planFiles()
	if err != nil || !slices.Equal(got.names, []string{"first", "second"}) {
		t.Fatalf("plans are %+v, %v", got, err)
	}
	if text, err := os.ReadFile(filepath.Join(got.folder, "second.yaml")); err != nil || !strings.Contains(string(text), "second") {
		t.Errorf("the second is %q, %v", text, err)
	}
	got.remove()
	if _, err := os.Stat(got.folder); !os.IsNotExist(err) {
		t.Errorf("the folder of the plans: %v", err)
	}
	for _, wrong := range []string{filepath.Join(dir, "wrong"), filepath.Join(dir, "absent.yaml"), dir + "/many/notes.txt"} {
		if _, err := (&evalCommand{PlanFile: []string{wrong}}).planFiles(); err == nil {
			t.Errorf("%s was taken for plans", wrong)
		}
	}
	named := &evalCommand{Client: config.Client{URL: "http://127.0.0.1:1", APIKey: "key", DataDirectory: config.DataDirectory{Data: t.TempDir()}}}
	if _, _, err := named.server(context.Background(), dir); err == nil || !strings.Contains(err.Error(), "plan-file") {
		t.Errorf("plans for a server that runs: %v", err)
	}
}

// TestExamplesOfPlansCanBeRead reads the plans of this repository's examples.
func TestExamplesOfPlansCanBeRead(t *testing.T) {
	files, err := filepath.Glob("../../examples/plans/*/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("files are %q, %v", files, err)
	}
	got, err := (&evalCommand{PlanFile: files}).planFiles()
	if err != nil || len(got.names) != len(files) {
		t.Errorf("plans are %q, %v", got.names, err)
	}
	got.remove()
}
