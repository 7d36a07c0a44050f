package e2e

// This file proves that tenants are isolated. It reads the routes from the server's own
// description, so a new route is tested without a change here.

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/waittest"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
)

func testTenants(t *testing.T, s *server) {
	s.sluice(t, "ingest", write(t, map[string]string{"first.txt": "The first tenant keeps bees on the roof."}), "-c", "bees", "--wait").ok(t)
	made := into[api.TenantCreated](t, s.sluice(t, "tenants", "create", "second", "--json").ok(t))
	second := s.withKey(made.APIKey)
	s.sluice(t, "tenants", "list").ok(t).has(t, "second", made.ID.String())
	s.sluice(t, "tenants", "create", "second").fails(t, "second")
	s.sluice(t, "tenants", "create", "Not A Name").fails(t, "name")

	for _, list := range [][]string{{"collections", "list"}, {"jobs", "list"}} {
		if got := into[[]any](t, second.sluice(t, append(list, "--json")...).ok(t)); len(got) != 0 {
			t.Errorf("%v of a new tenant: %v", list, got)
		}
	}
	if got := into[[]api.Key](t, second.sluice(t, "keys", "list", "--json").ok(t)); len(got) != 1 {
		t.Errorf("a new tenant has %d keys", len(got))
	}
	second.sluice(t, "documents", "list", "-c", "bees").fails(t, "not found")
	second.sluice(t, "ask", "Who keeps bees?", "-c", "bees").fails(t, "not found")
	second.sluice(t, "tenants", "list").fails(t, "operator")
	second.sluice(t, "tenants", "create", "third").fails(t, "operator")

	second.sluice(t, "tenants", "quotas", made.ID.String()).fails(t, "operator")
	s.sluice(t, "tenants", "quotas", made.Name, "--max-documents", "1").ok(t).has(t, "at most 1")
	s.sluice(t, "tenants", "quotas", "nobody").fails(t, "sluice tenants list")

	// An operator manages the tenant's keys and sees its storage. The tenant cannot do this for
	// others.
	s.sluice(t, "keys", "list", "--tenant", made.ID.String()).ok(t).has(t, "admin", "active")
	spare := into[api.KeyCreated](t, second.sluice(t, "keys", "create", "spare", "--json").ok(t))
	s.sluice(t, "keys", "revoke", spare.ID.String()).fails(t, "not found")
	s.sluice(t, "keys", "revoke", spare.ID.String(), "--tenant", made.ID.String()).ok(t).has(t, "revoked")
	s.sluice(t, "keys", "list", "--tenant", made.ID.String()).ok(t).has(t, "spare", "revoked", "never")
	s.withKey(spare.APIKey).sluice(t, "jobs", "list").fails(t, "API key")
	s.sluice(t, "keys", "list", "--tenant", "second").fails(t, "tenant", "UUID")
	s.sluice(t, "tenants", "storage", made.ID.String()).ok(t).has(t, "0 documents, of at most 1")
	mine := as[api.Identity](t, s.call(t, http.MethodGet, "/v1/whoami", nil).want(t, http.StatusOK))
	second.sluice(t, "keys", "list", "--tenant", mine.Tenant.String()).fails(t, "not found")
	second.sluice(t, "tenants", "storage", mine.Tenant.String()).fails(t, "not found")

	// Two tenants can have collections of the same name.
	second.sluice(t, "ingest", write(t, map[string]string{"second.txt": "The second tenant keeps goats in the yard."}), "-c", "bees", "--wait").ok(t)
	second.sluice(t, "ingest", write(t, map[string]string{"third.txt": "One more than the quota allows."}), "-c", "bees", "--wait").fails(t, "quota")
	s.sluice(t, "tenants", "quotas", made.ID.String()).ok(t)
	if got := names(search(t, second, "bees", "Who keeps animals?")); !slices.Equal(got, []string{"second.txt"}) {
		t.Errorf("the second tenant finds %v", got)
	}
	if got := names(search(t, s, "bees", "Who keeps animals?")); !slices.Equal(got, []string{"first.txt"}) {
		t.Errorf("the first tenant finds %v", got)
	}
}

// operation is a route in the API's description.
type operation struct {
	method, path string

	ID          string `json:"operationId"`
	Description string
	Parameters  []struct {
		Name, In string
		Required bool
		Schema   *jsonSchema
	}
	RequestBody *struct {
		Content map[string]struct{ Schema *jsonSchema }
	}
}

// jsonSchema has the parts of JSON Schema that the API's description uses.
type jsonSchema struct {
	Ref        string `json:"$ref"`
	Type       any
	Format     string
	Enum       []any
	Required   []string
	Properties map[string]*jsonSchema
	Items      *jsonSchema
	MinLength  int
	Minimum    float64
}

type description struct {
	operations []operation
	schemas    map[string]*jsonSchema
}

func describe(t *testing.T, s *server) description {
	t.Helper()
	var spec struct {
		Paths      map[string]map[string]operation
		Components struct{ Schemas map[string]*jsonSchema }
	}
	if err := json.Unmarshal(s.withKey("").call(t, http.MethodGet, "/openapi.json", nil).want(t, http.StatusOK).body, &spec); err != nil {
		t.Fatal(err)
	}
	d := description{schemas: spec.Components.Schemas}
	for _, path := range slices.Sorted(maps.Keys(spec.Paths)) {
		for _, method := range slices.Sorted(maps.Keys(spec.Paths[path])) {
			o := spec.Paths[path][method]
			o.method, o.path = strings.ToUpper(method), path
			d.operations = append(d.operations, o)
		}
	}
	if len(d.operations) < 20 {
		t.Fatalf("the description has only %d operations", len(d.operations))
	}
	return d
}

// fixtures are one tenant's ids and names, by the name of the parameter that takes them.
type fixtures map[string][]string

var parameter = regexp.MustCompile(`\{([^}]+)\}`)

// requests returns the paths of an operation, one for each fitting fixture, and a body.
func (d description) requests(t *testing.T, o operation, f fixtures) (paths []string, body any) {
	t.Helper()
	paths = []string{o.path}
	for _, m := range parameter.FindAllStringSubmatch(o.path, -1) {
		things, ok := f[m[1]]
		if !ok {
			t.Errorf("%s %s: there is no fixture for {%s}: add one to newFixtures in tenants_test.go", o.method, o.path, m[1])
			return nil, nil
		}
		var more []string
		for _, path := range paths {
			for _, thing := range things {
				more = append(more, strings.Replace(path, m[0], thing, 1))
			}
		}
		paths = more
	}
	query := url.Values{}
	for _, p := range o.Parameters {
		if p.In == "query" && p.Required {
			query.Set(p.Name, fmt.Sprint(d.sample(p.Name, p.Schema, f)))
		}
	}
	if len(query) > 0 {
		for i := range paths {
			paths[i] += "?" + query.Encode()
		}
	}
	if o.RequestBody == nil {
		return paths, nil
	}
	content, ok := o.RequestBody.Content["application/json"]
	if !ok {
		return paths, []byte("Some bytes of text.")
	}
	return paths, d.sample("", content.Schema, f)
}

// member returns the fixture for a member of a body. The members plan and against have no fixture:
// a plan in a body is a text, and a difference is against the name of a plan.
func (f fixtures) member(name string) (string, bool) {
	things, ok := f[name]
	if !ok || name == "plan" || name == "against" {
		return "", false
	}
	return things[0], true
}

// sample returns a value that the schema allows. A member with the name of a fixture gets the
// fixture.
func (d description) sample(name string, s *jsonSchema, f fixtures) any {
	if thing, ok := f.member(name); ok {
		return thing
	}
	if s == nil {
		return "sample"
	}
	if s.Ref != "" {
		return d.sample(name, d.schemas[s.Ref[strings.LastIndexByte(s.Ref, '/')+1:]], f)
	}
	if len(s.Enum) > 0 {
		return s.Enum[0]
	}
	kind := fmt.Sprint(s.Type)
	switch {
	case strings.Contains(kind, "object"):
		object := map[string]any{}
		for _, member := range s.Required {
			if member != "$schema" {
				object[member] = d.sample(member, s.Properties[member], f)
			}
		}
		return object
	case strings.Contains(kind, "array"):
		return []any{d.sample("", s.Items, f)}
	case strings.Contains(kind, "integer"), strings.Contains(kind, "number"):
		return s.Minimum
	case strings.Contains(kind, "boolean"):
		return false
	case s.Format == "uuid":
		return uuid.NewString()
	case s.Format == "date-time":
		return "2100-01-01T00:00:00Z"
	}
	return strings.Repeat("a", max(s.MinLength, 1))
}

// names reports whether a request has a fixture in its path or its body. It is false for put-plan,
// where the caller chooses the name, and for judge-answer, whose question is a text.
func (o operation) names(body any, f fixtures) bool {
	if o.ID == "put-plan" || o.ID == "judge-answer" {
		return false
	}
	if parameter.MatchString(o.path) {
		return true
	}
	object, _ := body.(map[string]any)
	for name := range object {
		if _, ok := f.member(name); ok {
			return true
		}
	}
	return false
}

// newFixtures creates a tenant with one of everything that a parameter can name.
func newFixtures(t *testing.T, operator *server, name string) (*server, fixtures) {
	t.Helper()
	made := into[api.TenantCreated](t, operator.sluice(t, "tenants", "create", name, "--json").ok(t))
	s := operator.withKey(made.APIKey)
	collection, document := name+"-collection", name+"-document.txt"
	s.sluice(t, "ingest", write(t, map[string]string{document: "The secret of " + name + " is hidden under the third step."}), "-c", collection, "--wait").ok(t)
	c := as[schema.Collection](t, s.call(t, http.MethodGet, "/v1/collections/"+collection, nil).want(t, http.StatusOK))
	read := documents(t, s, collection)[document].ID.String()
	sections := as[api.Page[struct{ ID string }]](t, s.call(t, http.MethodGet, "/v1/documents/"+read+"/sections", nil).want(t, http.StatusOK)).Items
	if len(sections) != 1 {
		t.Fatalf("the document has %d sections", len(sections))
	}
	s.sluice(t, "collections", "rebuild", collection, "--wait").ok(t) // so that the route for rebuilds has a state to show
	s.sluice(t, "collections", "reparse", collection, "--wait").ok(t) // so that the route for reparsing has a state to show
	key := into[api.KeyCreated](t, s.sluice(t, "keys", "create", name+"-key", "--json").ok(t))
	// The address of the webhook refuses connections, so its delivery soon ends and does not change
	// later.
	hook := into[api.WebhookSecret](t, s.sluice(t, "webhooks", "add", "http://127.0.0.1:9/"+name, "--json").ok(t))
	job := awaitJob(t, s, startJob(t, s, collection, "Where is the secret of "+name+" hidden?"))
	plan := name + "-plan"
	s.call(t, http.MethodPut, "/v1/plans/"+plan, api.PlanText{Plan: "name: " + plan + "\nstages:\n  - lexical: {unit: passage}\n"}).want(t, http.StatusOK)
	evaluation := as[schema.Evaluation](t, s.call(t, http.MethodPost, "/v1/evaluations", newEvaluation(name)).want(t, http.StatusCreated))
	against := as[schema.Evaluation](t, s.call(t, http.MethodPost, "/v1/evaluations", newEvaluation(name)).want(t, http.StatusCreated))
	var known strings.Builder
	for _, question := range []string{"Where is the secret of " + name + "?", "What is hidden under the third step?", "Under which step is it hidden?"} {
		line, err := json.Marshal(api.KnownQuestion{Question: question, Documents: []string{document}})
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&known, "%s\n", line)
	}
	choice := into[schema.PlanChoice](t, s.sluice(t, "plans", "choose", "-c", collection, "--plans", "bm25,naive", "--limit", "3",
		"--questions", filepath.Join(write(t, map[string]string{"known.jsonl": known.String()}), "known.jsonl"), "--json").ok(t))
	followed := filepath.Join(sourceRoot(operator.data), name)
	put(t, followed, "never.txt", "Nobody asked for it.")
	put(t, followed+"-accounts", "users", "ann:x:1000:1000:"+name+":/:/bin/sh\n")
	put(t, followed+"-accounts", "groups", "staff:x:1000:ann\n")
	source := as[schema.Source](t, s.call(t, http.MethodPost, "/v1/sources", api.NewSource{Name: name + "-source", Collection: collection, Driver: "folder",
		Settings: map[string]string{"path": followed, "permissions": "follow", "users": filepath.Join(followed+"-accounts", "users"),
			"groups": filepath.Join(followed+"-accounts", "groups")}, Paused: true}).want(t, http.StatusCreated))
	s.call(t, http.MethodPost, "/v1/sources/"+source.Name+"/access", schema.AccessPush{Principals: []schema.PushedPrincipal{{ID: "uid:1000", Name: name}}}).want(t, http.StatusOK)
	s.call(t, http.MethodPut, "/v1/sources/"+source.Name+"/mappings", api.NewAccessMapping{Principal: "uid:1000",
		AccessSubject: schema.AccessSubject{Kind: schema.AccessKey, Value: key.ID.String()}}).want(t, http.StatusOK)
	var delivery schema.WebhookDelivery
	waittest.Until(t, func() string {
		failed := into[[]schema.WebhookDelivery](t, s.sluice(t, "webhooks", "deliveries", hook.ID.String(), "--state", "failed", "--json").ok(t))
		if len(failed) != 1 {
			return fmt.Sprintf("%d deliveries were refused", len(failed))
		}
		delivery = failed[0]
		return ""
	})
	return s, fixtures{
		"collection": {c.ID.String(), collection},
		"model":      {collection, c.ID.String() + "/bm25"},
		"document":   {read},
		"section":    {sections[0].ID},
		"job":        {job.ID.String()},
		"question":   {job.ID.String()},
		"plan":       {plan},
		"choice":     {choice.ID.String()},
		"evaluation": {evaluation.ID.String()},
		"against":    {against.ID.String()},
		"key":        {key.ID.String()},
		"session":    {signInSession(t, s, name).ID.String()},
		"source":     {source.ID.String(), source.Name},
		"webhook":    {hook.ID.String()},
		"delivery":   {delivery.ID.String()},
		"tenant":     {made.ID.String()},
	}
}

// newEvaluation returns the smallest evaluation that can be stored.
func newEvaluation(dataset string) api.NewEvaluation {
	plan := schema.EvaluatedPlan{Plan: "naive", Metrics: map[string]float64{"hit@1": 1}, Intervals: map[string]schema.Interval{}, Stages: []schema.StageLatency{}}
	return api.NewEvaluation{Name: dataset, Reports: []schema.EvaluationReport{{Dataset: dataset, Split: "test", Documents: 1, Queries: 1, Parallel: 1,
		Plans: []schema.EvaluatedPlan{plan}, Differences: []schema.EvaluationDifference{}}}}
}

func testIsolation(t *testing.T, operator *server) {
	d := describe(t, operator)
	owner, things := newFixtures(t, operator, "isolation-a")
	other, _ := newFixtures(t, operator, "isolation-b")

	owner.sluice(t, "collections", "create", "isolation-c").ok(t)
	made := into[api.KeyCreated](t, owner.sluice(t, "keys", "create", "elsewhere", "-s", "query", "-s", "ingest", "-s", "curate", "--collection", "isolation-c", "--json").ok(t))
	limited := owner.withKey(made.APIKey)
	limited.call(t, http.MethodGet, "/v1/whoami", nil).want(t, http.StatusOK) // records the first use of the key

	// The fixtures are valid: their owner can read them all.
	before := d.read(t, owner, things)

	for _, o := range d.operations {
		if o.ID == "follow-events" {
			continue // an endless stream; the tests of the API server check it
		}
		paths, body := d.requests(t, o, things)
		for _, path := range paths {
			r := other.call(t, o.method, path, body)
			if o.names(body, things) {
				r.problem(t, http.StatusNotFound, "")
				continue
			}
			if r.status >= 500 {
				t.Errorf("%s: status %d: %.600s", r.request, r.status, r.body)
			}
			if strings.Contains(string(r.body), "isolation-a") {
				t.Errorf("%s shows another tenant's: %.600s", r.request, r.body)
			}
			for name, ids := range things {
				if strings.Contains(string(r.body), ids[0]) {
					t.Errorf("%s shows another tenant's %s: %.600s", r.request, name, r.body)
				}
			}
		}
	}

	// A key of another collection of the same tenant gets none of them either. Plans belong to the
	// tenant, so every key with the query scope may read them.
	for _, o := range d.operations {
		if slices.Contains([]string{"follow-events", "list-plans", "get-plan", "list-models"}, o.ID) {
			continue
		}
		paths, body := d.requests(t, o, things)
		for _, path := range paths {
			r := limited.call(t, o.method, path, body)
			switch shown := r.status < 300 && strings.Contains(string(r.body), "isolation-a"); {
			case r.status >= 500:
				t.Errorf("%s: status %d: %.600s", r.request, r.status, r.body)
			case shown, o.names(body, things) && r.status != http.StatusNotFound && r.status != http.StatusForbidden:
				t.Errorf("%s: a key of another collection gets status %d: %.600s", r.request, r.status, r.body)
			}
		}
	}

	// Nothing has changed.
	after := d.read(t, owner, things)
	for request, body := range before {
		if after[request] != body {
			t.Errorf("%s gave %.600s and gives, after another tenant's calls, %.600s", request, body, after[request])
		}
	}
	if found := search(t, owner, "isolation-a-collection", "Where is the secret hidden?"); len(found) != 1 {
		t.Errorf("the owner finds %d passages", len(found))
	}
}

// read calls every GET operation that names a fixture, as its owner.
func (d description) read(t *testing.T, owner *server, things fixtures) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, o := range d.operations {
		if o.method != http.MethodGet || !parameter.MatchString(o.path) {
			continue
		}
		paths, _ := d.requests(t, o, things)
		for _, path := range paths {
			out[path] = string(owner.call(t, o.method, path, nil).want(t, http.StatusOK).body)
		}
	}
	return out
}

var neededScope = regexp.MustCompile("Needs the `([a-z]+)` scope")

// testScopes calls every route without a key, and with keys that lack the needed scope.
func testScopes(t *testing.T, operator *server) {
	d := describe(t, operator)
	admin, things := newFixtures(t, operator, "scopes")
	narrow := map[string]*server{"operator": admin}
	for _, scope := range []string{"query", "ingest"} {
		made := into[api.KeyCreated](t, admin.sluice(t, "keys", "create", "only-"+scope, "--scope", scope, "--json").ok(t))
		narrow[scope] = admin.withKey(made.APIKey)
	}
	// lacking has, for each scope, a key without it.
	lacking := map[string]*server{"operator": narrow["operator"], "admin": narrow["ingest"], "curate": narrow["ingest"], "ingest": narrow["query"], "query": narrow["ingest"]}
	refused := 0
	for _, o := range d.operations {
		paths, body := d.requests(t, o, things)
		if o.ID == "sign-in-ways" || o.ID == "begin-oidc" {
			continue // used before signing in
		}
		for _, path := range paths {
			// The header is there, because signing in checks it before the key.
			admin.withKey("").call(t, o.method, path, body, "X-Sluice-Session", "1").problem(t, http.StatusUnauthorized, "")
			admin.withKey("no-key").call(t, o.method, path, body, "X-Sluice-Session", "1").problem(t, http.StatusUnauthorized, "")
			m := neededScope.FindStringSubmatch(o.Description)
			if m == nil {
				continue
			}
			key, ok := lacking[m[1]]
			if !ok {
				t.Errorf("%s %s needs the scope %s, for which this test has no key that lacks it", o.method, o.path, m[1])
				continue
			}
			key.call(t, o.method, path, body).problem(t, http.StatusForbidden, "")
			refused++
		}
	}
	if refused < 10 {
		t.Errorf("only %d requests were refused for their scope", refused)
	}
}
