package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/schema"
)

// tree writes files below a new folder.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// walked returns the external ids found, the unreadable ones and the error that
// ended the walk.
func walked(paths []string, prefix string) (ids, skipped []string, end error) {
	for s, err := range sources(paths, prefix, schema.Attributes{}) {
		var skip *unreadable
		switch {
		case errors.As(err, &skip):
			skipped = append(skipped, skip.Error())
		case err != nil:
			return ids, skipped, err
		default:
			ids = append(ids, s.externalID)
		}
	}
	return ids, skipped, nil
}

func TestSourcesWalkFolders(t *testing.T) {
	dir := tree(t, map[string]string{"b.md": "b", "a/x.txt": "x", "a/.hidden": "no", ".git/config": "no", "z.txt": "z"})
	for _, c := range []struct {
		paths  []string
		prefix string
		want   []string
	}{
		{[]string{dir}, "", []string{"a/x.txt", "b.md", "z.txt"}},
		{[]string{dir}, "p/", []string{"p/a/x.txt", "p/b.md", "p/z.txt"}},
		{[]string{filepath.Join(dir, "a", "x.txt")}, "", []string{"x.txt"}},
		{[]string{filepath.Join(dir, "*.md"), filepath.Join(dir, "*.txt")}, "", []string{"b.md", "z.txt"}},
	} {
		ids, skipped, err := walked(c.paths, c.prefix)
		if err != nil || len(skipped) > 0 || !reflect.DeepEqual(ids, c.want) {
			t.Errorf("%v gave %v, %v, %v; want %v", c.paths, ids, skipped, err, c.want)
		}
	}
}

func TestSourcesReadBEIR(t *testing.T) {
	dir := tree(t, map[string]string{
		"corpus.jsonl":  `{"_id":"d1","title":"T","text":"body","metadata":{"year":2024,"links":["d2"]}}` + "\n\n" + `{"title":"no id"}` + "\n{broken\n" + `{"_id":"d2","text":"other"}` + "\n",
		"queries.jsonl": `{"_id":"q"}`,
	})
	var found []source
	var skipped []string
	for s, err := range sources([]string{dir}, "", schema.Attributes{Labels: []string{"l"}, Metadata: schema.Metadata{"from": "cli"}}) {
		if err != nil {
			skipped = append(skipped, err.Error())
			continue
		}
		found = append(found, s)
	}
	if len(found) != 2 || found[0].externalID != "d1" || found[0].attributes.Title != "T" || found[0].attributes.Labels[0] != "l" ||
		found[0].attributes.Metadata["year"] != json.Number("2024") || found[0].attributes.Metadata["from"] != "cli" {
		t.Errorf("found %+v", found)
	}
	if len(skipped) != 2 || !strings.Contains(skipped[0], "line 3") || !strings.Contains(skipped[0], "_id") || !strings.Contains(skipped[1], "line 4") {
		t.Errorf("skipped %q", skipped)
	}
	content, err := read(found[1])
	if err != nil || string(content) != "other" {
		t.Errorf("read %q, %v", content, err)
	}
}

func TestSourcesRefuseWhatIsAmbiguousOrMissing(t *testing.T) {
	one, two := tree(t, map[string]string{"a.txt": "1"}), tree(t, map[string]string{"a.txt": "2"})
	if _, _, err := walked([]string{one, two}, ""); err == nil || !strings.Contains(err.Error(), "--prefix") {
		t.Errorf("two documents of one name gave %v", err)
	}
	if _, _, err := walked([]string{filepath.Join(one, "none")}, ""); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing path gave %v", err)
	}
	if _, _, err := walked([]string{filepath.Join(one, "*.pdf")}, ""); !errors.Is(err, schema.ErrInvalid) {
		t.Errorf("a glob without a match gave %v", err)
	}
}

func TestSourcesGoOnAfterAFileThatCannotBeRead(t *testing.T) {
	dir := tree(t, map[string]string{"a.txt": "a", "c.txt": "c"})
	if err := os.Symlink("nowhere", filepath.Join(dir, "b.txt")); err != nil {
		t.Fatal(err)
	}
	ids, skipped, err := walked([]string{dir}, "")
	if err != nil || !reflect.DeepEqual(ids, []string{"a.txt", "c.txt"}) || len(skipped) != 1 {
		t.Errorf("got %v, %v, %v", ids, skipped, err)
	}
}

func TestParseMetadata(t *testing.T) {
	got, err := parseMetadata([]string{"year=2024", "tag=a", "tag=b", "draft=true", "eq=a=b", "empty="})
	want := schema.Metadata{"year": json.Number("2024"), "tag": []any{"a", "b"}, "draft": true, "eq": "a=b", "empty": ""}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %#v, %v", got, err)
	}
	for _, bad := range []string{"x", "=y"} {
		if _, err := parseMetadata([]string{bad}); !errors.Is(err, schema.ErrInvalid) {
			t.Errorf("%q gave %v", bad, err)
		}
	}
}

func TestGroupedKeepsRequestsSmall(t *testing.T) {
	var documents []source
	for range uploadCount + 1 {
		documents = append(documents, source{bytes: 10})
	}
	documents = append(documents, source{bytes: soloBytes + 1})
	for range 5 {
		documents = append(documents, source{bytes: soloBytes})
	}
	total := 0
	for _, g := range grouped(documents) {
		var size int64
		for _, d := range g {
			size += d.bytes
		}
		if len(g) > uploadCount || size > uploadBytes && len(g) > 1 {
			t.Errorf("a request of %d documents, %d bytes", len(g), size)
		}
		total += len(g)
	}
	if total != len(documents) {
		t.Errorf("%d of %d documents are sent", total, len(documents))
	}
}

func TestPrintableKeepsTheTerminalSafe(t *testing.T) {
	if got := printable("a\x1b[31mb\u202ec\u0085d é"); got != "a [31mb c d é" {
		t.Errorf("got %q", got)
	}
}
