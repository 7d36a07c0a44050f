package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/schema"
)

var (
	contracts, handbook = uuid.UUID{15: 1}, uuid.UUID{15: 2}
	unknownID           = uuid.UUID{15: 9}
)

// parameters match the parameters of paths.
var parameters = regexp.MustCompile(`\{[a-z]+\}`)

// limitedKey is a key with scopes only in the collection contracts.
type limitedKey []schema.Scope

func (k limitedKey) Authenticate(context.Context, string) (schema.Principal, error) {
	return schema.Principal{Tenant: uuid.UUID{1}, Key: uuid.UUID{2}, Name: "legal", Collections: []schema.CollectionScopes{{Collection: contracts, Scopes: k}}}, nil
}

// twoCollections has contracts and handbook. Any other object with the id of a collection is in
// that collection.
type twoCollections struct {
	stubCollections
	stubDocuments
	stubQuestions
	stubRatings
	stubPlans
}

// Methods that are not implemented panic.
type (
	stubDocuments interface{ Documents }
	stubQuestions interface{ Questions }
	stubRatings   interface{ Ratings }
	stubPlans     interface{ Plans }
)

func (twoCollections) of(id uuid.UUID) (uuid.UUID, error) {
	if id == contracts || id == handbook {
		return id, nil
	}
	return uuid.Nil, fmt.Errorf("no such thing: %w", schema.ErrNotFound)
}

func (c twoCollections) ResolveCollection(_ context.Context, _ schema.Principal, ref string) (uuid.UUID, error) {
	id, _ := uuid.Parse(ref)
	switch ref {
	case "contracts":
		id = contracts
	case "handbook":
		id = handbook
	}
	return c.of(id)
}

func (c twoCollections) Collection(ctx context.Context, p schema.Principal, ref string) (schema.Collection, error) {
	id, err := c.ResolveCollection(ctx, p, ref)
	return schema.Collection{ID: id, Name: ref}, err
}

func (twoCollections) Plan(context.Context, schema.Principal, string) (schema.Plan, error) {
	return schema.Plan{Name: "fast"}, nil
}

func (c twoCollections) Document(_ context.Context, _ schema.Principal, id uuid.UUID) (schema.Document, error) {
	of, err := c.of(id)
	return schema.Document{ID: id, CollectionID: of}, err
}

func (c twoCollections) AskedQuestion(_ context.Context, _ schema.Principal, id uuid.UUID) (schema.AskedQuestion, error) {
	of, err := c.of(id)
	return schema.AskedQuestion{Job: schema.Job{ID: id, Collection: of}}, err
}

func (c twoCollections) Job(_ context.Context, _ schema.Principal, id uuid.UUID) (schema.Job, error) {
	of, err := c.of(id)
	return schema.Job{ID: id, Collection: of}, err
}

func (twoCollections) AskedQuestions(context.Context, schema.Principal, uuid.UUID, schema.PageQuery) ([]schema.AskedQuestion, string, error) {
	return []schema.AskedQuestion{{Job: schema.Job{ID: handbook, Collection: handbook}}, {Job: schema.Job{ID: contracts, Collection: contracts}}}, "", nil
}

func (twoCollections) ListJobs(context.Context, schema.Principal, schema.PageQuery) ([]schema.Job, string, error) {
	return []schema.Job{{ID: handbook, Collection: handbook}, {ID: contracts, Collection: contracts}}, "", nil
}

func (twoCollections) Ratings(context.Context, schema.Principal, schema.RatingQuery) ([]schema.RatedAnswer, string, error) {
	return []schema.RatedAnswer{{Collection: handbook}, {Collection: contracts}}, "", nil
}

// handled are requests about a collection, by its name, to the operations that determine their
// collection themselves; empty: a list.
var handled = map[string]string{
	"search": `{"collection":"%s","query":"q"}`, "ask": `{"collection":"%s","query":"q"}`, "start-job": `{"collection":"%s","query":"q"}`,
	"create-chat-completion": `{"model":"%s","messages":[{"role":"user","content":"q"}]}`,
	"get-model":              "{model}", "get-model-with-plan": "{collection}",
	"list-questions": "", "list-jobs": "", "list-ratings": "",
	// The store lists them by principal; see TestAKeyOfACollection in cmd/internal/apiserver.
	"list-collections": "-", "list-models": "-",
}

// withoutCollection are the operations that show no collection's data, or only the caller's own.
var withoutCollection = []string{"whoami", "list-plans", "get-plan", "check-plan", "judge-answer", "list-receipt-keys", "list-sessions", "end-person-session", "rotate-key"}

// TestEachRouteHoldsAKeyToItsCollection tests all routes, so that none can be forgotten. With a key
// of one collection, each refuses the request, or replies about another collection exactly as about
// one that does not exist.
func TestEachRouteHoldsAKeyToItsCollection(t *testing.T) {
	fake := twoCollections{}
	options := Options{Authenticator: limitedKey{schema.ScopeQuery, schema.ScopeIngest, schema.ScopeCurate}, Collections: fake, Documents: fake, Questions: fake, Ratings: fake, Plans: fake}
	h := New(options)
	send := func(h http.Handler, method, path, body string) *httptest.ResponseRecorder {
		r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
		r.Header.Set("Authorization", "Bearer good")
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
	// filled replaces the parameters of a path by the id of, except those that belong to no
	// collection.
	filled := func(path, of string) string {
		return parameters.ReplaceAllString(strings.ReplaceAll(path, "{plan}", "fast"), of)
	}
	s, _ := newServer(options)
	known := map[string]bool{}
	for path, item := range s.api.OpenAPI().Paths {
		for _, op := range []*huma.Operation{item.Get, item.Post, item.Put, item.Patch, item.Delete} {
			if op == nil {
				continue
			}
			known[op.OperationID] = true
			scope, guarded := op.Metadata[scopeKey].(schema.Scope)
			what := subjects[op.OperationID]
			name := op.OperationID
			if !guarded {
				if what != "" {
					t.Errorf("%s takes no key, and is among the subjects", name)
				}
				continue
			}
			if (scope == schema.ScopeAdmin || scope == schema.ScopeOperator) && what != "" {
				t.Errorf("%s needs the %s scope, which no collection's scope is", name, scope)
			}
			switch what {
			case "":
				if w := send(h, op.Method, filled(path, contracts.String()), "{}"); w.Code != http.StatusForbidden {
					t.Errorf("%s says nothing of collections and gives %d %s, want 403", name, w.Code, w.Body)
				}
			case subjectNone:
				if !slices.Contains(withoutCollection, name) {
					t.Errorf("%s is of no collection: is that so? The test has a list", name)
				}
			case subjectHandler:
				checkHandled(t, name, func(collection string) *httptest.ResponseRecorder {
					body := handled[name]
					if strings.Contains(body, "%s") {
						body = fmt.Sprintf(body, collection)
					}
					return send(h, op.Method, filled(path, collection), body)
				})
			default:
				if !strings.Contains(path, "{"+string(what)+"}") {
					t.Errorf("%s: its path %s has no {%s}", name, path, what)
					continue
				}
				other, missing := send(h, op.Method, filled(path, handbook.String()), "{}"), send(h, op.Method, filled(path, unknownID.String()), "{}")
				if other.Code != http.StatusNotFound || other.Body.String() != strings.ReplaceAll(missing.Body.String(), unknownID.String(), handbook.String()) {
					t.Errorf("%s tells of another collection: %d %s; of one that is not there it says %s", name, other.Code, other.Body, missing.Body)
				}
				// A key that may only read there is told which scope is missing.
				few := options
				few.Authenticator = limitedKey{schema.ScopeQuery}
				if scope != "" && scope != schema.ScopeQuery {
					w := send(New(few), op.Method, filled(path, contracts.String()), "{}")
					if w.Code != http.StatusForbidden || !strings.Contains(w.Body.String(), string(scope)+" scope in collection "+contracts.String()) {
						t.Errorf("%s: a reader gets %d %s", name, w.Code, w.Body)
					}
				}
			}
		}
	}
	for id := range subjects {
		if !known[id] {
			t.Errorf("%s is among the subjects, and there is no such operation", id)
		}
	}
}

// checkHandled tests an operation that determines its collection itself.
func checkHandled(t *testing.T, name string, send func(collection string) *httptest.ResponseRecorder) {
	t.Helper()
	body, ok := handled[name]
	switch {
	case !ok:
		t.Errorf("%s looks at the collection itself: the test needs a request for it", name)
	case body == "-":
	case body == "":
		if w := send(""); w.Code != http.StatusOK || strings.Contains(w.Body.String(), handbook.String()) || !strings.Contains(w.Body.String(), contracts.String()) {
			t.Errorf("%s lists %d %s", name, w.Code, w.Body)
		}
	default:
		other, missing := send("handbook"), send("nonesuch")
		if other.Code != http.StatusNotFound || other.Body.String() != strings.ReplaceAll(missing.Body.String(), "nonesuch", "handbook") {
			t.Errorf("%s tells of another collection: %d %s; of one that is not there it says %s", name, other.Code, other.Body, missing.Body)
		}
	}
}

// TestActingWidensNothing: an impersonated person has no scopes in collections.
func TestActingWidensNothing(t *testing.T) {
	p := schema.Principal{Scopes: []schema.Scope{schema.ScopeImpersonate}, Collections: []schema.CollectionScopes{{Collection: contracts, Scopes: []schema.Scope{schema.ScopeCurate}}}}
	acting, err := actingFor(http.Header{PersonHeader: {"ann"}}, p)
	if err != nil || len(acting.Collections) != 0 || acting.In(contracts).Has(schema.ScopeCurate) {
		t.Errorf("got %+v, %v", acting, err)
	}
	p.Scopes = nil
	if _, err := actingFor(http.Header{PersonHeader: {"ann"}}, p); err == nil {
		t.Error("a key of a collection acts for somebody")
	}
}

func TestScopesOfACollectionAddToTheTenants(t *testing.T) {
	p := schema.Principal{Scopes: []schema.Scope{schema.ScopeQuery}, Collections: []schema.CollectionScopes{{Collection: contracts, Scopes: []schema.Scope{schema.ScopeCurate}}}}
	for _, c := range []struct {
		scope  schema.Scope
		in     uuid.UUID
		status int
	}{
		{schema.ScopeQuery, contracts, 0}, {schema.ScopeCurate, contracts, 0}, {"", handbook, 0}, {schema.ScopeQuery, handbook, 0},
		{schema.ScopeIngest, contracts, http.StatusForbidden}, {schema.ScopeCurate, handbook, http.StatusForbidden}, {schema.ScopeAdmin, contracts, http.StatusForbidden},
	} {
		_, err := within(p, c.scope, c.in)
		refusal, _ := err.(huma.StatusError)
		if c.status == 0 && err != nil || c.status != 0 && (refusal == nil || refusal.GetStatus() != c.status) {
			t.Errorf("%s in %s: %v, want %d", c.scope, c.in, err, c.status)
		}
	}
	if p.Has(schema.ScopeCurate) {
		t.Error("the scope of a collection became one of the tenant")
	}
}
