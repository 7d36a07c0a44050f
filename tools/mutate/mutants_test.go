package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestMutants(t *testing.T) {
	for name, c := range map[string]struct {
		source string
		want   []string
	}{
		"a.go": {
			"package a\n\nimport \"fmt\"\n\nfunc f(x float64) string {\n\tif x < 0.5 && x != 3 {\n\t\treturn \"a\" + fmt.Sprint(x*2)\n\t}\n\treturn \"\"\n}\n",
			[]string{"6: && -> ||", "6: < -> <=", "6: 0.5 -> 0.625", "6: != -> ==", "6: 3 -> 4", "7: * -> /", "7: 2 -> 3"},
		},
		"a.yaml": {
			"# 3 stages\nname: a1\nstages:\n  - dense: {unit: passage, k: 20} # 20\n  - relate\n",
			[]string{"4: 20 -> 21", "4: passage -> section", "4: - dense: {unit: passage, k: 20} -> nothing", "5: - relate -> nothing"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), name)
			if err := os.WriteFile(path, []byte(c.source), 0o600); err != nil {
				t.Fatal(err)
			}
			found, err := mutantsOf(path)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, m := range found {
				got = append(got, m.String()[len(path)+1:])
				if string(m.source) == c.source {
					t.Errorf("%s changes nothing", m)
				}
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// TestTryTellsWhatTestsNotice tries mutants of a module of its own.
func TestTryTellsWhatTestsNotice(t *testing.T) {
	t.Chdir(t.TempDir())
	const source = "package a\n\nfunc Double(x int) int { return x * 2 }\n\nfunc Half(x int) int { return x / 2 }\n"
	for name, text := range map[string]string{
		"go.mod": "module a\n\ngo 1.26\n", "a.go": source,
		"a_test.go": "package a\n\nimport \"testing\"\n\nfunc TestDouble(t *testing.T) {\n\tif Double(3) != 6 {\n\t\tt.Fail()\n\t}\n}\n",
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	mutants, err := mutantsOf("a.go")
	if err != nil || len(mutants) != 4 {
		t.Fatalf("mutants %v, %v", mutants, err)
	}
	for i, want := range []result{killed, killed, survived, survived} {
		if got, err := try(t.Context(), "a.go", mutants[i].source, []string{"."}, usual); got != want || err != nil {
			t.Errorf("%s: %v, %v, want %v", mutants[i], got, err, want)
		}
	}
	if got, err := try(t.Context(), "a.go", []byte("package a\n\nvar Double int = \"x\"\n"), []string{"."}, usual); got != noBuild || err != nil {
		t.Errorf("what does not build: %v, %v", got, err)
	}
	if after, err := os.ReadFile("a.go"); err != nil || string(after) != source {
		t.Errorf("the source was changed: %s, %v", after, err)
	}
}

// TestTryBoundsMemory: a mutant with which the tests take ever more memory is noticed by its
// memory, long before the time is over.
func TestTryBoundsMemory(t *testing.T) {
	t.Chdir(t.TempDir())
	for name, text := range map[string]string{
		"go.mod":    "module a\n\ngo 1.26\n",
		"a.go":      "package a\n\nfunc Blocks(n int) (all [][]byte) {\n\tfor i := 0; i != n; i++ {\n\t\tall = append(all, make([]byte, 1<<26))\n\t}\n\treturn all\n}\n",
		"a_test.go": "package a\n\nimport \"testing\"\n\nfunc TestBlocks(t *testing.T) {\n\tBlocks(1)\n}\n",
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	source, err := os.ReadFile("a.go")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := try(t.Context(), "a.go", source, []string{"."}, usual); got != survived || err != nil {
		t.Fatalf("within the bounds: %v, %v", got, err)
	}
	endless := []byte(strings.Replace(string(source), "i != n", "i >= 0", 1))
	if got, err := try(t.Context(), "a.go", endless, []string{"."}, bounds{time: time.Hour, memory: usual.memory}); got != killed || err != nil {
		t.Errorf("without end: %v, %v, want it noticed", got, err)
	}
}

// TestTryBoundsTime: a mutant with which the tests do not end gives another result than one that
// they notice.
func TestTryBoundsTime(t *testing.T) {
	t.Chdir(t.TempDir())
	for name, text := range map[string]string{
		"go.mod":    "module a\n\ngo 1.26\n",
		"a.go":      "package a\n\nfunc Wait(n int) {\n\tfor n > 0 {\n\t}\n}\n",
		"a_test.go": "package a\n\nimport \"testing\"\n\nfunc TestWait(t *testing.T) {\n\tWait(0)\n}\n",
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	endless := []byte("package a\n\nfunc Wait(n int) {\n\tfor n >= 0 {\n\t}\n}\n")
	if got, err := try(t.Context(), "a.go", endless, []string{"."}, bounds{time: 2 * time.Second, memory: usual.memory}); got != late || err != nil {
		t.Errorf("without end: %v, %v, want that time ran out", got, err)
	}
}
