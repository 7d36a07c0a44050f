package rclonefs

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rclone/rclone/fs"
	driveapi "google.golang.org/api/drive/v3"

	"github.com/sluice-rag/sluice/cmd/source-worker/guard"
	"github.com/sluice-rag/sluice/internal/source"
)

func user(id, role string) driveapi.Permission {
	return driveapi.Permission{Id: id, Type: "user", Role: role, DisplayName: "Name of " + id, EmailAddress: id + "@example.org"}
}

// listed returns what a connector lists: the readers of each path, nil if they are unknown, the
// skipped items and the items.
func listed(t *testing.T, c source.Connector) (readers map[string][]string, skipped map[string]string, items map[string]source.Item) {
	t.Helper()
	readers, skipped, items = map[string][]string{}, map[string]string{}, map[string]source.Item{}
	for cursor := ""; ; {
		page, err := c.List(t.Context(), cursor)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range page.Skipped {
			skipped[s.Path] = s.Reason
		}
		for _, item := range page.Items {
			items[item.Path], readers[item.Path] = item, nil
			if item.Access == nil {
				continue
			}
			if item.Access.Inherits || item.Folder != "" || len(page.Folders) > 0 {
				t.Errorf("%s goes by a folder: %+v", item.Path, item)
			}
			list := source.Effective(*item.Access, nil)
			readers[item.Path] = []string{}
			for _, p := range list.Principals() {
				if list.Decide(func(q string) bool { return q == p }, func(string) bool { return true }).Allowed {
					readers[item.Path] = append(readers[item.Path], p)
				}
			}
		}
		if cursor = page.Next; cursor == "" {
			return readers, skipped, items
		}
	}
}

// principalsOf returns all principals of a connector, and checks that each occurs once.
func principalsOf(t *testing.T, c source.Connector) map[string]source.Principal {
	t.Helper()
	out := map[string]source.Principal{}
	for cursor := ""; ; {
		page, err := c.(source.Permissions).Principals(t.Context(), cursor)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range page.Principals {
			if _, twice := out[p.ID]; twice {
				t.Errorf("%s comes twice", p.ID)
			}
			out[p.ID] = p
		}
		if cursor = page.Next; cursor == "" {
			return out
		}
	}
}

func expect(t *testing.T, got map[string][]string, want map[string][]string) {
	t.Helper()
	if !maps.EqualFunc(got, want, func(a, b []string) bool { return (a == nil) == (b == nil) && slices.Equal(a, b) }) {
		t.Errorf("who sees what is\n%q, want\n%q", got, want)
	}
}

// shared returns a drive with permissions of each kind.
func shared(t *testing.T) *scriptedDrive {
	d := newScriptedDrive(t)
	ann, staff := user("1", "owner"), driveapi.Permission{Id: "2", Type: "group", Role: "reader", DisplayName: "Staff", EmailAddress: "staff@example.org"}
	inherited := user("3", "fileOrganizer")
	inherited.PermissionDetails = []*driveapi.PermissionPermissionDetails{{Inherited: true, InheritedFrom: "a-shared-drive", PermissionType: "member"}}
	company := driveapi.Permission{Id: "4k", Type: "domain", Role: "reader", Domain: "example.org", AllowFileDiscovery: true}
	linked := driveapi.Permission{Id: "4k", Type: "domain", Role: "commenter", Domain: "example.org"}
	deleted, pending, metadata, unknown, over := user("5", "reader"), user("6", "writer"), user("7", "reader"), user("8", "admirer"), user("9", "reader")
	deleted.Deleted, pending.PendingOwner, metadata.View = true, true, "metadata"
	over.ExpirationTime = time.Now().Add(-time.Minute).Format(time.RFC3339)
	d.mkdir("folder", "root-folder", "folder")
	d.put("a", "root-folder", "mine.txt", ann)
	d.put("b", "folder", "inherited.txt", inherited, user("1", "organizer"))
	d.put("c", "root-folder", "group.txt", ann, staff)
	d.put("d", "root-folder", "domain.txt", company)
	d.put("e", "root-folder", "domain with link.txt", linked)
	d.put("f", "root-folder", "anyone.txt", driveapi.Permission{Id: "anyone", Type: "anyone", Role: "reader", AllowFileDiscovery: true})
	d.put("g", "root-folder", "anyone with link.txt", driveapi.Permission{Id: "anyoneWithLink", Type: "anyone", Role: "writer"})
	d.put("h", "root-folder", "nobody.txt", deleted, pending, metadata, unknown, over, driveapi.Permission{Id: "10", Type: "robot", Role: "reader"})
	d.put("i", "folder", "everything.txt", ann, staff, inherited, deleted, user("11", "commenter"))
	return d
}

func TestDriveReturnsPermissions(t *testing.T) {
	d := shared(t)
	c := d.open(d.settings(true))
	got, skipped, _ := listed(t, c)
	expect(t, got, map[string][]string{
		"mine.txt": {"user:1"}, "folder/inherited.txt": {"user:1", "user:3"}, "group.txt": {"group:2", "user:1"},
		"domain.txt": {"domain:4k"}, "domain with link.txt": {"domain:4k:link"}, "anyone.txt": {"anyone"}, "anyone with link.txt": {"anyone:link"},
		"nobody.txt": {}, "folder/everything.txt": {"group:2", "user:1", "user:11", "user:3"},
	})
	if len(skipped) > 0 {
		t.Errorf("%q are skipped", skipped)
	}
	principals := principalsOf(t, c)
	for id, want := range map[string]source.Principal{
		"user:1":         {Name: "Name of 1", Email: "1@example.org"},
		"group:2":        {Name: "Staff", Email: "staff@example.org", Group: true},
		"domain:4k:link": {Name: "everybody at example.org who has the link", Group: true},
		"anyone":         {Name: "everybody", Group: true},
	} {
		if p := principals[id]; p.ID != id || p.Name != want.Name || p.Email != want.Email || p.Group != want.Group || len(p.Members) > 0 {
			t.Errorf("%s is %+v, want %+v", id, p, want)
		}
	}
	if got, want := slices.Sorted(maps.Keys(principals)), []string{"anyone", "anyone:link", "domain:4k", "domain:4k:link", "group:2", "user:1", "user:11", "user:3"}; !slices.Equal(got, want) {
		t.Errorf("the principals are %q, want %q", got, want)
	}
}

func TestDriveDropsRevokedPermissions(t *testing.T) {
	d := newScriptedDrive(t)
	d.put("a", "root-folder", "plan.txt", user("1", "owner"), user("2", "reader"))
	c := d.open(d.settings(true))
	principalsOf(t, c)
	got, _, before := listed(t, c)
	expect(t, got, map[string][]string{"plan.txt": {"user:1", "user:2"}})
	d.change(func() { d.files["a"].permissions = d.files["a"].permissions[:1] })
	got, _, after := listed(t, c)
	expect(t, got, map[string][]string{"plan.txt": {"user:1"}})
	if before["plan.txt"].Version != after["plan.txt"].Version || d.count("media") > 0 {
		t.Error("a file that is shared with others is taken for one of another content")
	}
	if _, known := principalsOf(t, c)["user:2"]; known {
		t.Error("who has no permission any more is still a principal")
	}
}

func TestDriveFailsClosed(t *testing.T) {
	d := newScriptedDrive(t)
	d.put("a", "root-folder", "open.txt", user("1", "owner"))
	d.put("b", "root-folder", "closed.txt", user("1", "owner"))
	d.put("c", "root-folder", "gone.txt", user("1", "owner"))
	d.refused["b"], d.reasons["b"] = http.StatusForbidden, "insufficientFilePermissions"
	d.refused["c"], d.reasons["c"] = http.StatusNotFound, "notFound"
	c := d.open(d.settings(true))
	got, skipped, _ := listed(t, c)
	expect(t, got, map[string][]string{"open.txt": {"user:1"}, "closed.txt": nil, "gone.txt": nil})
	if skipped["closed.txt"] != permissionsDeniedReason || skipped["gone.txt"] != permissionsDeniedReason || len(skipped) != 2 {
		t.Errorf("the run says %q", skipped)
	}
	if all := principalsOf(t, c); len(all) != 1 {
		t.Errorf("the principals are %v", all)
	}
}

func TestDriveReturnsNoPartialListing(t *testing.T) {
	for _, fault := range []struct {
		code   int
		reason string
		is     func(error) bool
		again  bool // the request is repeated after some seconds
	}{
		{http.StatusForbidden, "userRateLimitExceeded", isLimit, true}, {http.StatusForbidden, "dailyLimitExceeded", isLimit, false},
		{http.StatusTooManyRequests, "rateLimitExceeded", isLimit, true}, {http.StatusInternalServerError, "backendError", isOther, true},
		{http.StatusUnauthorized, "authError", func(err error) bool { return errors.Is(err, source.ErrRefused) }, false},
	} {
		t.Run(fault.reason, func(t *testing.T) {
			t.Parallel()
			d := newScriptedDrive(t)
			d.put("a", "root-folder", "plan.txt", user("1", "owner"))
			d.put("b", "root-folder", "other.txt", user("1", "owner"))
			d.refused["a"], d.reasons["a"] = fault.code, fault.reason
			c := d.open(d.settings(true))
			if page, err := c.List(t.Context(), ""); !fault.is(err) || len(page.Items) > 0 {
				t.Errorf("the listing is %+v, %v", page, err)
			}
			if again := d.count("permissions of a") > 1; again != fault.again {
				t.Errorf("the request is made again: %t", again)
			}
			if fault.again {
				return
			}
			if page, err := c.(source.Permissions).Principals(t.Context(), ""); !fault.is(err) || len(page.Principals) > 0 {
				t.Errorf("the principals are %+v, %v", page, err)
			}
		})
	}
}

func isLimit(err error) bool {
	var limit *source.RateLimitError
	return errors.As(err, &limit)
}

func isOther(err error) bool {
	return err != nil && !isLimit(err) && !errors.Is(err, source.ErrRefused)
}

func TestDriveReadsAllPagesOfPermissions(t *testing.T) {
	d := newScriptedDrive(t)
	d.perPage = 2
	var all []driveapi.Permission
	var want []string
	for i := range 5 {
		all, want = append(all, user(fmt.Sprint(i), "reader")), append(want, fmt.Sprintf("user:%d", i))
	}
	d.put("a", "root-folder", "plan.txt", all...)
	got, _, _ := listed(t, d.open(d.settings(true)))
	expect(t, got, map[string][]string{"plan.txt": want})
	if n := d.count("permissions"); n != 3 {
		t.Errorf("three pages are %d requests", n)
	}
}

func TestDriveReadsNoPermissionsUnlessFollowing(t *testing.T) {
	d := shared(t)
	c := d.open(d.settings(false))
	got, _, _ := listed(t, c)
	if len(got) != 9 || d.count("permissions") != 0 || d.count("list") != 3 {
		t.Errorf("%d items cost %d requests for permissions and %d for lists", len(got), d.count("permissions"), d.count("list"))
	}
	for fields := range d.fields {
		if strings.Contains(strings.ToLower(fields), "permission") {
			t.Errorf("the lists are asked for %s", fields)
		}
	}
	for path, readers := range got {
		if readers != nil {
			t.Errorf("%s has readers: %q", path, readers)
		}
	}
	if _, ok := c.(source.Permissions); ok {
		t.Error("it tells who may see what")
	}
	before := d.count("list")
	if listed(t, d.open(d.settings(true))); d.count("permissions") != 9 || d.count("list") != before+3 {
		t.Errorf("with permissions=follow, 9 items cost %d requests for permissions and %d for lists", d.count("permissions"), d.count("list")-before)
	}
	excluding := d.settings(true)
	excluding.Exclude = []string{"folder/**"}
	if listed(t, d.open(excluding)); d.count("permissions") != 9+7 {
		t.Errorf("without those in a folder, 7 items cost %d requests for permissions", d.count("permissions")-9)
	}
}

func TestDriveFetchesWhatWasListed(t *testing.T) {
	d := newScriptedDrive(t)
	d.put("a", "root-folder", "plan.txt", user("1", "owner"))
	s := d.settings(true)
	delete(s.Values, "token")
	s.Values["service_account"] = serviceAccount(t, "https://oauth2.googleapis.com/token")
	c := d.open(s)
	_, _, items := listed(t, c)
	down, err := c.Fetch(t.Context(), items["plan.txt"])
	if err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(down.Body)
	if err != nil || string(content) != "The text of plan.txt.\n" || down.Body.Close() != nil {
		t.Errorf("the file is %q, %v", content, err)
	}
	d.change(func() { d.files["a"].content = "For the board alone.\n" })
	_, err = c.Fetch(t.Context(), items["plan.txt"])
	var changed *source.ItemError
	if !errors.As(err, &changed) {
		t.Errorf("other content than was listed gives %v", err)
	}
}

func TestDriveSkipsShortcutsWhenItFollows(t *testing.T) {
	d := newScriptedDrive(t)
	d.put("a", "elsewhere", "secret.txt", user("1", "owner"))
	d.put("b", "root-folder", "shortcut.txt")
	d.files["b"].leadsTo = "a"
	if got, _, _ := listed(t, d.open(d.settings(true))); len(got) > 0 {
		t.Errorf("listed %q", got)
	}
	if got, _, _ := listed(t, d.open(d.settings(false))); len(got) != 1 {
		t.Errorf("without permissions=follow, listed %q", got)
	}
}

func TestDriveNeedsAnApplicationToFollow(t *testing.T) {
	d := newScriptedDrive(t)
	s := d.settings(true)
	delete(s.Values, "client_id")
	_, err := drive.driver().Open(d.network, s)
	var field *source.FieldError
	if !errors.As(err, &field) || field.Field != "client_id" {
		t.Errorf("a token without its application gives %v", err)
	}
}

func TestDriveIsReachedThroughItsGuardOnly(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { t.Errorf("a private server is asked for %s", r.URL) }))
	t.Cleanup(server.Close)
	proxy, err := guard.New(t.Context(), false).NewProxy()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	c := &connector{kind: drive, proxy: proxy}
	baseCtx, config := fs.AddConfig(t.Context())
	c.baseCtx, config.HTTPProxy = baseCtx, proxy.URL()
	made, err := newDrivePermissionReader(c, values{"service_account": serviceAccount(t, server.URL)})
	if err != nil {
		t.Fatal(err)
	}
	defer made.close()
	if _, err := made.readers(baseCtx, "a"); err == nil || !errors.Is(c.failure(t.Context(), err), guard.ErrPrivate) {
		t.Errorf("a key whose token_uri is private gives %v", err)
	}
}
