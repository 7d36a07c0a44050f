// Package house has no code. Its tests check the rules of the repository: which package may import
// which, and what no file may contain.
package house

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/sluice-rag/sluice"

// kind is the role of a package in the architecture; rules says what each kind may import.
type kind string

const (
	language   kind = "language"   // domain types, messages, the API's types
	data       kind = "data"       // files that are embedded
	pure       kind = "pure"       // computes, without input or output
	workflow   kind = "workflow"   // deterministic Temporal workflows
	foundation kind = "foundation" // contracts for everything that runs
	activity   kind = "activity"   // shared by activities of Temporal
	capability kind = "capability" // what the system can do; declares the interfaces it needs
	adapter    kind = "adapter"    // Postgres, NATS, Temporal, ONNX Runtime
	edge       kind = "edge"       // HTTP, settings, keys, telemetry
	program    kind = "program"    // composes
	suite      kind = "suite"      // only tests
)

// house has the kind of every package. A path that ends in /... covers everything below it.
var house = map[string]kind{
	"schema":      language,
	"schema/api":  language,
	"schema/wire": language,

	"docs":       data,
	"migrations": data,
	"plans":      data,

	"internal/text":         pure,
	"internal/identity":     pure,
	"internal/minhash":      pure,
	"internal/tabular":      pure,
	"internal/roc":          pure,
	"internal/conversation": pure,
	"internal/lexical/...":  pure,
	"internal/cluster":      pure,
	"internal/dense":        pure,
	"internal/preference":   pure,
	"internal/suggest":      pure,

	"workflows": workflow,

	"internal/certtest":      foundation,
	"internal/fairness":      foundation,
	"internal/lifecycle/...": foundation,
	"internal/memory":        foundation,
	"internal/tcp":           foundation,
	"internal/waittest":      foundation,

	"internal/durable/heartbeat": activity,

	"internal/audit":         capability,
	"internal/backup":        capability,
	"internal/question/...":  capability,
	"internal/curate/...":    capability,
	"internal/curate/due":    pure,
	"internal/documents":     capability,
	"internal/evaluate/...":  capability,
	"internal/ingest/...":    capability,
	"internal/llm/...":       capability,
	"internal/manual":        capability,
	"internal/parse/...":     capability,
	"internal/receipt":       capability,
	"internal/retrieval/...": capability,
	"internal/signature":     capability,
	"internal/source/...":    capability,
	"internal/webhook":       capability,

	"internal/bus":             adapter,
	"internal/durable":         adapter,
	"internal/inference/...":   adapter,
	"internal/local/...":       adapter,
	"internal/modelclient":     adapter,
	"internal/store/...":       adapter,
	"internal/store/storetest": program, // starts servers for tests

	"internal/apiclient": edge,
	"internal/auth":      edge,
	"internal/config":    edge,
	"internal/httpapi":   edge,
	"internal/oidc":      edge,
	"internal/telemetry": edge,
	"web":                edge,

	"cmd/...":                           program,
	"tools/containers/stand-ins/listen": program, "tools/datasets": program, "tools/mutate": program, "tools/webtypes": program,

	"e2e":            suite,
	"internal/house": suite,
}

// rules says what code of a kind may import besides the standard library. Packages below one folder
// of internal/ may always import each other.
var rules = map[kind]struct {
	ours []kind
	// libraries are the allowed modules or packages of others; nil: all but those in refused.
	libraries []string
	refused   []string
	// system lists refused packages of the standard library.
	system []string
}{
	language: {ours: []kind{language}, libraries: []string{"github.com/google/uuid"}, system: inputOutput},
	data:     {libraries: []string{}},
	pure:     {ours: []kind{language, pure}, refused: servers, system: inputOutput},
	// The rest of the SDK, and the clock, are not deterministic. workflowcheck checks the standard
	// library.
	workflow:   {ours: []kind{language}, libraries: []string{"go.temporal.io/sdk/workflow", "go.temporal.io/sdk/temporal", "go.temporal.io/api/enums/v1"}, system: inputOutput},
	foundation: {ours: []kind{foundation}, refused: servers},
	activity:   {libraries: []string{"go.temporal.io/sdk/activity"}, system: inputOutput},
	capability: {ours: []kind{language, pure, foundation, activity}, refused: []string{"github.com/jackc/pgx", runtimeLibrary}, system: []string{"database/sql"}},
	adapter:    {ours: []kind{language, data, pure, foundation, activity, capability}},
	edge:       {ours: []kind{language, foundation}, refused: servers},
	program:    {ours: []kind{language, data, pure, workflow, foundation, activity, capability, adapter, edge, program}},
	suite:      {ours: []kind{language, data, pure, workflow, foundation, activity, capability, adapter, edge}},
}

const runtimeLibrary = "github.com/yalue/onnxruntime_go"

var (
	servers     = []string{"github.com/jackc/pgx", "github.com/nats-io", "go.temporal.io", runtimeLibrary, "google.golang.org/grpc"}
	inputOutput = []string{"net", "net/http", "os", "os/exec", "database/sql", "syscall"}
)

// runtimeUsers may depend on ONNX Runtime. Nothing else may, so that everything else builds without
// C.
var runtimeUsers = []string{"cmd/gpu-segmenter", "internal/inference"}

type goPackage struct {
	ImportPath string
	Name       string
	Doc        string
	Standard   bool
	ForTest    string
	GoFiles    []string
	CgoFiles   []string
	Imports    []string
	Deps       []string
	Module     *struct{ Path string }
	Error      *struct{ Err string }
}

// path returns the package's path in this module; empty for packages of others.
func (p goPackage) path() string {
	if p.Module == nil || p.Module.Path != module {
		return ""
	}
	return strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
}

func TestImportsKeepTheRules(t *testing.T) {
	packages := list(t, nil, "-deps", "./...")
	standard := map[string]bool{}
	for _, p := range packages {
		standard[p.ImportPath] = p.Standard
	}
	for _, p := range packages {
		if p.path() == "" {
			continue
		}
		kind, ok := kindOf(p.path())
		if !ok {
			t.Errorf("%s: what is it? Say so in the table of %s/internal/house/imports_test.go, and with that what it may import", p.path(), module)
			continue
		}
		for _, imported := range p.Imports {
			if why := forbidden(p.path(), kind, imported, standard[imported]); why != "" {
				t.Errorf("%s (%s) imports %s: %s", p.path(), kind, imported, why)
			}
		}
	}
}

func TestTableNamesWhatThereIs(t *testing.T) {
	root := root(t)
	for path := range house {
		_, err := os.Stat(filepath.Join(root, strings.TrimSuffix(path, "/...")))
		if errors.Is(err, os.ErrNotExist) {
			t.Errorf("the table names %s, which is not there", path)
		}
	}
}

func TestOnlyTheModelServerReachesONNXRuntime(t *testing.T) {
	reached := false
	for _, p := range list(t, nil, "./...") {
		if !slices.Contains(p.Deps, runtimeLibrary) {
			continue
		}
		reached = true
		if !slices.Contains(runtimeUsers, p.path()) {
			t.Errorf("%s reaches %s; only %s may", p.path(), runtimeLibrary, strings.Join(runtimeUsers, " and "))
		}
	}
	if !reached {
		t.Errorf("nothing reaches %s: this test looks for the wrong name", runtimeLibrary)
	}
}

func TestEverythingElseBuildsWithoutC(t *testing.T) {
	noC := []string{"CGO_ENABLED=0"}
	var paths []string
	for _, p := range list(t, nil, "./...") {
		if !slices.Contains(runtimeUsers, p.path()) && len(p.GoFiles)+len(p.CgoFiles) > 0 {
			paths = append(paths, p.ImportPath)
		}
	}
	for _, p := range list(t, noC, append([]string{"-deps"}, paths...)...) {
		if p.Error != nil {
			t.Errorf("%s: %s", p.ImportPath, p.Error.Err)
		}
		if len(p.CgoFiles) > 0 {
			t.Errorf("%s still has C in %v", p.ImportPath, p.CgoFiles)
		}
	}
	// This compiles all packages without linking programs, as go build would. Packages that are
	// compiled already cost nothing.
	if out, err := command(root(t), noC, "go", append([]string{"list", "-export", "-f", "{{.ImportPath}}"}, paths...)...); err != nil {
		t.Errorf("go list -export: %v\n%s", err, out)
	}
}

func TestPackagesAreNamedAndDescribed(t *testing.T) {
	vague := []string{"util", "utils", "common", "helper", "helpers", "misc", "shared", "base", "lib"}
	for _, p := range list(t, nil, "./...") {
		if slices.Contains(vague, p.Name) || slices.Contains(vague, filepath.Base(p.path())) {
			t.Errorf("%s: a name that says what is in it, please", p.path())
		}
		if p.Doc == "" && len(p.GoFiles)+len(p.CgoFiles) > 0 {
			t.Errorf("%s has no package comment", p.path())
		}
	}
}

// forbidden returns why a package of a kind may not import another; empty: it may.
func forbidden(path string, k kind, imported string, standard bool) string {
	rule := rules[k]
	if standard {
		if slices.Contains(rule.system, imported) {
			return fmt.Sprintf("%s does no input or output", k)
		}
		return ""
	}
	if other, ok := strings.CutPrefix(imported, module+"/"); ok {
		if wing(other) == wing(path) {
			return ""
		}
		theirs, known := kindOf(other)
		switch {
		case !known:
			return "it is not in the table"
		case !slices.Contains(rule.ours, theirs):
			return fmt.Sprintf("%s may import %v, and that is %s", k, rule.ours, theirs)
		case other == "internal/inference" && !slices.Contains(runtimeUsers, path):
			return "only cmd/gpu-segmenter may"
		}
		return ""
	}
	within := func(libraries []string) bool {
		return slices.ContainsFunc(libraries, func(l string) bool { return imported == l || strings.HasPrefix(imported, l+"/") })
	}
	switch {
	case rule.libraries != nil && !within(rule.libraries):
		return fmt.Sprintf("of other people's code %s may import %v alone", k, rule.libraries)
	case within(rule.refused):
		return fmt.Sprintf("%s does not know that there is such a server", k)
	}
	return ""
}

// wing returns the folder that a package belongs to: internal/ingest for internal/ingest/batch.
func wing(path string) string {
	parts := strings.Split(path, "/")
	if parts[0] == "internal" && len(parts) > 2 {
		return strings.Join(parts[:2], "/")
	}
	return path
}

func kindOf(path string) (kind, bool) {
	if k, ok := house[path]; ok {
		return k, true
	}
	for above := path; ; {
		if k, ok := house[above+"/..."]; ok {
			return k, true
		}
		i := strings.LastIndexByte(above, '/')
		if i < 0 {
			return "", false
		}
		above = above[:i]
	}
}

// listed caches the output of go list by its arguments, because several tests need the same.
var listed = map[string][]goPackage{}

// listedFields are the fields that go list prints. It is slower if it prints all.
const listedFields = "-json=ImportPath,Name,Doc,Standard,ForTest,GoFiles,CgoFiles,Imports,Deps,Module,Error"

// list runs go list on packages. Errors of single packages are in the result.
func list(t *testing.T, env []string, args ...string) []goPackage {
	t.Helper()
	key := fmt.Sprint(env, args)
	if all, ok := listed[key]; ok {
		return all
	}
	out, err := command(root(t), env, "go", append([]string{"list", "-e", listedFields}, args...)...)
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, out)
	}
	var all []goPackage
	decoder := json.NewDecoder(bytes.NewReader(out))
	for {
		var p goPackage
		err := decoder.Decode(&p)
		if errors.Is(err, io.EOF) {
			listed[key] = all
			return all
		}
		if err != nil {
			t.Fatalf("go list: %v", err)
		}
		all = append(all, p)
	}
}

func command(dir string, env []string, name string, args ...string) ([]byte, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	var problems bytes.Buffer
	cmd.Stderr = &problems
	out, err := cmd.Output()
	if err != nil {
		return problems.Bytes(), err
	}
	return out, nil
}

// root returns the repository's folder.
func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestRulesForbid(t *testing.T) {
	ours := func(path string) string { return module + "/" + path }
	for _, c := range []struct {
		path, imported    string
		standard, refused bool
	}{
		{"schema", "github.com/google/uuid", false, false},
		{"schema", "github.com/nats-io/nats.go", false, true},
		{"schema", "os", true, true},
		{"schema/wire", ours("schema"), false, false},
		{"internal/text", ours("internal/store"), false, true},
		{"internal/ingest", ours("internal/ingest/batch"), false, false},
		{"internal/ingest", ours("internal/text"), false, false},
		{"internal/ingest", ours("internal/store"), false, true},
		{"internal/ingest", ours("internal/parse"), false, true},
		{"internal/ingest", ours("internal/telemetry"), false, true},
		{"internal/question/answer", "github.com/jackc/pgx/v5", false, true},
		{"internal/store", ours("internal/retrieval"), false, false},
		{"internal/store", ours("internal/bus"), false, true},
		{"internal/httpapi", ours("internal/store"), false, true},
		{"workflows", "go.temporal.io/sdk/workflow", false, false},
		{"workflows", "go.temporal.io/sdk/activity", false, true},
		{"workflows", ours("internal/ingest"), false, true},
		{"cmd/sluice", ours("internal/store"), false, false},
		{"cmd/sluice", ours("internal/inference"), false, true},
		{"cmd/sluice", ours("internal/inference/modelpack"), false, false},
		{"cmd/gpu-segmenter", ours("internal/inference"), false, false},
		{"cmd/sluice", ours("internal/unheard"), false, true},
	} {
		k, ok := kindOf(c.path)
		if !ok {
			t.Fatalf("%s is not in the table", c.path)
		}
		if why := forbidden(c.path, k, c.imported, c.standard); (why != "") != c.refused {
			t.Errorf("%s imports %s: %q", c.path, c.imported, why)
		}
	}
}
