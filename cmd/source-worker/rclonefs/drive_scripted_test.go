package rclonefs

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rclone/rclone/fs"
	driveapi "google.golang.org/api/drive/v3"

	"github.com/sluice-rag/sluice/internal/source"
)

// scriptedDrive stands in for Google Drive, which no test reaches: it answers what rclone's backend and driveReaders ask, as the
// documentation of the Drive API v3 has it, and knows nothing beyond what a test wrote into it.
type scriptedDrive struct {
	t       testing.TB
	network context.Context // in which Google's names lead to it

	mu      sync.Mutex
	files   map[string]*scriptedFile
	perPage int            // permissions
	refused map[string]int // statuses in place of a file's permissions
	reasons map[string]string
	asked   map[string]int // requests by what they are for
	fields  map[string]bool
	tokens  int // that were given out
}

type scriptedFile struct {
	id, name, in, content string
	folder                bool
	leadsTo               string // of a shortcut
	permissions           []driveapi.Permission
}

func newScriptedDrive(t testing.TB) *scriptedDrive {
	d := &scriptedDrive{t: t, files: map[string]*scriptedFile{}, perPage: 100, refused: map[string]int{}, reasons: map[string]string{},
		asked: map[string]int{}, fields: map[string]bool{}}
	certificate, authority := googleCertificate(t)
	server := httptest.NewUnstartedServer(d)
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // of connections that end early
	server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
	server.StartTLS()
	t.Cleanup(server.Close)
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodConnect || !strings.HasSuffix(r.Host, ".googleapis.com:443") {
			t.Errorf("the proxy is asked for %s %s", r.Method, r.Host)
		}
		tunnel(w, server.Listener.Addr().String())
	}))
	t.Cleanup(proxy.Close)
	ctx, config := fs.AddConfig(t.Context())
	config.HTTPProxy, config.CaCert = proxy.URL, []string{authority}
	d.network = ctx
	return d
}

// tunnel joins who asks for a tunnel with a server.
func tunnel(w http.ResponseWriter, to string) {
	far, err := net.Dial("tcp", to)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer far.Close()
	near, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer near.Close()
	_, _ = io.WriteString(near, "HTTP/1.1 200 Connection Established\r\n\r\n")
	var up sync.WaitGroup
	up.Go(func() {
		_, _ = io.Copy(far, near)
		_ = far.Close()
	})
	_, _ = io.Copy(near, far)
	_ = near.Close()
	up.Wait()
}

// googleCertificate is one for Google's names, made for a test, and the file of who vouches for it.
func googleCertificate(t testing.TB) (tls.Certificate, string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	of := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		DNSNames: []string{"*.googleapis.com"}, IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, of, of, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "authority.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, file
}

// put puts a file into a folder, by their ids. Whom it is shared with replaces whom it was.
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

// change changes what the drive has.
func (d *scriptedDrive) change(f func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f()
}

// count is how often something was asked for.
func (d *scriptedDrive) count(what string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.asked[what]
}

// settings are those of a source that follows the drive's permissions, or not.
func (d *scriptedDrive) settings(follow bool) source.Settings {
	s := source.Settings{AllowPrivate: true, Permissions: follow, Values: map[string]string{"client_id": "app", "client_secret": "app-secret",
		"token": `{"access_token":"expired","refresh_token":"refresh","token_type":"Bearer","expiry":"2020-01-01T00:00:00Z"}`}}
	if follow {
		s.Values[source.PermissionsSetting] = source.FollowPermissions
	}
	return s
}

// serviceAccount is the key of one, made for the test.
func serviceAccount(t testing.TB) string {
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
		"private_key_id": "key", "token_uri": "https://oauth2.googleapis.com/token"})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func (d *scriptedDrive) open(s source.Settings) source.Connector {
	d.t.Helper()
	c, err := paged(drive, testPage).driver().Open(d.network, s)
	if err != nil {
		d.t.Fatalf("open: %v", err)
	}
	d.t.Cleanup(func() {
		if err := c.Close(); err != nil {
			d.t.Errorf("close: %v", err)
		}
	})
	return c
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

// refuse answers as Google's APIs do.
func refuse(w http.ResponseWriter, code int, reason string) {
	answerJSON(w, code, map[string]any{"error": map[string]any{"code": code, "message": reason,
		"errors": []map[string]string{{"domain": "global", "reason": reason, "message": reason}}}})
}
