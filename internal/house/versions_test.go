package house

// This file checks that the deployed versions are the built and tested ones: the versions in
// Dockerfile and docker-compose.yml are those of go.mod and of the set-up.

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// version returns what the pattern's group matches in a file of the repository. All matches must be
// the same.
func version(t *testing.T, file, pattern string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", file))
	if err != nil {
		t.Fatal(err)
	}
	found := ""
	for _, m := range regexp.MustCompile(`(?m)`+pattern).FindAllSubmatch(text, -1) {
		if found != "" && found != string(m[1]) {
			t.Errorf("%s names %s and %s", file, found, m[1])
		}
		found = string(m[1])
	}
	if found == "" {
		t.Fatalf("%s has nothing like %s", file, pattern)
	}
	return found
}

func TestVersionsDeployedAreThoseBuiltWith(t *testing.T) {
	const number = `(\d+\.\d+\.\d+)`
	type place struct{ file, pattern string }
	for what, places := range map[string][]place{
		"Go":   {{"go.mod", `^toolchain go` + number}, {"Dockerfile", `^FROM golang:` + number}},
		"NATS": {{"go.mod", `nats-server/v2 v` + number}, {"docker-compose.yml", `image: nats:` + number}},
		"ONNX Runtime": {
			{"tools/setup.d/onnxruntime", `^version=` + number}, {"Dockerfile", `onnxruntime-node@` + number},
			{"tools/bench/models_node.go", `onnxruntime-node@` + number}, {"training/Makefile", `onnxruntime-node@` + number},
		},
	} {
		want := version(t, places[0].file, places[0].pattern)
		for _, p := range places[1:] {
			if got := version(t, p.file, p.pattern); got != want {
				t.Errorf("%s: %s has %s, %s has %s", what, places[0].file, want, p.file, got)
			}
		}
	}
}

// TestVersionsThatMayDifferFit: pgvector may be newer than required, and Temporal's image older
// than the server in tests but with the same major version.
func TestVersionsThatMayDifferFit(t *testing.T) {
	need := version(t, "tools/setup.d/postgres", `^need_vector=(\S+)`)
	if in := version(t, "internal/local/find.go", `minVector += "([^"]+)"`); in != need {
		t.Errorf("pgvector: internal/local needs %s, the set-up %s", in, need)
	}
	if has := version(t, "docker-compose.yml", `image: pgvector/pgvector:([\d.]+)`); older(t, has, need) {
		t.Errorf("pgvector: docker-compose.yml has %s, needed is %s", has, need)
	}
	tested := version(t, "tools/temporal/go.mod", `go\.temporal\.io/server v(\S+)`)
	deployed := version(t, "docker-compose.yml", `image: temporalio/auto-setup:([\d.]+)`)
	if older(t, tested, deployed) || strings.Split(tested, ".")[0] != strings.Split(deployed, ".")[0] {
		t.Errorf("Temporal: docker-compose.yml has %s, tests run against %s", deployed, tested)
	}
}

func older(t *testing.T, a, b string) bool {
	t.Helper()
	as, bs := strings.Split(a, "."), strings.Split(b, ".")
	for i := range min(len(as), len(bs)) {
		x, errX := strconv.Atoi(as[i])
		y, errY := strconv.Atoi(bs[i])
		if errX != nil || errY != nil {
			t.Fatal(fmt.Errorf("%s or %s is no version", a, b))
		}
		if x != y {
			return x < y
		}
	}
	return false
}
