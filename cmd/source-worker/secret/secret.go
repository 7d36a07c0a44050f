// Package secret removes the secret settings of a source from errors, whatever a server or a
// library writes into them.
package secret

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"

	"github.com/sluice-rag/sluice/cmd/source-worker/guard"
	"github.com/sluice-rag/sluice/internal/source"
)

const (
	// minSecretLength is the minimum length of a text that is treated as a secret. Shorter ones
	// occur in errors by chance.
	minSecretLength = 4
	mask            = "***"
)

// RedactErrors returns a driver whose errors contain no secrets.
func RedactErrors(d source.Driver) source.Driver {
	open := d.Open
	d.Open = func(ctx context.Context, settings source.Settings) (source.Connector, error) {
		r := newRedactor(d.Fields, settings.Values)
		c, err := open(ctx, settings)
		if err != nil {
			return nil, r.redact(err)
		}
		redacted := &connector{Connector: c, redactor: r}
		if permissions, ok := c.(source.Permissions); ok {
			return &permissionsConnector{connector: redacted, permissions: permissions}, nil
		}
		return redacted, nil
	}
	return d
}

type connector struct {
	source.Connector
	redactor *redactor
}

// List implements source.Connector.
func (c *connector) List(ctx context.Context, cursor string) (source.Listing, error) {
	out, err := c.Connector.List(ctx, cursor)
	return out, c.redactor.redact(err)
}

// Fetch implements source.Connector.
func (c *connector) Fetch(ctx context.Context, item source.Item) (source.Download, error) {
	download, err := c.Connector.Fetch(ctx, item)
	if download.Body != nil {
		download.Body = body{download.Body, c.redactor}
	}
	return download, c.redactor.redact(err)
}

// Close implements source.Connector.
func (c *connector) Close() error { return c.redactor.redact(c.Connector.Close()) }

// permissionsConnector is a connector that also returns permissions.
type permissionsConnector struct {
	*connector
	permissions source.Permissions
}

// Principals implements source.Permissions.
func (c *permissionsConnector) Principals(ctx context.Context, cursor string) (source.PrincipalPage, error) {
	page, err := c.permissions.Principals(ctx, cursor)
	return page, c.redactor.redact(err)
}

type body struct {
	io.ReadCloser
	redactor *redactor
}

// Read implements io.Reader.
func (b body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == nil || err == io.EOF {
		return n, err
	}
	return n, b.redactor.redact(err)
}

// redactor has the secrets of a source, in the forms in which they are sent.
type redactor struct{ replacer *strings.Replacer }

func newRedactor(fields []source.Field, values map[string]string) *redactor {
	var found []string
	for _, f := range fields {
		if value := values[f.Name]; f.Secret && value != "" {
			found = append(found, value, strings.TrimSpace(value), base64.StdEncoding.EncodeToString([]byte(values["user"]+":"+value)))
			found = append(found, jsonSecrets(value)...)
			found = append(found, keyLines(value)...)
		}
	}
	for _, text := range slices.Clone(found) {
		quoted, _ := json.Marshal(text) // encoding a string cannot fail
		found = append(found, url.QueryEscape(text), url.PathEscape(text), strings.Trim(string(quoted), `"`))
	}
	found = slices.DeleteFunc(found, func(text string) bool { return len(text) < minSecretLength })
	slices.SortFunc(found, func(a, b string) int { return len(b) - len(a) }) // longer ones first, because they may contain shorter ones
	var pairs []string
	for _, text := range slices.Compact(found) {
		pairs = append(pairs, text, mask)
	}
	return &redactor{replacer: strings.NewReplacer(pairs...)}
}

// jsonSecrets returns the secrets in a JSON object, such as a token or the key of a service
// account.
func jsonSecrets(value string) (out []string) {
	var object map[string]any
	if json.Unmarshal([]byte(value), &object) != nil {
		return nil
	}
	var walk func(name string, v any)
	walk = func(name string, v any) {
		switch v := v.(type) {
		case map[string]any:
			for name, below := range v {
				walk(strings.ToLower(name), below)
			}
		case string:
			for _, part := range []string{"secret", "key", "pass", "access_token", "refresh_token"} {
				if strings.Contains(name, part) {
					out = append(out, v)
					out = append(out, keyLines(v)...)
					return
				}
			}
		}
	}
	walk("", object)
	return out
}

// keyLines returns the lines of a key, without the header and footer, which all keys share.
func keyLines(value string) (out []string) {
	if !strings.Contains(value, "\n") {
		return nil
	}
	for line := range strings.Lines(value) {
		if line = strings.TrimSpace(line); len(line) >= 16 && !strings.HasPrefix(line, "-----") {
			out = append(out, line)
		}
	}
	return out
}

// redact returns the error unchanged if it contains no secret. Otherwise it returns an error
// without the secrets that matches the same errors.
func (r *redactor) redact(err error) error {
	if err == nil {
		return nil
	}
	text := r.replacer.Replace(err.Error())
	var item *source.ItemError
	var field *source.FieldError
	if text == err.Error() {
		return err
	}
	out := &redactedError{text: text}
	for _, known := range []error{source.ErrGone, source.ErrRefused, source.ErrCursorExpired, guard.ErrPrivate, context.Canceled,
		context.DeadlineExceeded, io.ErrUnexpectedEOF} {
		if errors.Is(err, known) {
			out.wrapped = append(out.wrapped, known)
		}
	}
	var limit *source.RateLimitError
	if errors.As(err, &limit) {
		out.wrapped = append(out.wrapped, limit)
	}
	if errors.As(err, &item) {
		out.wrapped = append(out.wrapped, &source.ItemError{Reason: r.replacer.Replace(item.Reason)})
	}
	if errors.As(err, &field) {
		out.wrapped = append(out.wrapped, &source.FieldError{Field: field.Field, Reason: r.replacer.Replace(field.Reason)})
	}
	return out
}

// redactedError is an error from which secrets were removed.
type redactedError struct {
	text    string
	wrapped []error
}

func (e *redactedError) Error() string { return e.text }

// Unwrap supports errors.Is and errors.As.
func (e *redactedError) Unwrap() []error { return e.wrapped }

// Format makes all verbs print only the text.
func (e *redactedError) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, e.text) }
