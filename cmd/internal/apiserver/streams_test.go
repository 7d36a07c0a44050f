package apiserver_test

// Streams: they end with the right to read them, and many can be open.

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/cmd/internal/apiserver"
	"github.com/sluice-rag/sluice/internal/auth"
	"github.com/sluice-rag/sluice/internal/config"
	"github.com/sluice-rag/sluice/internal/local/localtest"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
	"github.com/sluice-rag/sluice/schema/wire"
)

// stream opens a stream of events and returns when it has begun. wait reads the stream to its end.
func (u user) stream(path string, headers ...string) (wait func() string) {
	u.t.Helper()
	r, err := http.NewRequestWithContext(u.t.Context(), http.MethodGet, u.url+path, nil)
	if err != nil {
		u.t.Fatal(err)
	}
	if u.key != "" {
		r.Header.Set("Authorization", "Bearer "+u.key)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	got, err := http.DefaultClient.Do(r)
	if err != nil {
		u.t.Fatal(err)
	}
	if got.StatusCode != http.StatusOK {
		u.t.Fatalf("%s gave %d", path, got.StatusCode)
	}
	return func() string {
		defer func() { _ = got.Body.Close() }()
		data, err := io.ReadAll(got.Body)
		if err != nil {
			u.t.Errorf("%s was cut off: %v", path, err)
		}
		return string(data)
	}
}

// TestStreamsEndWithTheirKey: when it is revoked, here or in another process, expires, or its
// session is signed out.
func TestStreamsEndWithTheirKey(t *testing.T) {
	w := newWorld(t)
	w.post("/v1/collections", api.NewCollection{Name: "c"}, "").want(http.StatusCreated, nil)
	key := func(ends *time.Time) (user, uuid.UUID) {
		t.Helper()
		var made api.KeyCreated
		w.post("/v1/keys", api.NewKey{Name: "k", Scopes: []schema.Scope{schema.ScopeAdmin}, ExpiresAt: ends}, "").want(http.StatusCreated, &made)
		return user{t: t, url: w.url, key: made.APIKey}, made.ID
	}
	job := func(u user) string {
		t.Helper()
		var job schema.Job
		u.post("/v1/jobs", api.Query{Collection: "c", Query: "q"}, "").want(http.StatusAccepted, &job)
		return "/v1/jobs/" + job.ID.String() + "/events"
	}
	here, hereID := key(nil)
	elsewhere, elsewhereID := key(nil)
	soon := time.Now().Add(3 * time.Second)
	expiring, _ := key(&soon)

	var cookie *http.Cookie
	signIn, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.url+"/v1/session", strings.NewReader(`{"key":"`+w.key+`"}`))
	if err != nil {
		t.Fatal(err)
	}
	signIn.Header.Set("Content-Type", "application/json")
	signIn.Header.Set("X-Sluice-Session", "1")
	if got, err := http.DefaultClient.Do(signIn); err != nil || len(got.Cookies()) != 1 {
		t.Fatal(got, err)
	} else {
		cookie = got.Cookies()[0]
		_ = got.Body.Close()
	}
	session := user{t: t, url: w.url}.acting("Cookie", cookie.Name+"="+cookie.Value, "X-Sluice-Session", "1")
	stays := w.stream("/v1/events")
	defer func() {
		if err := w.stop(context.Background()); err != nil {
			t.Error(err)
		}
		stays()
	}()

	ends := map[string]func() string{
		"events of a key that is revoked":           here.stream("/v1/events"),
		"a job of a key that is revoked":            here.stream(job(here)),
		"events of a key that is revoked elsewhere": elsewhere.stream("/v1/events"),
		"events of a key that expires":              expiring.stream("/v1/events"),
		"a job of a key that expires":               expiring.stream(job(expiring)),
		"events of a session":                       session.stream("/v1/events", session.headers...),
	}
	w.do(http.MethodDelete, "/v1/keys/"+hereID.String(), nil, "").want(http.StatusNoContent, nil)
	if err := auth.New(w.store).RevokeKey(t.Context(), w.admin, elsewhereID); err != nil {
		t.Fatal(err)
	}
	out, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, w.url+"/v1/session", nil)
	if err != nil {
		t.Fatal(err)
	}
	out.Header.Set("Cookie", cookie.Name+"="+cookie.Value)
	out.Header.Set("X-Sluice-Session", "1")
	if got, err := http.DefaultClient.Do(out); err != nil || got.StatusCode != http.StatusNoContent {
		t.Fatal(got, err)
	} else {
		_ = got.Body.Close()
	}
	for what, wait := range ends {
		if stream := wait(); strings.Contains(what, "job") && !strings.Contains(stream, "event: error") {
			t.Errorf("%s ended with %q", what, stream)
		}
	}
}

// TestStreamsEndWhenTheirOwnerLosesRights: a person who signs in again with fewer scopes or groups
// has fewer in all sessions.
func TestStreamsEndWhenTheirOwnerLosesRights(t *testing.T) {
	w := newWorld(t)
	w.post("/v1/collections", api.NewCollection{Name: "c"}, "").want(http.StatusCreated, nil)
	people := auth.New(w.store)
	signIn := func(groups []string, scopes ...schema.Scope) user {
		t.Helper()
		who := schema.Person{Subject: "ann", Name: "Ann", Scopes: scopes, Groups: groups}
		_, _, secret, err := people.SignIn(t.Context(), w.admin.Tenant, who, schema.NewSession{ExpiresAt: time.Now().Add(time.Hour)})
		if err != nil {
			t.Fatal(err)
		}
		return user{t: t, url: w.url, key: secret}
	}
	admin := signIn([]string{"board"}, schema.ScopeAdmin)
	events := admin.stream("/v1/events")
	reader := signIn([]string{"board"}, schema.ScopeQuery)
	events()
	var job schema.Job
	reader.post("/v1/jobs", api.Query{Collection: "c", Query: "q"}, "").want(http.StatusAccepted, &job)
	follow := reader.stream("/v1/jobs/" + job.ID.String() + "/events")
	signIn(nil, schema.ScopeQuery)
	if stream := follow(); !strings.Contains(stream, "event: error") || !strings.Contains(stream, "lost a scope or a group") {
		t.Errorf("the job's stream ended with %q", stream)
	}
}

// TestAThousandFollowers: as many streams as are allowed are admitted, they use less than 100 MB,
// and all get the events.
func TestAThousandFollowers(t *testing.T) {
	const followers = 1000
	w := newWorldServed(t, localtest.Database(t), store.Options{}, config.HTTP{}, apiserver.Deps{TenantStreams: followers})
	address := strings.TrimPrefix(w.url, "http://")
	open := func() net.Conn {
		t.Helper()
		var d net.Dialer
		c, err := d.DialContext(t.Context(), "tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		if _, err := io.WriteString(c, "GET /v1/events HTTP/1.1\r\nHost: sluice\r\nAuthorization: Bearer "+w.key+"\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		return c
	}
	held := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapInuse + m.StackInuse
	}
	before := held()
	conns := make([]net.Conn, followers)
	begun := make([]byte, 4096)
	for i := range conns {
		conns[i] = open()
	}
	for i, c := range conns { // the first heartbeat of each stream
		var got []byte
		for !bytes.Contains(got, []byte(": \n\n")) {
			n, err := c.Read(begun)
			if got = append(got, begun[:n]...); err != nil || !bytes.HasPrefix(got, []byte("HTTP/1.1 200")) {
				t.Fatalf("follower %d: %q, %v", i, got, err)
			}
		}
	}
	cost := held() - before
	t.Logf("%d followers cost %.1f MB with this side of their connections", followers, float64(cost)/1e6)
	if cost > 100e6 {
		t.Errorf("%d followers cost %d bytes", followers, cost)
	}
	one := open()
	r, err := http.ReadResponse(bufio.NewReader(one), nil)
	if err != nil || r.StatusCode != http.StatusTooManyRequests || r.Header.Get("Retry-After") == "" {
		t.Errorf("one more gave %+v, %v", r, err)
	}
	w.hint(wire.EventSubject(w.admin.Tenant, "document.updated"), wire.Event{Envelope: wire.Header(), Kind: "document.updated", ExternalID: "told-to-all"})
	for i, c := range conns {
		var got []byte
		for !bytes.Contains(got, []byte("told-to-all")) {
			n, err := c.Read(begun)
			if got = append(got, begun[:n]...); err != nil {
				t.Fatalf("follower %d was told %q, %v", i, got, err)
			}
		}
	}
}
