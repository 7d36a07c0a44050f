package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"regexp"
	"strings"
	"testing"
)

// In some packages, the race detector only runs the tests whose names match an expression in the
// Makefile. That must include every test that starts goroutines.
func TestTheRaceDetectorSeesTestsThatStartGoroutines(t *testing.T) {
	all := files(t)
	setting := func(name string) string {
		m := regexp.MustCompile(`(?m)^` + name + ` := (.*)$`).FindSubmatch(all["Makefile"])
		if m == nil {
			t.Fatalf("the Makefile does not set %s", name)
		}
		return strings.ReplaceAll(string(m[1]), "$$", "$")
	}
	seen := regexp.MustCompile(setting("AT_ONCE"))
	for _, dir := range strings.Fields(setting("RACE_SOME")) {
		dir = path.Clean(dir)
		concurrent := 0
		for name, text := range all {
			if path.Dir(name) != dir || !strings.HasSuffix(name, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range file.Decls {
				f, ok := d.(*ast.FuncDecl)
				if !ok || f.Recv != nil || !strings.HasPrefix(f.Name.Name, "Test") || f.Name.Name == "TestMain" || !startsGoroutines(f) {
					continue
				}
				concurrent++
				if !seen.MatchString(f.Name.Name) {
					t.Errorf("%s: %s starts goroutines, and AT_ONCE of the Makefile does not match it", name, f.Name.Name)
				}
			}
		}
		if concurrent == 0 {
			t.Errorf("no test of %s starts goroutines: this test looks for the wrong thing", dir)
		}
	}
}

// startsGoroutines reports whether a function has a go statement or calls a method Go, such as that
// of sync.WaitGroup.
func startsGoroutines(f *ast.FuncDecl) (found bool) {
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			found = true
		case *ast.CallExpr:
			if s, ok := n.Fun.(*ast.SelectorExpr); ok && s.Sel.Name == "Go" {
				found = true
			}
		}
		return !found
	})
	return found
}
