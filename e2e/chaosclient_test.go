//go:build chaos

package e2e

// This file is a client that repeats a request until it is acknowledged, as clients should.

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"
)

// attemptTime is how long the client waits for a reply before it asks the other API server.
const attemptTime = 15 * time.Second

// chaosClient sends requests with one key to the API servers in turn.
type chaosClient struct {
	*chaosBed
	key  string
	turn *atomic.Int32
	http *http.Client
	// internal receives replies with status 500.
	internal func(said string)
}

// chaosReply is a reply, with the number of attempts.
type chaosReply struct {
	request  string
	status   int
	body     []byte
	attempts int
}

// once sends a request to one server. A broken connection gives status 0. again is true if the
// client should repeat the request.
func (c *chaosClient) once(method, path string, body []byte, repeat string) (r chaosReply, again bool) {
	ctx, cancel := context.WithTimeout(c.ctx, attemptTime) //house:clock a client's
	defer cancel()
	url := c.urls[int(c.turn.Add(1))%len(c.urls)]
	r = chaosReply{request: method + " " + path, attempts: 1}
	request, err := http.NewRequestWithContext(ctx, method, url+path, bytes.NewReader(body))
	if err != nil {
		panic(err) // cannot happen: the campaign makes the request
	}
	request.Header.Set("Authorization", "Bearer "+c.key)
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	if repeat != "" {
		request.Header.Set("Idempotency-Key", repeat)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return r, true
	}
	defer func() { _ = response.Body.Close() }()
	if r.body, err = io.ReadAll(response.Body); err != nil {
		return r, true
	}
	r.status = response.StatusCode
	if r.status == http.StatusInternalServerError {
		c.internal(fmt.Sprintf("%s at %s: %d %.300s", r.request, url, r.status, r.body))
	}
	return r, r.status >= 500 || r.status == http.StatusRequestTimeout || response.Header.Get("Retry-After") != ""
}

// insist repeats a request until it is answered, or until the bed is closed; then the status may be
// 0. repeat is the Idempotency-Key.
func (c *chaosClient) insist(method, path string, body any, repeat string) chaosReply {
	var data []byte
	if body != nil {
		data = encoded(body)
	}
	for attempts := 1; ; attempts++ {
		r, again := c.once(method, path, data, repeat)
		r.attempts = attempts
		if !again || c.ctx.Err() != nil {
			return r
		}
		c.pause(300 * time.Millisecond)
	}
}

func encoded(body any) []byte {
	data, err := json.Marshal(body)
	if err != nil {
		panic(err) // cannot happen: the campaign makes the body
	}
	return data
}

// read decodes a reply.
func read[T any](r chaosReply) (v T, err error) {
	if err = json.Unmarshal(r.body, &v); err != nil {
		err = fmt.Errorf("%s: %d %.300s: %w", r.request, r.status, r.body, err)
	}
	return v, err
}
