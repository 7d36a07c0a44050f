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
	// shortest is the minimum length of a text that is treated as a secret. Shorter ones occur in
	// errors by chance.
	shortest = 4
	hidden   = "***"
)

// Keep returns a driver whose errors contain no secrets.
func Keep(d source.Driver) source.Driver {
	open := d.Open
	d.Open = func(ctx context.Context, settings source.Settings) (source.Connector, error) {
		k := newKeeper(d.Fields, settings.Values)
		c, err := open(ctx, settings)
		if err != nil {
			return nil, k.hide(err)
		}
		kept := &connector{Connector: c, keeper: k}
		if tells, ok := c.(source.Permissions); ok {
			return &teller{connector: kept, tells: tells}, nil
		}
		return kept, nil
	}
	return d
}

type connector struct {
	source.Connector
	keeper *keeper
}

// List implements source.Connector.
func (c *connector) List(ctx context.Context, cursor string) (source.Listing, error) {
	out, err := c.Connector.List(ctx, cursor)
	return out, c.keeper.hide(err)
}

// Fetch implements source.Connector.
func (c *connector) Fetch(ctx context.Context, item source.Item) (source.Download, error) {
	down, err := c.Connector.Fetch(ctx, item)
	if down.Body != nil {
		down.Body = body{down.Body, c.keeper}
	}
	return down, c.keeper.hide(err)
}

// Close implements source.Connector.
func (c *connector) Close() error { return c.keeper.hide(c.Connector.Close()) }

// teller is a connector that also returns permissions.
type teller struct {
	*connector
	tells source.Permissions
}

// Principals implements source.Permissions.
func (t *teller) Principals(ctx context.Context, cursor string) (source.PrincipalPage, error) {
	page, err := t.tells.Principals(ctx, cursor)
	return page, t.keeper.hide(err)
}

type body struct {
	io.ReadCloser
	keeper *keeper
}

// Read implements io.Reader.
func (b body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == nil || err == io.EOF {
		return n, err
	}
	return n, b.keeper.hide(err)
}

// keeper has the secrets of a source, in the forms in which they are sent.
type keeper struct{ texts *strings.Replacer }

func newKeeper(fields []source.Field, values map[string]string) *keeper {
	var found []string
	for _, f := range fields {
		if value := values[f.Name]; f.Secret && value != "" {
			found = append(found, value, strings.TrimSpace(value), base64.StdEncoding.EncodeToString([]byte(values["user"]+":"+value)))
			found = append(found, members(value)...)
			found = append(found, lines(value)...)
		}
	}
	for _, text := range slices.Clone(found) {
		quoted, _ := json.Marshal(text) // encoding a string cannot fail
		found = append(found, url.QueryEscape(text), url.PathEscape(text), strings.Trim(string(quoted), `"`))
	}
	found = slices.DeleteFunc(found, func(text string) bool { return len(text) < shortest })
	slices.SortFunc(found, func(a, b string) int { return len(b) - len(a) }) // longer ones first, because they may contain shorter ones
	var pairs []string
	for _, text := range slices.Compact(found) {
		pairs = append(pairs, text, hidden)
	}
	return &keeper{texts: strings.NewReplacer(pairs...)}
}

// members returns the secrets in a JSON object, such as a token or the key of a service account.
func members(value string) (out []string) {
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
					out = append(out, lines(v)...)
					return
				}
			}
		}
	}
	walk("", object)
	return out
}

// lines returns the lines of a key, without the header and footer, which all keys share.
func lines(value string) (out []string) {
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

// hide returns the error unchanged if it contains no secret. Otherwise it returns an error without
// the secrets that matches the same errors.
func (k *keeper) hide(err error) error {
	if err == nil {
		return nil
	}
	text := k.texts.Replace(err.Error())
	var item *source.ItemError
	var field *source.FieldError
	if text == err.Error() {
		return err
	}
	out := &kept{text: text}
	for _, known := range []error{source.ErrGone, source.ErrRefused, source.ErrCursorExpired, guard.ErrPrivate, context.Canceled,
		context.DeadlineExceeded, io.ErrUnexpectedEOF} {
		if errors.Is(err, known) {
			out.means = append(out.means, known)
		}
	}
	var limit *source.RateLimitError
	if errors.As(err, &limit) {
		out.means = append(out.means, limit)
	}
	if errors.As(err, &item) {
		out.means = append(out.means, &source.ItemError{Reason: k.texts.Replace(item.Reason)})
	}
	if errors.As(err, &field) {
		out.means = append(out.means, &source.FieldError{Field: field.Field, Reason: k.texts.Replace(field.Reason)})
	}
	return out
}

// kept is an error from which secrets were removed.
type kept struct {
	text  string
	means []error
}

func (e *kept) Error() string { return e.text }

// Unwrap supports errors.Is and errors.As.
func (e *kept) Unwrap() []error { return e.means }

// Format makes all verbs print only the text.
func (e *kept) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, e.text) }
