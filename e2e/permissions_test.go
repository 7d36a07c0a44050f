package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/sluice-rag/sluice/internal/waittest"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
)

// testSourcePermissions follows a folder with its permissions: readers of a file see its document.
// The test changes only modes, so it does not need root.
func testSourcePermissions(t *testing.T, s *server) {
	dir := filepath.Join(sourceRoot(s.data), "records")
	put(t, dir, "harbour/wages.md", "# Wages\n\nThe harbour pilot earns 41 florins a day.\n")
	put(t, dir, "harbour/tides.md", "# Tides\n\nThe harbour tide is highest at the feast of Saint Brannoc.\n")
	chmod := func(name string, mode os.FileMode) {
		t.Helper()
		if err := os.Chmod(filepath.Join(dir, name), mode); err != nil {
			t.Fatal(err)
		}
	}
	for _, above := range []string{"..", "."} {
		chmod(above, 0o755)
	}
	chmod("harbour", 0o750)
	chmod("harbour/wages.md", 0o640)
	chmod("harbour/tides.md", 0o640)
	accounts := dir + "-accounts"
	group := groupOf(t, dir)
	put(t, accounts, "users", "clerk:x:4000001:4000001:The Clerk:/:/bin/sh\nguest:x:4000002:4000002::/:/bin/sh\n")
	put(t, accounts, "groups", fmt.Sprintf("harbour:x:%d:clerk\n", group))

	s.call(t, http.MethodPost, "/v1/collections", api.NewCollection{Name: "records"}).want(t, http.StatusCreated)
	s.sluice(t, "sources", "add", "records", "folder", "--collection", "records", "--every", "0", "--paused", "--set", "path="+dir, "--set", "permissions=follow",
		"--set", "users="+filepath.Join(accounts, "users"), "--set", "groups="+filepath.Join(accounts, "groups")).ok(t)
	s.sluice(t, "sources", "resume", "records").ok(t)
	s.sluice(t, "sources", "sync", "records", "--wait").ok(t)
	waittest.Until(t, func() string {
		if c := counts(t, s, "records"); unfinished(c) != 0 || c[schema.StateReady] != 2 {
			return fmt.Sprintf("documents are %v", c)
		}
		return ""
	})
	made := into[api.KeyCreated](t, s.sluice(t, "keys", "create", "clerk", "--json").ok(t))
	clerk := s.withKey(made.APIKey)
	questions := []string{"What does the harbour pilot earn?", "When is the harbour tide highest?"}
	ids := map[string]string{}
	for name, d := range documents(t, s, "records") {
		ids[name[strings.LastIndexByte(name, '/')+1:]] = d.ID.String()
	}
	sees := func() (out string) {
		t.Helper()
		text := ""
		for _, question := range questions {
			for _, c := range search(t, clerk, "records", question) {
				text += c.Text
			}
		}
		for name, word := range map[string]string{"tides.md": "Brannoc", "wages.md": "florins"} {
			got := clerk.call(t, http.MethodGet, "/v1/documents/"+ids[name]+"/content", nil).status == http.StatusOK
			if found := strings.Contains(text, word); found != got { // permissions are cached for a while
				out += fmt.Sprintf("%s is found %t and read %t ", name, found, got)
			}
		}
		for _, word := range []string{"Brannoc", "florins"} {
			if strings.Contains(text, word) {
				out += word + " "
			}
		}
		return out
	}
	until := func(want string) {
		t.Helper()
		waittest.Until(t, func() string {
			if got := sees(); got != want {
				return fmt.Sprintf("the clerk sees %q, want %q", got, want)
			}
			return ""
		})
	}
	why := func(document, verdict, reason string) {
		t.Helper()
		s.sluice(t, "access", "explain", "--document", ids[document], "--key", made.ID.String()).ok(t).has(t, verdict, reason)
	}
	if got := sees(); got != "" {
		t.Errorf("a key that is nobody in the source sees %q", got)
	}
	why("wages.md", "no:", "map a user or a group")
	s.sluice(t, "sources", "principals", "records").ok(t).has(t, "uid:4000001", "clerk, The Clerk", fmt.Sprintf("gid:%d", group))
	s.sluice(t, "sources", "map", "records", "uid:4000001", "--key", made.ID.String()).ok(t)
	if got := sees(); got != "Brannoc florins " {
		t.Errorf("the clerk sees %q", got)
	}
	why("wages.md", "yes:", fmt.Sprintf("gid:%d (harbour)", group))
	s.sluice(t, "sources", "principals", "records", "--mapped").ok(t).has(t, "uid:4000001", made.ID.String())

	answers := map[string]string{}
	told := func(word string) bool {
		return strings.Contains(string(clerk.call(t, http.MethodGet, "/v1/questions/"+answers[word], nil).want(t, http.StatusOK).body), word)
	}
	for word, question := range map[string]string{"florins": questions[0], "Brannoc": questions[1]} {
		answer := as[schema.Answer](t, clerk.call(t, http.MethodPost, "/v1/ask", api.Query{Collection: "records", Query: question}).want(t, http.StatusOK))
		answers[word] = answer.ID.String()
		if !strings.Contains(answer.Answer, word) || !told(word) {
			t.Fatalf("the clerk asks %q and is told %q", question, answer.Answer)
		}
	}

	// A changed mode takes effect with the next run. The content is not fetched.
	chmod("harbour/wages.md", 0o600)
	s.sluice(t, "sources", "sync", "records", "--wait").ok(t).has(t, "2 unchanged", "0 fetched")
	until("Brannoc ")
	if told("florins") {
		t.Error("a stored answer tells what its reader may not see any more")
	}
	why("wages.md", "no:", "none of these there")

	// A pushed permission takes effect immediately.
	pushed := as[schema.AccessPushed](t, s.call(t, http.MethodPost, "/v1/sources/records/access",
		schema.AccessPush{Items: []schema.AccessNode{{ID: "harbour/tides.md", Folder: "harbour"}}}).want(t, http.StatusOK))
	if got := sees(); got != "" || told("Brannoc") || pushed != (schema.AccessPushed{Documents: 1}) {
		t.Errorf("after a push (%+v) the clerk sees %q", pushed, got)
	}
	// The next run replaces pushed permissions, and reads those of the folders above.
	chmod("harbour/wages.md", 0o640)
	s.sluice(t, "sources", "sync", "records", "--wait").ok(t)
	until("Brannoc florins ")
	if !told("florins") || !told("Brannoc") {
		t.Error("a stored answer is not told to who may see it again")
	}
	chmod("harbour", 0o700)
	s.sluice(t, "sources", "sync", "records", "--wait").ok(t)
	until("")
	chmod("harbour", 0o750)
	s.sluice(t, "sources", "sync", "records", "--wait").ok(t)
	until("Brannoc florins ")
	s.sluice(t, "sources", "unmap", "records", "uid:4000001", "--key", made.ID.String()).ok(t)
	if got := sees(); got != "" {
		t.Errorf("who is not mapped any more sees %q", got)
	}
	s.sluice(t, "sources", "remove", "records").ok(t)
}

// groupOf returns the number of a folder's group.
func groupOf(t *testing.T, dir string) uint32 {
	t.Helper()
	info, err := os.Stat(dir)
	if err != nil {
		t.Fatal(err)
	}
	return info.Sys().(*syscall.Stat_t).Gid
}
