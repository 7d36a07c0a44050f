package llm

// How models behind an API that are not language models are called: with a JSON request and a JSON
// reply.

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"

	"github.com/sluice-rag/sluice/schema"
)

// remoteReply bounds a server's reply, in bytes: 2,048 vectors of 4,096 numbers fit.
const remoteReply = 256 << 20

// remoteServer is a server of models behind an API.
type remoteServer struct {
	RemoteServer
	setting       string // prefix of the names of its settings
	serverBreaker *serverBreaker
	client        *http.Client
}

func newRemoteServer(o RemoteServer, setting string, g *serverBreaker) (*remoteServer, error) {
	if o.URL != "" {
		if _, err := newEndpoint(endpoint{address: o.URL, model: "any", urlSetting: setting + "_URL"}, openAIAddress); err != nil {
			return nil, err
		}
	}
	// A redirect would send the key and the texts to a server that nobody configured.
	client := &http.Client{Transport: otelhttp.NewTransport(http.DefaultTransport.(*http.Transport).Clone()),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return &remoteServer{o, setting, g, client}, nil
}

func (s *remoteServer) close() { s.client.CloseIdleConnections() }

// remoteEndpoint is a model at a server, as a section of a pack names it.
type remoteEndpoint struct {
	endpoint
	*remoteServer
	base *url.URL // address, with its user and query
}

// at returns the endpoint of a model. own is the address of the provider's own server; "": it has
// none.
func (s *remoteServer) at(section, model, own string, timeout time.Duration) (remoteEndpoint, error) {
	address := s.URL
	switch {
	case address != "":
	case own != "" && s.Key != "":
		address = own
	default:
		return remoteEndpoint{}, configError("the model pack's %s is a model behind an API, but no server is set: give llm-gateway %s_URL, or %[2]s_KEY", section, s.setting)
	}
	e, err := newEndpoint(endpoint{address: address, model: model, timeout: timeout, keySetting: s.setting + "_KEY", urlSetting: s.setting + "_URL",
		modelSetting: section + ".model in the model pack's manifest"}, own)
	if err != nil {
		return remoteEndpoint{}, err
	}
	base, err := url.Parse(address)
	return remoteEndpoint{e, s, base}, err
}

// post sends a request to a path below the server's base and reads its reply.
func (e remoteEndpoint) post(ctx context.Context, path string, request, reply any) error {
	body, err := json.Marshal(request)
	if err != nil {
		return fmt.Errorf("write a request to %s: %w", e.address, err)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, e.base.JoinPath(path).String(), bytes.NewReader(body))
	if err != nil {
		return schema.Invalid(e.urlSetting, "%v", err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json")
	if e.Key != "" {
		r.Header.Set("Authorization", "Bearer "+e.Key)
	}
	response, err := e.client.Do(r)
	if err != nil {
		return e.noReply(ctx, err)
	}
	defer func() { _ = response.Body.Close() }()
	data, err := io.ReadAll(io.LimitReader(response.Body, remoteReply))
	switch {
	case err != nil:
		return e.noReply(ctx, err)
	case response.StatusCode != http.StatusOK:
		return e.textsStatusError(response.StatusCode, response.Header, explanation(data))
	}
	if err := json.Unmarshal(data, reply); err != nil {
		return configError("%s gave a reply that does not fit its API: check %s (%v)", e.address, e.urlSetting, err)
	}
	return nil
}

// noReply returns the error of a call that got no reply.
func (e remoteEndpoint) noReply(ctx context.Context, err error) error {
	var network net.Error
	switch {
	case ctx.Err() != nil:
		return e.ended(ctx)
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return e.malformedReply("broke off its reply")
	case errors.As(err, &network):
		return e.unreachable(errors.Unwrap(err))
	}
	return e.unreachable(err)
}

// textsStatusError is statusError, except that statuses which blame the texts become errors of the
// request, so that requests with other texts are not affected.
func (e remoteEndpoint) textsStatusError(status int, header http.Header, body string) error {
	switch {
	case status >= 300 && status < 400:
		return configError("%s redirects requests to %s (HTTP %d): set %s to the address that answers", e.address, header.Get("Location"), status, e.urlSetting)
	case status == http.StatusBadRequest, status == http.StatusRequestEntityTooLarge, status == http.StatusUnprocessableEntity:
		return schema.Invalid("texts", "%s refused them (HTTP %d): check max_tokens, batch and dimension of the model pack's manifest, and that %s %q is such a model: %s",
			e.address, status, e.modelSetting, e.model, body)
	}
	return e.statusError(status, header, body)
}

// explanation returns the message of a server's error, in any of the usual forms, else the
// beginning of the body.
func explanation(body []byte) string {
	var forms struct {
		Error   json.RawMessage `json:"error"`
		Message string          `json:"message"`
		Detail  json.RawMessage `json:"detail"`
	}
	const most = 300
	text := string(body)
	if json.Unmarshal(body, &forms) == nil {
		var inner struct {
			Message string `json:"message"`
		}
		var plain string
		switch {
		case forms.Message != "":
			text = forms.Message
		case json.Unmarshal(forms.Error, &inner) == nil && inner.Message != "":
			text = inner.Message
		case json.Unmarshal(forms.Error, &plain) == nil && plain != "", json.Unmarshal(forms.Detail, &plain) == nil && plain != "":
			text = plain
		}
	}
	return strings.ToValidUTF8(text[:min(len(text), most)], "")
}
