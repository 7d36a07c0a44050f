package e2e

// This file sends invalid requests, and repeats requests.

import (
	"net/http"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
)

func testIdempotency(t *testing.T, s *server) {
	key := []string{"Idempotency-Key", "e2e-collection"}
	first := s.call(t, http.MethodPost, "/v1/collections", map[string]any{"name": "once"}, key...).want(t, http.StatusCreated)
	again := s.call(t, http.MethodPost, "/v1/collections", map[string]any{"name": "once"}, key...).want(t, http.StatusCreated)
	if string(first.body) != string(again.body) {
		t.Errorf("the second reply is %s, the first was %s", again.body, first.body)
	}
	if again.header.Get("Content-Type") != first.header.Get("Content-Type") {
		t.Errorf("the second reply is %s", again.header.Get("Content-Type"))
	}
	s.call(t, http.MethodPost, "/v1/collections", map[string]any{"name": "twice"}, key...).problem(t, http.StatusConflict, "")
	s.call(t, http.MethodGet, "/v1/collections/twice", nil).problem(t, http.StatusNotFound, "")
	s.call(t, http.MethodPost, "/v1/collections", map[string]any{"name": "once"}).problem(t, http.StatusConflict, "")

	question := map[string]any{"collection": "once", "query": "Is there anything?"}
	var ids []string
	for range 3 {
		r := s.call(t, http.MethodPost, "/v1/jobs", question, "Idempotency-Key", "e2e-job").want(t, http.StatusAccepted)
		ids = append(ids, as[schema.Job](t, r).ID.String())
	}
	if ids[0] != ids[1] || ids[1] != ids[2] {
		t.Errorf("one key made the jobs %v", ids)
	}
	jobs := 0
	for _, j := range into[[]schema.Job](t, s.sluice(t, "jobs", "list", "--json").ok(t)) {
		if j.Question == "Is there anything?" {
			jobs++
		}
	}
	if jobs != 1 {
		t.Errorf("there are %d jobs", jobs)
	}
	// Repeating a refused request gives the same refusal.
	for range 2 {
		s.call(t, http.MethodPost, "/v1/collections", map[string]any{"name": "no good"}, "Idempotency-Key", "e2e-bad").problem(t, http.StatusUnprocessableEntity, "name")
	}
	s.call(t, http.MethodPost, "/v1/collections", map[string]any{"name": "long"}, "Idempotency-Key", strings.Repeat("k", 300)).
		problem(t, http.StatusUnprocessableEntity, "Idempotency-Key")
	// Another tenant may use the same idempotency keys.
	made := into[api.TenantCreated](t, s.sluice(t, "tenants", "create", "repeats", "--json").ok(t))
	s.withKey(made.APIKey).call(t, http.MethodPost, "/v1/collections", map[string]any{"name": "mine"}, key...).want(t, http.StatusCreated)
}

func testProblems(t *testing.T, s *server) {
	s.call(t, http.MethodPost, "/v1/collections", map[string]any{"name": "problems"}).want(t, http.StatusCreated)
	documents := "/v1/collections/problems/documents"
	for _, c := range []struct {
		method, path string
		body         any
		status       int
		field        string
	}{
		{"POST", "/v1/collections", map[string]any{"name": "no good"}, 422, "name"},
		{"POST", "/v1/collections", map[string]any{}, 422, "name"},
		{"POST", "/v1/collections", map[string]any{"name": "good", "colour": "red"}, 422, "colour"},
		{"POST", "/v1/collections", map[string]any{"name": 7}, 422, "name"},
		{"POST", "/v1/collections", map[string]any{"name": "good", "language": "no language"}, 422, "language"},
		{"POST", "/v1/collections", `{"name": `, 400, ""},
		{"POST", "/v1/collections", map[string]any{"name": "problems"}, 409, ""},
		{"GET", "/v1/collections/nowhere", nil, 404, ""},
		{"GET", "/v1/collections?limit=0", nil, 422, "limit"},
		{"GET", "/v1/collections?limit=many", nil, 422, "limit"},
		{"GET", "/v1/collections?cursor=nonsense", nil, 422, "cursor"},
		{"GET", "/v1/collections?colour=red", nil, 422, "colour"},
		{"GET", "/v1/collections/problems/documents?state=lost", nil, 422, "state"},
		{"GET", "/v1/documents/nonsense", nil, 422, "document"},
		{"GET", "/v1/documents/00000000-0000-0000-0000-000000000000", nil, 404, ""},
		{"GET", "/v1/jobs/00000000-0000-0000-0000-000000000000", nil, 404, ""},
		{"DELETE", "/v1/keys/nonsense", nil, 422, "key"},
		{"POST", documents, map[string]any{"documents": []any{}}, 422, "documents"},
		{"POST", documents, map[string]any{"documents": []any{map[string]any{"text": "no name"}}}, 422, "external_id"},
		{"POST", documents, map[string]any{"documents": []any{map[string]any{"external_id": "a", "text": "both", "content": "Ym90aA=="}}}, 422, "documents[0]"},
		{"POST", documents, map[string]any{"documents": []any{map[string]any{"external_id": "a", "text": "a", "labels": []string{""}}}}, 422, "labels"},
		{"POST", documents, map[string]any{"documents": []any{map[string]any{"external_id": "a\u0000b", "text": "a"}}}, 422, "external_id"},
		{"PUT", "/v1/collections/problems/content", []byte("no name"), 422, "external_id"},
		{"PUT", "/v1/collections/problems/content?external_id=a&metadata=nonsense", []byte("a"), 422, "metadata"},
		{"POST", "/v1/search", map[string]any{"collection": "problems"}, 422, "query"},
		{"POST", "/v1/search", map[string]any{"collection": "problems", "query": ""}, 422, "query"},
		{"POST", "/v1/search", map[string]any{"collection": "problems", "query": "a", "k": -1}, 422, "k"},
		{"POST", "/v1/search", map[string]any{"collection": "problems", "query": "a", "plan": "nonsense"}, 422, "plan"},
		{"POST", "/v1/ask", map[string]any{"collection": "problems", "query": "a", "plan": "nonsense"}, 422, "plan"},
		{"POST", "/v1/jobs", map[string]any{"collection": "problems", "query": "a", "plan": "nonsense"}, 422, "plan"},
		{"POST", "/v1/search", map[string]any{"collection": "problems", "query": "a", "filter": []any{map[string]any{"key": "a", "op": "is", "values": []string{"b"}}}}, 422, "filter"},
		{"POST", "/v1/search", map[string]any{"collection": "nowhere", "query": "a"}, 404, ""},
		{"POST", "/v1/keys", map[string]any{"name": "k", "scopes": []string{"everything"}}, 422, "scopes"},
		{"POST", "/v1/keys", map[string]any{"name": "k", "scopes": []string{"query"}, "expires_at": "2001-01-01T00:00:00Z"}, 422, "expires_at"},
		{"GET", "/v1/nothing", nil, 404, ""},
		{"GET", "/v2/collections", nil, 404, ""},
		{"DELETE", "/v1/collections", nil, 405, ""},
	} {
		s.call(t, c.method, c.path, c.body).problem(t, c.status, c.field)
	}
	if all := s.call(t, http.MethodGet, documents, nil).want(t, http.StatusOK); len(as[api.Page[schema.Document]](t, all).Items) != 0 {
		t.Errorf("a refused upload left something behind: %s", all.body)
	}
	// A request cannot choose groups; they come from the key.
	made := into[api.KeyCreated](t, s.sluice(t, "keys", "create", "no-groups", "--json").ok(t))
	s.withKey(made.APIKey).call(t, http.MethodPost, "/v1/search", map[string]any{"collection": "problems", "query": "a", "groups": []string{"board"}}).
		problem(t, http.StatusForbidden, "groups")

	for path, kind := range map[string]string{"/healthz": "text/plain", "/readyz": "text/plain", "/docs": "text/html"} {
		r := s.withKey("").call(t, http.MethodGet, path, nil).want(t, http.StatusOK)
		if !strings.HasPrefix(r.header.Get("Content-Type"), kind) || len(r.body) == 0 {
			t.Errorf("%s gives %d bytes of %s", path, len(r.body), r.header.Get("Content-Type"))
		}
	}
	// The metrics of the process are not readable through the API.
	s.withKey("").call(t, http.MethodGet, "/metrics", nil).want(t, http.StatusNotFound)
}

// testUsage tests wrong uses of the command line.
func testUsage(t *testing.T, s *server) {
	folder := write(t, map[string]string{"one.txt": "One."})
	for _, c := range []struct {
		args  []string
		words []string
	}{
		{[]string{"ask", "Why?", "-c", "nowhere"}, []string{"nowhere", "not found"}},
		{[]string{"search", "Why?", "-c", "nowhere"}, []string{"nowhere", "not found"}},
		{[]string{"documents", "list", "-c", "nowhere"}, []string{"nowhere", "not found"}},
		{[]string{"ask", "Why?", "-c", "examples", "--plan", "nonsense"}, []string{"plan", "nonsense"}},
		{[]string{"ask", "Why?"}, []string{"--collection"}},
		{[]string{"ask", "Why?", "-c", "examples", "--colour", "red"}, []string{"--colour"}},
		{[]string{"nonsense"}, []string{"nonsense"}},
		{[]string{"ingest", "/no/such/folder", "-c", "usage"}, []string{"/no/such/folder"}},
		{[]string{"ingest", folder + "/*.pdf", "-c", "usage"}, []string{"*.pdf"}},
		{[]string{"ingest", folder, "-c", "no good"}, []string{"name"}},
		{[]string{"ingest", folder, "-c", "usage", "--metadata", "nonsense"}, []string{"metadata", "key=value"}},
		{[]string{"ingest", folder, folder, "-c", "usage"}, []string{"one.txt", "--prefix"}},
		{[]string{"documents", "show", "x"}, []string{"--collection"}},
		{[]string{"documents", "retry", "-c", "examples"}, []string{"--failed"}},
		{[]string{"keys", "create", "k", "--scope", "everything"}, []string{"scope"}},
		{[]string{"keys", "revoke", "nonsense"}, []string{"key", "UUID"}},
		{[]string{"documents", "change", "-c", "examples", "--open"}, []string{"document"}},
		{[]string{"access", "explain", "--document", "a.txt", "-c", "examples"}, []string{"--person", "--key"}},
		{[]string{"access", "explain", "--document", "a.txt", "--group", "board"}, []string{"--collection"}},
		{[]string{"sources", "add", "s", "folder", "-c", "nowhere"}, []string{"nowhere", "not found", "collections create"}},
		{[]string{"ask", "Why?", "-c", "examples", "--async", "--explain"}, []string{"--wait"}},
		{[]string{"collections", "list", "--api-key", "nonsense"}, []string{"API key"}},
	} {
		s.sluice(t, c.args...).fails(t, c.words...)
	}
	s.sluice(t, "version").ok(t).has(t, "sluice ")
	s.sluice(t, "--help").ok(t).has(t, "ingest", "ask", "doctor")
	nobody := s.withKey("")
	nobody.url = ""
	nobody.sluice(t, "collections", "list", "--data", t.TempDir()).fails(t, "sluice up", "SLUICE_URL")
	findings := into[[]struct {
		Part, Detail string
		OK           bool
	}](t, s.sluice(t, "doctor", "--data", s.data, "--json").ok(t))
	for _, f := range findings {
		if !f.OK || f.Detail == "" {
			t.Errorf("the doctor finds %s: %s", f.Part, f.Detail)
		}
	}
	if r := s.run(t, []string{"SLUICE_NATS_URL=nats://127.0.0.1:1"}, "sluice", "doctor", "--data", t.TempDir()); r.code != 1 || !strings.Contains(r.out+r.err, "nats") {
		t.Errorf("%v", r)
	}
	s.run(t, nil, "sluice", "serve").fails(t, "SLUICE_DATABASE_URL")
	if r := s.run(t, nil, "ingest-worker"); r.code == 0 || !strings.Contains(r.err, "SLUICE_DATABASE_URL") {
		t.Errorf("%v", r)
	}
	// A second server on the same data reports that the data is in use, and does no harm.
	s.run(t, nil, "sluice", "up", "--data", s.data, "--listen", "127.0.0.1:0").fails(t, "in use", "name another --data")
}
