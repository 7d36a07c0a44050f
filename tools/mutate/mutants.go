package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"strconv"
	"strings"
)

// mutant is a file with one change.
type mutant struct {
	path          string
	line          int
	before, after string
	source        []byte
}

func (m mutant) String() string {
	return fmt.Sprintf("%s:%d: %s -> %s", m.path, m.line, m.before, m.after)
}

// mutantsOf returns all changes of a file, in order.
func mutantsOf(path string) ([]mutant, error) {
	source, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if strings.HasSuffix(path, ".go") {
		return ofGo(path, source)
	}
	return ofPlan(path, source), nil
}

// change returns the mutant in which the bytes from start to end are replaced.
func change(path string, source []byte, start, end int, after string) mutant {
	return mutant{
		path: path, line: 1 + bytes.Count(source[:start], []byte("\n")), before: string(source[start:end]), after: after,
		source: bytes.Join([][]byte{source[:start], []byte(after), source[end:]}, nil),
	}
}

// operators maps each operator to its replacement: the nearest other one, so that only a test of
// the exact case detects it.
var operators = map[token.Token]token.Token{
	token.ADD: token.SUB, token.SUB: token.ADD, token.MUL: token.QUO, token.QUO: token.MUL,
	token.LSS: token.LEQ, token.LEQ: token.LSS, token.GTR: token.GEQ, token.GEQ: token.GTR,
	token.EQL: token.NEQ, token.NEQ: token.EQL, token.LAND: token.LOR, token.LOR: token.LAND,
}

func ofGo(path string, source []byte) ([]mutant, error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, source, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var all []mutant
	add := func(at token.Pos, before, after string) {
		start := files.Position(at).Offset
		all = append(all, change(path, source, start, start+len(before), after))
	}
	ast.Inspect(file, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.GenDecl:
			return n.Tok != token.IMPORT
		case *ast.BinaryExpr:
			if other, ok := operators[n.Op]; ok && !isText(n.X) && !isText(n.Y) {
				add(n.OpPos, n.Op.String(), other.String())
			}
		case *ast.BasicLit:
			if after, ok := another(n.Value); ok && (n.Kind == token.INT || n.Kind == token.FLOAT) {
				add(n.Pos(), n.Value, after)
			}
		}
		return true
	})
	return all, nil
}

// isText reports whether an expression is a string literal, so that + concatenates.
func isText(x ast.Expr) bool {
	literal, ok := x.(*ast.BasicLit)
	return ok && literal.Kind == token.STRING
}

// another returns a number close by: one more for an integer, a quarter more for a fraction.
func another(number string) (string, bool) {
	if whole, err := strconv.Atoi(number); err == nil {
		return strconv.Itoa(whole + 1), true
	}
	if x, err := strconv.ParseFloat(number, 64); err == nil {
		return strconv.FormatFloat(x*1.25, 'g', 6, 64), true
	}
	return "", false
}

var (
	planNumber = regexp.MustCompile(`[:\[ ](\d+(?:\.\d+)?)\b`)
	planWord   = regexp.MustCompile(`: *([a-z_]+)\b`)
	words      = map[string]string{
		"passage": "section", "section": "document", "cluster": "document", "weighted": "rrf", "max": "minmax", "relevance": "has_answer",
		"prefer_sum": "relevance", "filter": "critique", "critique": "filter", "ends": "score", "reranker": "pair", "explain": "answer",
	}
)

// ofPlan changes numbers and names of a plan, and removes each line that is optional.
func ofPlan(path string, source []byte) []mutant {
	var all []mutant
	start := 0
	for line := range strings.Lines(string(source)) {
		end := start + len(line)
		text, _, _ := strings.Cut(line, " #")
		if plain := strings.TrimSpace(text); plain != "" && !strings.HasPrefix(plain, "#") && !strings.HasPrefix(text, "name:") && !strings.HasPrefix(text, "description:") {
			for _, at := range planNumber.FindAllStringSubmatchIndex(text, -1) {
				if after, ok := another(text[at[2]:at[3]]); ok {
					all = append(all, change(path, source, start+at[2], start+at[3], after))
				}
			}
			for _, at := range planWord.FindAllStringSubmatchIndex(text, -1) {
				if after, ok := words[text[at[2]:at[3]]]; ok {
					all = append(all, change(path, source, start+at[2], start+at[3], after))
				}
			}
			if m := change(path, source, start, end, ""); plain != "stages:" {
				m.before, m.after = plain, "nothing"
				all = append(all, m)
			}
		}
		start = end
	}
	return all
}
