package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/schema"
)

// keyOf returns a principal with one scope, named by the key.
type keyOf struct{}

func (keyOf) Authenticate(_ context.Context, key string) (schema.Principal, error) {
	return schema.Principal{Tenant: uuid.UUID{1}, Key: uuid.UUID{2}, Scopes: []schema.Scope{schema.Scope(key)}}, nil
}

type anySource struct{ SyncSources }

func (anySource) ResolveSource(context.Context, schema.Principal, string) (uuid.UUID, error) {
	return uuid.UUID{7}, nil
}

// scriptedSourceAccess records its calls.
type scriptedSourceAccess struct{ did string }

func (s *scriptedSourceAccess) SourcePrincipals(_ context.Context, _ schema.Principal, _ uuid.UUID, mapped bool, q schema.PageQuery) ([]schema.SourcePrincipal, string, error) {
	s.did = fmt.Sprintf("list mapped %t after %q, %d", mapped, q.Cursor, q.Limit)
	return nil, "u", nil
}

func (s *scriptedSourceAccess) MapPrincipal(_ context.Context, _ schema.Principal, source uuid.UUID, principal string, subject schema.AccessSubject) (schema.AccessMapping, error) {
	s.did = fmt.Sprintf("map %s to %s %s", principal, subject.Kind, subject.Value)
	return schema.AccessMapping{Source: source, Principal: principal, AccessSubject: subject}, nil
}

func (s *scriptedSourceAccess) UnmapPrincipal(_ context.Context, _ schema.Principal, _ uuid.UUID, principal string, subject schema.AccessSubject) error {
	s.did = fmt.Sprintf("unmap %s from %s %s", principal, subject.Kind, subject.Value)
	return nil
}

func (s *scriptedSourceAccess) PushAccess(_ context.Context, _ schema.Principal, _ uuid.UUID, push schema.AccessPush) (schema.AccessPushed, error) {
	s.did = fmt.Sprintf("push %v", push.Items)
	return schema.AccessPushed{Documents: 3, Waiting: true}, nil
}

func (s *scriptedSourceAccess) ExplainAccess(_ context.Context, _ schema.Principal, document uuid.UUID, subject schema.AccessSubject) (schema.AccessExplanation, error) {
	s.did = fmt.Sprintf("explain to %s %s", subject.Kind, subject.Value)
	return schema.AccessExplanation{Document: document, Reason: "because"}, nil
}

func TestPermissionsOfSourcesByTheAPI(t *testing.T) {
	did := &scriptedSourceAccess{}
	var recorded []schema.AuditRead
	h := New(Options{Authenticator: keyOf{}, SyncSources: anySource{}, SourceAccess: did, Record: func(_ uuid.UUID, r schema.AuditRead) { recorded = append(recorded, r) }})
	document := uuid.UUID{9}.String()
	explain := "/v1/access/explain?document=" + document
	for _, c := range []struct {
		key, method, path, body string
		status                  int
		did, reply              string
	}{
		{"admin", "GET", "/v1/sources/s/principals?mapped=true&cursor=a&limit=3", "", 200, `list mapped true after "a", 3`, `"next":"u"`},
		{"admin", "PUT", "/v1/sources/s/mappings", `{"principal":"u","kind":"key","value":"k"}`, 200, "map u to key k", `"kind":"key"`},
		{"admin", "PUT", "/v1/sources/s/mappings", `{"principal":"u","kind":"name","value":"k"}`, 422, "", "kind"},
		{"admin", "PUT", "/v1/sources/s/mappings", `{"principal":"","kind":"key","value":"k"}`, 422, "", "principal"},
		{"admin", "DELETE", "/v1/sources/s/mappings?principal=u&kind=person&value=a%7Cb", "", 204, "unmap u from person a|b", ""},
		{"admin", "DELETE", "/v1/sources/s/mappings?principal=u&kind=person", "", 422, "", "value"},
		{"admin", "POST", "/v1/sources/s/access", `{"items":[{"id":"i","entries":[{"principal":"u","deny":true}]}]}`, 200, "push [{i  [{u true 0}] false []}]", `"documents":3,"waiting":true`},
		{"admin", "POST", "/v1/sources/s/access", `{"items":[{"id":"i","allow":["u"]}]}`, 422, "", "allow"},
		{"admin", "GET", explain + "&person=a%7Cb", "", 200, "explain to person a|b", "because"},
		{"admin", "GET", explain + "&asker=ann", "", 200, "explain to asker ann", "because"},
		{"admin", "GET", explain, "", 422, "", "one of them"},
		{"admin", "GET", explain + "&key=k&group=g", "", 422, "", "one of them"},
		{"ingest", "GET", "/v1/sources/s/principals", "", 403, "", ""},
		{"ingest", "PUT", "/v1/sources/s/mappings", `{"principal":"u","kind":"key","value":"k"}`, 403, "", ""},
		{"ingest", "DELETE", "/v1/sources/s/mappings?principal=u&kind=key&value=k", "", 403, "", ""},
		{"ingest", "POST", "/v1/sources/s/access", `{}`, 403, "", ""},
		{"query", "GET", explain + "&key=k", "", 403, "", ""},
	} {
		did.did, recorded = "", nil
		r := httptest.NewRequestWithContext(t.Context(), c.method, c.path, strings.NewReader(c.body))
		r.Header.Set("Authorization", "Bearer "+c.key)
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != c.status || did.did != c.did || !strings.Contains(w.Body.String(), c.reply) {
			t.Errorf("%s %s as %s: %d, %q, did %q; want %d, %q, %q", c.method, c.path, c.key, w.Code, w.Body, did.did, c.status, c.reply, c.did)
		}
		// Explanations, changes of access and refusals are in the audit log.
		if list := c.method == http.MethodGet && strings.Contains(c.path, "principals"); (len(recorded) == 1) == (list && c.status == 200) {
			t.Errorf("%s %s as %s is recorded %d times", c.method, c.path, c.key, len(recorded))
		}
		if c.reply == "because" && recorded[0].Target != document {
			t.Errorf("%s is recorded of %q", c.path, recorded[0].Target)
		}
		if c.status >= 400 && !json.Valid(w.Body.Bytes()) {
			t.Errorf("%s %s: %q is no problem", c.method, c.path, w.Body)
		}
	}
}
