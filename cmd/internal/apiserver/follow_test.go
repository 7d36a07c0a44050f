package apiserver_test

// This file follows jobs through HTTP. The tests act as the workers.

import (
	"context"
	"net/http"
	"slices"
	"testing"

	"github.com/sluice-rag/sluice/internal/apiclient"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
	"github.com/sluice-rag/sluice/schema/wire"
)

// hint publishes a message about a job, as a worker or the outbox's relay does.
func (w *world) hint(subject string, m any) {
	data, err := wire.Encode(m)
	if err == nil {
		err = w.nats.Publish(subject, data)
	}
	if err != nil {
		w.t.Error(err)
	}
}

func TestAJobIsFollowedToItsEnd(t *testing.T) {
	w := newWorld(t)
	w.post("/v1/collections", api.NewCollection{Name: "c"}, "").want(http.StatusCreated, nil)
	var job schema.Job
	w.post("/v1/jobs", api.Query{Collection: "c", Query: "q"}, "").want(http.StatusAccepted, &job)
	c, err := apiclient.New(w.url, w.key)
	if err != nil {
		t.Fatal(err)
	}
	in := wire.QuestionInput{Tenant: w.admin.Tenant, Question: job.ID, Attempt: 1}
	questions := w.store
	event := func(kind string) {
		w.hint(wire.EventSubject(in.Tenant, kind), wire.QuestionEvent{Envelope: wire.Header(), Question: job.ID})
	}
	text := func(text string) {
		w.hint(wire.TextSubject(in.Tenant, job.ID), wire.QuestionText{Envelope: wire.Header(), Question: job.ID, Text: text})
	}
	var states []string
	var deltas []api.DeltaEvent
	ended, err := c.FollowJob(t.Context(), job.ID, func(j schema.Job) {
		states = append(states, string(j.State)+" "+j.Stage)
		var failure error
		switch states[len(states)-1] { // each step follows the report of the one before
		case "queued ":
			_, failure = questions.Begin(t.Context(), in)
			event(wire.EventQuestionRunning)
		case "running understand":
			failure = questions.SetStage(t.Context(), in, "generate")
			w.hint(wire.StageSubject(in.Tenant, job.ID), wire.QuestionStage{Envelope: wire.Header(), Question: job.ID, Stage: "generate"})
		case "running generate":
			text("Half")
		}
		if failure != nil {
			t.Error(failure)
		}
	}, func(d api.DeltaEvent) {
		deltas = append(deltas, d)
		var failure error
		switch len(deltas) { // each message follows the receipt of the one before
		case 1:
			w.hint(wire.TextSubject(in.Tenant, job.ID), wire.QuestionText{Envelope: wire.Envelope{V: 99}, Question: job.ID, Text: "a newer worker's"})
			text("Half of")
		case 2:
			text("Anew")
		case 3:
			failure = questions.SaveAnswer(t.Context(), in, schema.Answer{Answer: "a", Supported: true})
			event(wire.EventQuestionAnswered)
		}
		if failure != nil {
			t.Error(failure)
		}
	})
	if want := []api.DeltaEvent{{Text: "Half", Restart: true}, {Text: " of"}, {Text: "Anew", Restart: true}, {Text: "a", Restart: true, Checked: true}}; !slices.Equal(deltas, want) {
		t.Errorf("of the answer it was told %+v", deltas)
	}
	if err != nil || ended.State != schema.JobAnswered || ended.Result == nil || ended.Result.Answer != "a" || len(states) != 4 {
		t.Errorf("told %q, ended %+v, %v", states, ended, err)
	}
	// A client that comes after the end gets the end at once.
	states = nil
	if again, err := c.FollowJob(t.Context(), job.ID, func(j schema.Job) { states = append(states, string(j.State)) }, func(d api.DeltaEvent) { t.Errorf("told %+v of what is over", d) }); err != nil || again.Result == nil || len(states) != 1 {
		t.Errorf("followed again: told %q, %+v, %v", states, again, err)
	}
}

// TestAJobIsFollowedByItsAskerAlone: for another key or tenant the job does not exist.
func TestAJobIsFollowedByItsAskerAlone(t *testing.T) {
	w := newWorld(t)
	w.post("/v1/collections", api.NewCollection{Name: "c"}, "").want(http.StatusCreated, nil)
	asker, other := w.with(nil, schema.ScopeQuery), w.with(nil, schema.ScopeQuery)
	var made api.TenantCreated
	w.post("/v1/tenants", api.NewTenant{Name: "other"}, "").want(http.StatusCreated, &made)
	var job schema.Job
	asker.post("/v1/jobs", api.Query{Collection: "c", Query: "q"}, "").want(http.StatusAccepted, &job)
	for _, key := range []string{other.key, made.APIKey} {
		user{t: t, url: w.url, key: key}.do(http.MethodGet, "/v1/jobs/"+job.ID.String()+"/events", nil, "").want(http.StatusNotFound, nil)
	}
}

// TestStoppingEndsWhatFollows: the server does not wait for jobs to end.
func TestStoppingEndsWhatFollows(t *testing.T) {
	w := newWorld(t) // its clean-up waits for the server to stop
	w.post("/v1/collections", api.NewCollection{Name: "c"}, "").want(http.StatusCreated, nil)
	var job schema.Job
	w.post("/v1/jobs", api.Query{Collection: "c", Query: "q"}, "").want(http.StatusAccepted, &job)
	c, err := apiclient.New(w.url, w.key)
	if err != nil {
		t.Fatal(err)
	}
	following := make(chan struct{})
	ctx, cancel := context.WithCancel(context.Background())
	over := make(chan error, 1)
	go func() {
		first := true
		_, err := c.FollowJob(ctx, job.ID, func(schema.Job) {
			if first {
				close(following)
				first = false
			}
		}, func(api.DeltaEvent) {})
		over <- err
	}()
	<-following
	if err := w.stop(context.Background()); err != nil {
		t.Error(err)
	}
	cancel()
	<-over
}
