package mcpserver

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// input closes ended when it has been read to its end.
type input struct {
	io.Reader
	once  sync.Once
	ended chan struct{}
}

func (r *input) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if err == io.EOF {
		r.once.Do(func() { close(r.ended) })
	}
	return n, err
}

func (r *input) Close() error { return nil }

type output struct{ bytes.Buffer }

func (*output) Close() error { return nil }

// hello begins a session.
const hello = `{"jsonrpc":"2.0","id":"first","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},` +
	`"clientInfo":{"name":"test","version":"1"}}}` + "\n" + `{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n"

// A client that writes its requests and closes its end, as a shell's pipe does, gets every reply,
// although the end is read before the replies are sent.
func TestRequestsBeforeTheEndOfTheInputAreAnswered(t *testing.T) {
	const calls = 3
	in := &input{ended: make(chan struct{})}
	var sent strings.Builder
	sent.WriteString(hello)
	for i := range calls {
		fmt.Fprintf(&sent, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"slow","arguments":{}}}`+"\n", i)
	}
	in.Reader = strings.NewReader(sent.String())

	s := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	mcp.AddTool(s, &mcp.Tool{Name: "slow"}, func(ctx context.Context, _ *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
		select {
		case <-in.ended:
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "done"}}}, nil, nil
	})
	var out output
	if err := s.Run(t.Context(), Answering(&mcp.IOTransport{Reader: in, Writer: &out})); err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(out.String(), `"text":"done"`); got != calls || !strings.Contains(out.String(), `"id":"first"`) {
		t.Errorf("%d of %d calls were answered:\n%s", got, calls, out.String())
	}
}

// The server does not wait for requests that the client has cancelled.
func TestTheEndOfTheInputWaitsForNoCancelledRequest(t *testing.T) {
	in := &input{ended: make(chan struct{}), Reader: strings.NewReader(
		hello + `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"endless","arguments":{}}}` + "\n" +
			`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}` + "\n")}
	s := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	endless := func(ctx context.Context, _ *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
		<-ctx.Done()
		return nil, nil, ctx.Err()
	}
	mcp.AddTool(s, &mcp.Tool{Name: "endless"}, endless)
	var out output
	if err := s.Run(t.Context(), Answering(&mcp.IOTransport{Reader: in, Writer: &out})); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), `"id":"first"`) {
		t.Errorf("the first request has no reply:\n%s", out.String())
	}
}
