package rclonefs

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/sluice-rag/sluice/internal/source"
)

// raw returns texts as JSON values.
func raw(texts []string) []json.RawMessage {
	out := make([]json.RawMessage, len(texts))
	for i, text := range texts {
		out[i] = json.RawMessage(text)
	}
	return out
}

// granted returns a permission of one grantee.
func granted(kind, id, role string) string {
	return fmt.Sprintf(`{"id":"p","roles":[%q],"grantedToV2":{%q:{"id":%q,"displayName":"Name of %s"}}}`, role, kind, id, id)
}

func TestOneDriveReturnsPermissions(t *testing.T) {
	g := newScriptedGraph(t)
	g.permissions["user.txt"] = []string{
		`{"roles":["owner"],"grantedToV2":{"user":{"id":"u1","displayName":"Ann","email":"ann@example.org"},"siteUser":{"id":"7","displayName":"Ann"}}}`,
		`{"roles":["read"],"grantedToV2":{"siteUser":{"id":"8","displayName":"Everyone except external users"}},"inheritedFrom":{"id":"root"}}`}
	g.permissions["group.txt"] = []string{granted("group", "g1", "write"), granted("siteGroup", "3", "read"), granted("application", "a1", "read")}
	g.permissions["link to people.txt"] = []string{`{"roles":["read"],"link":{"type":"view","scope":"users"},
		"grantedToIdentitiesV2":[{"user":{"id":"u1","displayName":"Ann"}},{"group":{"id":"g2"}}]}`}
	g.permissions["link for all.txt"] = []string{`{"roles":["read"],"link":{"type":"view","scope":"anonymous"}}`}
	g.permissions["link for us.txt"] = []string{`{"roles":["write"],"link":{"type":"edit","scope":"organization"}}`}
	g.permissions["personal.txt"] = []string{`{"roles":["read"],"grantedTo":{"user":{"id":"u3","displayName":"Eve"}}}`}
	g.permissions["nobody.txt"] = []string{
		`{"roles":["read"],"hasPassword":true,"link":{"type":"view","scope":"anonymous"}}`,
		`{"roles":["write"],"link":{"type":"createOnly","scope":"anonymous"}}`, `{"roles":["restrictedView"],"grantedToV2":{"user":{"id":"u4"}}}`,
		`{"roles":["read"],"expirationDateTime":"` + time.Now().Add(-time.Minute).Format(time.RFC3339) + `","grantedToV2":{"user":{"id":"u5"}}}`,
		`{"roles":["read"],"link":{"type":"view","scope":"existingAccess"}}`, `{"roles":["read"],"grantedToV2":{"user":{"displayName":"No Id"}}}`}
	c := g.open(true)
	got, skipped, _ := listed(t, c)
	expect(t, got, map[string][]string{
		"user.txt": {"site-user:8", "user:u1"}, "group.txt": {"group:g1", "site-group:3"}, "link to people.txt": {"group:g2", "user:u1"},
		"link for all.txt": {"anyone:link"}, "link for us.txt": {"organization:link"}, "personal.txt": {"user:u3"}, "nobody.txt": {},
	})
	principals := principalsOf(t, c)
	if p := principals["user:u1"]; p.Name != "Ann" || p.Group || len(principals) != 8 {
		t.Errorf("the principals are %+v", principals)
	}
	for _, id := range []string{"group:g1", "site-group:3", "anyone:link", "organization:link"} {
		if !principals[id].Group {
			t.Errorf("%s is %+v", id, principals[id])
		}
	}
	if len(skipped) > 0 {
		t.Errorf("%q are skipped", skipped)
	}
	g.mu.Lock()
	g.permissions["user.txt"] = g.permissions["user.txt"][:1]
	g.mu.Unlock()
	if got, _, _ := listed(t, c); !slices.Equal(got["user.txt"], []string{"user:u1"}) {
		t.Errorf("after one is revoked, the file is read by %q", got["user.txt"])
	}
}

func TestOneDriveReadsAllPagesAndNoMore(t *testing.T) {
	g := newScriptedGraph(t)
	g.perPage = 2
	var want []string
	for i := range 5 {
		g.permissions["a.txt"] = append(g.permissions["a.txt"], granted("user", fmt.Sprint(i), "read"))
		want = append(want, fmt.Sprintf("user:%d", i))
	}
	if got, _, _ := listed(t, g.open(false)); len(got) != 1 || got["a.txt"] != nil || g.count("permissions") > 0 {
		t.Errorf("without permissions=follow, %q is listed and permissions are asked for %d times", got, g.count("permissions"))
	}
	before := g.count("children")
	got, _, _ := listed(t, g.open(true))
	expect(t, got, map[string][]string{"a.txt": want})
	if n := g.count("permissions"); n != 3 || g.count("children") != 2*before {
		t.Errorf("three pages are %d requests, and the listing %d rather than %d", n, g.count("children")-before, before)
	}
}

func TestOneDriveFailsClosed(t *testing.T) {
	for code, check := range map[int]func(source.Listing, error) bool{
		http.StatusForbidden: func(l source.Listing, err error) bool {
			return err == nil && len(l.Skipped) == 1 && l.Items[0].Access == nil
		},
		http.StatusNotFound: func(l source.Listing, err error) bool {
			return err == nil && len(l.Skipped) == 1 && l.Items[0].Access == nil
		},
		http.StatusUnauthorized: func(_ source.Listing, err error) bool { return errors.Is(err, source.ErrRefused) },
		http.StatusTooManyRequests: func(_ source.Listing, err error) bool {
			var limit *source.RateLimitError
			return errors.As(err, &limit) && limit.After == 7*time.Second
		},
		http.StatusBadGateway: func(_ source.Listing, err error) bool { return isOther(err) },
	} {
		t.Run(http.StatusText(code), func(t *testing.T) {
			g := newScriptedGraph(t)
			g.permissions["a.txt"], g.refused["a.txt"] = []string{granted("user", "u1", "read")}, code
			if l, err := g.open(true).List(t.Context(), ""); !check(l, err) {
				t.Errorf("the listing is %+v, %v", l, err)
			}
		})
	}
}
