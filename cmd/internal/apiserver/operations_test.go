package apiserver_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sluice-rag/sluice/cmd/internal/apiserver"
	"github.com/sluice-rag/sluice/internal/bus"
	"github.com/sluice-rag/sluice/internal/config"
	"github.com/sluice-rag/sluice/internal/question/answer"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
	"github.com/sluice-rag/sluice/schema/wire"
)

// other creates a second tenant, and returns its first key, which is an admin's.
func (w *world) other() (user, uuid.UUID) {
	w.t.Helper()
	var made api.TenantCreated
	w.post("/v1/tenants", api.NewTenant{Name: "other"}, "").want(http.StatusCreated, &made)
	return user{t: w.t, url: w.url, key: made.APIKey}, made.ID
}

// storeSlowSearch stores a search of a tenant as a slow one.
func (w *world) storeSlowSearch(tenant uuid.UUID, question string) {
	w.t.Helper()
	if err := w.asked.KeepSlowSearch(w.t.Context(), answer.SlowSearch{Query: wire.SearchQuery{Principal: schema.Principal{Tenant: tenant}, Query: schema.Query{Text: question}}, Plan: "sluice",
		Took: time.Second, Stages: []schema.StageReport{{Stage: "dense", Millis: 800}}}); err != nil {
		w.t.Fatal(err)
	}
}

// TestAdminsSeeTheirOwnTenantAndOperatorsAll: no admin sees another tenant's
// numbers, and no operator sees text.
func TestAdminsSeeTheirOwnTenantAndOperatorsAll(t *testing.T) {
	w := newWorld(t)
	js, err := jetstream.New(w.nats)
	if err != nil {
		t.Fatal(err)
	}
	if err := bus.EnsureStreams(t.Context(), js, bus.StreamLimits{}); err != nil {
		t.Fatal(err)
	}
	admin, otherID := w.other()
	w.post("/v1/collections", api.NewCollection{Name: "papers"}, "").want(http.StatusCreated, nil)
	w.post("/v1/collections/papers/documents", api.Upload{Documents: []api.NewDocument{{ExternalID: "a.txt", Text: "secret"}}}, "").want(http.StatusOK, nil)
	if _, err := js.Publish(t.Context(), wire.IngestSubject(w.admin.Tenant), []byte("{}")); err != nil {
		t.Fatal(err)
	}
	w.storeSlowSearch(w.admin.Tenant, "what is secret?")
	w.storeSlowSearch(otherID, "of the other")

	var mine, theirs schema.Operations
	w.do(http.MethodGet, "/v1/operations", nil, "").want(http.StatusOK, &mine)
	if mine.Activity.Waiting[schema.StateQueued] != 1 || len(mine.Activity.Minutes) != 60 || len(mine.Slow) != 1 || mine.Slow[0].Question != "what is secret?" ||
		!slices.Equal(mine.Queues, []schema.TenantQueue{{Name: wire.StreamIngest, Messages: 1}, {Name: wire.StreamQuestions}}) {
		t.Errorf("the first tenant sees %+v", mine)
	}
	admin.do(http.MethodGet, "/v1/operations", nil, "").want(http.StatusOK, &theirs)
	if len(theirs.Activity.Waiting) != 0 || len(theirs.Slow) != 1 || theirs.Slow[0].Question != "of the other" || theirs.Queues[0].Messages != 0 {
		t.Errorf("the other tenant sees %+v", theirs)
	}

	stop, err := bus.ServeStatus(w.nats, func() schema.ServiceState {
		return schema.ServiceState{Service: wire.ModelService, Model: &schema.ModelState{Pack: "default"}}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	got := w.do(http.MethodGet, "/v1/installation", nil, "")
	var all schema.Installation
	got.want(http.StatusOK, &all)
	if strings.Contains(string(got.body), "secret") {
		t.Errorf("an operator reads text: %s", got.body)
	}
	if all.Activity.Waiting[schema.StateQueued] != 1 || len(all.Slow) != 2 || len(all.Tenants) != 1 || all.Tenants[0].Name != "first" || all.Tenants[0].Waiting != 1 ||
		all.Outbox.Messages == 0 || len(all.Queues) != 3 || all.Queues[0].Messages != 1 || len(all.Services) != 1 || all.Services[0].Model.Pack != "default" ||
		len(all.Problems) != 0 || len(all.Tasks) != 0 {
		t.Errorf("an operator sees %+v", all)
	}

	admin.do(http.MethodGet, "/v1/installation", nil, "").want(http.StatusForbidden, nil)
	asker := w.with(nil, schema.ScopeQuery)
	for _, path := range []string{"/v1/operations", "/v1/installation", "/v1/events", "/v1/usage/days"} {
		asker.do(http.MethodGet, path, nil, "").want(http.StatusForbidden, nil)
	}
}

// TestWhatDoesNotAnswerIsAProblem: the rest is shown.
func TestWhatDoesNotAnswerIsAProblem(t *testing.T) {
	w := newWorld(t)
	w.nats.Close()
	var all schema.Installation
	w.do(http.MethodGet, "/v1/installation", nil, "").want(http.StatusOK, &all)
	if len(all.Problems) != 2 || len(all.Activity.Minutes) != 60 {
		t.Errorf("without NATS an operator sees %+v", all)
	}
	w.do(http.MethodGet, "/v1/operations", nil, "").want(http.StatusOK, nil)
}

// events follows the tenant's events until the test ends.
func (u user) events() *bufio.Scanner {
	u.t.Helper()
	r, err := http.NewRequestWithContext(u.t.Context(), http.MethodGet, u.url+"/v1/events", nil)
	if err != nil {
		u.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+u.key)
	got, err := http.DefaultClient.Do(r)
	if err != nil {
		u.t.Fatal(err)
	}
	u.t.Cleanup(func() { _ = got.Body.Close() })
	if got.StatusCode != http.StatusOK || got.Header.Get("Content-Type") != "text/event-stream" {
		u.t.Fatalf("got %s %v", got.Status, got.Header)
	}
	return bufio.NewScanner(got.Body)
}

// nextChange reads the next change.
func nextChange(t *testing.T, s *bufio.Scanner) api.ChangeEvent {
	t.Helper()
	for s.Scan() {
		if data, found := strings.CutPrefix(s.Text(), "data: "); found {
			var c api.ChangeEvent
			if err := json.Unmarshal([]byte(data), &c); err != nil {
				t.Fatal(err)
			}
			return c
		}
	}
	t.Fatalf("the stream ended: %v", s.Err())
	return api.ChangeEvent{}
}

// TestEventsAreTheTenantsOwn: events of documents and jobs.
func TestEventsAreTheTenantsOwn(t *testing.T) {
	w := newWorld(t)
	admin, otherID := w.other()
	own, theirs := w.events(), admin.events()
	publish := func(tenant uuid.UUID, kind string, event any) {
		t.Helper()
		data, err := wire.Encode(event)
		if err == nil {
			err = w.nats.Publish(wire.EventSubject(tenant, kind), data)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	document, job := uuid.New(), uuid.New()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	publish(w.admin.Tenant, "version.failed", wire.Event{Envelope: wire.Header(), Kind: "version.failed", Tenant: w.admin.Tenant, Document: document, ExternalID: "a.pdf",
		State: schema.StateFailed, Reason: &schema.Reason{Code: "broken", Message: "no PDF"}, At: at})
	publish(otherID, wire.EventQuestionAnswered, wire.QuestionEvent{Envelope: wire.Header(), Kind: wire.EventQuestionAnswered, Tenant: otherID, Question: job, State: schema.JobAnswered, At: at})
	if c := nextChange(t, own); c.Kind != "version.failed" || c.Document != document || c.ExternalID != "a.pdf" || c.State != "failed" || c.Reason.Code != "broken" || !c.At.Equal(at) {
		t.Errorf("the first tenant hears %+v", c)
	}
	if c := nextChange(t, theirs); c.Kind != wire.EventQuestionAnswered || c.Job != job || c.State != "answered" || c.Document != uuid.Nil {
		t.Errorf("the other tenant hears %+v", c)
	}
}

// TestUsageByDay: of one's own tenant, and of any for operators.
func TestUsageByDay(t *testing.T) {
	began := time.Now()
	w := newWorld(t)
	admin, otherID := w.other()
	err := w.store.AsTenant(t.Context(), otherID, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `INSERT INTO llm_days (tenant_id, day, calls, cached, input_tokens, output_tokens, nanos)
SELECT $1, (now() AT TIME ZONE 'UTC')::date - n, 10 + n, 1, 100, 50, 2500000000 FROM unnest('{0,2,40}'::int[]) n`, otherID)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	var days api.UsageDays
	for _, u := range []struct {
		user
		path string
	}{{admin, "/v1/usage/days?days=3"}, {w.user, fmt.Sprintf("/v1/tenants/%s/usage/days?days=3", otherID)}} {
		u.do(http.MethodGet, u.path, nil, "").want(http.StatusOK, &days)
		if d := days.Days; len(d) != 3 || d[0].Calls != 12 || d[1] != (schema.UsageDay{Day: d[0].Day.AddDate(0, 0, 1)}) || d[2].Calls != 10 || d[2].Cached != 1 ||
			d[2].InputTokens != 100 || d[2].OutputTokens != 50 || d[2].Dollars != 2.5 || d[2].Day.Before(began.AddDate(0, 0, -1)) {
			t.Errorf("%s gave %+v", u.path, d)
		}
	}
	w.do(http.MethodGet, "/v1/usage/days", nil, "").want(http.StatusOK, &days)
	if len(days.Days) != 30 || days.Days[29].Calls != 0 {
		t.Errorf("the first tenant sees %+v", days)
	}
	admin.do(http.MethodGet, "/v1/usage/days?days=0", nil, "").want(http.StatusUnprocessableEntity, nil)
	admin.do(http.MethodGet, "/v1/tenants/"+w.admin.Tenant.String()+"/usage/days", nil, "").want(http.StatusNotFound, nil)
	w.do(http.MethodGet, "/v1/tenants/"+uuid.NewString()+"/usage/days", nil, "").want(http.StatusNotFound, nil)
}

// TestTraceLinksNeedAnAddress: with an invalid template the API does not start; everybody who is
// signed in gets a valid one.
func TestTraceLinksNeedAnAddress(t *testing.T) {
	w := newWorld(t)
	for template, good := range map[string]bool{"https://jaeger.example/trace/{trace}": true, "https://jaeger.example/trace": false, "javascript:alert({trace})": false, "/trace/{trace}": false} {
		s, err := apiserver.New(t.Context(), config.HTTP{Listen: "127.0.0.1:0", TraceURL: template}, apiserver.Deps{Store: w.store.Store, NATS: w.nats})
		if good != (err == nil) {
			t.Errorf("%s: %v", template, err)
		}
		if err != nil {
			continue
		}
		if err := s.Start(context.Background()); err != nil {
			t.Fatal(err)
		}
		var who api.Identity
		user{t: t, url: s.URL(), key: w.key}.do(http.MethodGet, "/v1/whoami", nil, "").want(http.StatusOK, &who)
		if who.TraceURL != template {
			t.Errorf("who is told %q, want %q", who.TraceURL, template)
		}
		if err := s.Stop(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
}
