package apiserver_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/cmd/internal/apiserver"
	"github.com/sluice-rag/sluice/internal/config"
	"github.com/sluice-rag/sluice/internal/receipt"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
	"github.com/sluice-rag/sluice/schema/wire"
)

// TestReceiptsAreServed: a served receipt is signed by the listed key.
func TestReceiptsAreServed(t *testing.T) {
	w := newWorld(t)
	w.post("/v1/collections", api.NewCollection{Name: "c"}, "").want(http.StatusCreated, nil)
	reader := w.with(nil, schema.ScopeQuery)
	var job schema.Job
	reader.post("/v1/jobs", api.Query{Collection: "c", Query: "Why?"}, "").want(http.StatusAccepted, &job)
	path := "/v1/questions/" + job.ID.String() + "/receipt"
	if got := reader.do(http.MethodGet, path, nil, ""); got.status != http.StatusConflict || !strings.Contains(string(got.body), "no answer") {
		t.Errorf("before there is an answer: %d %s", got.status, got.body)
	}
	a := schema.Answer{Answer: "<So> & \"so\".", Supported: true, Plan: "naive", Citations: []schema.Citation{}, Origin: schema.Origin{PlanSHA256: "aa", Pack: "p"}}
	if err := w.asked.SaveAnswer(t.Context(), wire.QuestionInput{Tenant: w.admin.Tenant, Question: job.ID, Attempt: 1}, a); err != nil {
		t.Fatal(err)
	}
	var listed api.ReceiptKeys
	reader.do(http.MethodGet, "/v1/receipts/keys", nil, "").want(http.StatusOK, &listed)
	if len(listed.Keys) != 1 {
		t.Fatalf("the keys are %+v", listed)
	}
	keys, err := receipt.ParsePublic(listed.Keys[0].Key + "\n")
	if err != nil || keys[0].ID() != listed.Keys[0].ID {
		t.Fatal(listed, err)
	}
	served := reader.do(http.MethodGet, path, nil, "")
	opened, err := receipt.Open(served.body, keys)
	if err != nil {
		t.Fatalf("%d %s: %v", served.status, served.body, err)
	}
	if opened.Answer != a.Answer || opened.QuestionID != job.ID || opened.Plan.SHA256 != "aa" || opened.Pack.Name != "p" || len(opened.Citations) != 0 {
		t.Errorf("the receipt says %+v", opened)
	}
	if h := served.header; h.Get("Content-Type") != "application/json" {
		t.Errorf("the headers are %v", h)
	}
	for _, u := range []struct {
		who  string
		user user
		path string
		want int
	}{
		{"another key", w.with(nil, schema.ScopeQuery), path, http.StatusNotFound},
		{"a key that ingests", w.with(nil, schema.ScopeIngest), path, http.StatusForbidden},
		{"nobody's question", reader, "/v1/questions/" + uuid.NewString() + "/receipt", http.StatusNotFound},
	} {
		if got := u.user.do(http.MethodGet, u.path, nil, ""); got.status != u.want {
			t.Errorf("%s: %d %s, want %d", u.who, got.status, got.body, u.want)
		}
	}
	// A server without a key says what to set.
	bare := reader
	bare.url = startServer(t, config.HTTP{}, apiserver.Deps{Store: w.store.Store, NATS: w.nats}).URL()
	for _, path := range []string{path, "/v1/receipts/keys"} {
		if got := bare.do(http.MethodGet, path, nil, ""); got.status != http.StatusNotFound || !strings.Contains(string(got.body), "SLUICE_RECEIPT_KEY") {
			t.Errorf("%s of a server without a key: %d %s", path, got.status, got.body)
		}
	}
}
