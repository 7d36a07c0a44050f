//go:build chaos

package e2e

// This file compares the system with the ledger after the faults. It waits for work that is not
// done yet, and reads everything through the API.

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/waittest"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
)

// tenantKeys are the keys of a tenant in a campaign.
type tenantKeys struct {
	id            uuid.UUID
	writer, admin *chaosClient // the writer's groups include the label; the admin key has no groups
	outsider      *chaosClient // a key for searching, without the label
}

// eventually waits until a rule holds. wrong returns what does not hold yet; its second result is
// true if waiting longer is useless.
func (c *campaign) eventually(t *testing.T, rule string, wrong func() (string, bool)) {
	t.Helper()
	last := ""
	defer func() {
		if last != "" {
			c.ledger.violated(rule, "%s", last)
		}
	}()
	waittest.Until(t, func() string {
		said, hard := wrong()
		last = said
		if hard {
			return "" // the violation is reported above
		}
		return said
	})
}

// settle waits until the system has done everything that was acknowledged, and checks that it did
// nothing else.
func (c *campaign) settle(t *testing.T) {
	t.Helper()
	documents := c.ledger.all()
	for _, w := range c.plan.Writers {
		c.listed(t, w, documents)
	}
	for _, d := range documents {
		c.documentIsRight(t, d)
	}
	c.jobsHaveEnded(t)
	c.hooksHaveHeard(t, documents)
	c.booksAreRight(t)
	for _, d := range documents { // no document has come back in the meantime
		c.documentIsRight(t, d)
	}
	for _, said := range c.bed.hooks.doubled() {
		c.ledger.violated(ruleHooks, "%s", said)
	}
	c.nothingPanicked(t)
}

// listed checks that the list of a collection's documents agrees with the ledger.
func (c *campaign) listed(t *testing.T, w chaosWriter, documents []chaosDocument) {
	t.Helper()
	keys := c.tenants[w.Tenant]
	c.eventually(t, ruleLost, func() (string, bool) {
		there := map[string]schema.Document{}
		for cursor := ""; ; {
			r := keys.writer.insist(http.MethodGet, "/v1/collections/"+w.Collection+"/documents?limit=200&cursor="+url.QueryEscape(cursor), nil, "")
			page, err := read[api.Page[schema.Document]](r)
			if err != nil || r.status != http.StatusOK {
				return fmt.Sprintf("%s: %d: %v", r.request, r.status, err), false
			}
			for _, d := range page.Items {
				if other, twice := there[d.ExternalID]; twice {
					return fmt.Sprintf("%s is listed twice, as %s and %s", d.ExternalID, other.ID, d.ID), true
				}
				there[d.ExternalID] = d
			}
			if cursor = page.Next; cursor == "" {
				break
			}
		}
		for _, d := range documents { // labels take effect immediately
			if got, ok := there[d.name]; ok && d.closed != slices.Equal(got.Labels, []string{vault}) {
				c.ledger.violated(ruleLabels, "%s (%s) has the labels %v; it was closed: %v", d.name, d.id, got.Labels, d.closed)
			}
		}
		live := int64(0)
		for _, d := range documents {
			if d.collection != w.Collection || d.deleted {
				continue
			}
			live++
			got, ok := there[d.name]
			switch {
			case !ok:
				return fmt.Sprintf("%s (%s) is not listed", d.name, d.id), true
			case got.ID != d.id:
				return fmt.Sprintf("%s is %s and was %s", d.name, got.ID, d.id), true
			case got.State == schema.StateFailed:
				return fmt.Sprintf("%s (%s) failed: %+v", d.name, d.id, got), true
			case got.State != schema.StateReady:
				return fmt.Sprintf("%s (%s) is %s", d.name, d.id, got.State), false
			}
			delete(there, d.name)
		}
		for name, d := range there {
			return fmt.Sprintf("%s (%s) is listed and should not be", name, d.ID), true
		}
		r := keys.writer.insist(http.MethodGet, "/v1/collections/"+w.Collection, nil, "")
		collection, err := read[schema.Collection](r)
		if sum := collection.Counts[schema.StateReady]; err != nil || sum != live || unfinished(collection.Counts) != 0 {
			return fmt.Sprintf("%s has the counts %v, want %d ready: %v", w.Collection, collection.Counts, live, err), false
		}
		if w.Tenant != quotaTenant {
			return "", false
		}
		r = c.operator.insist(http.MethodGet, "/v1/tenants/"+keys.id.String()+"/storage", nil, "")
		storage, err := read[schema.Storage](r)
		if err != nil || storage.Documents != live {
			return fmt.Sprintf("%s is said to have %d documents, and has %d: %v", w.Tenant, storage.Documents, live, err), false
		}
		return "", false
	})
}

// documentIsRight checks that a document is found by the word of its newest version only, and only
// by readers who may see it.
func (c *campaign) documentIsRight(t *testing.T, d chaosDocument) {
	t.Helper()
	keys := c.tenants[d.tenant]
	find := func(client *chaosClient, token string) ([]string, string) {
		r := client.insist(http.MethodPost, "/v1/search", api.Query{Collection: d.collection, Query: token, Plan: "bm25", K: 50}, "")
		if r.status != http.StatusOK {
			return nil, fmt.Sprintf("%s: %d %.300s", r.request, r.status, r.body)
		}
		names, err := found(r, token)
		if err != nil {
			return nil, err.Error()
		}
		return names, ""
	}
	for i, v := range d.versions {
		rule, want := ruleLost, []string{d.name}
		switch {
		case d.deleted:
			rule, want = ruleDeleted, nil
		case i < len(d.versions)-1:
			rule, want = ruleNewest, nil
		}
		c.eventually(t, rule, func() (string, bool) {
			names, problem := find(keys.writer, v.token)
			if problem != "" {
				return problem, false
			}
			if !slices.Equal(names, want) {
				return fmt.Sprintf("the word %s of version %d of %d of %s (document %s, version %s) is found in %v, want %v",
					v.token, i+1, len(d.versions), d.name, d.id, v.id, names, want), len(names) > 1
			}
			return "", false
		})
		if d.closed {
			want = nil
		}
		c.eventually(t, ruleLabels, func() (string, bool) {
			names, problem := find(keys.outsider, v.token)
			if problem != "" {
				return problem, false
			}
			if !slices.Equal(names, want) {
				return fmt.Sprintf("a key without the label finds the word %s of %s (document %s) in %v, want %v", v.token, d.name, d.id, names, want), d.closed
			}
			return "", false
		})
	}
	if d.deleted {
		return
	}
	r := keys.writer.insist(http.MethodGet, "/v1/documents/"+d.id.String()+"/content", nil, "")
	if want := crateText(d.name, d.newest().token); r.status != http.StatusOK || string(r.body) != want {
		c.ledger.violated(ruleNewest, "the content of %s (%s) is %d %.200q, want %q", d.name, d.id, r.status, r.body, want)
	}
}

func (c *campaign) jobsHaveEnded(t *testing.T) {
	t.Helper()
	ends := map[schema.JobState]int{}
	for tenant, keys := range c.tenants {
		asked := map[string]uuid.UUID{}
		for id, job := range c.ledger.jobs {
			if job.tenant != tenant {
				continue
			}
			asked[job.question] = id
			c.eventually(t, ruleJobs, func() (string, bool) {
				r := keys.writer.insist(http.MethodGet, "/v1/jobs/"+id.String(), nil, "")
				got, err := read[schema.Job](r)
				if err != nil || r.status != http.StatusOK {
					return fmt.Sprintf("the job %s, %q: %d: %v", id, job.question, r.status, err), r.status == http.StatusNotFound
				}
				if !got.State.Final() {
					return fmt.Sprintf("the job %s, %q, is %s in %q", id, job.question, got.State, got.Stage), false
				}
				ends[got.State]++
				if got.State == schema.JobFailed && got.Reason != nil {
					c.bed.say("the job %s of %s failed: %s: %s", id, tenant, got.Reason.Code, got.Reason.Message)
				}
				return "", false
			})
		}
		for cursor := ""; ; {
			r := keys.writer.insist(http.MethodGet, "/v1/jobs?limit=200&cursor="+url.QueryEscape(cursor), nil, "")
			page, err := read[api.Page[schema.Job]](r)
			if err != nil {
				c.ledger.violated(ruleJobs, "%v", err)
				return
			}
			for _, j := range page.Items {
				if want, known := asked[j.Question]; known && want != j.ID {
					c.ledger.violated(ruleDoubled, "the question %q is the job %s and the job %s", j.Question, want, j.ID)
				}
			}
			if cursor = page.Next; cursor == "" {
				break
			}
		}
	}
	t.Logf("%d jobs: %v", len(c.ledger.jobs), ends)
}

// hooksHaveHeard checks that every webhook received the end of each job and version that began
// after the webhook was created.
func (c *campaign) hooksHaveHeard(t *testing.T, documents []chaosDocument) {
	t.Helper()
	for _, hook := range c.ledger.hooks {
		for id, job := range c.ledger.jobs {
			if job.tenant != hook.tenant || !job.asked.After(hook.there) {
				continue
			}
			c.eventually(t, ruleHooks, func() (string, bool) {
				if c.bed.hooks.hears(hook.path, id, schema.WebhookQuestionAnswered, schema.WebhookQuestionFailed, schema.WebhookQuestionCancelled) {
					return "", false
				}
				return fmt.Sprintf("%s of %s has not heard of the end of the job %s", hook.path, hook.tenant, id), false
			})
		}
		for _, d := range documents {
			if d.tenant != hook.tenant || d.deleted || !d.newest().asked.After(hook.there) {
				continue
			}
			c.eventually(t, ruleHooks, func() (string, bool) {
				if c.bed.hooks.hears(hook.path, d.newest().id, schema.WebhookVersionReady) {
					return "", false
				}
				return fmt.Sprintf("%s of %s has not heard of the version %s of %s (%s)", hook.path, hook.tenant, d.newest().id, d.name, d.id), false
			})
		}
	}
}

// booksAreRight compares the ledger of language model calls with what the model counted.
func (c *campaign) booksAreRight(t *testing.T) {
	t.Helper()
	for tenant, keys := range c.tenants {
		c.eventually(t, ruleBudget, func() (string, bool) {
			r := keys.admin.insist(http.MethodGet, "/v1/usage", nil, "")
			usage, err := read[schema.LLMUsage](r)
			if err != nil || r.status != http.StatusOK {
				return fmt.Sprintf("%s: %d: %v", r.request, r.status, err), false
			}
			if usage.InProgress != 0 {
				return fmt.Sprintf("%d calls of %s are in progress", usage.InProgress, tenant), false
			}
			calls, cut, paid, unwritten := c.bed.model.paid(tenant, c.faults.lostReplies)
			booked := usage.Month.InputTokens + usage.Month.OutputTokens
			said := fmt.Sprintf("%s: the model counts %d tokens in %d calls, of which the books may lack %d and have %d estimated; they have %d", tenant, paid, calls, unwritten, cut, booked)
			c.bed.say("%s", said)
			if booked > paid+int64(cut)*mostEstimated || booked < paid-unwritten || tenant == budgetTenant && (booked > tokenBudget || paid-unwritten > tokenBudget) {
				return said, true
			}
			return "", false
		})
	}
}

// nothingPanicked reads the programs' logs.
func (c *campaign) nothingPanicked(t *testing.T) {
	t.Helper()
	for _, name := range programNames() {
		text, err := os.ReadFile(filepath.Join(c.bed.logs, name+".log"))
		if err != nil {
			t.Fatal(err)
		}
		for _, word := range []string{"\npanic: ", "\nfatal error: ", "\nunexpected fault address"} {
			if at := strings.Index("\n"+string(text), word); at >= 0 {
				c.ledger.violated(rulePanic, "%s: %.600s", name, text[at:])
			}
		}
	}
}
