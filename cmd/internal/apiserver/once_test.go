package apiserver_test

// This file kills servers at every commit of every request that takes an
// idempotency key, and sends the request again.

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
)

// sample is a request of an operation, and a query that counts its effect.
type sample struct {
	path  string
	body  any
	count string // SQL, run as the system
	args  []any
}

const countAudit = `SELECT count(*) FROM audit WHERE action = $1`

// samples returns a request for each operation, with objects of its own where it needs some.
var samples = map[string]func(w *world, name string) sample{
	"create-collection": func(_ *world, name string) sample {
		return sample{"/v1/collections", api.NewCollection{Name: name}, countAudit, []any{"collection.create"}}
	},
	"upload-documents": func(w *world, name string) sample {
		w.post("/v1/collections", api.NewCollection{Name: name}, "").want(http.StatusCreated, nil)
		body := api.Upload{Documents: []api.NewDocument{{ExternalID: name, Text: name}}}
		return sample{"/v1/collections/" + name + "/documents", body, `SELECT count(*) FROM versions`, nil}
	},
	"retry-document": func(w *world, name string) sample {
		failed := w.failed(name)
		return sample{"/v1/documents/" + failed + "/retry", struct{}{}, countAudit, []any{"document.retry"}}
	},
	"retry-collection": func(w *world, name string) sample {
		w.failed(name)
		return sample{"/v1/collections/" + name + "/retry", struct{}{}, `SELECT coalesce(sum(attempt), 0) FROM versions`, nil}
	},
	"start-job": func(w *world, name string) sample {
		w.post("/v1/collections", api.NewCollection{Name: name}, "").want(http.StatusCreated, nil)
		return sample{"/v1/jobs", api.Query{Collection: name, Query: "What?"}, `SELECT count(*) FROM questions`, nil}
	},
	"create-evaluation": func(_ *world, name string) sample {
		return sample{"/v1/evaluations", stored(name, 2, 1), countAudit, []any{"evaluation.create"}}
	},
	"create-key": func(_ *world, name string) sample {
		return sample{"/v1/keys", api.NewKey{Name: name, Scopes: []schema.Scope{schema.ScopeQuery}}, countAudit, []any{"key.create"}}
	},
	"rotate-key": func(w *world, name string) sample {
		var made api.KeyCreated
		w.post("/v1/keys", api.NewKey{Name: name, Scopes: []schema.Scope{schema.ScopeQuery}}, "").want(http.StatusCreated, &made)
		return sample{"/v1/keys/" + made.ID.String() + "/rotate", api.RotateKey{}, countAudit, []any{"key.rotate"}}
	},
	"create-tenant": func(_ *world, name string) sample {
		return sample{"/v1/tenants", api.NewTenant{Name: name}, `SELECT count(*) FROM tenants`, nil}
	},
	"create-webhook": func(_ *world, name string) sample {
		return sample{"/v1/webhooks", api.NewWebhook{URL: "https://example.com/" + name}, countAudit, []any{"webhook.create"}}
	},
	"rotate-webhook": func(w *world, name string) sample {
		return sample{"/v1/webhooks/" + w.webhook(name) + "/rotate", struct{}{}, countAudit, []any{"webhook.rotate"}}
	},
	"replay-webhook-delivery": func(w *world, name string) sample {
		id := w.webhook(name)
		w.post("/v1/collections", api.NewCollection{Name: name}, "").want(http.StatusCreated, nil)
		var job schema.Job
		w.post("/v1/jobs", api.Query{Collection: name, Query: "What?"}, "").want(http.StatusAccepted, &job)
		w.post("/v1/jobs/"+job.ID.String()+"/cancel", struct{}{}, "").want(http.StatusOK, nil)
		w.exec(`UPDATE webhook_deliveries SET state = 'delivered', finished_at = now() WHERE state = 'waiting'`)
		delivery := scalar[string](w, `SELECT id::text FROM webhook_deliveries WHERE webhook_id = $1::uuid`, id)
		return sample{"/v1/webhooks/" + id + "/deliveries/" + delivery + "/replay", struct{}{}, countAudit, []any{"webhook.replay"}}
	},
	"rebuild-collection": func(w *world, name string) sample {
		w.post("/v1/collections", api.NewCollection{Name: name}, "").want(http.StatusCreated, nil)
		return sample{"/v1/collections/" + name + "/rebuild", api.NewRebuild{}, countAudit, []any{"collection.rebuild"}}
	},
	"reparse-collection": func(w *world, name string) sample {
		w.post("/v1/collections", api.NewCollection{Name: name}, "").want(http.StatusCreated, nil)
		return sample{"/v1/collections/" + name + "/reparse", struct{}{}, countAudit, []any{"collection.reparse"}}
	},
	"choose-plan": func(w *world, name string) sample {
		w.post("/v1/collections", api.NewCollection{Name: name}, "").want(http.StatusCreated, nil)
		return sample{"/v1/collections/" + name + "/plan-choices", api.NewPlanChoice{}, countAudit, []any{"plan_choice.start"}}
	},
	"create-source": func(w *world, name string) sample {
		return sample{"/v1/sources", w.newSource(name), countAudit, []any{"source.create"}}
	},
	"run-source": func(w *world, name string) sample {
		return sample{"/v1/sources/" + w.source(name) + "/run", struct{}{}, countAudit, []any{"source.run"}}
	},
	"confirm-source": func(w *world, name string) sample {
		id := w.source(name)
		w.exec(`WITH asking AS (INSERT INTO source_runs (tenant_id, id, source_id, whole) SELECT tenant_id, gen_random_uuid(), id, true FROM sources WHERE id = $1 RETURNING id)
			UPDATE sources SET state = 'asking', due_at = NULL, run_id = (SELECT id FROM asking) WHERE id = $1`, id)
		return sample{"/v1/sources/" + id + "/confirm", struct{}{}, countAudit, []any{"source.confirm"}}
	},
	"recluster-collection": func(w *world, name string) sample {
		w.post("/v1/collections", api.NewCollection{Name: name}, "").want(http.StatusCreated, nil)
		return sample{"/v1/collections/" + name + "/recluster", struct{}{}, countAudit, []any{"collection.recluster"}}
	},
}

// failed uploads a document to a collection of the same name, and fails it.
func (w *world) failed(name string) string {
	w.t.Helper()
	w.post("/v1/collections", api.NewCollection{Name: name}, "").want(http.StatusCreated, nil)
	var up api.UploadResult
	w.post("/v1/collections/"+name+"/documents", api.Upload{Documents: []api.NewDocument{{ExternalID: name, Text: name}}}, "").want(http.StatusOK, &up)
	w.exec(`UPDATE versions SET state = 'failed', reason_code = 'broken', reason = 'x', finished_at = now() WHERE id = $1`, up.Documents[0].Version)
	return up.Documents[0].Document.String()
}

func (w *world) webhook(name string) string {
	w.t.Helper()
	var made api.WebhookSecret
	w.post("/v1/webhooks", api.NewWebhook{URL: "https://example.com/" + name}, "").want(http.StatusCreated, &made)
	return made.ID.String()
}

// newSource returns a source for a collection of the same name. No worker synchronises it.
func (w *world) newSource(name string) api.NewSource {
	w.t.Helper()
	driver := schema.SourceDriver{Name: "folder", Fields: []schema.SourceField{{Name: "path", Required: true}, {Name: "permissions"}}}
	if err := w.store.RegisterDrivers(w.t.Context(), []schema.SourceDriver{driver}); err != nil {
		w.t.Fatal(err)
	}
	w.post("/v1/collections", api.NewCollection{Name: name}, "").want(http.StatusCreated, nil)
	return api.NewSource{Name: name, Collection: name, Driver: "folder", Settings: map[string]string{"path": "/srv/" + name}}
}

func (w *world) source(name string) string {
	w.t.Helper()
	var made schema.Source
	w.post("/v1/sources", w.newSource(name), "").want(http.StatusCreated, &made)
	return made.ID.String()
}

// exec runs a statement as the first tenant.
func (w *world) exec(sql string, args ...any) {
	w.t.Helper()
	err := w.store.AsTenant(w.t.Context(), w.admin.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, sql, args...)
		return err
	})
	if err != nil {
		w.t.Fatalf("%s: %v", sql, err)
	}
}

// did returns how often s's operation has taken effect.
func (w *world) did(s sample) int {
	w.t.Helper()
	if strings.Contains(s.count, "tenants") {
		n := 0
		if err := w.store.AsSystem(w.t.Context(), func(ctx context.Context, tx pgx.Tx) error { return tx.QueryRow(ctx, s.count, s.args...).Scan(&n) }); err != nil {
			w.t.Fatal(err)
		}
		return n
	}
	return scalar[int](w, s.count, s.args...)
}

var uuidPattern = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)

// TestARequestActsOnceThroughAKillAtAnyCommit: whichever commit a server is killed after, repeating
// the request with the same key returns the reply to its single effect or, if that has a secret, an
// error that names what was created.
func TestARequestActsOnceThroughAKillAtAnyCommit(t *testing.T) {
	all := newWorld(t)
	for op := range all.idempotentOperations() {
		if samples[op] == nil {
			t.Errorf("%s takes an idempotency key; give it a sample here", op)
		}
	}
	for op, sampleOf := range samples {
		t.Run(op, func(t *testing.T) {
			w := newWorld(t)
			if !w.idempotentOperations()[op] {
				t.Fatalf("%s is not described as taking an idempotency key", op)
			}
			cut, kept := true, 0
			for n := 1; cut; n++ {
				name := fmt.Sprintf("c%d", n)
				s := sampleOf(w, name)
				before := w.did(s)
				var first response
				if first, cut = w.sendAndCut(n, s.path, s.body, name); !cut && first.status >= 400 {
					t.Fatalf("without a kill it is %d %s", first.status, first.body)
				}
				done := w.did(s) - before
				repeat := w.post(s.path, s.body, name)
				again := w.post(s.path, s.body, name)
				switch {
				case repeat.status == http.StatusConflict && done == 1:
					if kept++; !uuidPattern.Match(repeat.body) {
						t.Errorf("killed after commit %d: the refusal names nothing: %s", n, repeat.body)
					}
				case repeat.status >= 300:
					t.Errorf("killed after commit %d, with %d done: the repeat is %d %s", n, done, repeat.status, repeat.body)
				case done == 1:
					kept++
				}
				if id := uuidPattern.Find(repeat.body); string(id) != string(uuidPattern.Find(again.body)) {
					t.Errorf("killed after commit %d: the repeats tell of two things: %s and %s", n, repeat.body, again.body)
				}
				if did := w.did(s) - before; did != 1 {
					t.Errorf("killed after commit %d: it acted %d times", n, did)
				}
			}
			if kept < 2 {
				t.Errorf("the effect was there before the repeat %d times; want one kill between it and the reply, and a run without", kept)
			}
		})
	}
}

// TestARepeatWhileTheFirstRunsIsToldToWait: the repeat gets 409 with Retry-After, and the first
// request's reply after that has ended.
func TestARepeatWhileTheFirstRunsIsToldToWait(t *testing.T) {
	w := newWorld(t)
	w.post("/v1/collections", api.NewCollection{Name: "c"}, "").want(http.StatusCreated, nil)
	ask := func() response { return w.post("/v1/jobs", api.Query{Collection: "c", Query: "What?"}, "key") }
	done := make(chan response, 2)
	err := w.store.AsTenant(t.Context(), w.admin.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT FROM collections FOR UPDATE`); err != nil { // blocks the creation of the job
			return err
		}
		for range 2 {
			go func() { done <- ask() }()
		}
		repeat := <-done
		if repeat.status != http.StatusConflict || repeat.header.Get("Retry-After") == "" {
			t.Errorf("the repeat is %d %s, with %v", repeat.status, repeat.body, repeat.header)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	var first, again schema.Job
	(<-done).want(http.StatusAccepted, &first)
	ask().want(http.StatusAccepted, &again)
	if first.ID != again.ID {
		t.Errorf("one key made two jobs, %s and %s", first.ID, again.ID)
	}
}
