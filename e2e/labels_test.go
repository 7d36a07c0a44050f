package e2e

// This file proves that labels hold on every route, both for documents with labels from the start
// and for documents that get labels later. The walker in canary_test.go calls the routes.

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/waittest"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
)

// askOnce asks about the chest with an idempotency key.
func (w *walker) askOnce(t *testing.T, path string, f fixtures) reply {
	t.Helper()
	return w.ask(t, http.MethodPost, path, map[string]any{"collection": f["collection"][0], "query": chest}, "Idempotency-Key", "canary"+path)
}

// asks has a question answered in each way, rates the answers, and returns their ids.
func (w *walker) asks(t *testing.T, f fixtures, question, word string) (ids []string) {
	t.Helper()
	body := map[string]any{"collection": f["collection"][0], "query": question, "explain": true}
	now := as[schema.Answer](t, w.ask(t, http.MethodPost, "/v1/ask", body).want(t, http.StatusOK))
	job := as[schema.Job](t, w.ask(t, http.MethodPost, "/v1/jobs", body).want(t, http.StatusAccepted))
	said := as[api.ChatCompletion](t, w.ask(t, http.MethodPost, "/v1/chat/completions", chatBody(f["model"][0], nil, question)).want(t, http.StatusOK))
	stream := w.ask(t, http.MethodGet, "/v1/jobs/"+job.ID.String()+"/events", nil).want(t, http.StatusOK)
	if !strings.Contains(now.Answer, word) || !strings.Contains(string(stream.body), word) {
		t.Fatalf("%s asks %q and is told %q, and %s", w.name, question, now.Answer, stream.body)
	}
	for _, id := range []string{now.ID.String(), job.ID.String(), said.Sluice.QuestionID.String()} {
		w.ask(t, http.MethodPut, "/v1/questions/"+id+"/rating", map[string]any{"rating": "up", "comment": "well said"}).want(t, http.StatusOK)
		ids = append(ids, id)
	}
	return ids
}

// version uploads one version of a secret and waits until it is found.
func (s *server) version(t *testing.T, f fixtures, name, text string, labels []string) (document string) {
	t.Helper()
	uploaded := as[api.UploadResult](t, s.call(t, http.MethodPost, "/v1/collections/"+f["collection"][0]+"/documents", api.Upload{Documents: []api.NewDocument{{
		ExternalID: name + "-" + toldToManagers[0] + ".md", Title: toldToManagers[1], Text: text, Labels: labels,
		Metadata: schema.Metadata{"owner": toldToManagers[2]}}}}).want(t, http.StatusOK))
	document = uploaded.Documents[0].Document.String()
	waittest.Until(t, func() string {
		versions := as[api.DocumentDetail](t, s.call(t, http.MethodGet, "/v1/documents/"+document, nil).want(t, http.StatusOK)).Versions
		if state := versions[0].State; state != schema.StateReady {
			return fmt.Sprintf("%s is %s", name, state)
		}
		return ""
	})
	return document
}

func testCanary(t *testing.T, operator *server) {
	manager, f := newFixtures(t, operator, "canary")
	key := func(name string, groups []string, scopes ...string) *server {
		args := []string{"keys", "create", name, "--json"}
		for _, s := range scopes {
			args = append(args, "--scope", s)
		}
		for _, g := range groups {
			args = append(args, "--group", g)
		}
		return operator.withKey(into[api.KeyCreated](t, manager.sluice(t, args...).ok(t)).APIKey)
	}
	everything := slices.Concat(toldToManagers, secretWords)
	closedTo := []*walker{
		{server: key("other", []string{"canteen"}, "query"), name: "a key of another group", hidden: everything},
		{server: key("people", []string{"vault"}, "query", "impersonate"), name: "a person of another group", hidden: everything,
			headers: []string{"X-Sluice-Person", "mallory", "X-Sluice-Groups", "canteen"}},
		{server: key("scoped", nil, "ingest", "query"), name: "a key that ingests", hidden: secretWords},
		{server: manager, name: "a key that manages", hidden: secretWords, manages: true},
	}
	permitted := &walker{server: key("reader", []string{"vault"}, "query"), name: "the reader"}
	for _, w := range append(slices.Clone(closedTo), permitted) {
		w.told = map[string]int{}
	}
	heard := closedTo[3].listen(t)

	// The document about the safe has a label from the start. Everybody may read the one about the
	// chest, and asks about it. Both have two versions.
	closed, open := "", ""
	for _, v := range []struct{ safe, chest string }{
		{"# Hoskwenda\n\nThe safe in the cellar was built by Zyxquorl Vembrithal in 1907.\n", "The chest in the attic was built by Jilfrancot in 1907.\n"},
		{"# Hoskwenda\n\nThe safe in the cellar was built by Pludwickzen in 1907.\n", "The chest in the attic was built by Drovyaskel in 1907.\n"},
	} {
		closed, open = manager.version(t, f, "safe", v.safe, []string{"vault"}), manager.version(t, f, "chest", v.chest, nil)
		builder := func(text string) string {
			words := strings.Fields(text)
			return words[len(words)-3]
		}
		f["question"] = append(f["question"], permitted.asks(t, f, safe, builder(v.safe))...)
		for _, w := range append(slices.Clone(closedTo), permitted) {
			f["question"] = append(f["question"], w.asks(t, f, chest, builder(v.chest))...)
			for _, path := range []string{"/v1/search", "/v1/ask", "/v1/jobs"} {
				w.askOnce(t, path, f)
			}
		}
	}
	f["job"], f["document"], f["label"] = f["question"], append(f["document"], closed, open), []string{"vault"}
	f["document_id"], f["section"] = f["document"], nil
	for _, document := range []string{closed, open} {
		for _, v := range as[api.DocumentDetail](t, manager.call(t, http.MethodGet, "/v1/documents/"+document, nil).want(t, http.StatusOK)).Versions {
			f["version"] = append(f["version"], v.ID.String())
			sections := permitted.ask(t, http.MethodGet, "/v1/documents/"+document+"/sections?version="+v.ID.String(), nil).want(t, http.StatusOK)
			for _, s := range as[api.Page[struct{ ID string }]](t, sections).Items {
				f["section"] = append(f["section"], s.ID)
			}
		}
	}
	f["version_id"], f["section_id"] = f["version"], f["section"]
	if len(f["version"]) != 4 || len(f["section"]) != 4 || slices.Contains(f["section"], "") {
		t.Fatalf("the secrets are the versions %v with the sections %v", f["version"], f["section"])
	}

	// The document about the chest gets a label too, which takes effect immediately.
	manager.call(t, http.MethodPatch, "/v1/documents/"+open, map[string]any{"labels": []string{"vault"}}).want(t, http.StatusOK)
	d := describe(t, operator)
	for _, w := range closedTo {
		w.walk(t, d, f)
	}
	permitted.walk(t, d, f)
	// For the reader with the label these operations return the secrets, so the walk reaches them.
	for _, id := range []string{"search", "ask", "ask by events", "list-documents", "get-document", "list-sections", "get-content", "get-job", "follow-job",
		"get-question", "get-receipt", "list-ratings", "create-chat-completion", "mcp search", "mcp ask", "mcp read_document", "mcp resources", "mcp read"} {
		if permitted.told[id] == 0 {
			t.Errorf("%s does not tell the secrets to who may see them; what does: %v", id, slices.Sorted(maps.Keys(permitted.told)))
		}
	}
	heard("version.ready")
	for _, o := range d.operations {
		if o.method == http.MethodDelete && o.ID != "end-session" {
			for _, w := range closedTo {
				w.try(t, d, o, f)
			}
		}
	}
}
