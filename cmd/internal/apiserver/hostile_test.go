package apiserver_test

// This file sends hostile requests to every route that the API describes, with every kind of key.

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
)

const (
	maxProblemBytes  = 64 << 10
	maxProblemErrors = 20
	maxMemoryGrowth  = 100 << 20
)

// TestHostileBodiesAreRefusedCheaply finds the routes in the API's description.
func TestHostileBodiesAreRefusedCheaply(t *testing.T) {
	w := newWorld(t)
	w.post("/v1/collections", api.NewCollection{Name: "c"}, "").want(http.StatusCreated, nil)
	keys := []caller{
		{"no key", user{t: t, url: w.url}},
		{"a query key", w.with(nil, schema.ScopeQuery)},
		{"an ingest key", w.with(nil, schema.ScopeIngest)},
		{"an admin key", w.user},
	}
	routes := described(t, w.user)
	t.Cleanup(hostileClient.CloseIdleConnections)
	memory := watchMemory(t)
	for i, r := range routes {
		general, places := r.attacks()
		for j, k := range keys {
			if raceEnabled && j != i%len(keys) { // the race detector makes it six times as slow; without it all keys are tried
				continue
			}
			accepted := false
			for _, a := range general {
				accepted = k.attack(r, a, memory) || accepted
			}
			if !accepted { // the body is not read
				continue
			}
			for _, a := range places {
				k.attack(r, a, memory)
			}
		}
	}
	t.Logf("%d routes, %d MB more at most", len(routes), memory.growth()>>20)
}

type caller struct {
	name string
	user
}

// attack sends one hostile request and checks the refusal. It reports whether the key was accepted.
func (k caller) attack(r operation, a attack, m *memory) (accepted bool) {
	k.t.Helper()
	what := fmt.Sprintf("%s %s with %s and %s", r.method, r.path, k.name, a.name)
	ctx, cancel := context.WithCancel(k.t.Context())
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, r.method, k.url+r.filled+a.query, a.body())
	if err != nil {
		k.t.Fatal(err)
	}
	request.ContentLength = a.length
	request.Header.Set("X-Sluice-Session", "1")
	if request.Header.Set("Content-Type", a.kind); a.kind == "" {
		request.Header.Del("Content-Type")
	}
	if k.key != "" {
		request.Header.Set("Authorization", "Bearer "+k.key)
	}
	got, err := hostileClient.Do(request)
	if err != nil {
		if a.cutOff {
			return false
		}
		k.t.Fatalf("%s: %v", what, err)
	}
	defer func() { _ = got.Body.Close() }()
	if got.Header.Get("Content-Type") == "text/event-stream" {
		return true
	}
	reply, err := io.ReadAll(io.LimitReader(got.Body, 16<<20))
	if err != nil {
		k.t.Fatalf("%s: %v", what, err)
	}
	switch {
	case got.StatusCode >= 500 && got.StatusCode != http.StatusServiceUnavailable:
		k.t.Errorf("%s: %d %.300s", what, got.StatusCode, reply)
	case k.key == "" && r.guarded && got.StatusCode != http.StatusUnauthorized:
		k.t.Errorf("%s: %d, not 401: %.300s", what, got.StatusCode, reply)
	case got.StatusCode >= 400 && got.StatusCode < 500 && len(reply) > maxProblemBytes:
		k.t.Fatalf("%s: a refusal (%d) of %d bytes: %.300s", what, got.StatusCode, len(reply), reply)
	case got.StatusCode >= 400:
		var p struct{ Errors []map[string]any }
		if err := json.Unmarshal(reply, &p); err != nil && got.Header.Get("Content-Type") == "application/problem+json" {
			k.t.Errorf("%s: %v: %.300s", what, err, reply)
		}
		if len(p.Errors) > maxProblemErrors {
			k.t.Errorf("%s: %d errors", what, len(p.Errors))
		}
		for _, e := range p.Errors {
			if _, has := e["value"]; has {
				k.t.Errorf("%s: the refusal gives the value back: %.300s", what, reply)
			}
		}
	}
	if growth := m.growth(); growth > maxMemoryGrowth {
		k.t.Fatalf("%s: the process has %d MB more", what, growth>>20)
	}
	return got.StatusCode != http.StatusUnauthorized && got.StatusCode != http.StatusForbidden
}

// hostileClient keeps connections alive. Only then does net/http's server let a client that is
// still sending read the refusal.
var hostileClient = &http.Client{Transport: &http.Transport{}}

// operation is a route of the API's description.
type operation struct {
	method, path, filled string
	guarded              bool // requires a key
	body                 *schemaNode
}

// schemaNode is the schema of a value.
type schemaNode struct {
	Type                 any    // a name, or a list of names
	Ref                  string `json:"$ref"`
	Properties           map[string]*schemaNode
	Items                *schemaNode
	AdditionalProperties any
}

func (p *schemaNode) is(kind string) bool {
	list, _ := p.Type.([]any)
	return p.Type == kind || slices.Contains(list, any(kind))
}

func described(t *testing.T, u user) []operation {
	t.Helper()
	var doc struct {
		Paths map[string]map[string]struct {
			Security    *[]any
			RequestBody *struct {
				Content map[string]struct{ Schema *schemaNode }
			}
		}
		Components struct{ Schemas map[string]*schemaNode }
	}
	u.do(http.MethodGet, "/openapi.json", nil, "").want(http.StatusOK, &doc)
	for _, p := range doc.Components.Schemas {
		p.resolve(doc.Components.Schemas)
	}
	// MCP is not in the API's description.
	mcp := operation{method: http.MethodPost, path: "/mcp", filled: "/mcp", guarded: true, body: &schemaNode{Type: "object"}}
	out := []operation{mcp}
	for _, path := range slices.Sorted(maps.Keys(doc.Paths)) {
		for _, method := range slices.Sorted(maps.Keys(doc.Paths[path])) {
			op := doc.Paths[path][method]
			r := operation{method: strings.ToUpper(method), path: path, guarded: op.Security == nil || len(*op.Security) > 0}
			if op.RequestBody != nil {
				r.body = op.RequestBody.Content["application/json"].Schema
				if r.body != nil {
					r.body = r.body.resolve(doc.Components.Schemas)
				}
			}
			r.filled = strings.ReplaceAll(path, "{collection}", "c")
			if r.method == http.MethodDelete {
				r.filled = strings.ReplaceAll(path, "{collection}", "gone")
			}
			for {
				open, shut := strings.Index(r.filled, "{"), strings.Index(r.filled, "}")
				if open < 0 {
					break
				}
				r.filled = r.filled[:open] + schema.NewID().String() + r.filled[shut+1:]
			}
			out = append(out, r)
		}
	}
	if len(out) < 40 {
		t.Fatalf("the API describes %d routes", len(out))
	}
	return out
}

// resolve replaces references within a schema.
func (p *schemaNode) resolve(all map[string]*schemaNode) *schemaNode {
	if p == nil {
		return nil
	}
	if name, ok := strings.CutPrefix(p.Ref, "#/components/schemas/"); ok {
		return all[name]
	}
	p.Items = p.Items.resolve(all)
	for name, property := range p.Properties {
		p.Properties[name] = property.resolve(all)
	}
	return p
}

// attack is a hostile request.
type attack struct {
	name   string
	kind   string // Content-Type
	query  string
	body   func() io.Reader
	length int64
	cutOff bool // the body is shorter than its Content-Length, so there may be no reply
}

// unknown returns an object with n properties that no schema has.
func unknown(n int) string {
	b := []byte{'{'}
	for i := range n {
		b = append(strconv.AppendInt(append(b, `"k`...), int64(i), 10), `":1,`...)
	}
	b[len(b)-1] = '}'
	return string(b)
}

var thousand, tenThousand = unknown(1000), unknown(10_000)

// attacks returns the attacks on a route, the cheapest first: general ones, and those on parts of
// its body.
func (r operation) attacks() (general, places []attack) {
	const kind = "application/json"
	text := func(name, kind, body string) attack {
		from := func() io.Reader { return strings.NewReader(body) }
		return attack{name: name, kind: kind, body: from, length: int64(len(body))}
	}
	many := func(name, before, part string, n int, after string) attack {
		middle := int64(n) * int64(len(part))
		return attack{name: name, kind: kind, length: int64(len(before)) + middle + int64(len(after)), body: func() io.Reader {
			block := strings.Repeat(part, 32<<10/len(part))
			return io.MultiReader(strings.NewReader(before), &repeated{text: block, left: middle}, strings.NewReader(after))
		}}
	}
	cut := text("a body that ends early", kind, `{"query":"`)
	cut.length, cut.cutOff = 1000, true
	params := text("10,000 unknown parameters", "", "")
	params.query = "?" + strings.TrimSuffix(strings.Repeat("k=1&", 10_000), "&")
	names := text("unknown parameters with long names", "", "")
	long := strings.Repeat("k", 30_000)
	names.query = "?" + long + "1=1&" + long + "2=" + long
	general = []attack{
		params, names, cut,
		text("no body", kind, ""),
		text("not JSON", kind, "<xml/>"),
		text("null", kind, "null"),
		text("a string", kind, `"text"`),
		text("1,000 unknown properties", kind, thousand),
		text("10,000 unknown properties", kind, tenThousand),
		many("a property 100,000 times", "{", `"key":"x",`, 100_000, `"key":"x"}`),
		text("plain text", "text/plain", "hello"),
		text("a form", "application/x-www-form-urlencoded", "key=value"),
		text("YAML", "application/yaml", "key: value"),
		text("CBOR", "application/cbor", "\xa1\x63key\x65value"),
		text("a type that is none", "a+b;c+d"+strings.Repeat("x", 30_000), "{}"),
		text("UTF-16", "application/json; charset=utf-16", "{\x00}\x00"),
		text("multipart", "multipart/form-data; boundary=b", "--b\r\nContent-Disposition: form-data; name=\"k\"\r\n\r\nv\r\n--b--\r\n"),
		many("5 million objects", "[{}", ",{}", 5_000_000, "]"),
		many("10 million brackets", "", "[", 10_000_000, ""),
		many("3 million objects in each other", "", `{"a":`, 3_000_000, ""),
		many("16 MB of white space", "", " ", 16<<20, ""),
		many("a key of 16 MB", `{"`, "k", 16<<20, `":1}`),
		many("16 MB of bytes that are no text", `{"`, "\xff", 16<<20, `":1}`),
	}
	r.body.each("", "", "", 0, func(at, before, after string, p *schemaNode) {
		text := func(name, body string) {
			places = append(places, text(name+" at "+at, kind, before+body+after))
		}
		many := func(name, first, part string, n int, last string) {
			places = append(places, many(name+" at "+at, before+first, part, n, last+after))
		}
		switch {
		case p.is("string"):
			many("16 MB of text", `"`, "x", 16<<20, `"`)
			many("escapes", `"`, `\u0000`, 1_000_000, `"`)
			text("a number", "1")
			text("half a character", "\"\\ud800\xc3\x28\"")
		case p.is("integer"), p.is("number"):
			many("a number of a million digits", "", "9", 1_000_000, "")
			text("1e999999", "1e999999")
			text("a string", `"x"`)
		case p.is("array"):
			many("5 million objects", "[{}", ",{}", 5_000_000, "]")
			many("8 million zeros", "[0", ",0", 8_000_000, "]")
			many("5 million strings", `[""`, `,""`, 5_000_000, "]")
			text("an object", thousand)
		case p.is("object"):
			text("10,000 unknown properties", tenThousand)
			many("10 million brackets", `{"a":`, "[", 10_000_000, "")
			many("5 million lists", `{"a":[[]`, ",[]", 5_000_000, "]}")
			text("a list", "[1]")
		}
	})
	return general, places
}

// each calls visit for the parts of a value, with the JSON around them.
func (p *schemaNode) each(at, before, after string, depth int, visit func(at, before, after string, p *schemaNode)) {
	if p == nil || depth > 4 {
		return
	}
	visit(at, before, after, p)
	for _, name := range slices.Sorted(maps.Keys(p.Properties)) {
		p.Properties[name].each(at+"."+name, before+`{"`+name+`":`, "}"+after, depth+1, visit)
	}
	p.Items.each(at+"[0]", before+"[", "]"+after, depth+1, visit)
}

// repeated is a reader that repeats a text.
type repeated struct {
	text string
	at   int
	left int64
}

// Read implements io.Reader.
func (r *repeated) Read(p []byte) (int, error) {
	if r.left == 0 {
		return 0, io.EOF
	}
	n := 0
	for n < len(p) && r.left > 0 {
		c := copy(p[n:min(int64(len(p)), int64(n)+r.left)], r.text[r.at:])
		n, r.left, r.at = n+c, r.left-int64(c), (r.at+c)%len(r.text)
	}
	return n, nil
}

// memory measures the process's memory.
type memory struct {
	before uint64
	most   atomic.Uint64
}

// watchMemory measures until the test ends.
func watchMemory(t *testing.T) *memory {
	t.Helper()
	debug.FreeOSMemory()
	m := &memory{before: memoryInUse()}
	m.most.Store(m.before)
	ctx, done := t.Context(), make(chan struct{})
	go func() {
		defer close(done)
		ticker := time.NewTicker(2 * time.Millisecond)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				m.sample()
			}
		}
	}()
	t.Cleanup(func() { <-done })
	return m
}

func (m *memory) sample() {
	for now := memoryInUse(); ; {
		most := m.most.Load()
		if now <= most || m.most.CompareAndSwap(most, now) {
			return
		}
	}
}

// growth returns the maximum growth of the process, in bytes.
func (m *memory) growth() int64 {
	m.sample()
	return int64(m.most.Load()) - int64(m.before)
}

// memoryInUse returns the memory that Go's runtime has taken from the system, without the race
// detector's.
func memoryInUse() uint64 {
	s := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64() - s[1].Value.Uint64()
}
