package e2e

// This file uses the server through the Model Context Protocol with the protocol's own client, over
// HTTP and over the command's standard input and output.

import (
	"encoding/json"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sluice-rag/sluice/schema"
)

// bearer adds a key to requests.
type bearer struct{ key string }

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	if b.key != "" {
		r.Header.Set("Authorization", "Bearer "+b.key)
	}
	return http.DefaultTransport.RoundTrip(r)
}

func testMCP(t *testing.T, s *server) {
	t.Run("HTTP", func(t *testing.T) {
		useMCP(t, &mcp.StreamableClientTransport{Endpoint: s.url + "/mcp", HTTPClient: &http.Client{Transport: bearer{s.key}}, DisableStandaloneSSE: true})
	})
	t.Run("Stdio", func(t *testing.T) {
		command := exec.CommandContext(t.Context(), s.path("sluice"), "mcp")
		command.Env = s.env("SLUICE_URL="+s.url, "SLUICE_API_KEY="+s.key)
		useMCP(t, &mcp.CommandTransport{Command: command})
	})
	t.Run("Pipe", func(t *testing.T) { // the client closes its end right after the requests
		command := exec.CommandContext(t.Context(), s.path("sluice"), "mcp")
		command.Env = s.env("SLUICE_URL="+s.url, "SLUICE_API_KEY="+s.key)
		command.Stdin = strings.NewReader(`{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18", ` +
			`"capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}}` + "\n" +
			`{"jsonrpc": "2.0", "method": "notifications/initialized"}` + "\n" +
			`{"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "list_collections", "arguments": {}}}` + "\n")
		out, err := command.Output()
		if err != nil || !strings.Contains(string(out), `"id":1`) || !strings.Contains(string(out), `"id":2`) {
			t.Errorf("%v: %s", err, out)
		}
	})
	for _, key := range []string{"", "wrong"} {
		client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
		if _, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: s.url + "/mcp", HTTPClient: &http.Client{Transport: bearer{key}}, MaxRetries: -1}, nil); err == nil {
			t.Errorf("key %q is taken", key)
		}
	}
}

func useMCP(t *testing.T, transport mcp.Transport) {
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	session, err := client.Connect(t.Context(), transport, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = session.Close() }()
	call := func(tool string, arguments map[string]any, out any) string {
		t.Helper()
		r, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: arguments})
		if err != nil {
			t.Fatalf("%s: %v", tool, err)
		}
		said := ""
		for _, c := range r.Content {
			if text, is := c.(*mcp.TextContent); is {
				said += text.Text
			}
		}
		if r.IsError != (out == nil) {
			t.Fatalf("%s: error %v: %s", tool, r.IsError, said)
		}
		if out != nil {
			if err := json.Unmarshal([]byte(said), out); err != nil {
				t.Fatalf("%s said %q: %v", tool, said, err)
			}
		}
		return said
	}

	var collections struct {
		Collections []struct {
			Name      string
			Documents int
		}
	}
	call("list_collections", nil, &collections)
	if !slices.ContainsFunc(collections.Collections, func(c struct {
		Name      string
		Documents int
	}) bool {
		return c.Name == "examples" && c.Documents > 5
	}) {
		t.Fatalf("collections %+v", collections)
	}
	type span struct {
		DocumentID string `json:"document_id"`
		VersionID  string `json:"version_id"`
		SectionID  string `json:"section_id"`
		Start, End int
	}
	const question = "How long is the notice period?"
	var found struct {
		Passages []struct {
			Document, Text string
			Spans          []span
		}
	}
	call("search", map[string]any{"collection": "examples", "query": question, "k": 3}, &found)
	if len(found.Passages) != 3 || len(found.Passages[0].Spans) == 0 {
		t.Fatalf("found %+v", found)
	}
	var answer struct {
		Answer    string
		Supported bool
		Citations []struct {
			Quote string
			Span  span
		}
	}
	call("ask", map[string]any{"collection": "examples", "query": question}, &answer)
	if !answer.Supported || len(answer.Citations) == 0 {
		t.Fatalf("answered %+v", answer)
	}
	var read struct {
		Sections []struct{ Text string }
		Next     string
	}
	at := answer.Citations[0].Span
	call("read_document", map[string]any{"document_id": at.DocumentID, "version_id": at.VersionID, "section_id": at.SectionID, "start": at.Start, "end": at.End}, &read)
	if len(read.Sections) != 1 || read.Sections[0].Text != answer.Citations[0].Quote {
		t.Errorf("the span reads %+v, the quote is %q", read, answer.Citations[0].Quote)
	}
	call("read_document", map[string]any{"document_id": at.DocumentID}, &read)
	if len(read.Sections) == 0 {
		t.Error("the document reads empty")
	}
	for tool, arguments := range map[string]map[string]any{
		"search":        {"collection": "nowhere", "query": "x"},
		"ask":           {"collection": "examples", "query": "x", "plan": "nothing"},
		"read_document": {"document_id": schema.NewID().String()},
	} {
		if said := call(tool, arguments, nil); said == "" {
			t.Errorf("%s says nothing of what is wrong", tool)
		}
	}

	uri := "sluice://documents/" + at.DocumentID
	listed := false
	for r, err := range session.Resources(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		listed = listed || r.URI == uri
	}
	if !listed {
		t.Errorf("%s is not listed", uri)
	}
	r, err := session.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: uri})
	if err != nil || len(r.Contents) != 1 || !strings.Contains(r.Contents[0].Text, answer.Citations[0].Quote) {
		t.Errorf("the resource reads %+v, %v", r, err)
	}
}
