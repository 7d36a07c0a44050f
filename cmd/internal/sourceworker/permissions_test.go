package sourceworker

import (
	"net/http"
	"testing"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/source"
	"github.com/sluice-rag/sluice/internal/store/access"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
)

func TestDocumentsFollowThePermissionsOfTheirSource(t *testing.T) {
	w := newWorld(t)
	allow := func(principals ...string) *source.Access {
		var a source.Access
		for _, p := range principals {
			a.Entries = append(a.Entries, source.AccessEntry{Principal: p})
		}
		return &a
	}
	ofStaff := allow("g")
	items := func() []source.Item {
		return []source.Item{
			{ID: "staff", Path: "staff.txt", Version: "1", Size: -1, Access: ofStaff},
			{ID: "ann", Path: "ann.txt", Version: "1", Size: -1, Folder: "f", Access: &source.Access{Inherits: true}},
			{ID: "unknown", Path: "unknown.txt", Version: "1", Size: -1},
		}
	}
	w.scripted.set(func() {
		w.scripted.principals = []source.Principal{{ID: "u", Name: "Ann"}, {ID: "g", Group: true, Name: "Staff", Members: []string{"h"}}, {ID: "h", Group: true, Members: []string{"u", "g"}}}
		for _, item := range items() {
			w.scripted.items[item.ID] = scriptedItem{item.Path, "1", "Of " + item.ID + "."}
		}
		w.scripted.list = func(string) (*source.Listing, error) {
			return &source.Listing{Items: items(), Folders: []source.AccessFolder{{ID: "f", Access: *allow("u")}}}, nil
		}
	})
	var ann api.KeyCreated
	w.do(http.MethodPost, "/v1/keys", map[string]any{"name": "ann", "scopes": []string{"query"}}, http.StatusCreated, &ann)
	w.start()
	s := w.addScripted(func(n *api.NewSource) { n.Settings[source.PermissionsSetting] = source.FollowPermissions })
	w.wantCounts(w.ended("place", 1), "done: seen 3 added 3 changed 0 unchanged 0 moved 0 deleted 0 skipped 0 fetched 3")

	document := func(item string) string {
		return "/v1/documents/" + scalar[uuid.UUID](w, `SELECT document_id FROM source_items WHERE item = $1`, item).String()
	}
	sees := func(want string) {
		t.Helper()
		w.until(func() string {
			got := ""
			for _, item := range []string{"staff", "ann", "unknown"} {
				if status, _ := w.call(ann.APIKey, http.MethodGet, document(item)+"/content", nil, nil); status == http.StatusOK {
					got += item + " "
				}
			}
			if got != want {
				return "ann sees " + got + "instead of " + want
			}
			return ""
		})
	}
	sees("")
	kept, admin := access.New(w.store), schema.Principal{Tenant: scalar[uuid.UUID](w, `SELECT tenant_id FROM sources`)}
	_, err := kept.MapPrincipal(w.context(), admin, s.ID, "u", schema.AccessSubject{Kind: schema.AccessKey, Value: ann.ID.String()})
	w.ok(err)
	sees("staff ann ")

	// Only the source sets the labels of its documents.
	w.do(http.MethodPatch, document("staff"), api.DocumentChange{Labels: &[]string{}}, http.StatusConflict, nil)
	w.do(http.MethodPatch, document("staff"), api.DocumentChange{Labels: &[]string{schema.AccessLabel + "x"}}, http.StatusUnprocessableEntity, nil)

	// A push takes effect until the source is listed again.
	w.ok(kept.PushAccess(w.context(), admin, s.ID, schema.AccessPush{Principals: []schema.PushedPrincipal{{ID: "h", Group: true}}}))
	sees("ann ")
	w.act("place", "run")
	w.ended("place", 2)
	sees("staff ann ")

	// A permission that the source removes ends with the next run. The content is not fetched.
	w.scripted.set(func() { ofStaff = allow("somebody else") })
	w.act("place", "run")
	w.wantCounts(w.ended("place", 3), "done: seen 3 added 0 changed 0 unchanged 3 moved 0 deleted 0 skipped 0 fetched 0")
	sees("ann ")

	// The permissions of a deleted user end.
	w.scripted.set(func() { w.scripted.principals = w.scripted.principals[1:] })
	w.act("place", "run")
	w.ended("place", 4)
	sees("")
}
