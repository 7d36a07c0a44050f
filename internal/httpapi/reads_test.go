package httpapi

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/schema"
)

// unrecorded are the operations that neither show text or names of documents nor change who may see
// them. Their changes are in the audit log of changes.
var unrecorded = []string{
	"begin-oidc", "sign-in-ways", "whoami", "get-installation", "get-operations", "follow-events", "list-receipt-keys", "list-models", "get-model", "get-model-with-plan",
	"create-collection", "change-collection", "delete-collection", "get-collection", "list-collections", "retry-collection", "recluster-collection",
	"rebuild-collection", "get-rebuild", "cancel-rebuild", "reparse-collection", "get-reparse", "cancel-reparse",
	"upload-content", "upload-documents", "compare-documents", "delete-document", "retry-document",
	"judge-answer", "rate-answer", "delete-rating", "label-question", "learn-preference", "list-preferences", "forget-preferences",
	"create-evaluation", "list-evaluations", "delete-evaluation",
	"put-plan", "check-plan", "delete-plan", "get-plan", "list-plans",
	"choose-plan", "get-plan-choice", "list-plan-choices", "apply-plan-choice", "cancel-plan-choice", "repeat-plan-choice",
	"list-source-drivers", "list-sources", "get-source", "list-source-runs", "list-source-principals", "run-source", "cancel-source", "pause-source", "resume-source", "confirm-source",
	"list-keys", "list-tenant-keys", "list-sessions", "list-tenants", "get-tenant", "change-tenant", "get-tenant-storage",
	"get-usage", "get-usage-days", "get-tenant-usage", "get-tenant-usage-days", "set-limits",
	"list-webhooks", "list-webhook-deliveries", "replay-webhook-delivery",
}

func TestEachOperationIsRecordedOrKnownNotToBe(t *testing.T) {
	s, _ := newServer(Options{})
	known := map[string]bool{}
	for _, item := range s.api.OpenAPI().Paths {
		for _, op := range []*huma.Operation{item.Get, item.Post, item.Put, item.Patch, item.Delete} {
			if op == nil {
				continue
			}
			known[op.OperationID] = true
			if slices.Contains(recorded, op.OperationID) == slices.Contains(unrecorded, op.OperationID) {
				t.Errorf("%s: name it in recorded (reads.go) when it shows text or names of documents or changes who may see them, else in unrecorded", op.OperationID)
			}
		}
	}
	for _, id := range slices.Concat(recorded, unrecorded) {
		if !known[id] {
			t.Errorf("%s is listed, and there is no such operation", id)
		}
	}
}

// reader has one key of a tenant.
type reader struct{}

func (reader) Authenticate(_ context.Context, key string) (schema.Principal, error) {
	if key != "good" {
		return schema.Principal{}, schema.ErrUnauthorized
	}
	return schema.Principal{Tenant: uuid.UUID{1}, Key: uuid.UUID{2}, Name: "reader", Scopes: []schema.Scope{schema.ScopeQuery, schema.ScopeImpersonate}}, nil
}

// foundQuestions finds one document.
type foundQuestions struct{ Questions }

func (foundQuestions) Search(context.Context, schema.Principal, schema.Query) (schema.SearchResult, error) {
	return schema.SearchResult{Candidates: []schema.Candidate{{Document: uuid.UUID{5}}, {Document: uuid.UUID{5}}}}, nil
}

// recordedRead is an audit entry with its tenant.
type recordedRead struct {
	tenant uuid.UUID
	schema.AuditRead
}

func TestReadsAreRecorded(t *testing.T) {
	var got []recordedRead
	h := New(Options{Authenticator: reader{}, Collections: anyCollection{}, Questions: foundQuestions{}, TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")},
		Record: func(tenant uuid.UUID, r schema.AuditRead) { got = append(got, recordedRead{tenant, r}) }})
	send := func(method, path, body, key, from string, headers ...string) recordedRead {
		t.Helper()
		got = nil
		r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
		r.RemoteAddr = from
		r.Header.Set("Authorization", "Bearer "+key)
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("User-Agent", "test/1")
		for i := 0; i < len(headers); i += 2 {
			r.Header.Add(headers[i], headers[i+1])
		}
		h.ServeHTTP(httptest.NewRecorder(), r)
		if len(got) != 1 {
			t.Fatalf("%s %s is recorded %d times", method, path, len(got))
		}
		return got[0]
	}
	const ask = `{"collection":"c","query":"who built the safe?"}`
	read := send(http.MethodPost, "/v1/search", ask, "good", "10.1.1.1:5", "X-Forwarded-For", "203.0.113.9, 198.51.100.7", "X-Forwarded-For", "10.2.2.2", "X-Sluice-Person", "ann")
	if read.tenant != (uuid.UUID{1}) || *read.Key != (uuid.UUID{2}) || read.KeyName != "reader" || read.Person != "ann" || read.Action != "search" || read.Status != 200 ||
		read.Address != "198.51.100.7" || read.Agent != "test/1" || read.Query != "who built the safe?" || read.Collection != (uuid.UUID{9}).String() ||
		!slices.Equal(read.Documents, []uuid.UUID{{5}}) {
		t.Errorf("a search is %+v", read)
	}
	if read := send(http.MethodPost, "/v1/search", ask, "good", "192.0.2.1:5", "X-Forwarded-For", "203.0.113.9"); read.Address != "192.0.2.1" {
		t.Errorf("an address that nobody vouches for is believed: %s", read.Address)
	}
	if read := send(http.MethodPost, "/v1/search", ask, "wrong", "192.0.2.1:5"); read.tenant != schema.Nobody || read.Status != 401 || read.Key != nil || read.Query != "" {
		t.Errorf("a wrong key is %+v", read)
	}
	if read := send(http.MethodGet, "/v1/keys", "", "good", "192.0.2.1:5"); read.tenant != (uuid.UUID{1}) || read.Action != "list-keys" || read.Status != 403 {
		t.Errorf("a refusal is %+v", read)
	}
	document := uuid.UUID{7}.String()
	if read := send(http.MethodDelete, "/v1/documents/"+document, "", "good", "192.0.2.1:5"); read.Status != 403 || read.Target != document || read.Documents != nil {
		t.Errorf("a refused document is %+v", read)
	}
}
