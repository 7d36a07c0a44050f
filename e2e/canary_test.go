package e2e

// This file proves that labels hold on every route. A secret is written in words that occur nowhere
// else. Readers who may not see it call every operation that the API describes, on everything that
// was made from the secret, and must not receive any of these words.

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sluice-rag/sluice/internal/waittest"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
)

// The words of the secrets. A part of a word counts as the whole.
var (
	// toldToManagers are in what a key that manages documents may list: external id, title and
	// metadata.
	toldToManagers = []string{"quibblewex", "trondelvasq", "melkvorbin"}
	// secretWords are in texts and headings of all versions.
	secretWords = []string{"zyxquorl", "vembrithal", "hoskwenda", "jilfrancot", "pludwickzen", "drovyaskel"}
)

// part returns the part of a word that identifies it.
func part(word string) string { return word[:7] }

// slips are questions about the secrets, two of them with misspelt secret words.
var slips = []string{safe, chest, "zixquorl wembrithal hosquenda", "jilfrencot pludwyckzen"}

const (
	safe  = "Who built the safe in the cellar?"
	chest = "Who built the chest in the attic?"
)

// walker calls every route with one key, as one person.
type walker struct {
	*server
	name    string
	headers []string
	hidden  []string // words that it must not receive
	manages bool
	told    map[string]int // number of replies with a secret, by operation
}

func (w *walker) ask(t *testing.T, method, path string, body any, more ...string) reply {
	t.Helper()
	return w.call(t, method, path, body, slices.Concat(w.headers, more)...)
}

// hear looks for secrets in the reply of an operation.
func (w *walker) hear(t *testing.T, operation, request string, said []byte) {
	t.Helper()
	text := strings.ToLower(string(said))
	for _, word := range slices.Concat(toldToManagers, secretWords) {
		if !strings.Contains(text, part(word)) {
			continue
		}
		w.told[operation]++
		if slices.Contains(w.hidden, word) {
			t.Errorf("%s: %s tells %s: %.800s", w.name, request, word, said)
			return
		}
	}
}

func (w *walker) heard(t *testing.T, operation string, r reply) {
	t.Helper()
	var header bytes.Buffer
	_ = r.header.Write(&header) // writing to memory does not fail
	w.hear(t, operation, r.request, slices.Concat(header.Bytes(), []byte("\n"), r.body))
	if r.status >= 500 {
		t.Errorf("%s: %s: status %d: %.600s", w.name, r.request, r.status, r.body)
	}
}

// walk calls every operation on all fixtures that fit, also with each optional parameter that names
// a fixture. Operations with a question get every question. Of the operations that delete, it calls
// only end-session.
func (w *walker) walk(t *testing.T, d description, f fixtures) {
	t.Helper()
	for _, o := range d.operations {
		switch {
		case o.method == http.MethodDelete && o.ID != "end-session": // called after all walks
			continue
		case o.ID == "follow-events" && w.manages: // an endless stream; listen reads it
			continue
		}
		w.try(t, d, o, f)
	}
	// Requests that were sent before, with the same idempotency key.
	for _, path := range []string{"/v1/search", "/v1/ask", "/v1/jobs"} {
		w.heard(t, "repeat", w.askOnce(t, path, f))
	}
	for _, plan := range as[api.Page[schema.Plan]](t, w.ask(t, http.MethodGet, "/v1/plans", nil).want(t, http.StatusOK)).Items {
		w.heard(t, "search", w.ask(t, http.MethodPost, "/v1/search",
			map[string]any{"collection": f["collection"][0], "query": slips[0], "plan": plan.Name, "k": 100, "documents": 1000, "explain": true}))
	}
	w.tools(t, f)
}

// try calls an operation.
func (w *walker) try(t *testing.T, d description, o operation, f fixtures) {
	t.Helper()
	paths, body := d.requests(t, o, f)
	for _, path := range d.optional(o, paths, f) {
		for _, b := range d.asking(body) {
			r := w.ask(t, o.method, path, b)
			w.heard(t, o.ID, r)
			switch {
			case o.ID == "start-job" && r.status == http.StatusAccepted:
				w.follow(t, as[schema.Job](t, r).ID.String())
			case o.ID == "ask":
				w.heard(t, "ask by events", w.ask(t, o.method, path, b, "Accept", "text/event-stream"))
			}
		}
	}
}

// optional returns the requests of an operation, and each of them with one more parameter that
// names a fixture.
func (d description) optional(o operation, paths []string, f fixtures) []string {
	out := slices.Clone(paths)
	for _, p := range o.Parameters {
		if p.In != "query" || p.Required {
			continue
		}
		for _, thing := range f[p.Name] {
			for _, path := range paths {
				joint := "?"
				if strings.Contains(path, "?") {
					joint = "&"
				}
				out = append(out, path+joint+p.Name+"="+url.QueryEscape(thing))
			}
		}
	}
	return out
}

// asking returns the bodies for an operation: one for each question, if the operation takes a
// question.
func (d description) asking(body any) []any {
	object, _ := body.(map[string]any)
	_, asks := object["query"]
	_, chats := object["messages"]
	var out []any
	for _, question := range slips {
		b := maps.Clone(object)
		switch {
		case asks:
			b["query"], b["explain"] = question, true
			out = append(out, b)
		case chats:
			b["messages"] = []any{map[string]any{"role": "user", "content": question}}
			streamed := maps.Clone(b)
			streamed["stream"] = true
			out = append(out, b, streamed)
		}
	}
	if out == nil {
		return []any{body}
	}
	return out
}

// follow reads a job until its end: its events, and the stored job.
func (w *walker) follow(t *testing.T, job string) {
	t.Helper()
	w.heard(t, "follow-job", w.ask(t, http.MethodGet, "/v1/jobs/"+job+"/events", nil).want(t, http.StatusOK))
	w.heard(t, "get-job", w.ask(t, http.MethodGet, "/v1/jobs/"+job, nil).want(t, http.StatusOK))
	w.heard(t, "get-question", w.ask(t, http.MethodGet, "/v1/questions/"+job, nil).want(t, http.StatusOK))
}

// personal adds a person's headers to requests.
type personal struct {
	bearer
	headers []string
}

func (p personal) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	for i := 0; i+1 < len(p.headers); i += 2 {
		r.Header.Set(p.headers[i], p.headers[i+1])
	}
	return p.bearer.RoundTrip(r)
}

// tools calls every tool of the Model Context Protocol and reads every resource.
func (w *walker) tools(t *testing.T, f fixtures) {
	t.Helper()
	client := mcp.NewClient(&mcp.Implementation{Name: "canary", Version: "1"}, nil)
	session, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: w.url + "/mcp", DisableStandaloneSSE: true,
		HTTPClient: &http.Client{Transport: personal{bearer{w.key}, w.headers}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = session.Close() }()
	say := func(what string, v any, err error) {
		t.Helper()
		said, _ := json.Marshal(v)
		w.hear(t, "mcp "+what, "mcp "+what, fmt.Appendf(said, " %v", err))
	}
	for tool, err := range session.Tools(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		var s jsonSchema
		data, err := json.Marshal(tool.InputSchema)
		if err == nil {
			err = json.Unmarshal(data, &s)
		}
		if err != nil {
			t.Fatal(err)
		}
		calls := arguments(t, tool.Name, s, f)
		for _, call := range calls {
			r, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: tool.Name, Arguments: call})
			say(tool.Name, r, err)
		}
	}
	for r, err := range session.Resources(t.Context(), nil) {
		say("resources", r, err)
	}
	for _, document := range f["document"] {
		r, err := session.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "sluice://documents/" + document})
		say("read", r, err)
	}
}

// arguments returns the calls of a tool: with the required arguments only, and with one optional
// argument more.
func arguments(t *testing.T, tool string, s jsonSchema, f fixtures) []map[string]any {
	t.Helper()
	needs := []map[string]any{{}}
	with := func(calls []map[string]any, name string, things []string) (out []map[string]any) {
		for _, call := range calls {
			for _, thing := range things {
				c := maps.Clone(call)
				c[name] = thing
				out = append(out, c)
			}
		}
		return out
	}
	for _, name := range s.Required {
		things := f[name]
		if name == "query" {
			things = slips
		}
		if len(things) == 0 {
			t.Errorf("the tool %s needs %s, of which there is no fixture", tool, name)
		}
		needs = with(needs, name, things)
	}
	out := slices.Clone(needs)
	for name := range s.Properties {
		if !slices.Contains(s.Required, name) {
			out = append(out, with(needs, name, f[name])...)
		}
	}
	return out
}

// listen collects the tenant's events until the returned function is called. That function first
// waits for an event of a kind.
func (w *walker) listen(t *testing.T) (until func(kind string)) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, w.url+"/v1/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+w.key)
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	got, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	said := &collected{}
	var reading sync.WaitGroup
	reading.Go(func() { _, _ = io.Copy(said, got.Body) }) // until the body is closed
	return func(kind string) {
		t.Helper()
		waittest.Until(t, func() string {
			if !strings.Contains(said.String(), kind) {
				return "the events do not have " + kind
			}
			return ""
		})
		cancel()
		_ = got.Body.Close()
		reading.Wait()
		w.hear(t, "follow-events", "GET /v1/events", []byte(said.String()))
	}
}

// collected holds the data of a stream.
type collected struct {
	mu   sync.Mutex
	text []byte
}

func (c *collected) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.text = append(c.text, p...)
	return len(p), nil
}

func (c *collected) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return string(c.text)
}
