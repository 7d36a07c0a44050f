package convert

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
)

func TestStringList(t *testing.T) {
	for text, want := range map[string][]string{
		`["a", "b"]`:                   {"a", "b"},
		`[]`:                           {},
		` [ 'a' , "it's" ] `:           {"a", "it's"},
		`['it\'s', 'a\\b', 'x\ty']`:    {"it's", `a\b`, "x\ty"},
		`['caf\xe9', '\u0142', '\q',]`: {"café", "ł", `\q`},
		`["\ud83d\ude00"]`:             {"😀"},
		`['\U0001F600']`:               {"😀"},
	} {
		got, err := stringList(text)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %q, %v, want %q", text, got, err, want)
		}
	}
	for _, text := range []string{"", "a", "[", "['a'", "['a", "['a' 'b']", "['a'] b", "[1]", "[None]", `['\x4']`, `['\U99999999']`, `['\`} {
		if got, err := stringList(text); err == nil {
			t.Errorf("%s: %q, and no error", text, got)
		}
	}
}

func rowsOf(text string) (out [][]string, lines []int, err error) {
	r := &tableReader{lines: lineReader{in: bufio.NewReaderSize(strings.NewReader(text), 16)}}
	for {
		row, err := r.next()
		if errors.Is(err, io.EOF) {
			return out, lines, nil
		}
		if err != nil {
			return out, lines, err
		}
		out, lines = append(out, row), append(lines, r.line)
	}
}

func TestTables(t *testing.T) {
	got, lines, err := rowsOf("a\tb\r\n\n\"x\n\"\"y\"\"\"\t\n\"Weird Al\" was\tborn \"here\"\n\"\"\tlast")
	want := [][]string{{"a", "b"}, {"x\n\"y\"", ""}, {"Weird Al was", `born "here"`}, {"", "last"}}
	if err != nil || !reflect.DeepEqual(got, want) || !reflect.DeepEqual(lines, []int{1, 3, 5, 6}) {
		t.Errorf("the rows are %q in lines %v, %v", got, lines, err)
	}
}

func TestUTF8IsCheckedAcrossReads(t *testing.T) {
	text := "a\nł😀é\n"
	read, err := io.ReadAll(&utf8Reader{in: iotest.OneByteReader(strings.NewReader(text)), line: 1})
	if err != nil || string(read) != text {
		t.Errorf("it reads %q, %v", read, err)
	}
	for _, bad := range []string{"a\n\xff", "a\n\xe9x", "a\n\xf0\x9f\x98", "a\n\xc5"} {
		for _, in := range []io.Reader{strings.NewReader(bad), iotest.OneByteReader(strings.NewReader(bad))} {
			if _, err := io.ReadAll(&utf8Reader{in: in, line: 1}); err == nil || !strings.Contains(err.Error(), "line 2 is not UTF-8") {
				t.Errorf("%q gives %v", bad, err)
			}
		}
	}
}

// FuzzStringList: lists in JSON are parsed as JSON, and nothing causes a panic.
func FuzzStringList(f *testing.F) {
	for _, s := range []string{`["a"]`, `['a', "b\x41\n"]`, `['\`, `[`, `['\u00e9','\U0001f600',]`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := stringList(text)
		if err != nil {
			return
		}
		again, err := json.Marshal(got)
		if err != nil {
			t.Fatal(err)
		}
		if twice, err := stringList(string(again)); err != nil || len(twice) != len(got) {
			t.Errorf("%q is read as %q, which is read as %q, %v", text, got, twice, err)
		}
	})
}

// FuzzTable: a table that a strict reader accepts is read alike.
func FuzzTable(f *testing.F) {
	for _, s := range []string{"a\tb\n", "\"x\ny\"\t\"\"\"\"\n", "\"\"\n", "a\"b\tc\r\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, _, err := rowsOf(text)
		strict := csv.NewReader(strings.NewReader(text))
		strict.Comma, strict.FieldsPerRecord = '\t', -1
		want, strictErr := strict.ReadAll()
		if strictErr != nil || strings.Contains(text, "\r") { // it drops \r before \n, and leaves others
			return
		}
		var kept [][]string
		for _, row := range want {
			if len(row) != 1 || row[0] != "" {
				kept = append(kept, row)
			}
		}
		if err != nil || !reflect.DeepEqual(got, kept) {
			t.Errorf("%q is read as %q, %v, want %q", text, got, err, kept)
		}
	})
}
