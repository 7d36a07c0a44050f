package main

import (
	"archive/zip"
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/schema"
)

// zipOf writes an archive of pairs of path and text.
func zipOf(t *testing.T, pairs ...string) string {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for i := 0; i+1 < len(pairs); i += 2 {
		f, err := w.Create(pairs[i])
		if err == nil {
			_, err = f.Write([]byte(pairs[i+1]))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestSourcesReadArchives(t *testing.T) {
	inner := zipOf(t, "x.txt", "x")
	dir := tree(t, map[string]string{
		"docs.zip":     zipOf(t, "b.md", "# B", "a/x.txt", "x", "inner.zip", inner, ".git/config", "no", "__MACOSX/b", "no"),
		"book.zip":     zipOf(t, "word/document.xml", "<a/>"),
		"bad.zip":      zipOf(t, "a.txt", "a", "../../b.txt", "b"),
		"cut.zip":      inner[:len(inner)-30],
		"f/nested.zip": inner,
	})
	for _, c := range []struct {
		path, prefix string
		want         []string
		skipped      string
	}{
		{"docs.zip", "p/", []string{"p/docs.zip/b.md", "p/docs.zip/a/x.txt", "p/docs.zip/inner.zip"}, ""},
		{"book.zip", "", []string{"book.zip"}, ""},
		{"bad.zip", "", nil, `"../../b.txt"`},
		{"cut.zip", "", nil, "damaged"},
		{"f", "", []string{"nested.zip"}, ""},
	} {
		ids, skipped, err := walked([]string{filepath.Join(dir, c.path)}, c.prefix)
		if err != nil || !reflect.DeepEqual(ids, c.want) || (c.skipped == "") != (len(skipped) == 0) || !strings.Contains(strings.Join(skipped, "\n"), c.skipped) {
			t.Errorf("%s gave %v, %q, %v; want %v, %q", c.path, ids, skipped, err, c.want, c.skipped)
		}
	}
}

// TestArchivesEntriesAreSent reads the entries after the walk, as uploads do, more than once.
func TestArchivesEntriesAreSent(t *testing.T) {
	path := filepath.Join(t.TempDir(), "docs.zip")
	locked := []byte(zipOf(t, "b.md", "# B", "secret.txt", "x"))
	locked[bytes.LastIndex(locked, []byte("PK\x01\x02"))+8] |= 1
	if err := os.WriteFile(path, locked, 0o644); err != nil {
		t.Fatal(err)
	}
	var found []source
	var skipped []string
	for s, err := range sources([]string{path}, "", schema.Attributes{Labels: []string{"l"}}) {
		if err != nil {
			skipped = append(skipped, err.Error())
			continue
		}
		found = append(found, s)
	}
	if len(skipped) != 1 || !strings.Contains(skipped[0], "docs.zip/secret.txt: It is encrypted") {
		t.Errorf("skipped %q", skipped)
	}
	if len(found) != 1 || found[0].bytes != 3 || found[0].fileName != "b.md" || found[0].attributes.Labels[0] != "l" {
		t.Fatalf("found %+v", found)
	}
	for range 2 {
		if content, err := read(found[0]); err != nil || string(content) != "# B" {
			t.Errorf("read %q, %v", content, err)
		}
	}
}
