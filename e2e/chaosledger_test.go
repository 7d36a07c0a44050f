//go:build chaos

package e2e

// This file is what was acknowledged, kept apart from the system, and the rules that are held against it while a
// campaign runs.

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/schema/api"
)

// Rules of a campaign.
const (
	ruleLost     = "no acknowledged document is lost"
	ruleDoubled  = "nothing is there twice"
	ruleNewest   = "the newest content wins"
	ruleDeleted  = "what was deleted is gone"
	ruleLabels   = "labels are never loosened"
	ruleJobs     = "every acknowledged question ends, once"
	ruleQuota    = "quotas are exact"
	ruleBudget   = "a budget is never exceeded"
	ruleHooks    = "webhooks hear of every end, under one id"
	ruleInternal = "no reply is an internal error"
	ruleRefused  = "nothing is refused that is allowed"
	rulePanic    = "no program panics"
)

// vault is the label of documents that were closed.
const vault = "vault"

// chaosLedger is what was acknowledged.
type chaosLedger struct {
	t        *testing.T
	campaign string // what repeats it, and where its logs are

	mu        sync.Mutex
	documents map[string]*chaosDocument // by external id
	jobs      map[uuid.UUID]chaosJob
	hooks     []chaosHook
	broken    map[string]int // by rule
}

// chaosDocument is what its writer was told of a document.
type chaosDocument struct {
	tenant, collection, name string
	id                       uuid.UUID
	versions                 []chaosVersion // the newest last
	closed, deleted          bool
}

type chaosVersion struct {
	token string
	id    uuid.UUID
	asked time.Time
}

func (d chaosDocument) newest() chaosVersion { return d.versions[len(d.versions)-1] }

type chaosJob struct {
	tenant, question string
	asked            time.Time
}

// chaosHook is a webhook of which its writer knows that it is there.
type chaosHook struct {
	tenant, path string
	there        time.Time
}

func newChaosLedger(t *testing.T, campaign string) *chaosLedger {
	return &chaosLedger{t: t, campaign: campaign, documents: map[string]*chaosDocument{}, jobs: map[uuid.UUID]chaosJob{}, broken: map[string]int{}}
}

// violated fails the test, with what repeats the campaign. Of one rule the first few are told.
func (l *chaosLedger) violated(rule, format string, v ...any) {
	l.mu.Lock()
	l.broken[rule]++
	n := l.broken[rule]
	l.mu.Unlock()
	if n <= 5 {
		l.t.Errorf("violated: %s: %s\n%s", rule, fmt.Sprintf(format, v...), l.campaign)
	}
}

// change has a writer write down what was acknowledged.
func (l *chaosLedger) change(do func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	do()
}

// document returns what is known of a document, or nil.
func (l *chaosLedger) document(name string) *chaosDocument {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.documents[name]
}

// all returns copies of the documents, by name.
func (l *chaosLedger) all() (out []chaosDocument) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(l.documents)) {
		d := *l.documents[name]
		d.versions = slices.Clone(d.versions)
		out = append(out, d)
	}
	return out
}

// closedTo returns the words that nobody without the label may be told any more, of one collection.
func (l *chaosLedger) closedTo(collection string) (tokens []string) {
	for _, d := range l.all() {
		if d.closed && d.collection == collection {
			for _, v := range d.versions {
				tokens = append(tokens, v.token)
			}
		}
	}
	return tokens
}

// live counts a tenant's documents.
func (l *chaosLedger) live(tenant string) (n int) {
	for _, d := range l.all() {
		if d.tenant == tenant && !d.deleted {
			n++
		}
	}
	return n
}

// found are the documents whose passages have a word.
func found(r chaosReply, token string) (names []string, err error) {
	result, err := read[api.SearchResult](r)
	if err != nil {
		return nil, err
	}
	for _, p := range result.Passages {
		if strings.Contains(p.Text, token) && !slices.Contains(names, p.ExternalID) {
			names = append(names, p.ExternalID)
		}
	}
	return names, nil
}

// tells returns the words among tokens that a reply has anywhere but in the question.
func tells(r chaosReply, question string, tokens []string) (out []string) {
	var parts map[string]json.RawMessage
	if json.Unmarshal(r.body, &parts) != nil {
		return nil
	}
	delete(parts, "query")
	delete(parts, "question")
	for name, part := range parts {
		text := strings.ReplaceAll(string(part), question, "")
		for _, token := range tokens {
			if strings.Contains(text, token) {
				out = append(out, fmt.Sprintf("%s (in %s: %.200s)", token, name, around(text, token)))
			}
		}
	}
	return out
}

func around(text, token string) string {
	at := strings.Index(text, token)
	return text[max(0, at-80):min(len(text), at+len(token)+80)]
}
