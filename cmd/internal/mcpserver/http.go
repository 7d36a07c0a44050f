package mcpserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sluice-rag/sluice/internal/apiclient"
	"github.com/sluice-rag/sluice/internal/httpapi"
	"github.com/sluice-rag/sluice/schema/api"
)

// Path is the path of the MCP endpoint.
const Path = "/mcp"

// Mount adds the protocol to an API: streamable HTTP at Path, without sessions, so that any of
// several servers can answer any request. Requests carry an API key or a provider's access token,
// and name a person, in the same headers as requests to the API. Their calls go to the API in this
// process.
func Mount(handler http.Handler, version string, a Authorization) http.Handler {
	protocol := mcp.NewStreamableHTTPHandler(func(r *http.Request) *mcp.Server {
		c, _ := r.Context().Value(clientKey{}).(*apiclient.Client)
		if c == nil {
			return nil
		}
		return New(c, version)
	}, &mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true, PropagateRequestCancellation: true})
	mux := http.NewServeMux()
	mux.Handle("/", handler)
	a.mount(mux)
	mux.HandleFunc(Path, func(w http.ResponseWriter, r *http.Request) {
		key, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		local := inProcess{handler, http.Header{}, r.RemoteAddr}
		for _, name := range []string{httpapi.PersonHeader, httpapi.GroupsHeader, httpapi.TenantHeader, "User-Agent", "X-Forwarded-For"} {
			if values := r.Header.Values(name); len(values) > 0 {
				local.header[name] = values
			}
		}
		c := apiclient.Over(&http.Client{Transport: local}, "http://in.process", key)
		if _, err := c.WhoAmI(r.Context()); err != nil {
			refuse(w, err, a.challenge(r))
			return
		}
		protocol.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), clientKey{}, c)))
	})
	return mux
}

type clientKey struct{}

// refuse answers a request whose key the API refuses. challenge says how to get one.
func refuse(w http.ResponseWriter, err error, challenge string) {
	p := &api.Problem{Status: http.StatusServiceUnavailable, Title: http.StatusText(http.StatusServiceUnavailable), Detail: err.Error()}
	var said *api.Problem
	if errors.As(err, &said) {
		p = said
	}
	if p.Status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", challenge)
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p) // the client may have disconnected
}

// inProcess calls a handler with additional headers and a remote address.
type inProcess struct {
	handler http.Handler
	header  http.Header
	from    string
}

// RoundTrip implements http.RoundTripper.
func (t inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	w := &recorded{header: http.Header{}, status: http.StatusOK}
	r = r.Clone(httpapi.Via(r.Context(), "mcp"))
	maps.Copy(r.Header, t.header)
	r.RequestURI = r.URL.RequestURI()
	r.RemoteAddr = t.from
	if r.Body == nil {
		r.Body = http.NoBody
	}
	defer func() { _ = r.Body.Close() }()
	t.handler.ServeHTTP(w, r)
	if err := r.Context().Err(); err != nil {
		return nil, fmt.Errorf("%s %s: %w", r.Method, r.URL.Path, err)
	}
	return &http.Response{StatusCode: w.status, Status: http.StatusText(w.status), Header: w.header, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Body: io.NopCloser(&w.body), ContentLength: int64(w.body.Len()), Request: r}, nil
}

// recorded is a reply while the handler writes it.
type recorded struct {
	header  http.Header
	body    bytes.Buffer
	status  int
	written bool
}

func (w *recorded) Header() http.Header { return w.header }

func (w *recorded) WriteHeader(status int) {
	if !w.written && status >= 200 {
		w.status, w.written = status, true
	}
}

func (w *recorded) Write(p []byte) (int, error) {
	w.written = true
	return w.body.Write(p)
}
