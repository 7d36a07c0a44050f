package e2e

// This file calls the HTTP API.

import (
	"bytes"
	"encoding/json"
	"io"
	"mime"
	"net/http"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
)

// reply is a reply of the API.
type reply struct {
	request string
	status  int
	header  http.Header
	body    []byte
}

// call sends a request. body is nil, text, or a value to encode as JSON. header has alternating
// names and values.
func (s *server) call(t *testing.T, method, path string, body any, header ...string) reply {
	t.Helper()
	var content io.Reader
	kind := "application/json"
	switch b := body.(type) {
	case nil:
	case string:
		content = strings.NewReader(b)
	case []byte:
		content, kind = bytes.NewReader(b), "application/octet-stream"
	default:
		data, err := json.Marshal(b)
		if err != nil {
			t.Fatal(err)
		}
		content = bytes.NewReader(data)
	}
	request, err := http.NewRequestWithContext(t.Context(), method, s.url+path, content)
	if err != nil {
		t.Fatal(err)
	}
	if content != nil {
		request.Header.Set("Content-Type", kind)
	}
	if s.key != "" {
		request.Header.Set("Authorization", "Bearer "+s.key)
	}
	for i := 0; i+1 < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	// Connections are not kept, so that a connection that stays open is a leak.
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	defer func() { _ = response.Body.Close() }()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	return reply{request: method + " " + path, status: response.StatusCode, header: response.Header, body: data}
}

// want checks the status.
func (r reply) want(t *testing.T, status int) reply {
	t.Helper()
	if r.status != status {
		t.Fatalf("%s: status %d, want %d: %.600s", r.request, r.status, status, r.body)
	}
	return r
}

// problem checks that a reply is a problem of the right form that names the field. An empty field
// means none in particular.
func (r reply) problem(t *testing.T, status int, field string) {
	t.Helper()
	if r.status != status {
		t.Errorf("%s: status %d, want %d: %.600s", r.request, r.status, status, r.body)
	}
	if kind, _, _ := mime.ParseMediaType(r.header.Get("Content-Type")); kind != "application/problem+json" {
		t.Errorf("%s: the error is %q, not application/problem+json", r.request, kind)
	}
	var p api.Problem
	if err := json.Unmarshal(r.body, &p); err != nil {
		t.Errorf("%s: the error is no problem: %v: %.600s", r.request, err, r.body)
		return
	}
	if p.Status != r.status || p.Title == "" || p.Detail == "" {
		t.Errorf("%s: status, title and detail are not all there: %.600s", r.request, r.body)
	}
	if field == "" {
		return
	}
	for _, e := range p.Errors {
		if strings.Contains(e.Location, field) && e.Message != "" {
			return
		}
	}
	// For an unknown or missing member of a body, the message names the member.
	for _, e := range p.Errors {
		if strings.Contains(e.Message, field) {
			return
		}
	}
	t.Errorf("%s: no error is about %q: %.600s", r.request, field, r.body)
}

// as decodes a reply.
func as[T any](t *testing.T, r reply) T {
	t.Helper()
	var v T
	if err := json.Unmarshal(r.body, &v); err != nil {
		t.Fatalf("%s: %v: %.600s", r.request, err, r.body)
	}
	return v
}

// search returns the passages, best first.
func search(t *testing.T, s *server, collection, query string, more ...string) []schema.Candidate {
	t.Helper()
	args := append([]string{"search", query, "-c", collection, "--json"}, more...)
	return into[api.SearchResult](t, s.sluice(t, args...).ok(t)).Passages
}

// names returns the distinct external ids of candidates, in order.
func names(found []schema.Candidate) []string {
	out := []string{}
	seen := map[string]bool{}
	for _, c := range found {
		if !seen[c.ExternalID] {
			seen[c.ExternalID] = true
			out = append(out, c.ExternalID)
		}
	}
	return out
}

// documents returns a collection's documents by their external ids.
func documents(t *testing.T, s *server, collection string) map[string]schema.Document {
	t.Helper()
	out := map[string]schema.Document{}
	for _, d := range into[[]schema.Document](t, s.sluice(t, "documents", "list", "-c", collection, "--json").ok(t)) {
		out[d.ExternalID] = d
	}
	return out
}

// show returns one document with its versions.
func show(t *testing.T, s *server, collection, name string) api.DocumentDetail {
	t.Helper()
	return into[api.DocumentDetail](t, s.sluice(t, "documents", "show", name, "-c", collection, "--json").ok(t))
}

// counts returns the number of a collection's documents in each state.
func counts(t *testing.T, s *server, collection string) map[schema.State]int64 {
	t.Helper()
	return as[schema.Collection](t, s.call(t, http.MethodGet, "/v1/collections/"+collection, nil).want(t, http.StatusOK)).Counts
}

// unfinished returns the number of documents that are not processed yet.
func unfinished(c map[schema.State]int64) int64 {
	return c[schema.StateReceived] + c[schema.StateQueued] + c[schema.StateProcessing]
}
