//go:build chaos

package e2e

// This file has the servers outside of the system: a scripted server of OpenAI's API that answers
// questions about crates and counts the tokens of each tenant, and a receiver of webhooks.

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
)

// chaosModel is the scripted language model.
type chaosModel struct {
	*httptest.Server

	mu     sync.Mutex
	tenant map[string]string // by the collection in the question
	calls  map[string][]chaosCall
}

// chaosCall is a call that was answered, and that a provider would charge for.
type chaosCall struct {
	begin, end time.Time
	tokens     int64
	unread     bool // the caller had disconnected
}

func newChaosModel(t *testing.T) *chaosModel {
	m := &chaosModel{tenant: map[string]string{}, calls: map[string][]chaosCall{}}
	m.Server = httptest.NewServer(http.HandlerFunc(m.serve))
	t.Cleanup(m.Close)
	return m
}

// crateAsked matches the questions of a campaign.
var crateAsked = regexp.MustCompile(`Question \d+ of (\S+): where is the crate (\S+) kept\?`)

// outputTokens is the number of output tokens that the model reports for each reply.
const outputTokens = 200

func (m *chaosModel) serve(w http.ResponseWriter, r *http.Request) {
	begin := time.Now()
	body, err := io.ReadAll(r.Body)
	var chat struct {
		Messages []struct{ Content string } `json:"messages"`
	}
	var asked []string
	if err == nil && json.Unmarshal(body, &chat) == nil && len(chat.Messages) > 1 {
		asked = crateAsked.FindStringSubmatch(chat.Messages[1].Content)
	}
	if asked == nil {
		http.Error(w, "this server answers after crates alone", http.StatusBadRequest)
		return
	}
	pause(r.Context(), 50*time.Millisecond) // the model's response time
	reply := quoting(chat.Messages[1].Content, regexp.MustCompile(`The crate `+regexp.QuoteMeta(asked[2])+` is kept in hall \d+\.`))
	input := int64(len(body) / 8)
	err = complete(w, "scripted", reply, input, outputTokens)
	m.mu.Lock()
	defer m.mu.Unlock()
	tenant := m.tenant[asked[1]]
	m.calls[tenant] = append(m.calls[tenant], chaosCall{begin, time.Now(), input + outputTokens, err != nil || r.Context().Err() != nil})
}

// paid returns the number of a tenant's calls and their tokens. The ledger may lack some of these
// tokens, because a gateway that is killed or has no database cannot record the reply that it waits
// for: unwritten is their number, and cut the number of such calls. For calls that were cancelled,
// the ledger has an estimate.
func (m *chaosModel) paid(tenant string, lost func(begin, end time.Time) bool) (calls, cut int, tokens, unwritten int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range m.calls[tenant] {
		tokens += c.tokens
		if c.unread || lost(c.begin, c.end) {
			unwritten += c.tokens
			cut++
		}
	}
	return len(m.calls[tenant]), cut, tokens, unwritten
}

// chaosHooks receives webhooks, which differ in their paths.
type chaosHooks struct {
	*httptest.Server

	mu       sync.Mutex
	refuses  bool
	heard    map[hookEvent]map[string]int // accepted deliveries, by their webhook-id
	problems []string
}

// hookEvent is an event that one webhook receives once: the end of a job or of a version.
type hookEvent struct {
	hook    string
	kind    string
	subject uuid.UUID
}

func newChaosHooks(t *testing.T) *chaosHooks {
	h := &chaosHooks{heard: map[hookEvent]map[string]int{}}
	h.Server = httptest.NewServer(http.HandlerFunc(h.serve))
	t.Cleanup(h.Close)
	return h
}

func (h *chaosHooks) refuse(on bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.refuses = on
}

func (h *chaosHooks) serve(w http.ResponseWriter, r *http.Request) {
	var event struct {
		Type string
		Data struct {
			Job     uuid.UUID `json:"job_id"`
			Version uuid.UUID `json:"version_id"`
		}
	}
	err := json.NewDecoder(r.Body).Decode(&event)
	h.mu.Lock()
	defer h.mu.Unlock()
	id := r.Header.Get("webhook-id")
	if err != nil || id == "" {
		h.problems = append(h.problems, fmt.Sprintf("a delivery with the id %q is not readable: %v", id, err))
	}
	if h.refuses {
		http.Error(w, "not now", http.StatusServiceUnavailable)
		return
	}
	e := hookEvent{hook: r.URL.Path, kind: event.Type, subject: event.Data.Job}
	if e.subject == uuid.Nil {
		e.subject = event.Data.Version
	}
	if h.heard[e] == nil {
		h.heard[e] = map[string]int{}
	}
	h.heard[e][id]++
}

// doubled returns events that were delivered under two ids, and jobs with two different ends.
func (h *chaosHooks) doubled() (out []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	out = append(out, h.problems...)
	ends := map[hookEvent]string{}
	for e, ids := range h.heard {
		if len(ids) > 1 {
			out = append(out, fmt.Sprintf("%s of %s came to %s under the ids %v", e.kind, e.subject, e.hook, ids))
		}
		if of, kind, _ := strings.Cut(e.kind, "."); of == "question" {
			at := hookEvent{hook: e.hook, subject: e.subject}
			if other := ends[at]; other != "" {
				out = append(out, fmt.Sprintf("the job %s ended as %s and as %s", e.subject, other, kind))
			}
			ends[at] = kind
		}
	}
	return out
}

// hears reports whether a webhook received an event of one of the kinds about a subject.
func (h *chaosHooks) hears(hook string, subject uuid.UUID, kinds ...string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, kind := range kinds {
		if len(h.heard[hookEvent{hook, kind, subject}]) > 0 {
			return true
		}
	}
	return false
}
