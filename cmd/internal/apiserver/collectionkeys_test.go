package apiserver_test

// Keys with scopes in single collections.

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/bus"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
	"github.com/sluice-rag/sluice/schema/wire"
)

func TestAKeyOfACollection(t *testing.T) {
	w := newWorld(t)
	var contracts, handbook schema.Collection
	w.post("/v1/collections", api.NewCollection{Name: "handbook"}, "").want(http.StatusCreated, &handbook)
	w.post("/v1/collections", api.NewCollection{Name: "contracts"}, "").want(http.StatusCreated, &contracts)
	upload := api.Upload{Documents: []api.NewDocument{{ExternalID: "a", Text: "a"}, {ExternalID: "secret", Text: "b", Labels: []string{"board"}}}}
	var stored api.UploadResult
	w.post("/v1/collections/handbook/documents", upload, "").want(http.StatusOK, &stored)
	elsewhere := stored.Documents[0].Document.String()
	key := func(scopes ...schema.Scope) (made api.KeyCreated, holder user) {
		w.post("/v1/keys", api.NewKey{Name: "legal", Scopes: scopes, Collections: []string{"contracts"}}, "").want(http.StatusCreated, &made)
		return made, user{t: t, url: w.url, key: made.APIKey}
	}
	made, contributor := key(schema.ScopeQuery, schema.ScopeIngest)
	if len(made.Scopes) != 0 || len(made.Collections) != 1 || made.Collections[0].Collection != contracts.ID || made.Collections[0].Name != "contracts" ||
		!slices.Equal(made.Collections[0].Scopes, []schema.Scope{schema.ScopeQuery, schema.ScopeIngest}) {
		t.Fatalf("made %+v", made.Key)
	}
	_, reader := key(schema.ScopeQuery)

	// In its collection.
	contributor.post("/v1/collections/contracts/documents", upload, "").want(http.StatusOK, &stored)
	own, labelled := "/v1/documents/"+stored.Documents[0].Document.String(), "/v1/documents/"+stored.Documents[1].Document.String()
	get := func(u user, path string) response { return u.do(http.MethodGet, path, nil, "") }
	get(contributor, own).want(http.StatusOK, nil)
	get(contributor, labelled).want(http.StatusOK, nil) // it uploaded the document
	get(reader, own+"/content").want(http.StatusOK, nil)
	get(reader, labelled).want(http.StatusNotFound, nil)
	var page api.Page[schema.Collection]
	if get(reader, "/v1/collections").want(http.StatusOK, &page); len(page.Items) != 1 || page.Items[0].ID != contracts.ID {
		t.Errorf("it lists %+v", page.Items)
	}
	var models api.ChatModels
	if get(reader, "/v1/models").want(http.StatusOK, &models); len(models.Data) == 0 || strings.Contains(models.Data[0].ID, "handbook") {
		t.Errorf("it lists models %+v", models.Data)
	}
	var job schema.Job
	question := api.Query{Collection: "contracts", Query: "Why?", Plan: "naive"}
	reader.post("/v1/jobs", question, "").want(http.StatusAccepted, &job)
	get(reader, "/v1/jobs/"+job.ID.String()).want(http.StatusOK, nil)
	get(reader, "/v1/questions/"+job.ID.String()).want(http.StatusOK, nil)

	// What it may read but not change, and what it does not see.
	r := reader.do(http.MethodDelete, own, nil, "")
	if r.want(http.StatusForbidden, nil); !strings.Contains(string(r.body), "ingest scope in collection "+contracts.ID.String()) {
		t.Errorf("refused as %s", r.body)
	}
	reader.do(http.MethodDelete, labelled, nil, "").want(http.StatusNotFound, nil)
	for _, path := range []string{"/v1/collections/%s", "/v1/collections/%s/documents", "/v1/collections/%s/rebuild", "/v1/models/%s", "/v1/questions?collection=%s"} {
		other, missing := get(contributor, strings.ReplaceAll(path, "%s", "handbook")), get(contributor, strings.ReplaceAll(path, "%s", "nonesuch"))
		other.want(http.StatusNotFound, nil)
		if string(other.body) != strings.ReplaceAll(string(missing.body), "nonesuch", "handbook") {
			t.Errorf("%s says %s, and of one that is not there %s", path, other.body, missing.body)
		}
	}
	for _, path := range []string{"", "/content", "/sections"} {
		get(contributor, "/v1/documents/"+elsewhere+path).want(http.StatusNotFound, nil)
	}
	question.Collection = "handbook"
	for _, path := range []string{"/v1/search", "/v1/ask", "/v1/jobs"} {
		contributor.post(path, question, "").want(http.StatusNotFound, nil)
	}
	contributor.post("/v1/collections", api.NewCollection{Name: "more"}, "").want(http.StatusForbidden, nil)
	get(contributor, "/v1/keys").want(http.StatusForbidden, nil)
	r = get(contributor, "/v1/evaluations")
	if r.want(http.StatusForbidden, nil); !strings.Contains(string(r.body), "has the query scope only in single collections") {
		t.Errorf("a key of a collection is told %s", r.body)
	}

	// After a rotation the key has the same rights. Errors of creating a key say what is wrong.
	var next api.KeyCreated
	contributor.post("/v1/keys/"+made.ID.String()+"/rotate", api.RotateKey{}, "").want(http.StatusCreated, &next)
	var me api.Identity
	get(user{t: t, url: w.url, key: next.APIKey}, "/v1/whoami").want(http.StatusOK, &me)
	if len(me.Scopes) != 0 || len(me.Collections) != 1 || me.Collections[0].Collection != contracts.ID {
		t.Errorf("rotated it is %+v", me)
	}
	for field, wrong := range map[string]api.NewKey{
		"collections[1]": {Name: "k", Scopes: []schema.Scope{schema.ScopeQuery}, Collections: []string{"contracts", "nonesuch"}},
		"scopes[1]":      {Name: "k", Scopes: []schema.Scope{schema.ScopeQuery, schema.ScopeAdmin}, Collections: []string{"contracts"}},
	} {
		if r := w.post("/v1/keys", wrong, ""); !strings.Contains(string(r.body), field) {
			t.Errorf("the error does not name %s: %s", field, r.body)
		} else {
			r.want(http.StatusUnprocessableEntity, nil)
		}
	}
	var log api.Page[api.AuditEntry]
	get(w.user, "/v1/audit").want(http.StatusOK, &log)
	if !slices.ContainsFunc(log.Items, func(e api.AuditEntry) bool {
		details, _ := json.Marshal(e.Detail)
		return e.Action == "key.create" && e.Target == made.ID.String() && strings.Contains(string(details), contracts.ID.String())
	}) {
		t.Errorf("the audit log has %+v", log.Items)
	}

	// When the collection is deleted, the key loses its rights; a new collection of that name is
	// another one.
	w.do(http.MethodDelete, "/v1/collections/contracts", nil, "").want(http.StatusNoContent, nil)
	w.post("/v1/collections", api.NewCollection{Name: "contracts"}, "").want(http.StatusCreated, nil)
	get(reader, "/v1/collections/contracts").want(http.StatusNotFound, nil)
	get(reader, "/v1/collections").want(http.StatusOK, &page)
	if len(page.Items) != 0 {
		t.Errorf("a key of a collection that was deleted lists %+v", page.Items)
	}
}

// TestKeysOfCollectionsHaveAnswersJudged: a judgement uses the content of the request, and no
// collection.
func TestKeysOfCollectionsHaveAnswersJudged(t *testing.T) {
	w := newWorld(t)
	w.post("/v1/collections", api.NewCollection{Name: "contracts"}, "").want(http.StatusCreated, nil)
	serve(w, bus.Serve(w.nats, bus.ServeOptions{Subject: wire.JudgeSubject, Group: "test", Concurrency: 1}, func(_ context.Context, r wire.JudgeRequest) wire.JudgeReply {
		right := r.Answer == r.References[0]
		return wire.JudgeReply{Envelope: wire.Header(), Judgement: schema.Judgement{Correct: &right}}
	}, func(e *schema.RemoteError) wire.JudgeReply { return wire.JudgeReply{Error: e} }))
	for scope, status := range map[schema.Scope]int{schema.ScopeQuery: http.StatusOK, schema.ScopeIngest: http.StatusForbidden} {
		var made api.KeyCreated
		w.post("/v1/keys", api.NewKey{Name: "legal", Scopes: []schema.Scope{scope}, Collections: []string{"contracts"}}, "").want(http.StatusCreated, &made)
		r := user{t: t, url: w.url, key: made.APIKey}.post("/v1/judgements", api.AnswerToJudge{Question: "When?", References: []string{"In May."}, Answer: "In May."}, "")
		if r.want(status, nil); status == http.StatusOK && !strings.Contains(string(r.body), `"correct":true`) {
			t.Errorf("judged as %s", r.body)
		}
	}
}
