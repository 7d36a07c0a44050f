package rclonefs

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"sync"
	"testing"

	driveapi "google.golang.org/api/drive/v3"

	"github.com/sluice-rag/sluice/internal/source"
)

// scriptedDrive replaces Google Drive. It answers the requests of rclone's backend and of
// drivePermissionReader as in the documentation of the Drive API v3, and contains only what a test
// wrote into it.
type scriptedDrive struct {
	t       testing.TB
	network context.Context // leads Google's names to it

	mu      sync.Mutex
	files   map[string]*scriptedFile
	perPage int            // number of permissions in a page
	refused map[string]int // status to return instead of a file's permissions
	reasons map[string]string
	asked   map[string]int // number of requests, by purpose
	fields  map[string]bool
	tokens  int // number of tokens returned
}

type scriptedFile struct {
	id, name, in, content string
	folder                bool
	leadsTo               string // target of a shortcut
	permissions           []driveapi.Permission
}

func newScriptedDrive(t testing.TB) *scriptedDrive {
	d := &scriptedDrive{t: t, files: map[string]*scriptedFile{}, perPage: 100, refused: map[string]int{}, reasons: map[string]string{},
		asked: map[string]int{}, fields: map[string]bool{}}
	d.network = scriptedNetwork(t, d, "*.googleapis.com")
	return d
}

// put puts a file into a folder. Both have ids. The permissions replace the previous ones.
func (d *scriptedDrive) put(id, in, name string, permissions ...driveapi.Permission) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.files[id] = &scriptedFile{id: id, name: name, in: in, content: "The text of " + name + ".\n", permissions: permissions}
}

func (d *scriptedDrive) mkdir(id, in, name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.files[id] = &scriptedFile{id: id, name: name, in: in, folder: true}
}

// change changes the drive under its lock.
func (d *scriptedDrive) change(f func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f()
}

// count returns the number of requests for a purpose.
func (d *scriptedDrive) count(what string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.asked[what]
}

// settings returns the settings of a source that follows the drive's permissions or does not.
func (d *scriptedDrive) settings(follow bool) source.Settings {
	s := source.Settings{AllowPrivate: true, Permissions: follow, Values: map[string]string{"client_id": "app", "client_secret": "app-secret",
		"token": `{"access_token":"expired","refresh_token":"refresh","token_type":"Bearer","expiry":"2020-01-01T00:00:00Z"}`}}
	if follow {
		s.Values[source.PermissionsSetting] = source.FollowPermissions
	}
	return s
}

// serviceAccount returns a new key of a service account with this token URL.
func serviceAccount(t testing.TB, tokens string) string {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(map[string]string{"type": "service_account", "client_email": "a@example.org",
		"private_key":    string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded})),
		"private_key_id": "key", "token_uri": tokens})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func (d *scriptedDrive) open(s source.Settings) source.Connector {
	d.t.Helper()
	return opened(d.network, d.t, drive, s)
}

var (
	scriptedPath    = regexp.MustCompile(`^/drive/v3/files(?:/([^/]+)(/permissions)?)?$`)
	scriptedParents = regexp.MustCompile(`'([^']+)' in parents`)
	scriptedName    = regexp.MustCompile(`name='([^']+)'`)
)

// ServeHTTP implements http.Handler.
func (d *scriptedDrive) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if r.Host == "oauth2.googleapis.com" && r.URL.Path == "/token" {
		d.tokens++
		answerJSON(w, http.StatusOK, map[string]any{"access_token": "valid", "token_type": "Bearer", "expires_in": 3600})
		return
	}
	part := scriptedPath.FindStringSubmatch(r.URL.Path)
	query := r.URL.Query()
	switch {
	case r.Method != http.MethodGet || part == nil || r.Host != "www.googleapis.com" && r.Host != "drive.googleapis.com":
		d.t.Errorf("the drive is asked for %s https://%s%s", r.Method, r.Host, r.URL)
		refuse(w, http.StatusNotImplemented, "notImplemented")
	case r.Header.Get("Authorization") != "Bearer valid":
		refuse(w, http.StatusUnauthorized, "authError")
	case part[1] == "":
		d.asked["list"]++
		d.fields[query.Get("fields")] = true
		d.list(w, query.Get("q"))
	case part[1] == "root":
		answerJSON(w, http.StatusOK, map[string]string{"id": "root-folder"})
	case d.files[part[1]] == nil || query.Get("supportsAllDrives") != "true" && query.Get("alt") != "media":
		refuse(w, http.StatusNotFound, "notFound")
	case part[2] != "":
		d.asked["permissions"]++
		d.asked["permissions of "+part[1]]++
		d.permissions(w, query, d.files[part[1]])
	case query.Get("alt") == "media":
		d.asked["media"]++
		_, _ = io.WriteString(w, d.files[part[1]].content)
	default:
		answerJSON(w, http.StatusOK, d.describe(d.files[part[1]]))
	}
}

func (d *scriptedDrive) list(w http.ResponseWriter, q string) {
	parent, name := scriptedParents.FindStringSubmatch(q), scriptedName.FindStringSubmatch(q)
	if parent == nil {
		d.t.Errorf("the drive is asked for %q", q)
		refuse(w, http.StatusBadRequest, "invalid")
		return
	}
	found := []any{}
	for _, f := range d.files {
		if f.in == parent[1] && (name == nil || f.name == name[1]) {
			found = append(found, d.describe(f))
		}
	}
	answerJSON(w, http.StatusOK, map[string]any{"files": found})
}

func (d *scriptedDrive) describe(f *scriptedFile) map[string]any {
	out := map[string]any{"id": f.id, "name": f.name, "parents": []string{f.in}, "modifiedTime": "2026-11-01T00:00:00.000Z"}
	switch {
	case f.folder:
		out["mimeType"] = "application/vnd.google-apps.folder"
	case f.leadsTo != "":
		out["mimeType"] = "application/vnd.google-apps.shortcut"
		out["shortcutDetails"] = map[string]string{"targetId": f.leadsTo, "targetMimeType": "text/plain"}
	default:
		out["mimeType"], out["size"] = "text/plain", strconv.Itoa(len(f.content))
		out["md5Checksum"] = fmt.Sprintf("%032x", f.content)[:32]
	}
	return out
}

func (d *scriptedDrive) permissions(w http.ResponseWriter, query url.Values, f *scriptedFile) {
	if code := d.refused[f.id]; code != 0 {
		refuse(w, code, d.reasons[f.id])
		return
	}
	begin, _ := strconv.Atoi(query.Get("pageToken"))
	end := min(begin+d.perPage, len(f.permissions))
	out := map[string]any{"permissions": f.permissions[begin:end]}
	if end < len(f.permissions) {
		out["nextPageToken"] = strconv.Itoa(end)
	}
	answerJSON(w, http.StatusOK, out)
}

func answerJSON(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(v)
}

// refuse answers with an error as Google's APIs do.
func refuse(w http.ResponseWriter, code int, reason string) {
	answerJSON(w, code, map[string]any{"error": map[string]any{"code": code, "message": reason,
		"errors": []map[string]string{{"domain": "global", "reason": reason, "message": reason}}}})
}
