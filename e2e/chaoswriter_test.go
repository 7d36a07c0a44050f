//go:build chaos

package e2e

// This file has the clients of a campaign: writers, and readers who may not see all documents.

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
)

// writerRun is a writer during a campaign.
type writerRun struct {
	chaosWriter
	*chaosLedger
	client *chaosClient
	hooks  *chaosHooks
	done   map[string]int
}

// crateText returns the whole text of a version.
func crateText(name, token string) string {
	return fmt.Sprintf("The crate %s is kept in hall %d. It is the one that the list %s names, and nobody has opened it since it came.", token, len(name)+int(token[3]), name)
}

// work does the planned actions until the campaign ends.
func (w *writerRun) work(begun time.Time, duration time.Duration) {
	for n, a := range w.Actions {
		w.client.pause(time.Until(begun.Add(a.At)))
		if time.Since(begun) > duration || w.client.ctx.Err() != nil { //house:clock how long it runs
			return
		}
		w.done[a.Kind]++
		w.do(a, fmt.Sprintf("%s-%d", w.Collection, n))
	}
}

func (w *writerRun) do(a chaosAction, repeat string) {
	d := w.document(a.Document) // only this writer changes it
	switch a.Kind {
	case actUpload, actUpdate:
		w.upload(a, d, repeat)
	case actClose:
		if d == nil || d.deleted {
			return
		}
		r := w.client.insist(http.MethodPatch, "/v1/documents/"+d.id.String(), map[string]any{"labels": []string{vault}}, "")
		if w.accepted(r, http.StatusOK) {
			w.change(func() { d.closed = true })
		}
	case actDelete:
		if d == nil || d.deleted {
			return
		}
		r := w.client.insist(http.MethodDelete, "/v1/documents/"+d.id.String(), nil, "")
		if r.status == http.StatusNotFound && r.attempts > 1 || w.accepted(r, http.StatusNoContent) {
			w.change(func() { d.deleted = true })
		}
	case actSearch:
		w.search(a, d)
	case actAsk:
		_, _ = w.client.once(http.MethodPost, "/v1/ask", encoded(api.Query{Collection: w.Collection, Query: a.Question}), "")
	case actJob:
		asked := time.Now()
		r := w.client.insist(http.MethodPost, "/v1/jobs", api.Query{Collection: w.Collection, Query: a.Question}, repeat)
		if w.Tenant == budgetTenant && r.status == http.StatusTooManyRequests || !w.accepted(r, http.StatusAccepted) {
			return
		}
		job, err := read[schema.Job](r)
		if err != nil || job.ID == uuid.Nil {
			w.violated(ruleJobs, "a job was accepted without an id: %v", err)
			return
		}
		w.change(func() { w.jobs[job.ID] = chaosJob{tenant: w.Tenant, question: a.Question, asked: asked} })
	case actRebuild:
		if r := w.client.insist(http.MethodPost, "/v1/collections/"+w.Collection+"/rebuild", api.NewRebuild{}, repeat); r.status != http.StatusConflict {
			w.accepted(r, http.StatusAccepted)
		}
	case actHook:
		path := "/" + repeat
		r := w.client.insist(http.MethodPost, "/v1/webhooks", api.NewWebhook{URL: w.hooks.URL + path,
			Kinds: []string{schema.WebhookQuestionAnswered, schema.WebhookQuestionFailed, schema.WebhookQuestionCancelled,
				schema.WebhookVersionReady, schema.WebhookVersionFailed}}, repeat)
		// The secret is in the first reply only, so a repeated request gets a conflict.
		if r.status == http.StatusConflict && r.attempts > 1 || w.accepted(r, http.StatusCreated) {
			w.change(func() {
				w.chaosLedger.hooks = append(w.chaosLedger.hooks, chaosHook{tenant: w.Tenant, path: path, there: time.Now()})
			})
		}
	}
}

// accepted reports whether a reply has the status. Another status is a violation unless the bed was
// closed.
func (w *writerRun) accepted(r chaosReply, status int) bool {
	if r.status == status {
		return true
	}
	if w.client.ctx.Err() == nil {
		w.violated(ruleRefused, "%s: %d after %d attempts, want %d: %.300s", r.request, r.status, r.attempts, status, r.body)
	}
	return false
}

func (w *writerRun) upload(a chaosAction, d *chaosDocument, repeat string) {
	if a.Kind == actUpdate && (d == nil || d.deleted) {
		return // the upload of the document was refused
	}
	body := api.NewDocument{ExternalID: a.Document, Text: crateText(a.Document, a.Token)}
	if d != nil && d.closed {
		body.Labels = []string{vault}
	}
	full := w.Documents > 0 && d == nil && w.live(w.Tenant) >= w.Documents
	asked := time.Now()
	r := w.client.insist(http.MethodPost, "/v1/collections/"+w.Collection+"/documents", api.Upload{Documents: []api.NewDocument{body}}, repeat)
	switch {
	case full && r.status == http.StatusTooManyRequests && strings.Contains(string(r.body), "quota"):
		return
	case full && r.status == http.StatusOK:
		w.violated(ruleQuota, "%s was taken with %d of %d documents", a.Document, w.live(w.Tenant), w.Documents)
	case w.Documents > 0 && r.status == http.StatusTooManyRequests:
		w.violated(ruleQuota, "%s was refused with %d of %d documents: %.300s", a.Document, w.live(w.Tenant), w.Documents, r.body)
		return
	case !w.accepted(r, http.StatusOK):
		return
	}
	result, err := read[api.UploadResult](r)
	if err != nil || len(result.Documents) != 1 {
		w.violated(ruleLost, "the upload of %s was answered with %.300s: %v", a.Document, r.body, err)
		return
	}
	version := chaosVersion{token: a.Token, id: result.Documents[0].Version, asked: asked}
	w.change(func() {
		if d == nil {
			d = &chaosDocument{tenant: w.Tenant, collection: w.Collection, name: a.Document, id: result.Documents[0].Document}
			w.documents[a.Document] = d
		}
		d.versions = append(d.versions, version)
	})
}

// search searches for a document's newest word. Either this document is found or it is not ready
// yet.
func (w *writerRun) search(a chaosAction, d *chaosDocument) {
	if d == nil {
		return
	}
	r := w.client.insist(http.MethodPost, "/v1/search", api.Query{Collection: w.Collection, Query: d.newest().token, Plan: "bm25", K: 20}, "")
	if !w.accepted(r, http.StatusOK) {
		return
	}
	names, err := found(r, d.newest().token)
	if err != nil {
		w.violated(ruleRefused, "%v", err)
	}
	if len(names) > 1 || len(names) == 1 && names[0] != d.name {
		w.violated(ruleDoubled, "the word %s of %s is found in %v", d.newest().token, a.Document, names)
	}
}

// watch asks for restricted documents with a key without the label, until the campaign ends.
func (l *chaosLedger) watch(client *chaosClient, collection string, r *rand.Rand, over <-chan struct{}) {
	for n := 0; ; n++ {
		select {
		case <-over:
			return
		case <-client.ctx.Done():
			return
		default:
		}
		client.pause(400 * time.Millisecond)
		tokens := l.closedTo(collection)
		if len(tokens) == 0 {
			continue
		}
		token := tokens[r.IntN(len(tokens))]
		path, question := "/v1/search", token
		q := api.Query{Collection: collection, Query: token, K: 20, Plan: []string{"bm25", "hybrid", ""}[n%3]}
		if n%7 == 6 {
			path, question = "/v1/ask", fmt.Sprintf("Question %d of %s: where is the crate %s kept?", n, collection, token)
			q = api.Query{Collection: collection, Query: question}
		}
		reply, _ := client.once(http.MethodPost, path, encoded(q), "")
		if reply.status != http.StatusOK {
			continue
		}
		if told := tells(reply, question, tokens); len(told) > 0 {
			l.violated(ruleLabels, "a key without the label is told, by %s for %q: %v", path, question, slices.Compact(told))
		}
	}
}
