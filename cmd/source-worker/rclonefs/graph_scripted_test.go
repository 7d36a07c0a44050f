package rclonefs

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"sync"
	"testing"

	"github.com/sluice-rag/sluice/internal/source"
)

// scriptedGraph replaces Microsoft Graph: it has one drive with a folder of files, and their
// permissions, as in the documentation of Graph 1.0.
type scriptedGraph struct {
	t       testing.TB
	network context.Context

	mu          sync.Mutex
	permissions map[string][]string // JSON objects, by the names of files
	perPage     int
	refused     map[string]int // statuses in place of a file's permissions
	asked       map[string]int
}

func newScriptedGraph(t testing.TB) *scriptedGraph {
	g := &scriptedGraph{t: t, permissions: map[string][]string{}, perPage: 100, refused: map[string]int{}, asked: map[string]int{}}
	g.network = scriptedNetwork(t, g, "graph.microsoft.com", "login.microsoftonline.com")
	return g
}

func (g *scriptedGraph) count(what string) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.asked[what]
}

// open opens the drive as an application of a directory.
func (g *scriptedGraph) open(follow bool) source.Connector {
	g.t.Helper()
	s := source.Settings{AllowPrivate: true, Permissions: follow, Values: map[string]string{"drive_id": "D", "drive_type": "documentLibrary",
		"tenant": "directory", "client_id": "app", "client_secret": "app-secret"}}
	if follow {
		s.Values[source.PermissionsSetting] = source.FollowPermissions
	}
	return opened(g.network, g.t, onedrive, s)
}

var graphPath = regexp.MustCompile(`^/v1\.0/drives/D/(?:root(:/.*)?|items/([^/:]+)(?:(:/.*)|/(children|permissions|content))?)$`)

// ServeHTTP implements http.Handler.
func (g *scriptedGraph) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if r.Host == "login.microsoftonline.com" && r.URL.Path == "/directory/oauth2/v2.0/token" {
		answerJSON(w, http.StatusOK, map[string]any{"access_token": "valid", "token_type": "Bearer", "expires_in": 3600})
		return
	}
	part := graphPath.FindStringSubmatch(r.URL.Path)
	switch {
	case part == nil || r.Method != http.MethodGet || r.Host != "graph.microsoft.com":
		g.t.Errorf("Graph is asked for %s https://%s%s", r.Method, r.Host, r.URL)
		graphRefuse(w, http.StatusNotImplemented)
	case r.Header.Get("Authorization") != "Bearer valid":
		graphRefuse(w, http.StatusUnauthorized)
	case part[1] != "" || part[3] != "":
		graphRefuse(w, http.StatusNotFound) // only items that do not exist are looked up by path
	case part[2] == "":
		answerJSON(w, http.StatusOK, g.describe("root"))
	case part[4] == "children":
		g.asked["children"]++
		found := []any{}
		for name := range g.permissions {
			found = append(found, g.describe(name))
		}
		answerJSON(w, http.StatusOK, map[string]any{"value": found})
	case part[4] == "permissions":
		g.asked["permissions"]++
		g.tell(w, part[2], r.URL.Query())
	case part[4] == "content":
		_, _ = io.WriteString(w, "text")
	default:
		answerJSON(w, http.StatusOK, g.describe(part[2]))
	}
}

func (g *scriptedGraph) describe(name string) map[string]any {
	out := map[string]any{"id": name, "name": name, "size": 4, "lastModifiedDateTime": "2026-11-01T00:00:00Z", "parentReference": map[string]string{"driveId": "D"}}
	if name == "root" {
		out["folder"] = map[string]int{"childCount": len(g.permissions)}
	} else {
		out["file"] = map[string]any{"mimeType": "text/plain", "hashes": map[string]string{"quickXorHash": "AAAAAAAAAAAAAAAAAAAAAAAAAAA="}}
	}
	return out
}

func (g *scriptedGraph) tell(w http.ResponseWriter, name string, query url.Values) {
	if code := g.refused[name]; code != 0 {
		if code == http.StatusTooManyRequests {
			w.Header().Set("Retry-After", "7")
		}
		graphRefuse(w, code)
		return
	}
	all := g.permissions[name]
	begin, _ := strconv.Atoi(query.Get("$skiptoken"))
	end := min(begin+g.perPage, len(all))
	out := map[string]any{"value": raw(all[begin:end])}
	if end < len(all) {
		out["@odata.nextLink"] = "https://graph.microsoft.com/v1.0/drives/D/items/" + url.PathEscape(name) + "/permissions?$skiptoken=" + strconv.Itoa(end)
	}
	answerJSON(w, http.StatusOK, out)
}

func graphRefuse(w http.ResponseWriter, code int) {
	names := map[int]string{http.StatusNotFound: "itemNotFound", http.StatusForbidden: "accessDenied", http.StatusUnauthorized: "InvalidAuthenticationToken",
		http.StatusTooManyRequests: "activityLimitReached"}
	answerJSON(w, code, map[string]any{"error": map[string]string{"code": names[code], "message": "refused by the script"}})
}
