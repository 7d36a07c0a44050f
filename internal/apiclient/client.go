// Package apiclient calls the HTTP API for the command-line tool. It retries requests that may be
// repeated, and returns the server's problems as errors.
package apiclient

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
)

// Client calls one server with one key.
type Client struct {
	base string
	key  string
	http *http.Client
}

// New returns a client of the server at address, for example
// http://127.0.0.1:7700.
func New(address, key string) (*Client, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, schema.Invalid("SLUICE_URL", "%q is not an http or https URL", address)
	}
	return &Client{base: strings.TrimRight(address, "/"), key: key, http: &http.Client{}}, nil
}

// Trusting returns a client of the server at address that verifies the server's certificate with
// the authorities in the PEM file ca; with the system's if ca is empty.
func Trusting(ca, address, key string) (*Client, error) {
	c, err := New(address, key)
	if err != nil || ca == "" {
		return c, err
	}
	data, err := os.ReadFile(ca)
	if err != nil {
		return nil, fmt.Errorf("authorities of the server's certificate (SLUICE_API_TLS_CA): %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(data) {
		return nil, schema.Invalid("SLUICE_API_TLS_CA", "%s has no certificate in PEM", ca)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool}
	c.http.Transport = transport
	return c, nil
}

// Over returns a client of the server at base that sends its requests through h.
func Over(h *http.Client, base, key string) *Client { return &Client{base: base, key: key, http: h} }

// tries is the most times that a request is sent.
const tries = 6

type call struct {
	method, path string
	query        url.Values
	header       http.Header
	// body opens the body for each try.
	body func() (io.ReadCloser, error)
	size int64
}

func (c *Client) json(ctx context.Context, method, path string, query url.Values, in, out any) error {
	k, err := newCall(method, path, query, in)
	if err != nil {
		return err
	}
	return c.do(ctx, k, out)
}

// newCall returns a request with a JSON body; in may be nil.
func newCall(method, path string, query url.Values, in any) (call, error) {
	k := call{method: method, path: path, query: query, header: http.Header{}}
	if in != nil {
		var data bytes.Buffer
		encoder := json.NewEncoder(&data)
		encoder.SetEscapeHTML(false) // escaping would make HTML half as long again
		if err := encoder.Encode(in); err != nil {
			return call{}, fmt.Errorf("encode the request: %w", err)
		}
		k.header.Set("Content-Type", "application/json")
		k.size = int64(data.Len())
		k.body = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data.Bytes())), nil }
	}
	if method == http.MethodPost && !readOnly[path[strings.LastIndexByte(path, '/')+1:]] {
		k.header.Set("Idempotency-Key", uuid.NewString())
	}
	return k, nil
}

// readOnly has the last path elements of POST requests that change nothing.
var readOnly = map[string]bool{"search": true, "compare": true}

// do sends a request, with retries. Every request of this client may be repeated: a POST has an
// idempotency key, and uploading what is stored already changes nothing.
func (c *Client) do(ctx context.Context, k call, out any) error {
	for try := 1; ; try++ {
		pause, err := c.once(ctx, k, out)
		if err == nil || pause < 0 || try == tries || ctx.Err() != nil {
			return err
		}
		pause = max(pause, time.Duration(rand.Int64N(int64(200*time.Millisecond)<<try)))
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return err
		case <-timer.C:
		}
	}
}

// once sends a request. The pause is how long to wait before a retry, negative if a retry cannot
// help.
func (c *Client) once(ctx context.Context, k call, out any) (time.Duration, error) {
	address := c.base + k.path
	if len(k.query) > 0 {
		address += "?" + k.query.Encode()
	}
	var body io.ReadCloser
	if k.body != nil {
		var err error
		if body, err = k.body(); err != nil {
			return -1, err
		}
	}
	r, err := http.NewRequestWithContext(ctx, k.method, address, body)
	if err != nil {
		return -1, fmt.Errorf("make the request: %w", err)
	}
	r.ContentLength = k.size
	r.Header = k.header.Clone()
	if c.key != "" {
		r.Header.Set("Authorization", "Bearer "+c.key)
	}
	response, err := c.http.Do(r)
	if err != nil && errors.Is(ctx.Err(), context.Canceled) { // nothing is wrong with the server
		return -1, fmt.Errorf("gave up %s %s: %w", k.method, k.path, context.Cause(ctx))
	}
	if err != nil {
		return 0, fmt.Errorf("no server answers at %s: %w", c.base, errors.Join(schema.ErrUnavailable, unwrapURL(err)))
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode >= 400 {
		data, _ := io.ReadAll(io.LimitReader(response.Body, 1<<20))
		p := &api.Problem{}
		if json.Unmarshal(data, p) != nil || p.Title == "" && p.Detail == "" {
			p = &api.Problem{Title: http.StatusText(response.StatusCode), Detail: strings.TrimSpace(string(data[:min(len(data), 300)]))}
		}
		p.Status = response.StatusCode
		switch p.Status {
		case http.StatusGatewayTimeout:
			if k.method == http.MethodPost { // a retry would take as long again
				return -1, p
			}
			return 0, p
		case http.StatusTooManyRequests, http.StatusConflict:
			// Waiting does not restore a quota, whose error has no such header. A conflict has one
			// only if this request's first try is still running.
			if seconds, err := strconv.Atoi(response.Header.Get("Retry-After")); err == nil {
				return time.Duration(seconds) * time.Second, p
			}
		case http.StatusServiceUnavailable, http.StatusBadGateway:
			seconds, _ := strconv.Atoi(response.Header.Get("Retry-After"))
			return time.Duration(seconds) * time.Second, p
		}
		return -1, p
	}
	if out == nil || response.StatusCode == http.StatusNoContent {
		return 0, nil
	}
	if read, ok := out.(replyReader); ok {
		return -1, read(response)
	}
	if err := json.NewDecoder(response.Body).Decode(out); err != nil {
		return 0, fmt.Errorf("read the reply of %s %s: %w", k.method, k.path, err)
	}
	return 0, nil
}

// unwrapURL drops the method and address that net/http adds to its errors.
func unwrapURL(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

// IsStatus reports whether err is a problem of the given HTTP status.
func IsStatus(err error, status int) bool {
	var p *api.Problem
	return errors.As(err, &p) && p.Status == status
}
