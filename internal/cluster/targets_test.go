package cluster

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestTargets(t *testing.T) {
	for _, c := range []struct{ base, target, want string }{
		{"a/b.md", "c.md", "a/c.md"},
		{"a/b.md", "./c.md#part", "a/c.md"},
		{"a/b.md", "../x/c", "x/c.md"},
		{"a/b.md", "../x/", "x/README.md"},
		{"a/b.md", "../../../c.md", "c.md"},
		{"a/b.md", "/c.md?q=1", "c.md"},
		{"a/b.md", "c.html", "a/c.md"},
		{"a/b.md", "with%20space.md", "a/with space.md"},
		{"a/b.md", "?tab=2", "a/b.md"},
		{"b.md", "c.md", "c.md"},
		{"/home/docs/b.md", "c.md", "/home/docs/c.md"},
		{"https://example.org/a/b.html", "c.html", "https://example.org/a/c.html"},
		{"https://example.org/a/", "c", "https://example.org/a/c"},
		{"https://example.org/a/b", "/c?x=1#y", "https://example.org/c?x=1"},
		{"https://example.org/a/b", "//Example.org/d", "https://example.org/d"},
		{"a/b.md", "http://example.org/c", "https://example.org/c"},
		{"", "p17", "p17"},
		{"", "docs/p17.md", "docs/p17.md"},
		{"", "https://example.org/x/", "https://example.org/x"},
	} {
		got := Targets(c.base, c.target)
		if !slices.Contains(got, c.want) {
			t.Errorf("%s in %s: %q, want %q", c.target, c.base, got, c.want)
		}
		if Key(c.base, c.target) != Key("", c.want) {
			t.Errorf("%s in %s and %s have other keys", c.target, c.base, c.want)
		}
	}
	for _, c := range []struct{ base, target, not string }{
		{"a/b.md", "c.md", "c.md"},
		{"a/b.md", "https://example.org/c", "a/c"},
		{"https://example.org/a", "https://other.org/c", "https://example.org/c"},
	} {
		if slices.Contains(Targets(c.base, c.target), c.not) || Key(c.base, c.target) == Key("", c.not) {
			t.Errorf("%s in %s means %s", c.target, c.base, c.not)
		}
	}
	if got := Targets("a/b.md", "c.md"); got[0] != "a/c.md" {
		t.Errorf("first %q", got[0])
	}
}

func TestFolderOf(t *testing.T) {
	for id, want := range map[string]string{
		"a/b/c.md": "a/b/", "c.md": "", "https://example.org/a/b?x=/y": "https://example.org/a/", "https://example.org": "", "/x": "/",
	} {
		if got := FolderOf(id); got != want {
			t.Errorf("%s lies in %q, want %q", id, got, want)
		}
	}
}

func TestEveryTargetHasTheKeyOfItsLink(t *testing.T) {
	part := rapid.StringMatching(`[a-cA-C. %2?#/:]{0,12}(\.md|\.html|/|/index\.html|README\.md)?`)
	rapid.Check(t, func(t *rapid.T) {
		base := rapid.SampledFrom([]string{"", "https://e.org/", "/", ""}).Draw(t, "root") + part.Draw(t, "base")
		target := rapid.SampledFrom([]string{"", "https://e.org/", "/", "../"}).Draw(t, "prefix") + part.Draw(t, "target")
		for _, id := range Targets(base, target) {
			if Key(base, target) != Key("", id) {
				t.Fatalf("%q in %q may mean %q, which has another key", target, base, id)
			}
		}
	})
}
