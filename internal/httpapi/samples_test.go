package httpapi

import (
	"encoding/json"
	"go/format"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/danielgtaylor/huma/v2"
)

// samplePatterns matches, in a sample of each language, the method, the path after the server's
// address, and a JSON body.
var samplePatterns = map[string][3]*regexp.Regexp{
	"bash": {regexp.MustCompile(`^curl -X ([A-Z]+) `), regexp.MustCompile(`\$SLUICE_URL([^"]+)"`), regexp.MustCompile(`(?s)-d '(.*)'`)},
	"go": {regexp.MustCompile(`http\.NewRequest\("([A-Z]+)"`), regexp.MustCompile(`Getenv\("SLUICE_URL"\)\+"([^"]+)"`),
		regexp.MustCompile("(?s)NewReader\\(`(.*)`\\)")},
	"typescript": {regexp.MustCompile(`method: "([A-Z]+)"`), regexp.MustCompile(`env\.SLUICE_URL \+ "([^"]+)"`),
		regexp.MustCompile("(?s)body: `(.*)`,")},
	"python": {regexp.MustCompile(`method="([A-Z]+)"`), regexp.MustCompile(`"SLUICE_URL"\] \+ "([^"]+)"`),
		regexp.MustCompile(`(?s)data="""(.*)"""`)},
}

// TestSamplesAreRequestsThatTheAPITakes parses the request in each sample's text, and checks it
// against the OpenAPI document.
func TestSamplesAreRequestsThatTheAPITakes(t *testing.T) {
	server, _ := newServer(Options{Version: "test"})
	description := server.api.OpenAPI()
	sampled := map[string]bool{}
	for path, item := range description.Paths {
		for _, op := range []*huma.Operation{item.Get, item.Put, item.Post, item.Patch, item.Delete} {
			if op == nil || op.Extensions[samplesKey] == nil {
				continue
			}
			sampled[op.OperationID] = true
			samples, _ := op.Extensions[samplesKey].([]codeSample)
			if len(samples) != len(samplePatterns) {
				t.Errorf("%s has %d samples, want %d", op.OperationID, len(samples), len(samplePatterns))
			}
			for _, sample := range samples {
				name := op.OperationID + " in " + sample.Label
				sent := samplePatterns[sample.Lang]
				if got := found(sent[0], sample.Source); got != op.Method {
					t.Errorf("%s: it sends %q, the operation is a %s", name, got, op.Method)
				}
				at, err := url.Parse(found(sent[1], sample.Source))
				if err != nil {
					t.Errorf("%s: %v", name, err)
					continue
				}
				for _, problem := range sampleErrors(description, op, path, at) {
					t.Errorf("%s: %s", name, problem)
				}
				body := found(sent[2], sample.Source)
				if problem := sampleBodyErrors(description, op, body, strings.Contains(sample.Source, "application/octet-stream")); problem != "" {
					t.Errorf("%s: %s:\n%s", name, problem, body)
				}
				if formatted, err := format.Source([]byte(sample.Source)); sample.Lang == "go" && (err != nil || string(formatted) != sample.Source) {
					t.Errorf("%s is not as gofmt writes it: %v\n%s", name, err, sample.Source)
				}
			}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(exampleCalls)) {
		if !sampled[id] {
			t.Errorf("the API has no operation %s", id)
		}
	}
	if len(sampled) < 10 {
		t.Errorf("only %d operations have samples", len(sampled))
	}
}

func found(pattern *regexp.Regexp, in string) string {
	if m := pattern.FindStringSubmatch(in); m != nil {
		return m[1]
	}
	return ""
}

// sampleErrors returns the parts of an address that the operation does not accept.
func sampleErrors(d *huma.OpenAPI, op *huma.Operation, path string, at *url.URL) []string {
	var problems []string
	given := at.Query()
	pattern := regexp.MustCompile(`\\\{(\w+)\\\}`).ReplaceAllString(regexp.QuoteMeta(path), `(?P<$1>[^/]+)`)
	m := regexp.MustCompile("^" + pattern + "$")
	values := m.FindStringSubmatch(at.Path)
	if values == nil {
		return []string{at.Path + " is not " + path}
	}
	for _, p := range op.Parameters {
		value, is := "", false
		switch p.In {
		case "path":
			value, is = values[m.SubexpIndex(p.Name)], true
		case "query":
			value, is = given.Get(p.Name), given.Has(p.Name)
			given.Del(p.Name)
		}
		if !is && p.Required {
			problems = append(problems, "it lacks the parameter "+p.Name)
		}
		if is {
			var v any = value
			if t := p.Schema.Type; t == huma.TypeInteger || t == huma.TypeNumber || t == huma.TypeBoolean {
				if err := json.Unmarshal([]byte(value), &v); err != nil {
					problems = append(problems, p.Name+": "+err.Error())
				}
			}
			if p.Schema.Type == huma.TypeArray {
				v = []any{value}
			}
			problems = append(problems, invalid(d, p.Schema, v)...)
		}
	}
	for name := range given {
		problems = append(problems, "it has no parameter "+name)
	}
	return problems
}

// sampleBodyErrors returns what is wrong with a body or its presence.
func sampleBodyErrors(d *huma.OpenAPI, op *huma.Operation, body string, file bool) string {
	switch {
	case op.RequestBody == nil && (body != "" || file):
		return "it sends a body, and the operation has none"
	case op.RequestBody == nil:
		return ""
	case file && op.RequestBody.Content["application/octet-stream"] == nil:
		return "it sends a file, and the operation takes none"
	case file:
		return ""
	case op.RequestBody.Content["application/json"] == nil:
		return "it sends JSON, and the operation takes none"
	}
	var v any
	if err := json.Unmarshal([]byte(body), &v); err != nil {
		return err.Error()
	}
	return strings.Join(invalid(d, op.RequestBody.Content["application/json"].Schema, v), "; ")
}

func invalid(d *huma.OpenAPI, s *huma.Schema, v any) []string {
	var result huma.ValidateResult
	huma.Validate(d.Components.Schemas, s, huma.NewPathBuffer(nil, 0), huma.ModeWriteToServer, v, &result)
	var problems []string
	for _, err := range result.Errors {
		problems = append(problems, err.Error())
	}
	return problems
}

func TestTheDocumentAndItsPageHaveSamples(t *testing.T) {
	h := New(Options{Version: "test"})
	for at, want := range map[string]string{
		"/openapi.json": `"x-codeSamples":[{"lang":"bash","label":"curl","source":"curl -X`,
		"/docs/api":     `op["x-codeSamples"]`,
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, at, nil))
		if !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s has no samples", at)
		}
	}
}
