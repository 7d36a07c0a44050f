package house

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const waits = "wait with internal/waittest (Context, Left, Receive, Until): until the thing happens or the test binary's deadline is near; " +
	"count work where time was measured; where a limit is itself under test say so in a comment, //house:clock why, on the line or above it"

// clocks are the functions that end a wait after a time of their own, or that measure time.
var clocks = map[string][]string{
	"context": {"WithTimeout", "WithTimeoutCause", "WithDeadline", "WithDeadlineCause"},
	"time":    {"After", "AfterFunc", "NewTimer", "Sleep", "Since", "Tick"},
}

// limited are methods of libraries whose last argument is a limit.
var limited = []string{"FetchMaxWait", "FlushTimeout", "NextMsg", "ReadyForConnections", "Request", "RequestMsg", "SetDeadline", "SetReadDeadline"}

// A timeout of a single test is too short on some machine.
func TestTestsWaitUntilTheirBinarysDeadline(t *testing.T) {
	seen := 0
	for name, text := range files(t) {
		if !strings.HasSuffix(name, "_test.go") && (!strings.HasSuffix(name, ".go") || !strings.HasSuffix(path.Dir(name), "test")) {
			continue
		}
		used, refused, err := patience(name, text)
		if err != nil {
			t.Error(err)
		}
		for _, line := range refused {
			t.Errorf("%s\n\t%s", line, waits)
		}
		seen += used
	}
	if seen == 0 {
		t.Error("no test uses internal/waittest: this test looks for the wrong thing")
	}
}

// Browsers and scripts have one limit for all waits, or none.
func TestScriptsHaveNoPatience(t *testing.T) {
	own := regexp.MustCompile(`\btimeout: *[0-9]|\bsetDefault(Navigation)?Timeout\([0-9]|\bread\b[^;|&]* -t *[0-9]|\btimeout [0-9]`)
	scripts := 0
	for name, text := range files(t) {
		if !strings.HasPrefix(name, "tools/") && !strings.HasPrefix(name, "web/e2e/") || strings.HasSuffix(name, ".go") || strings.HasPrefix(path.Base(name), "go.") {
			continue
		}
		scripts++
		for at, line := range strings.Split(string(text), "\n") {
			if own.MatchString(line) && !strings.Contains(line, "house:clock ") {
				t.Errorf("%s:%d: %s\n\twait until the thing happens or the program that does it ends; in web/e2e all waits have the deadline of server.mjs", name, at+1, strings.TrimSpace(line))
			}
		}
	}
	if scripts == 0 {
		t.Error("there are no scripts: this test looks for the wrong thing")
	}
}

// patience returns the positions in a test file that have a timeout of their own, and the number of
// uses of waittest.
func patience(name string, text []byte) (used int, refused []string, err error) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, text, parser.ParseComments)
	if err != nil {
		return 0, nil, err
	}
	packages := map[string]string{} // by the name that the file imports them under
	for _, i := range file.Imports {
		imported := strings.Trim(i.Path.Value, `"`)
		local := path.Base(imported)
		if i.Name != nil {
			local = i.Name.Name
		}
		packages[local] = imported
	}
	allowed := map[int]bool{}
	for _, group := range file.Comments {
		for _, c := range group.List {
			if why, ok := strings.CutPrefix(c.Text, "//house:clock "); ok && strings.TrimSpace(why) != "" {
				line := set.Position(c.Pos()).Line
				allowed[line], allowed[set.Position(group.End()).Line+1] = true, true
			}
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		pkg, function := called(call, packages)
		switch {
		case pkg == "testing/synctest" && function == "Test":
			return false // the clock of a synctest bubble, on which nothing waits
		case pkg == "" && (function == "Log" || function == "Logf"):
			return false // a reply, not a request
		case pkg == module+"/internal/waittest":
			used++
		}
		own := slices.Contains(clocks[pkg], function) || (function == "After" || function == "Before") && mentions(call.Fun, packages, "time", "Now")
		if slices.Contains(limited, function) && len(call.Args) > 0 {
			last := call.Args[len(call.Args)-1]
			own = own || mentions(last, packages, "time", "") || constant(last)
		}
		if line := set.Position(call.Pos()).Line; own && !allowed[line] {
			refused = append(refused, fmt.Sprintf("%s:%d: %s has a patience of its own", name, line, function))
		}
		return true
	})
	return used, refused, nil
}

// called returns the package path and the name of the called function; the package is empty for a
// method.
func called(call *ast.CallExpr, packages map[string]string) (pkg, function string) {
	f := call.Fun
	if generic, ok := f.(*ast.IndexExpr); ok {
		f = generic.X
	}
	s, ok := f.(*ast.SelectorExpr)
	if !ok {
		return "", ""
	}
	if x, ok := s.X.(*ast.Ident); ok && x.Obj == nil {
		return packages[x.Name], s.Sel.Name
	}
	return "", s.Sel.Name
}

// mentions reports whether an expression refers to something of a package; if thing is not empty,
// to that name.
func mentions(e ast.Expr, packages map[string]string, pkg, thing string) (found bool) {
	ast.Inspect(e, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := s.X.(*ast.Ident); ok && x.Obj == nil && packages[x.Name] == pkg && (thing == "" || thing == s.Sel.Name) {
				found = true
			}
		}
		return !found
	})
	return found
}

// constant reports whether an expression is the name of a constant of this file.
func constant(e ast.Expr) bool {
	x, ok := e.(*ast.Ident)
	return ok && x.Obj != nil && x.Obj.Kind == ast.Con
}

func TestPatienceIsSeen(t *testing.T) {
	const head = "package p\nimport (\n\"context\"\nclock \"time\"\n\"testing/synctest\"\n\"" + module + "/internal/waittest\"\n)\nconst long = 3\nfunc f() {\n"
	for body, want := range map[string]int{
		"ctx, cancel := context.WithTimeout(t.Context(), clock.Minute)": 1,
		"<-clock.After(1)": 1,
		"//house:clock it is what is tested\n<-clock.After(1)":                       0,
		"//house:clock it is what is tested,\n// and this goes on\n<-clock.After(1)": 0,
		"<-clock.After(1) //house:clock tested":                                      0,
		"if clock.Now().After(deadline) { t.Fatal() }":                               1,
		"//house:clock\n<-clock.After(1)":                                            1,
		"//house:clock far above\n_ = 1\n<-clock.After(1)":                           1,
		"synctest.Test(t, func(t *testing.T) { clock.Sleep(1) })":                    0,
		"if clock.Since(begin) > 3 { t.Error() }":                                    1,
		"t.Logf(\"%s\", clock.Since(begin))":                                         0,
		"sub.NextMsg(clock.Second)":                                                  1,
		"nc.Request(subject, data, long)":                                            1,
		"nc.Request(subject, data, waittest.Left(t))":                                0,
		"x.Request(y)":                        0,
		"waittest.Receive[int](t, ch, \"x\")": 0,
		"context.WithCancel(t.Context())":     0,
		"s.ReadyForConnections(10 * clock.Second); consumer.Next(jetstream.FetchMaxWait(long)); clock.Tick(1)": 3,
	} {
		used, refused, err := patience("a_test.go", []byte(head+body+"\n}\n"))
		if err != nil || len(refused) != want || (used == 1) != strings.Contains(body, "waittest") {
			t.Errorf("%s: %q, waittest used %d times, %v", body, refused, used, err)
		}
	}
}
