package apiserver_test

import (
	"net/http"
	"testing"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
)

// Whoever manages documents need not read them.
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
