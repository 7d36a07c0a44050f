//go:build cgo

package apiserver_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/preference"
	"github.com/sluice-rag/sluice/internal/question/learn"
	"github.com/sluice-rag/sluice/internal/store/tenants"
	"github.com/sluice-rag/sluice/internal/waittest"
	"github.com/sluice-rag/sluice/plans"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
)

// skippedOperations are the operations that this test doesn't call, with the reason.
var skippedOperations = map[string]string{
	"follow-events": "it doesn't end, and what it tells comes from NATS; it reads the key alone, as all do",
	"end-session":   "it needs a browser's cookie, and has no statement but those of other keys",
	"begin-oidc":    "it has no statement",
	"complete-oidc": "it needs a provider; its statements are those of SignIn, which is called",

	"preview-source": "a source-worker does it, and none runs here; it reads the source, and the items that it shows",
}

// calls calls operations of the API's description by their ids.
type calls struct {
	*growthTest
	operations map[string]struct{ method, path string }
	called     map[string]bool
	ids        map[string]string // values of path parameters
}

var parameter = regexp.MustCompile(`\{(\w+)\}`)

// call calls an operation, which must succeed.
func (c *calls) call(id, query string, body, out any) {
	c.t.Helper()
	o, ok := c.operations[id]
	if !ok {
		c.t.Fatalf("the API describes no %s", id)
	}
	path := parameter.ReplaceAllStringFunc(o.path, func(name string) string { return c.ids[strings.Trim(name, "{}")] })
	var data []byte
	switch b := body.(type) {
	case nil:
	case string:
		data = []byte(b)
	default:
		var err error
		if data, err = json.Marshal(body); err != nil {
			c.t.Fatal(err)
		}
	}
	var reader io.Reader
	if data != nil {
		reader = bytes.NewReader(data)
	}
	u := c.user
	if strings.HasSuffix(id, "-session") {
		u = u.acting("X-Sluice-Session", "1", "Origin", c.url)
	}
	got := u.do(o.method, path+query, reader, "")
	if got.status >= 300 {
		c.t.Errorf("%s (%s %s): %d %s", id, o.method, path, got.status, got.body)
	} else if out != nil {
		got.want(got.status, out)
	}
	c.called[id] = true
}

// callAll calls every operation that the API describes, with existing objects.
func (g *growthTest) callAll(name string, document, section uuid.UUID) {
	g.t.Helper()
	var spec struct {
		Paths map[string]map[string]struct{ OperationID string }
	}
	g.do(http.MethodGet, "/openapi.json", nil, "").want(http.StatusOK, &spec)
	c := &calls{g, map[string]struct{ method, path string }{}, map[string]bool{}, map[string]string{
		"collection": "papers", "model": "papers", "document": document.String(), "tenant": g.principal().Tenant.String(), "plan": "mine"}}
	for path, methods := range spec.Paths {
		for method, o := range methods {
			c.operations[o.OperationID] = struct{ method, path string }{strings.ToUpper(method), path}
		}
	}
	// Operations with idempotency keys get objects of their own.
	for _, id := range slices.Sorted(maps.Keys(samples)) {
		s := samples[id](g.world, name+"-"+id)
		if got := g.post(s.path, s.body, name+"-"+id); got.status >= 300 {
			g.t.Errorf("%s: %d %s", id, got.status, got.body)
		}
		c.called[id] = true
	}
	c.manage(name)
	c.storeLabels(document)
	c.call("get-place", "?section="+section.String(), nil, nil)
	c.choose()
	c.ask(name)
	for _, id := range slices.Sorted(maps.Keys(c.operations)) {
		if o := c.operations[id]; o.method == http.MethodGet && !c.called[id] && skippedOperations[id] == "" {
			c.call(id, "", nil, nil)
		}
	}
	c.end(name)
	for _, id := range slices.Sorted(maps.Keys(c.operations)) {
		if !c.called[id] && skippedOperations[id] == "" {
			g.t.Errorf("%s (%s %s) is not called: its statements aren't known", id, c.operations[id].method, c.operations[id].path)
		}
	}
}

// manage calls the operations on keys, plans, webhooks, tenants and evaluations.
func (c *calls) manage(name string) {
	c.t.Helper()
	c.call("put-plan", "", api.PlanText{Plan: ownPlan}, nil)
	c.call("check-plan", "", api.PlanText{Plan: ownPlan}, nil)
	c.call("begin-session", "", api.NewSession{Key: c.key}, nil)
	c.call("set-limits", "", map[string]any{}, nil)
	c.call("change-tenant", "", map[string]any{}, nil)
	c.call("change-collection", "", map[string]any{"description": "new"}, nil)
	var one, two schema.Evaluation
	c.call("create-evaluation", "", stored(name+" one", 2, 1), &one)
	c.call("create-evaluation", "", stored(name+" two", 2, 1), &two)
	c.ids["evaluation"], c.ids["against"] = one.ID.String(), two.ID.String()
	var key api.KeyCreated
	c.call("create-key", "", api.NewKey{Name: name, Scopes: []schema.Scope{schema.ScopeQuery}}, &key)
	c.ids["key"] = key.ID.String()
	c.ids["session"] = c.signIn(name)
	known := []api.Fingerprint{{ExternalID: "folder/document 1", Fingerprint: strings.Repeat("0", 64)}, {ExternalID: name, Fingerprint: strings.Repeat("1", 64)}}
	c.call("compare-documents", "", api.Compare{Documents: known}, nil)
	c.call("upload-content", "?external_id="+name+"/content", "words of "+name, nil)
	c.call("rebuild-collection", "", api.NewRebuild{Language: "de"}, nil)
	c.call("get-rebuild", "", nil, nil)
	c.call("cancel-rebuild", "", nil, nil)
	c.call("reparse-collection", "", nil, nil)
	c.call("get-reparse", "", nil, nil)
	c.call("cancel-reparse", "", nil, nil)
	c.ids["webhook"] = c.webhook(name)
	c.call("rotate-webhook", "", map[string]any{}, nil)
	c.follow(name)
}

// follow calls the operations on sources. No worker synchronises them.
func (c *calls) follow(name string) {
	c.t.Helper()
	c.ids["source"] = c.source(name + "-source")
	for _, id := range []string{"run-source", "cancel-source", "pause-source", "resume-source"} {
		c.call(id, "", map[string]any{}, nil)
	}
	labels := []string{"staff"}
	c.call("change-source", "", api.SourceChange{Labels: &labels}, nil)
	c.call("list-sources", "?collection=papers", nil, nil)
	n := c.newSource(name + "-permissions")
	n.Settings["permissions"] = "follow"
	var made schema.Source
	c.post("/v1/sources", n, "").want(http.StatusCreated, &made)
	c.ids["source"] = made.ID.String()
	c.call("push-access", "", schema.AccessPush{Principals: []schema.PushedPrincipal{{ID: "u"}, {ID: "g", Group: true, Members: []string{"u"}}},
		Folders: []schema.AccessNode{{ID: "f", Entries: []schema.AccessEntry{{Principal: "g"}}}}, Removed: []string{"gone"}}, nil)
	who := schema.AccessSubject{Kind: schema.AccessKey, Value: c.ids["key"]}
	c.call("map-principal", "", api.NewAccessMapping{Principal: "u", AccessSubject: who}, nil)
	c.call("explain-access", "?document="+c.ids["document"]+"&key="+who.Value, nil, nil)
	c.call("unmap-principal", "?principal=u&kind=key&value="+who.Value, nil, nil)
	c.call("map-principal", "", api.NewAccessMapping{Principal: "g", AccessSubject: who}, nil)
}

// signIn starts a session of a user of an identity provider.
func (c *calls) signIn(name string) string {
	c.t.Helper()
	hash := sha256.Sum256([]byte(name))
	_, session, err := tenants.New(c.store.Store).SignIn(c.t.Context(), c.principal().Tenant,
		schema.Person{Subject: "https://login.example|" + name, Name: name, Scopes: []schema.Scope{schema.ScopeQuery}},
		schema.SealedSession{NewSession: schema.NewSession{ExpiresAt: time.Now().Add(time.Hour), Address: "127.0.0.1"}, Hash: hash[:]})
	if err != nil {
		c.t.Fatal(err)
	}
	// Also of a user whose access rules are for one collection.
	in, err := c.store.CollectionsNamed(c.t.Context(), c.principal().Tenant, []string{"papers"})
	if err != nil || len(in) != 1 {
		c.t.Fatal(in, err)
	}
	hash = sha256.Sum256([]byte(name + "-of-papers"))
	_, _, err = c.store.SignIn(c.t.Context(), c.principal().Tenant, schema.Person{Subject: "https://login.example|" + name + "-of-papers", Name: name,
		Collections: []schema.CollectionScopes{{Collection: in["papers"], Scopes: []schema.Scope{schema.ScopeQuery}}}},
		schema.SealedSession{NewSession: schema.NewSession{ExpiresAt: time.Now().Add(time.Hour), Address: "127.0.0.1"}, Hash: hash[:]})
	if err != nil {
		c.t.Fatal(err)
	}
	return session.ID.String()
}

// storeLabels stores labels of questions, as a query worker does with a language model, and learns
// from them.
func (c *calls) storeLabels(document uuid.UUID) {
	c.t.Helper()
	ctx, version := c.t.Context(), scalar[uuid.UUID](c.world, `SELECT live_version_id FROM documents WHERE id = $1`, document)
	must := func(err error) {
		c.t.Helper()
		if err != nil {
			c.t.Fatal(err)
		}
	}
	for q := range 2 * preference.LeastQuestions {
		of := learn.Of{Tenant: c.principal().Tenant, Collection: c.growthTest.collection, Question: sha256.Sum256([]byte{byte(q)}), Model: "openai/x"}
		_, err := c.store.Taught(ctx, of)
		must(err)
		must(c.store.Teach(ctx, of, "space", []float32{1, 0}, false))
		must(c.store.KeepQuestion(ctx, of, schema.LabelledQuestion{Question: fmt.Sprintf("What are the words of %d?", q), Answers: []string{"words"}}))
		_, err = c.store.Labels(ctx, of)
		must(err)
		for i, preferred := range []bool{true, false} {
			x := float32(i)
			must(c.store.KeepLabel(ctx, of, learn.Label{Passage: sha256.Sum256([]byte{byte(i)}), Version: version, HasAnswer: preferred, Preferred: preferred, Graph: "graph",
				Features: []float32{x, x, -x}}))
		}
	}
	c.called["label-question"], c.called["judge-answer"] = true, true // the gateway has no language model here
	c.call("learn-preference", "", map[string]any{}, nil)
}

// choose calls the operations on plan choices.
func (c *calls) choose() {
	c.t.Helper()
	var choice schema.PlanChoice
	questions := []api.KnownQuestion{{Question: "Which words?", Answers: []string{"words"}}, {Question: "What is 1234?", Answers: []string{"1234"}}, {Question: "What more?", Answers: []string{"of"}}}
	c.call("choose-plan", "", api.NewPlanChoice{Plans: []string{"bm25", "naive"}, Questions: questions, Limit: 3}, &choice)
	c.ids["choice"] = choice.ID.String()
	waittest.Until(c.t, func() string {
		if c.call("get-plan-choice", "", nil, &choice); !choice.State.Final() {
			return "the choice is " + string(choice.State)
		}
		return ""
	})
	if choice.State != schema.ChoiceDone {
		c.t.Fatalf("the choice is %s: %s", choice.State, choice.Reason)
	}
	c.call("list-plan-choices", "", nil, nil)
	c.call("list-plan-choice-questions", "", nil, nil)
	c.call("apply-plan-choice", "", api.AppliedPlan{}, nil)
	c.call("change-collection", "", map[string]any{"plan": ""}, nil)
	c.call("repeat-plan-choice", "", api.RepeatedChoice{Days: 7}, nil)
	c.call("repeat-plan-choice", "", api.RepeatedChoice{}, nil)
	done := c.ids["choice"]
	c.call("choose-plan", "", api.NewPlanChoice{Limit: 3}, &choice)
	c.ids["choice"] = choice.ID.String()
	c.call("cancel-plan-choice", "", map[string]any{}, nil)
	c.ids["choice"] = done
}

// ask calls the operations on questions, and waits for a job's answer.
func (c *calls) ask(name string) {
	c.t.Helper()
	files, err := fs.Glob(plans.FS, "*.yaml")
	if err != nil {
		c.t.Fatal(err)
	}
	filter := schema.Filter{{Key: "year", Op: "=", Values: []string{"7"}}}
	for _, file := range append(files, "mine.yaml") {
		plan := strings.TrimSuffix(file, ".yaml")
		c.call("search", "", api.Query{Collection: "papers", Query: "words of 1234 " + name, Plan: plan, Documents: 10, Explain: true}, nil)
		c.call("search", "", api.Query{Collection: "papers", Query: "words of 1234 " + name, Plan: plan, Filter: filter}, nil)
	}
	c.call("ask", "", api.Query{Collection: "papers", Query: "What are the words of " + name + "?"}, nil)
	c.call("create-chat-completion", "", api.ChatRequest{Model: "papers", Messages: []api.ChatMessage{{Role: "user", Content: "Which words are of " + name + "?"}}}, nil)
	var job schema.Job
	c.call("start-job", "", api.Query{Collection: "papers", Query: "What words are of " + name + "?"}, &job)
	c.ids["job"] = job.ID.String()
	c.call("follow-job", "", nil, nil) // until it has ended
	waittest.Until(c.t, func() string {
		if c.call("get-job", "", nil, &job); !job.State.Final() {
			return "the job is " + string(job.State)
		}
		return ""
	})
	if job.State != schema.JobAnswered {
		c.t.Fatalf("the job is %s: %+v", job.State, job.Reason)
	}
	c.ids["question"] = c.ids["job"]
	c.call("rate-answer", "", api.NewRating{Rating: "up"}, nil)
	c.call("list-ratings", "?collection=papers", nil, nil)
	c.call("list-questions", "?collection=papers", nil, nil)
	var deliveries api.Page[schema.WebhookDelivery]
	c.call("list-webhook-deliveries", "", nil, &deliveries)
	c.call("start-job", "", api.Query{Collection: "papers", Query: "And later?"}, &job)
	answered := c.ids["job"]
	c.ids["job"] = job.ID.String()
	c.call("cancel-job", "", map[string]any{}, nil)
	c.ids["job"] = answered
}

// end calls the operations that delete things.
func (c *calls) end(name string) {
	c.t.Helper()
	var webhooks api.Page[schema.Webhook]
	for c.call("list-webhooks", "", nil, &webhooks); len(webhooks.Items) > 1; c.call("list-webhooks", "", nil, &webhooks) {
		c.ids["webhook"] = webhooks.Items[0].ID.String()
		c.call("delete-webhook", "", nil, nil)
	}
	c.ids["webhook"] = webhooks.Items[0].ID.String()
	for _, id := range []string{"forget-preferences", "delete-rating", "delete-evaluation", "delete-plan", "delete-webhook", "delete-source", "revoke-key"} {
		c.call(id, "", nil, nil)
	}
	var key api.KeyCreated
	c.call("create-key", "", api.NewKey{Name: name + " again", Scopes: []schema.Scope{schema.ScopeQuery}}, &key)
	c.ids["key"] = key.ID.String()
	c.call("revoke-tenant-key", "", nil, nil)
	c.call("end-person-session", "", nil, nil)
	changed := c.ids["document"]
	c.call("change-document", "", map[string]any{"labels": []string{}}, nil)
	failed := c.document("failed", 0)
	c.ids["document"] = failed.String()
	c.call("retry-document", "", map[string]any{}, nil)
	c.admin(c.t, `UPDATE versions SET state = 'failed', reason_code = 'broken', reason = 'no text' WHERE document_id = $1 AND newest`, failed)
	c.ids["document"] = scalar[uuid.UUID](c.world, `SELECT id FROM documents WHERE external_id = $1`, name+"/content").String()
	c.call("delete-document", "", nil, nil)
	c.ids["document"] = changed
	c.ids["collection"] = name + "-create-collection"
	c.call("delete-collection", "", nil, nil)
	c.ids["collection"] = "papers"
}

// list lists documents in all ways.
func (g *growthTest) list() {
	g.t.Helper()
	list := "/v1/collections/papers/documents?limit=20"
	for _, sort := range []string{"oldest", "newest", "name", "largest", "smallest", "state"} {
		for _, state := range []string{"", "&state=failed", "&state=ready", "&state=queued"} {
			var page struct{ Next string }
			g.do(http.MethodGet, list+"&sort="+sort+state, nil, "").want(http.StatusOK, &page)
			if page.Next != "" {
				g.do(http.MethodGet, list+"&sort="+sort+state+"&cursor="+page.Next, nil, "").want(http.StatusOK, nil)
			}
		}
	}
	g.do(http.MethodGet, list+"&contains=1a", nil, "").want(http.StatusOK, nil)
	g.do(http.MethodGet, list+"&prefix=folder/document+1&sort=name", nil, "").want(http.StatusOK, nil)
}

// change uploads and changes several documents.
func (g *growthTest) change(name string) {
	g.t.Helper()
	var documents []any
	for i := range 20 {
		documents = append(documents, map[string]any{"external_id": fmt.Sprintf("%s/changed %d", name, i), "text": fmt.Sprintf("words %s %d", name, i)})
	}
	g.post("/v1/collections/papers/documents", map[string]any{"documents": documents}, "").want(http.StatusOK, nil)
	g.post("/v1/collections/papers/documents", map[string]any{"documents": documents}, "again-"+name).want(http.StatusOK, nil)
	document := scalar[uuid.UUID](g.world, `SELECT id FROM documents WHERE external_id = $1`, name+"/changed 1")
	path := "/v1/documents/" + document.String()
	g.do(http.MethodPatch, path, strings.NewReader(`{"labels": ["staff"]}`), "").want(http.StatusOK, nil)
	g.do(http.MethodDelete, path, nil, "")
}
