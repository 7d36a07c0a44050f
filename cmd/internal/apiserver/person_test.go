package apiserver_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
)

const (
	personHeader = "X-Sluice-Person"
	groupsHeader = "X-Sluice-Groups"
)

// TestRequestsForPeople: a key with the impersonate scope reads as the person it names.
func TestRequestsForPeople(t *testing.T) {
	w := newWorld(t)
	w.post("/v1/collections", api.NewCollection{Name: "papers"}, "").want(http.StatusCreated, nil)
	uploads := api.Upload{Documents: []api.NewDocument{
		{ExternalID: "open", Text: "open"}, {ExternalID: "secret", Text: "secret", Labels: []string{"board, old", "hr"}}}}
	w.post("/v1/collections/papers/documents", uploads, "").want(http.StatusOK, nil)
	app := w.with(nil, schema.ScopeQuery, schema.ScopeImpersonate)
	ann, bob := app.acting(personHeader, "Ann%20%C3%84"), app.acting(personHeader, "bob", groupsHeader, "staff", groupsHeader, " board%2C old ")

	documents := func(u user) (names []string) {
		t.Helper()
		var page api.Page[schema.Document]
		u.do(http.MethodGet, "/v1/collections/papers/documents", nil, "").want(http.StatusOK, &page)
		for _, d := range page.Items {
			names = append(names, d.ExternalID)
			u.do(http.MethodGet, "/v1/documents/"+d.ID.String()+"/content", nil, "").want(http.StatusOK, nil)
		}
		return names
	}
	if got := strings.Join(documents(ann), " "); got != "open" {
		t.Errorf("a person without groups sees %q", got)
	}
	if got := strings.Join(documents(bob), " "); got != "open secret" {
		t.Errorf("a person of the board sees %q", got)
	}
	// A key that manages documents may not do so for a person.
	manager := w.with(nil, schema.ScopeAdmin, schema.ScopeImpersonate)
	if got := strings.Join(documents(manager.acting(personHeader, "ann")), " "); got != "open" {
		t.Errorf("an admin's key for a person sees %q", got)
	}
	refused := manager.acting(personHeader, "ann").do(http.MethodGet, "/v1/keys", nil, "")
	if refused.want(http.StatusForbidden, nil); !strings.Contains(string(refused.body), "on behalf of a person") {
		t.Errorf("refused as %s", refused.body)
	}

	question := api.Query{Collection: "papers", Query: "Why?", Plan: "naive"}
	var annJob, bobJob, ownJob schema.Job
	ann.post("/v1/jobs", question, "once").want(http.StatusAccepted, &annJob)
	bob.post("/v1/jobs", question, "once").want(http.StatusConflict, nil) // the same request for another person is another request
	bob.post("/v1/jobs", question, "").want(http.StatusAccepted, &bobJob)
	app.post("/v1/jobs", question, "").want(http.StatusAccepted, &ownJob)
	for _, c := range []struct {
		as     user
		person string
		job    schema.Job
	}{{ann, "Ann Ä", annJob}, {bob, "bob", bobJob}, {app, "", ownJob}} {
		var page api.Page[schema.AskedQuestion]
		c.as.do(http.MethodGet, "/v1/questions", nil, "").want(http.StatusOK, &page)
		if len(page.Items) != 1 || page.Items[0].ID != c.job.ID || page.Items[0].Person != c.person {
			t.Errorf("%q lists %+v", c.person, page.Items)
		}
		var me api.Identity
		if c.as.do(http.MethodGet, "/v1/whoami", nil, "").want(http.StatusOK, &me); me.Person != c.person {
			t.Errorf("%q is %q", c.person, me.Person)
		}
		for _, other := range []schema.Job{annJob, bobJob, ownJob} {
			status := http.StatusNotFound
			if other.ID == c.job.ID {
				status = http.StatusOK
			}
			for _, path := range []string{"/v1/jobs/", "/v1/questions/"} {
				c.as.do(http.MethodGet, path+other.ID.String(), nil, "").want(status, nil)
			}
		}
	}
	if got := scalar[string](w, `SELECT array_to_string(groups, '|') FROM questions WHERE person = 'bob'`); got != "staff|board, old" {
		t.Errorf("bob's question has the groups %q", got)
	}

	for name, u := range map[string]user{
		"a key that may not":  w.with(nil, schema.ScopeQuery).acting(personHeader, "ann"),
		"groups in two ways":  bob,
		"a key without query": w.with(nil, schema.ScopeImpersonate, schema.ScopeIngest).acting(personHeader, "ann"),
	} {
		q := question
		q.Groups = []string{"staff"}
		if got := u.post("/v1/jobs", q, ""); got.status != http.StatusForbidden {
			t.Errorf("%s: %d %s", name, got.status, got.body)
		}
	}
	for _, headers := range [][]string{{personHeader, ""}, {personHeader, "%zz"}, {personHeader, "%ff"}, {personHeader, strings.Repeat("a", 257)}, {personHeader, "a%0ab"},
		{personHeader, "a", personHeader, "b"}, {groupsHeader, strings.Repeat("g,", 101)}, {groupsHeader, schema.NobodyLabel}} {
		got := app.acting(headers...).do(http.MethodGet, "/v1/questions", nil, "")
		if got.want(http.StatusUnprocessableEntity, nil); !strings.Contains(string(got.body), headers[0]) {
			t.Errorf("%q: %s", headers, got.body)
		}
	}
}
