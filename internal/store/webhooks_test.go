package store_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/ingest/batch"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/internal/webhook"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// hook creates a webhook of p's tenant.
func (f *fixture) hook(t *testing.T, p schema.Principal, include []string, kinds ...string) schema.Webhook {
	t.Helper()
	w, err := f.CreateWebhook(t.Context(), p, schema.NewWebhook{URL: "https://receiver.example/", Kinds: kinds, Include: include}, []byte("first"))
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func (f *fixture) deliveries(t *testing.T, p schema.Principal, webhook uuid.UUID) []schema.WebhookDelivery {
	t.Helper()
	out, _, err := f.WebhookDeliveries(t.Context(), p, webhook, "", schema.PageQuery{})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// claim claims due deliveries: up to each per given webhook, and one of any other.
func (f *fixture) claim(t *testing.T, now time.Time, each int, hooks ...schema.Webhook) []webhook.Claimed {
	t.Helper()
	out, err := f.ClaimDeliveries(t.Context(), now, now.Add(time.Minute), roomFor(each, hooks...))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func roomFor(each int, hooks ...schema.Webhook) webhook.Room {
	r := webhook.Room{Limit: 1000, Unproven: 1000}
	for _, w := range hooks {
		r.Webhooks, r.Each, r.Proven = append(r.Webhooks, w.ID), append(r.Each, each), append(r.Proven, true)
	}
	return r
}

// soon returns a time at which everything that was written is due.
func soon() time.Time { return time.Now().Add(time.Second) }

func TestEndsOfJobsAreDelivered(t *testing.T) {
	f := setUp(t, store.Options{})
	all := f.hook(t, f.a, []string{schema.IncludeResult}, schema.WebhookQuestionAnswered, schema.WebhookQuestionFailed, schema.WebhookQuestionCancelled)
	answers := f.hook(t, f.a, nil, schema.WebhookQuestionAnswered)
	other := f.hook(t, f.b, nil, schema.WebhookQuestionAnswered, schema.WebhookQuestionFailed)
	questions := f.QuestionStore
	do := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	_, answered := f.question(t, f.a, true)
	do(questions.SaveAnswer(t.Context(), answered, schema.Answer{Answer: "the secret words", Supported: true, Trace: []schema.StageReport{{Stage: "dense"}}}))
	_, failed := f.question(t, f.a, true)
	do(questions.Fail(t.Context(), failed, schema.Reason{Code: "quota", Message: "m"}))
	cancelled, _ := f.question(t, f.a, true)
	_, err := f.CancelJob(t.Context(), f.a, cancelled.ID)
	do(err)
	// A job that is lost too often is failed by the system.
	_, lost := f.question(t, f.a, true)
	execAs(t, f, f.a, `UPDATE questions SET attempt = 5 WHERE id = $1`, lost.Question)
	lost.Attempt = 5
	if moved, err := f.RequeueQuestion(t.Context(), lost); err != nil || !moved {
		t.Fatal(moved, err)
	}
	// Synchronous questions are not jobs, however they end.
	_, now := f.question(t, f.a, false)
	do(questions.SaveAnswer(t.Context(), now, schema.Answer{Answer: "a"}))
	f.question(t, f.a, false)
	execAs(t, f, f.a, `UPDATE questions SET created_at = now() - interval '1 day' WHERE state = 'queued'`)
	if n, err := f.FailAbandoned(t.Context(), 0, time.Hour); err != nil || n != 1 {
		t.Fatal(n, err)
	}
	kinds := map[string]uuid.UUID{}
	for _, d := range f.deliveries(t, f.a, all.ID) {
		kinds[d.Kind] = d.Subject
		if d.State != schema.DeliveryWaiting || d.Attempts != 0 || d.NextAt == nil {
			t.Errorf("delivery %+v", d)
		}
	}
	if n := len(f.deliveries(t, f.a, all.ID)); n != 4 || kinds[schema.WebhookQuestionAnswered] != answered.Question || kinds[schema.WebhookQuestionCancelled] != cancelled.ID {
		t.Errorf("%d deliveries of %v", n, kinds)
	}
	if only := f.deliveries(t, f.a, answers.ID); len(only) != 1 || only[0].Subject != answered.Question {
		t.Errorf("who hears of answers gets %+v", only)
	}
	if n := len(f.deliveries(t, f.b, other.ID)); n != 0 {
		t.Errorf("another tenant gets %d", n)
	}
	for _, c := range f.claim(t, soon(), 10, all, answers) {
		d, err := f.Delivery(t.Context(), c, time.Now())
		do(err)
		whole := d.Job != nil && d.Job.ID == answered.Question && c.Webhook == all.ID
		if d.Job == nil || d.Job.Collection != f.collection || !d.Job.State.Final() || (d.Job.Result != nil) != whole || len(d.Secrets) != 1 {
			t.Errorf("to send: %+v %+v", d, d.Job)
		}
		if whole && len(d.Job.Result.Trace) != 0 {
			t.Errorf("it would be sent with how it was found: %+v", d.Job.Result.Trace)
		}
		if d.Job.ID == failed.Question && (d.Job.Reason == nil || d.Job.Reason.Code != "quota") {
			t.Errorf("a failure's reason is %+v", d.Job.Reason)
		}
	}
	// Deliveries contain no text of answers.
	if kept := one[string](t, f, f.a, `SELECT coalesce(jsonb_agg(to_jsonb(d))::text, '') FROM webhook_deliveries d`); strings.Contains(kept, "secret words") {
		t.Errorf("deliveries keep %s", kept)
	}
}

func TestVersionsAreDelivered(t *testing.T) {
	f := setUp(t, store.Options{})
	w := f.hook(t, f.a, nil, schema.WebhookVersionFailed)
	u := f.upload(t, f.a, f.collection, text("a.txt", "some text"))
	f.failByWorker(t, f.a, u.Version)
	list := f.deliveries(t, f.a, w.ID)
	if len(list) != 1 || list[0].Kind != schema.WebhookVersionFailed || list[0].Subject != u.Version {
		t.Fatalf("delivered %+v", list)
	}
	d, err := f.Delivery(t.Context(), f.claim(t, soon(), 1)[0], time.Now())
	if err != nil || d.Version == nil || d.Version.Document != u.Document || d.Version.State != schema.StateFailed {
		t.Errorf("to send: %+v, %v", d, err)
	}
}

// failByWorker fails a version, as a worker does.
func (f *fixture) failByWorker(t *testing.T, p schema.Principal, version uuid.UUID) {
	t.Helper()
	attempt := wire.Attempt{Version: version, Attempt: 1}
	if got, err := f.ClaimVersions(t.Context(), p.Tenant, []wire.Attempt{attempt}, batch.Lease{Holder: "worker", TTL: time.Hour}); err != nil || len(got) != 1 {
		t.Fatalf("claimed %v, %v", got, err)
	}
	if err := f.FailVersions(t.Context(), p.Tenant, []batch.Failure{{Attempt: attempt, Reason: schema.Reason{Code: schema.ReasonEmpty, Message: "no text"}}}); err != nil {
		t.Fatal(err)
	}
}

// due adds deliveries of a kind to a webhook.
func (f *fixture) due(t testing.TB, p schema.Principal, w schema.Webhook, kind string, n int) {
	t.Helper()
	execAs(t, f, p, `INSERT INTO webhook_deliveries (tenant_id, webhook_id, id, kind, subject_id)
		SELECT $1, $2, gen_random_uuid(), $3, gen_random_uuid() FROM generate_series(1, $4)`, p.Tenant, w.ID, kind, n)
}

// TestConcurrentSendersShareTheWork: no delivery is sent twice, and those of a dead process are
// free again.
func TestConcurrentSendersShareTheWork(t *testing.T) {
	f := setUp(t, store.Options{})
	loud, quiet := f.hook(t, f.a, nil, schema.WebhookQuestionFailed), f.hook(t, f.b, nil, schema.WebhookQuestionFailed)
	f.due(t, f.a, loud, schema.WebhookQuestionFailed, 10)
	f.due(t, f.b, quiet, schema.WebhookQuestionFailed, 1)
	now := soon()
	claims := make(chan []webhook.Claimed, 4)
	for range 4 {
		go func() {
			c, err := f.ClaimDeliveries(t.Context(), now, now.Add(time.Minute), roomFor(3, loud, quiet))
			if err != nil {
				t.Error(err)
			}
			claims <- c
		}()
	}
	seen := map[uuid.UUID]bool{}
	note := func(list []webhook.Claimed) {
		for _, c := range list {
			if seen[c.ID] || c.Attempt != 1 {
				t.Errorf("claimed twice: %+v", c)
			}
			seen[c.ID] = true
		}
	}
	for range 4 {
		c := <-claims
		if len(c) > 4 {
			t.Errorf("one process has %d", len(c))
		}
		note(c)
	}
	note(f.claim(t, now, 10, loud, quiet)) // those that were locked
	if len(seen) != 11 {
		t.Errorf("%d of 11 are claimed", len(seen))
	}
	settle := func(c webhook.Claimed, o webhook.Outcome) {
		t.Helper()
		if err := f.SettleDelivery(t.Context(), c, o); err != nil {
			t.Fatal(err)
		}
	}
	// When claims expire the same deliveries are claimed again, and reports of their first holder
	// do not count any more.
	later := now.Add(2 * time.Minute)
	again := f.claim(t, later, 100, loud, quiet)
	if len(again) != 11 || again[0].Attempt != 2 {
		t.Fatalf("claimed again: %+v", again)
	}
	lost := again[0]
	stale := lost
	stale.Attempt = 1
	settle(stale, webhook.Outcome{State: schema.DeliveryDelivered, At: later})
	settle(lost, webhook.Outcome{State: schema.DeliveryWaiting, Status: 500, Problem: "p", Next: later.Add(time.Hour), At: later})
	if n := one[int](t, f, schema.Principal{Tenant: lost.Tenant}, `SELECT count(*) FROM webhook_deliveries WHERE id = $1 AND state = 'waiting' AND status = 500 AND problem = 'p' AND attempts = 2`, lost.ID); n != 1 {
		t.Error("a stale holder's word counted")
	}
}

// TestDeliveriesAreClaimedInTurns: ended jobs come before versions, and tenants and webhooks get
// equal shares.
func TestDeliveriesAreClaimedInTurns(t *testing.T) {
	f := setUp(t, store.Options{})
	kinds := []string{schema.WebhookQuestionAnswered, schema.WebhookVersionReady}
	first, second, other := f.hook(t, f.a, nil, kinds...), f.hook(t, f.a, nil, kinds...), f.hook(t, f.b, nil, kinds...)
	f.due(t, f.a, first, schema.WebhookVersionReady, 500)
	f.due(t, f.a, first, schema.WebhookQuestionAnswered, 3)
	f.due(t, f.a, second, schema.WebhookVersionReady, 10)
	f.due(t, f.b, other, schema.WebhookVersionReady, 10)
	now := soon()
	claim := func(r webhook.Room) map[uuid.UUID][]string {
		t.Helper()
		list, err := f.ClaimDeliveries(t.Context(), now, now.Add(time.Minute), r)
		if err != nil {
			t.Fatal(err)
		}
		out := map[uuid.UUID][]string{}
		for _, c := range list {
			p := f.a
			if c.Tenant == f.b.Tenant {
				p = f.b
			}
			out[c.Webhook] = append(out[c.Webhook], one[string](t, f, p, `SELECT kind FROM webhook_deliveries WHERE webhook_id = $1 AND id = $2`, c.Webhook, c.ID))
		}
		return out
	}
	r := roomFor(8, first, second, other)
	r.Limit = 8
	got := claim(r)
	if len(got[first.ID]) != 2 || len(got[second.ID]) != 2 || len(got[other.ID]) != 4 {
		t.Errorf("of 8 places the webhooks got %v", got)
	}
	if !slices.Equal(got[first.ID], []string{schema.WebhookQuestionAnswered, schema.WebhookQuestionAnswered}) {
		t.Errorf("before answers go %v", got[first.ID])
	}
	// The last answer is claimed alone; what comes after it is a version.
	if got := claim(roomFor(8, first)); !slices.Equal(got[first.ID], []string{schema.WebhookQuestionAnswered}) || len(got[second.ID]) != 1 || len(got[other.ID]) != 1 {
		t.Errorf("claimed %v", got)
	}
	// A webhook without room delays no other, and unproven ones have a limit of their own.
	r = roomFor(0, first)
	r.Webhooks, r.Each, r.Proven, r.Unproven = append(r.Webhooks, second.ID), append(r.Each, 5), append(r.Proven, true), 0
	if got := claim(r); len(got[first.ID]) != 0 || len(got[second.ID]) != 5 || len(got[other.ID]) != 0 {
		t.Errorf("claimed %v", got)
	}
}

func TestWebhooksAreTheirTenants(t *testing.T) {
	f := setUp(t, store.Options{})
	w := f.hook(t, f.a, nil, schema.WebhookQuestionFailed)
	_, in := f.question(t, f.a, true)
	if err := f.Fail(t.Context(), in, schema.Reason{Code: "quota"}); err != nil {
		t.Fatal(err)
	}
	d := f.deliveries(t, f.a, w.ID)[0]
	for what, err := range map[string]error{
		"rotate": func() error { _, err := f.RotateWebhook(t.Context(), f.b, w.ID, []byte("x")); return err }(),
		"delete": f.DeleteWebhook(t.Context(), f.b, w.ID),
		"list": func() error {
			_, _, err := f.WebhookDeliveries(t.Context(), f.b, w.ID, "", schema.PageQuery{})
			return err
		}(),
		"replay": func() error { _, err := f.ReplayDelivery(t.Context(), f.b, w.ID, d.ID); return err }(),
	} {
		if !errors.Is(err, schema.ErrNotFound) {
			t.Errorf("%s by another tenant gave %v", what, err)
		}
	}
	if _, err := f.ReplayDelivery(t.Context(), f.a, w.ID, d.ID); !errors.Is(err, schema.ErrConflict) {
		t.Errorf("replaying what waits gave %v", err)
	}
	c := f.claim(t, soon(), 1)[0]
	if err := f.SettleDelivery(t.Context(), c, webhook.Outcome{State: schema.DeliveryFailed, Problem: "p", At: time.Now()}); err != nil {
		t.Fatal(err)
	}
	again, err := f.ReplayDelivery(t.Context(), f.a, w.ID, d.ID)
	if err != nil || again.ID != d.ID || again.State != schema.DeliveryWaiting || again.Attempts != 0 || again.Problem != "" {
		t.Errorf("replayed: %+v, %v", again, err)
	}
	rotated, err := f.RotateWebhook(t.Context(), f.a, w.ID, []byte("second"))
	if err != nil || rotated.OldSecretUntil == nil {
		t.Fatalf("rotated: %+v, %v", rotated, err)
	}
	c = f.claim(t, soon(), 1)[0]
	for at, want := range map[time.Time]string{time.Now(): "second first", time.Now().Add(25 * time.Hour): "second"} {
		send, err := f.Delivery(t.Context(), c, at)
		var got []string
		for _, s := range send.Secrets {
			got = append(got, string(s))
		}
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("signed by %v, %v, want %s", got, err, want)
		}
	}
	if err := f.DeleteWebhook(t.Context(), f.a, w.ID); err != nil {
		t.Fatal(err)
	}
	if n := one[int](t, f, f.a, `SELECT count(*) FROM webhook_deliveries`); n != 0 {
		t.Errorf("%d deliveries are left", n)
	}
	if _, err := f.Delivery(t.Context(), c, time.Now()); !errors.Is(err, schema.ErrNotFound) {
		t.Errorf("a delivery to a webhook that is gone gave %v", err)
	}
	for range 20 {
		f.hook(t, f.a, nil, schema.WebhookQuestionFailed)
	}
	if _, err := f.CreateWebhook(t.Context(), f.a, schema.NewWebhook{URL: "u", Kinds: []string{"k"}}, []byte("s")); !errors.Is(err, schema.ErrQuota) {
		t.Errorf("one too many gave %v", err)
	}
}

func TestOldDeliveriesAreForgotten(t *testing.T) {
	f := setUp(t, store.Options{})
	w := f.hook(t, f.a, nil, schema.WebhookQuestionFailed)
	for _, row := range []string{`'delivered', now() - interval '31 days'`, `'delivered', now()`, `'waiting', NULL`} {
		execAs(t, f, f.a, `INSERT INTO webhook_deliveries (tenant_id, webhook_id, id, kind, subject_id, state, finished_at) VALUES ($1, $2, $3, 'question.failed', $3, `+row+`)`, f.a.Tenant, w.ID, schema.NewID())
	}
	if n, err := f.ForgetDeliveries(t.Context(), time.Now().Add(-30*24*time.Hour), 10); err != nil || n != 1 || len(f.deliveries(t, f.a, w.ID)) != 2 {
		t.Errorf("forgot %d, %v", n, err)
	}
}

// TestADeliveryReplayedDuringAPurgeStays: its deletion waits for the replay.
func TestADeliveryReplayedDuringAPurgeStays(t *testing.T) {
	f := setUp(t, store.Options{})
	w := f.hook(t, f.a, nil, schema.WebhookQuestionFailed)
	f.due(t, f.a, w, schema.WebhookQuestionFailed, 1)
	execAs(t, f, f.a, `UPDATE webhook_deliveries SET state = 'delivered', finished_at = now() - interval '31 days'`)
	d := f.deliveries(t, f.a, w.ID)[0]
	forgetter := open(t, f.url, store.Options{Name: "forgetter"})
	forgotten := make(chan error, 1)
	if _, err := f.Store.Once(t.Context(), f.a, "k", "POST /x", []byte("hash"), func(ctx context.Context) *schema.Reply {
		if _, err := f.ReplayDelivery(ctx, f.a, w.ID, d.ID); err != nil {
			t.Error(err)
		}
		go func() {
			_, err := forgetter.ForgetDeliveries(t.Context(), time.Now().Add(-30*24*time.Hour), 10)
			forgotten <- err
		}()
		f.awaitLock(t, "forgetter")
		return &schema.Reply{Status: 200}
	}); err != nil {
		t.Fatal(err)
	}
	if err := <-forgotten; err != nil {
		t.Fatal(err)
	}
	if left := f.deliveries(t, f.a, w.ID); len(left) != 1 || left[0].State != schema.DeliveryWaiting {
		t.Errorf("left are %+v", left)
	}
}
