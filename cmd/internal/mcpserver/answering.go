package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Answering wraps t for clients that send their requests and then close their end, as a pipe does:
// the end of the input is reported after every earlier request has its reply. Otherwise it would
// cancel the requests in progress.
func Answering(t mcp.Transport) mcp.Transport { return answering{t} }

type answering struct{ mcp.Transport }

func (a answering) Connect(ctx context.Context) (mcp.Connection, error) {
	c, err := a.Transport.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &answeringConnection{Connection: c, open: map[jsonrpc.ID]bool{}, closed: make(chan struct{})}, nil
}

type answeringConnection struct {
	mcp.Connection
	closing sync.Once
	closed  chan struct{}

	mu       sync.Mutex
	open     map[jsonrpc.ID]bool // requests without a reply
	answered chan struct{}       // made when the input has ended; closed when no request is open
}

func (c *answeringConnection) Read(ctx context.Context) (jsonrpc.Message, error) {
	m, err := c.Connection.Read(ctx)
	if errors.Is(err, io.EOF) {
		select {
		case <-c.ended():
		case <-c.closed:
		case <-ctx.Done():
		}
		return m, err
	}
	if r, ok := m.(*jsonrpc.Request); ok && err == nil {
		c.note(r)
	}
	return m, err
}

// note records a request until it is answered or its client cancels it.
func (c *answeringConnection) note(r *jsonrpc.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case r.IsCall():
		c.open[r.ID] = true
	case r.Method == "notifications/cancelled":
		var cancelled struct {
			Request any `json:"requestId"`
		}
		if json.Unmarshal(r.Params, &cancelled) != nil {
			return
		}
		if id, err := jsonrpc.MakeID(cancelled.Request); err == nil {
			delete(c.open, id)
		}
	}
}

func (c *answeringConnection) ended() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answered = make(chan struct{})
	if len(c.open) == 0 {
		close(c.answered)
	}
	return c.answered
}

func (c *answeringConnection) Write(ctx context.Context, m jsonrpc.Message) error {
	err := c.Connection.Write(ctx, m)
	if r, ok := m.(*jsonrpc.Response); ok {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.open[r.ID] {
			delete(c.open, r.ID)
			if len(c.open) == 0 && c.answered != nil {
				close(c.answered)
			}
		}
	}
	return err
}

func (c *answeringConnection) Close() error {
	c.closing.Do(func() { close(c.closed) })
	return c.Connection.Close()
}
