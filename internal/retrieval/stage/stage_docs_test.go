package stage

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

var update = flag.Bool("update", false, "write the table of stages in docs/retrieval.md")

// TestTheTableOfStagesIsTheirDeclarations: go test ./internal/retrieval/stage -update writes it.
func TestTheTableOfStagesIsTheirDeclarations(t *testing.T) {
	const page, head = "../../../docs/retrieval.md", "| stage | parameters (defaults) | what it does |\n|---|---|---|\n"
	var table strings.Builder
	for _, k := range kinds {
		table.WriteString("| `" + k.Name + "` | " + strings.TrimLeft(k.Parameters+" ", " ") + "| " + k.Does + " |\n")
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(text), head)
	if !found {
		t.Fatalf("%s has no line %q", page, head)
	}
	have, after, _ := strings.Cut(rest, "\n\n")
	if have+"\n" == table.String() {
		return
	}
	if !*update {
		t.Fatalf("%s has other stages than are declared; go test ./internal/retrieval/stage -update writes them:\n%s", page, table.String())
	}
	if err := os.WriteFile(page, []byte(before+head+table.String()+"\n"+after), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestEveryParameterIsDeclared compares what a stage reads with what its declaration says.
func TestEveryParameterIsDeclared(t *testing.T) {
	inParentheses, name := regexp.MustCompile(`\([^)]*\)`), regexp.MustCompile("`([a-z_0-9]+)`")
	read := func(k *Kind, values map[string]*yaml.Node) *Parameters {
		p := &Parameters{values: values, Given: map[string]any{}}
		k.read(p)
		return p
	}
	for _, k := range kinds {
		declared := map[string]bool{}
		for _, m := range name.FindAllStringSubmatch(inParentheses.ReplaceAllString(k.Parameters, ""), -1) {
			declared[m[1]] = true
			if p := read(k, map[string]*yaml.Node{m[1]: {Kind: yaml.ScalarNode, Value: "x"}}); len(p.values) > 0 {
				t.Errorf("%s does not read its parameter %s", k.Name, m[1])
			}
		}
		for given := range read(k, map[string]*yaml.Node{}).Given {
			if !declared[given] {
				t.Errorf("%s reads a parameter %s, which it does not declare", k.Name, given)
			}
		}
	}
}

// TestDefaultsAreWhatTheTableSays: a paper's constants are among them.
func TestDefaultsAreWhatTheTableSays(t *testing.T) {
	declared := regexp.MustCompile("`([a-z_0-9]+)` \\(`?([^,;:)`]+)")
	for _, k := range kinds {
		p := &Parameters{values: map[string]*yaml.Node{}, Given: map[string]any{}}
		k.read(p)
		for _, m := range declared.FindAllStringSubmatch(k.Parameters, -1) {
			if got := fmt.Sprint(p.Given[m[1]]); got != m[2] {
				t.Errorf("%s: %s is %s by default, and the table says %s", k.Name, m[1], got, m[2])
			}
		}
	}
}
