package apiserver_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
)

// A key that manages documents need not have the right to read them.
func TestLabelsHoldForDownloads(t *testing.T) {
	w := newWorld(t)
	w.post("/v1/collections", api.NewCollection{Name: "c"}, "").want(http.StatusCreated, nil)
	var up api.UploadResult
	w.post("/v1/collections/c/documents", map[string]any{"documents": []any{
		map[string]any{"external_id": "open", "text": "for all"},
		map[string]any{"external_id": "bonus", "text": "for the board", "labels": []string{"board", "audit"}},
	}}, "").want(http.StatusOK, &up)
	open, labelled := "/v1/documents/"+up.Documents[0].Document.String(), "/v1/documents/"+up.Documents[1].Document.String()
	for _, c := range []struct {
		who               string
		u                 user
		listed, downloads int
	}{
		{"an operator", w.user, http.StatusOK, http.StatusForbidden},
		{"an admin", w.with(nil, schema.ScopeAdmin), http.StatusOK, http.StatusForbidden},
		{"an uploader of another group", w.with([]string{"staff"}, schema.ScopeIngest, schema.ScopeQuery), http.StatusOK, http.StatusForbidden},
		{"a reader", w.with([]string{"staff"}, schema.ScopeQuery), http.StatusNotFound, http.StatusNotFound},
		{"a reader of the group", w.with([]string{"staff", "audit"}, schema.ScopeQuery), http.StatusOK, http.StatusOK},
		{"an admin of the group", w.with([]string{"board"}, schema.ScopeAdmin), http.StatusOK, http.StatusOK},
	} {
		if got := c.u.do(http.MethodGet, open+"/content", nil, ""); got.status != http.StatusOK || string(got.body) != "for all" {
			t.Errorf("%s: the open document: %d %s", c.who, got.status, got.body)
		}
		if got := c.u.do(http.MethodGet, labelled, nil, ""); got.status != c.listed {
			t.Errorf("%s: the labelled document: %d, want %d", c.who, got.status, c.listed)
		}
		if got := c.u.do(http.MethodGet, labelled+"/content", nil, ""); got.status != c.downloads || (got.status == http.StatusOK) != (string(got.body) == "for the board") {
			t.Errorf("%s: its bytes: %d %s, want %d", c.who, got.status, got.body, c.downloads)
		}
	}
}

// The bytes of a version are sent as safely as those of the newest one.
func TestVersionsAreDownloaded(t *testing.T) {
	w := newWorld(t)
	w.post("/v1/collections", api.NewCollection{Name: "c"}, "").want(http.StatusCreated, nil)
	var document string
	for _, text := range []string{"first", "second"} {
		var up api.UploadResult
		w.post("/v1/collections/c/documents", map[string]any{"documents": []any{map[string]any{"external_id": "a", "text": text}}}, "").want(http.StatusOK, &up)
		document = "/v1/documents/" + up.Documents[0].Document.String()
	}
	var d api.DocumentDetail
	w.do(http.MethodGet, document, nil, "").want(http.StatusOK, &d)
	for i, want := range []string{"second", "first"} {
		got := w.do(http.MethodGet, document+"/content?version="+d.Versions[i].ID.String(), nil, "")
		if got.status != http.StatusOK || string(got.body) != want {
			t.Errorf("version %d: %d %s", d.Versions[i].Number, got.status, got.body)
		}
		if h := got.header; h.Get("Content-Type") != "application/octet-stream" || h.Get("Content-Disposition") != "attachment" || h.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("version %d has the headers %v", d.Versions[i].Number, h)
		}
	}
	none := uuid.NewString()
	if got := w.do(http.MethodGet, document+"/content?version="+none, nil, ""); got.status != http.StatusNotFound || !strings.Contains(string(got.body), none) {
		t.Errorf("a version of nobody's: %d %s", got.status, got.body)
	}
	if got := w.do(http.MethodGet, document+"/content?version=newest", nil, ""); got.status != http.StatusUnprocessableEntity || !strings.Contains(string(got.body), "version") {
		t.Errorf("a version that is no id: %d %s", got.status, got.body)
	}
}
