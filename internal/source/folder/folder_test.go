package folder

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/source"
)

// tree makes a folder with these files.
func tree(t *testing.T, names ...string) string {
	t.Helper()
	root := t.TempDir()
	for _, name := range names {
		file := filepath.Join(root, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(name), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func opened(t *testing.T, path string, s source.Settings) source.Connector {
	t.Helper()
	s.Values = map[string]string{"path": path}
	c, err := Driver().Open(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// all returns the paths and the skipped entries of a listing, and its number of pages. If anew, a
// new connector lists every page after the first, as in another process.
func all(t *testing.T, open func() source.Connector, anew bool) (paths []string, skipped []source.Skipped, pages int) {
	t.Helper()
	c := open()
	for cursor := ""; ; {
		l, err := c.List(t.Context(), cursor)
		if err != nil {
			t.Fatal(err)
		}
		pages++
		for _, item := range l.Items {
			paths = append(paths, item.Path)
		}
		skipped = append(skipped, l.Skipped...)
		if cursor = l.Next; cursor == "" {
			return paths, skipped, pages
		}
		if anew {
			c = open()
		}
	}
}

func TestEveryFileIsListedOnce(t *testing.T) {
	var names []string
	for i := range 1300 { // a flat folder; below are nested ones
		names = append(names, fmt.Sprintf("flat/%04d", i))
	}
	for i := range 120 {
		names = append(names, fmt.Sprintf("deep/%d/%d/a", i%11, i), fmt.Sprintf("deep/%d/b%d", i%11, i))
	}
	root := tree(t, append(names, "top")...)
	slices.Sort(names)
	for _, anew := range []bool{false, true} {
		got, skipped, pages := all(t, func() source.Connector { return opened(t, root, source.Settings{Roots: []string{root}}) }, anew)
		slices.Sort(got)
		if !slices.Equal(got, append(slices.Clone(names), "top")) || len(skipped) != 0 || pages < 4 {
			t.Errorf("anew %t: %d files in %d pages, %v skipped; want %d", anew, len(got), pages, skipped, len(names)+1)
		}
	}
}

func TestExcludedFoldersAreNotRead(t *testing.T) {
	root := tree(t, "a", "private/b", "private/deep/c", "private.txt")
	if err := os.Chmod(filepath.Join(root, "private"), 0o100); err != nil { // only root could read it anyway
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(filepath.Join(root, "private"), 0o755) })
	got, skipped, _ := all(t, func() source.Connector {
		return opened(t, root, source.Settings{Roots: []string{root}, Exclude: []string{"private/**", "*.md"}})
	}, false)
	if !slices.Equal(got, []string{"a", "private.txt"}) || len(skipped) != 1 || skipped[0].Path != "private" {
		t.Errorf("listed %v, skipped %v", got, skipped)
	}
}

func TestNothingOutsideOfTheRootsIsRead(t *testing.T) {
	outside := tree(t, "secret/x", "y")
	root := tree(t, "in/a", "in/sub/b")
	for link, to := range map[string]string{"out": outside, "in/file": filepath.Join(outside, "y"), "in/folder": outside, "in/up": "../.."} {
		if err := os.Symlink(to, filepath.Join(root, link)); err != nil {
			t.Fatal(err)
		}
	}
	s := source.Settings{Roots: []string{root}}
	for path, want := range map[string]string{
		"/etc": "not below", outside: "not below", root + "/../x": "not below", root + "2": "not below", "in": "whole path", "": "whole path",
		root + "/out": "through a link", root + "/out/secret": "through a link", root + "/in/a": "not a folder",
	} {
		s.Values = map[string]string{"path": path}
		_, err := Driver().Open(t.Context(), s)
		var field *source.FieldError
		if !errors.As(err, &field) || field.Field != "path" || !strings.Contains(field.Reason, want) {
			t.Errorf("%q: %v, want %q", path, err, want)
		}
	}
	s.Values["path"] = root
	if _, err := Driver().Open(t.Context(), source.Settings{Values: s.Values}); err == nil {
		t.Error("a folder is opened though none is allowed")
	}
	c := opened(t, root+"/in", s)
	got, skipped, _ := all(t, func() source.Connector { return c }, false)
	if !slices.Equal(got, []string{"a", "sub/b"}) || len(skipped) != 3 {
		t.Errorf("listed %v, skipped %v", got, skipped)
	}
	// Fetch does not read outside either: not by ids that no listing returned, nor through a folder
	// that has become a link.
	if err := errors.Join(os.RemoveAll(root+"/in/sub"), os.Symlink(outside, root+"/in/sub")); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"file", "folder/y", "../../y", "../out/y", "/etc/passwd", "sub/y", "up/y"} {
		if d, err := c.Fetch(t.Context(), source.Item{ID: id}); err == nil {
			text, _ := io.ReadAll(d.Body)
			t.Errorf("%s is read: %q", id, text)
		}
	}
	d, err := c.Fetch(t.Context(), source.Item{ID: "a"})
	if err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(d.Body); err != nil || string(text) != "in/a" || d.Body.Close() != nil {
		t.Errorf("%q, %v", text, err)
	}
	if _, err := c.Fetch(t.Context(), source.Item{ID: "gone"}); !errors.Is(err, source.ErrGone) {
		t.Errorf("what is gone: %v", err)
	}
}
