package main

// This file tests `sluice models` without running graphs. gpu-segmenter's tests run them.

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/inference/modelpack"
	"github.com/sluice-rag/sluice/schema"
)

const testModels = "internal/inference/modelpack/testdata"

// sluice runs the program in the repository's folder, and returns its output.
func sluice(t *testing.T, args ...string) (string, error) {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout := os.Stdout
	os.Stdout = write
	defer func() { os.Stdout = stdout }()
	output := make(chan string)
	go func() {
		text, _ := io.ReadAll(read)
		output <- string(text)
	}()
	runErr := run(args)
	_ = write.Close()
	return <-output, runErr
}

func TestModelsAreAddedListedUsedAndRemoved(t *testing.T) {
	t.Chdir("../..")
	t.Setenv("SLUICE_DATA", t.TempDir())
	t.Setenv("SLUICE_MODEL_PACK", "")
	must := func(args ...string) string {
		t.Helper()
		out, err := sluice(t, append([]string{"models"}, args...)...)
		if err != nil {
			t.Fatalf("sluice models %v: %v", args, err)
		}
		return out
	}
	packs := func() map[string]modelpack.Pack {
		t.Helper()
		var all []modelpack.Pack
		if err := json.Unmarshal([]byte(must("list", "--json")), &all); err != nil {
			t.Fatal(err)
		}
		byName := map[string]modelpack.Pack{}
		for _, p := range all {
			byName[p.Name] = p
		}
		return byName
	}
	if p := packs(); len(p) != 2 || !p["default"].InUse || p["large"].InUse {
		t.Errorf("at first: %+v", p)
	}
	out := must("add", testModels+"/pooled-384", "--name", "mine", "--unchecked")
	if !strings.Contains(out, "vectors of dimension 384") || !strings.Contains(out, "encoder, segmenter") || !strings.Contains(out, "sluice models use mine") {
		t.Errorf("added:\n%s", out)
	}
	must("use", "mine")
	// The next pack takes the other graphs from the pack in use.
	must("add", testModels+"/cross-encoder", "--unchecked")
	p := packs()
	if !p["mine"].InUse || p["default"].InUse || p["cross-encoder"].Dimension != 384 || strings.Join(p["cross-encoder"].Sources, " ") != "pooled-384 cross-encoder" {
		t.Errorf("packs: %+v", p)
	}
	must("add", testModels+"/cross-encoder", "--unchecked", "--alone", "--name=alone")
	if p := packs()["alone"]; strings.Join(p.Graphs, " ") != "pair" {
		t.Errorf("alone it has %v", p.Graphs)
	}
	if list := must("list"); !strings.Contains(list, "*    mine") || strings.Contains(list, "*    default") {
		t.Errorf("the list:\n%s", list)
	}
	if _, err := sluice(t, "models", "remove", "mine"); !errors.Is(err, schema.ErrConflict) {
		t.Errorf("removing the pack in use: %v", err)
	}
	if out := must("use", "large"); !strings.Contains(out, "by keywords only") || !strings.Contains(out, "sluice collections rebuild") || !packs()["large"].InUse {
		t.Errorf("the large pack's vectors are others, but it says:\n%s", out)
	}
	if out := must("use", "large"); !strings.Contains(out, "same space") {
		t.Errorf("the same pack's vectors are the same, but it says:\n%s", out)
	}
	must("use", "default")
	must("remove", "mine")
	if p := packs(); len(p) != 4 || !p["default"].InUse {
		t.Errorf("at last: %+v", p)
	}
	for name, c := range map[string]struct {
		args    []string
		message string
	}{
		"a dimension without a table": {[]string{"add", testModels + "/bert-mean", "--unchecked"}, "dimension 32"},
		"no hub":                      {[]string{"add", "hf:org/name", "--unchecked"}, "SLUICE_HUB_URL"},
		"alone onto another":          {[]string{"add", testModels + "/pooled-384", "--alone", "--onto=default"}, "--onto"},
		"onto nothing":                {[]string{"add", testModels + "/pooled-384", "--onto=nothing"}, "nothing"},
		"using nothing":               {[]string{"use", "nothing"}, "sluice models list"},
		"removing the shipped":        {[]string{"remove", "default"}, "default"},
		"checking nothing":            {[]string{"check", "nothing"}, "sluice models list"},
	} {
		if _, err := sluice(t, append([]string{"models"}, c.args...)...); err == nil || !strings.Contains(err.Error(), c.message) {
			t.Errorf("%s: got %v, want an error with %s", name, err, c.message)
		}
	}
}

func TestAModelIsFetchedFromTheHubOfTheSetting(t *testing.T) {
	t.Chdir("../..")
	t.Setenv("SLUICE_DATA", t.TempDir())
	files := http.FileServer(http.Dir(testModels))
	hub := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path, found := strings.CutPrefix(r.URL.Path, "/org/pooled-384/resolve/main/")
		if !found {
			http.NotFound(w, r)
			return
		}
		r.URL.Path = "/pooled-384/" + path
		files.ServeHTTP(w, r)
	}))
	defer hub.Close()
	t.Setenv("SLUICE_HUB_URL", hub.URL)
	out, err := sluice(t, "models", "add", "hf:org/pooled-384", "--unchecked", "--json")
	if err != nil {
		t.Fatal(err)
	}
	var added struct {
		modelpack.Added
		Checked bool
	}
	if err := json.Unmarshal([]byte(out), &added); err != nil || added.Pack.Name != "pooled-384" || added.Checked || added.Pack.Sources[0] != "hf:org/pooled-384@main" {
		t.Errorf("%+v, %v in %s", added, err, out)
	}
	if _, err := os.Stat(filepath.Join(added.Pack.Path, modelpack.ManifestName)); err != nil {
		t.Error(err)
	}
}
