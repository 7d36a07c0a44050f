package apiserver_test

// This file registers webhooks through the API, and sends their deliveries to a server of the test.

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-rag/sluice/internal/apiclient"
	"github.com/sluice-rag/sluice/internal/webhook"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
	"github.com/sluice-rag/sluice/schema/wire"
)

// signedBy reports whether a request is signed with a secret.
func signedBy(t *testing.T, shown string, r *http.Request, body []byte) bool {
	t.Helper()
	secret, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(shown, "whsec_"))
	if err != nil || !strings.HasPrefix(shown, "whsec_") {
		t.Fatalf("the secret is %q, %v", shown, err)
	}
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(r.Header.Get("Webhook-Id") + "." + r.Header.Get("Webhook-Timestamp") + "." + string(body)))
	want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	for _, s := range strings.Fields(r.Header.Get("Webhook-Signature")) {
		if s == want {
			return true
		}
	}
	return false
}

func TestTheEndOfAJobReachesAWebhook(t *testing.T) {
	w := newWorld(t)
	w.post("/v1/collections", api.NewCollection{Name: "c"}, "").want(http.StatusCreated, nil)
	type got struct {
		id      string
		signed  []string // names of the secrets whose signatures it has
		payload struct {
			Type string
			Data struct {
				Job    string `json:"job_id"`
				State  schema.JobState
				Link   string
				Result *schema.Answer
			}
		}
	}
	var secrets atomic.Pointer[map[string]string]
	received := make(chan got, 16)
	var broken atomic.Bool
	receiver := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		g := got{id: r.Header.Get("Webhook-Id")}
		if err := json.Unmarshal(body, &g.payload); err != nil {
			t.Error(err)
		}
		for name, secret := range *secrets.Load() {
			if signedBy(t, secret, r, body) {
				g.signed = append(g.signed, name)
			}
		}
		received <- g
		if broken.Load() {
			rw.WriteHeader(http.StatusGone)
		}
	}))
	defer receiver.Close()
	c, err := apiclient.New(w.url, w.key)
	if err != nil {
		t.Fatal(err)
	}
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	made, err := c.CreateWebhook(t.Context(), api.NewWebhook{URL: receiver.URL, Include: []string{"result"}})
	ok(err)
	secrets.Store(&map[string]string{"first": made.Secret})
	if len(made.Kinds) != 3 || strings.Contains(string(w.do(http.MethodGet, "/v1/webhooks", nil, "").body), made.Secret) {
		t.Errorf("made %+v, or its secret is listed", made.Webhook)
	}
	end := func(text string) schema.Job {
		var job schema.Job
		w.post("/v1/jobs", api.Query{Collection: "c", Query: "q"}, "").want(http.StatusAccepted, &job)
		in := wire.QuestionInput{Tenant: w.admin.Tenant, Question: job.ID, Attempt: 1}
		ok(w.asked.SaveAnswer(t.Context(), in, schema.Answer{Answer: text, Supported: true}))
		return job
	}
	// The sender's clock is ahead of the database's, so that everything that was written is due.
	sender := webhook.New(w.store, webhook.Options{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
		Now: func() time.Time { return time.Now().Add(time.Minute) }})

	job := end("the answer")
	ok(sender.Round(t.Context()))
	g := <-received
	if g.payload.Type != "question.answered" || g.payload.Data.Job != job.ID.String() || g.payload.Data.State != schema.JobAnswered ||
		g.payload.Data.Link != "/v1/jobs/"+job.ID.String() || g.payload.Data.Result == nil || g.payload.Data.Result.Answer != "the answer" || len(g.signed) != 1 {
		t.Errorf("received %+v", g)
	}

	broken.Store(true)
	end("another")
	ok(sender.Round(t.Context()))
	lost := <-received
	broken.Store(false)
	var failed []schema.WebhookDelivery
	for d, err := range c.WebhookDeliveries(t.Context(), made.ID, schema.DeliveryFailed) {
		ok(err)
		failed = append(failed, d)
	}
	if len(failed) != 1 || failed[0].ID.String() != lost.id || failed[0].Status != http.StatusGone || failed[0].Problem == "" {
		t.Fatalf("failed are %+v", failed)
	}
	rotated, err := c.RotateWebhook(t.Context(), made.ID)
	ok(err)
	secrets.Store(&map[string]string{"first": made.Secret, "second": rotated.Secret})
	_, err = c.ReplayDelivery(t.Context(), made.ID, failed[0].ID)
	ok(err)
	if _, err := c.ReplayDelivery(t.Context(), made.ID, failed[0].ID); !apiclient.IsStatus(err, http.StatusConflict) {
		t.Errorf("replayed while it waits: %v", err)
	}
	ok(sender.Round(t.Context()))
	if g := <-received; g.id != lost.id || len(g.signed) != 2 || g.payload.Data.Result.Answer != "another" {
		t.Errorf("replayed: %+v", g)
	}
	ok(c.DeleteWebhook(t.Context(), made.ID))
	end("to nobody")
	ok(sender.Round(t.Context()))
	if len(received) != 0 {
		t.Errorf("after it was removed: %+v", <-received)
	}
}

func TestWebhooksAreForAdminsOfTheirTenant(t *testing.T) {
	w := newWorld(t)
	var made api.WebhookSecret
	hook := api.NewWebhook{URL: "https://receiver.example/"}
	w.post("/v1/webhooks", hook, "once").want(http.StatusCreated, &made)
	// The secret is not stored for a repeat.
	w.post("/v1/webhooks", hook, "once").want(http.StatusConflict, nil)
	if n := scalar[int](w, keptSQL, []byte(made.Secret)); n != 0 {
		t.Error("the secret is kept for repeats")
	}
	w.with(nil, schema.ScopeQuery).post("/v1/webhooks", hook, "").want(http.StatusForbidden, nil)
	var other api.TenantCreated
	w.post("/v1/tenants", api.NewTenant{Name: "other"}, "").want(http.StatusCreated, &other)
	foreign := user{t: t, url: w.url, key: other.APIKey}
	path := "/v1/webhooks/" + made.ID.String()
	foreign.do(http.MethodDelete, path, nil, "").want(http.StatusNotFound, nil)
	foreign.do(http.MethodGet, path+"/deliveries", nil, "").want(http.StatusNotFound, nil)
	foreign.post(path+"/rotate", struct{}{}, "").want(http.StatusNotFound, nil)
	foreign.post(path+"/deliveries/"+made.ID.String()+"/replay", struct{}{}, "").want(http.StatusNotFound, nil)
	for _, bad := range []api.NewWebhook{{URL: "ftp://x"}, {URL: "https://user:pass@x/"}, {URL: "/here"}, {URL: "https://x/", Kinds: []string{"question.*"}}, {URL: "https://x/", Include: []string{"all"}}} {
		w.post("/v1/webhooks", bad, "").want(http.StatusUnprocessableEntity, nil)
	}
}
