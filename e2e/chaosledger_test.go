//go:build chaos

package e2e

// This file records what was acknowledged, apart from the system, and has the rules that are
// checked against it during a campaign.

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
	ruleDoubled  = "nothing is stored twice"
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

// vault is the label of documents that were restricted during the campaign.
const vault = "vault"

// chaosLedger records what was acknowledged.
type chaosLedger struct {
	t        *testing.T
	campaign string // how to repeat the campaign, and where its logs are

	mu        sync.Mutex
	documents map[string]*chaosDocument // by external id
	jobs      map[uuid.UUID]chaosJob
	hooks     []chaosHook
	broken    map[string]int // number of violations, by rule
}

// chaosDocument is a document as its writer knows it from replies.
type chaosDocument struct {
	tenant, collection, name string
	id                       uuid.UUID
	versions                 []chaosVersion // oldest first
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

// chaosHook is a webhook whose creation was acknowledged.
type chaosHook struct {
	tenant, path string
	there        time.Time
}

func newChaosLedger(t *testing.T, campaign string) *chaosLedger {
	return &chaosLedger{t: t, campaign: campaign, documents: map[string]*chaosDocument{}, jobs: map[uuid.UUID]chaosJob{}, broken: map[string]int{}}
}

// violated fails the test, and says how to repeat the campaign. It reports only the first
// violations of a rule.
func (l *chaosLedger) violated(rule, format string, v ...any) {
	l.mu.Lock()
	l.broken[rule]++
	n := l.broken[rule]
	l.mu.Unlock()
	if n <= 5 {
		l.t.Errorf("violated: %s: %s\n%s", rule, fmt.Sprintf(format, v...), l.campaign)
	}
}

// change runs a function that records an acknowledgement.
func (l *chaosLedger) change(do func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	do()
}

// document returns the record of a document, or nil.
func (l *chaosLedger) document(name string) *chaosDocument {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.documents[name]
}

// all returns copies of the documents, sorted by name.
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

// closedTo returns the words of one collection that only readers with the label may receive now.
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

// live returns the number of a tenant's documents that are not deleted.
func (l *chaosLedger) live(tenant string) (n int) {
	for _, d := range l.all() {
		if d.tenant == tenant && !d.deleted {
			n++
		}
	}
	return n
}

// found returns the documents that have a passage with a word.
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

// tells returns the words among tokens that occur in a reply, outside of the question.
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

// TestChaosRulesSee checks that the rules notice violations.
func TestChaosRulesSee(t *testing.T) {
	leak := chaosReply{body: []byte(`{"query": "qxone", "passages": [{"text": "The crate qxone.", "document": "a"}, {"text": "qxone again", "document": "b"}]}`)}
	if told := tells(leak, "qxone?", []string{"qxone", "qxtwo"}); len(told) != 1 || !strings.HasPrefix(told[0], "qxone ") {
		t.Errorf("of a word in passages is told %v", told)
	}
	if told := tells(chaosReply{body: []byte(`{"query": "qxone", "question": "Where is qxone?", "answer": "Where is qxone?"}`)}, "Where is qxone?", []string{"qxone"}); len(told) > 0 {
		t.Errorf("of the question alone is told %v", told)
	}
	if names, err := found(leak, "qxone"); err != nil || !slices.Equal(names, []string{"a", "b"}) {
		t.Errorf("found %v, %v", names, err)
	}
	job := uuid.New()
	hooks := &chaosHooks{heard: map[hookEvent]map[string]int{
		{"/one", "question.answered", job}:     {"1": 3},
		{"/one", "question.failed", job}:       {"2": 1},
		{"/one", "version.ready", uuid.New()}:  {"3": 1, "4": 1},
		{"/two", "question.answered", job}:     {"5": 1},
		{"/two", "version.failed", uuid.New()}: {"6": 9},
	}}
	if doubled := hooks.doubled(); len(doubled) != 2 {
		t.Errorf("of an event under two ids and a job with two ends is told %v", doubled)
	}
	if !hooks.hears("/two", job, "question.failed", "question.answered") || hooks.hears("/two", job, "question.failed") || hooks.hears("/three", job, "question.answered") {
		t.Error("it is not told who has heard")
	}
	l := newChaosLedger(t, "")
	l.documents["a"] = &chaosDocument{tenant: "alpha", collection: "c", closed: true, versions: []chaosVersion{{token: "old"}, {token: "new"}}}
	l.documents["b"] = &chaosDocument{tenant: "alpha", collection: "c", deleted: true, versions: []chaosVersion{{token: "other"}}}
	if tokens := l.closedTo("c"); !slices.Equal(tokens, []string{"old", "new"}) || l.live("alpha") != 1 {
		t.Errorf("closed are %v, and live %d", tokens, l.live("alpha"))
	}
}
