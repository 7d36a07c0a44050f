package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestATypeNameMeansOneThing checks that no type name is used in three packages. Names that every
// package may use, such as Options and Store, are left out, and so are interfaces, which are
// declared where they are needed.
func TestATypeNameMeansOneThing(t *testing.T) {
	anyPackage := []string{"Options", "Config", "Settings", "Client", "Deps", "Store"}
	where := map[string][]string{}
	for _, p := range list(t, nil, "./...") {
		for _, name := range append(slices.Clone(p.GoFiles), p.CgoFiles...) {
			file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root(t), p.path(), name), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range file.Decls {
				g, ok := d.(*ast.GenDecl)
				if !ok {
					continue
				}
				for _, spec := range g.Specs {
					s, ok := spec.(*ast.TypeSpec)
					if !ok || slices.Contains(anyPackage, s.Name.Name) {
						continue
					}
					if _, is := s.Type.(*ast.InterfaceType); !is && !slices.Contains(where[s.Name.Name], p.path()) {
						where[s.Name.Name] = append(where[s.Name.Name], p.path())
					}
				}
			}
		}
	}
	for name, packages := range where {
		if len(packages) > 2 {
			t.Errorf("type %s is in %s", name, strings.Join(packages, ", "))
		}
	}
}
